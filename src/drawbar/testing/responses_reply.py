"""A scripted turn as OpenAI's responses would stream it (MDL-11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from drawbar.contracts import codec
from drawbar.testing.cache_accounting import CacheUsage, tokens_of
from drawbar.testing.scenario import Block, Turn
from drawbar.testing.speech import Reply

__all__ = ["render"]

DEFAULT_ENCRYPTED: Final = "Z0FBQUFzY3JpcHRlZA=="
_STATUSES: Final = frozenset({"completed", "failed", "cancelled", "queued", "in_progress"})
_ENDS: Final = {
    "end_turn": "completed",
    "tool_use": "completed",
    "max_tokens": "max_output_tokens",
    "refusal": "content_filter",
}
"""What the words of the scenario file mean here; other words are statuses or reasons for an incomplete reply."""

Event = tuple[str, dict[str, Any]]


def render(turn: Turn, *, model: str, number: int, cache: CacheUsage, chunk_chars: int) -> Reply:
    """Render ``turn``.

    Args:
        turn: what to say.
        model: as the request named it.
        number: of the request, from 1; makes ids.
        cache: the request's input tokens.
        chunk_chars: length of one delta's text.
    """
    items = [_item(block, f"{number:04d}_{at}") for at, block in enumerate(turn.reply)]
    end = _ENDS.get(turn.stop_reason or "end_turn", turn.stop_reason or "")
    status = end if end in _STATUSES else "incomplete"
    usage = _usage(cache, items, turn)
    begun = _response(model, number)
    ended: dict[str, Any] = {**begun, "status": status, "output": items, "usage": usage}
    if status == "incomplete":
        ended["incomplete_details"] = {"reason": end}
    elif status == "failed":
        ended["error"] = {"code": "server_error", "message": "The model failed to generate a response."}
    events: list[Event] = [("response.created", {"response": begun}), ("response.in_progress", {"response": begun})]
    for at, item in enumerate(items):
        events += _item_events(at, item, chunk_chars)
    events.append((f"response.{status}", {"response": ended}))
    encoded = tuple(_event(kind, {**fields, "sequence_number": at}) for at, (kind, fields) in enumerate(events))
    return Reply(encoded, codec.encode(ended), usage)


def _usage(cache: CacheUsage, items: list[dict[str, Any]], turn: Turn) -> dict[str, Any]:
    spoken = max(1, tokens_of(len(codec.encode(items))))
    thought = tokens_of(sum(len(codec.encode(item)) for item in items if item.get("type") == "reasoning"))
    usage: dict[str, Any] = {
        "input_tokens": cache.total,
        "input_tokens_details": {"cached_tokens": cache.read, "cache_write_tokens": cache.written},
        "output_tokens": spoken,
        "output_tokens_details": {"reasoning_tokens": min(spoken, thought)},
        "total_tokens": cache.total + spoken,
        **(turn.usage or {}),
    }
    return {name: value for name, value in usage.items() if value is not None}


def _response(model: str, number: int) -> dict[str, Any]:
    return {
        "id": f"resp_{number:04d}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "store": False,
        "usage": None,
    }


def _item(block: Block, mark: str) -> dict[str, Any]:
    if block.text is not None:
        return _message({"type": "output_text", "text": block.text, "annotations": [], "logprobs": []}, mark)
    if block.thinking is not None or block.redacted is not None:
        said = block.thinking or ""
        summary = [{"type": "summary_text", "text": part} for part in said.split("\n\n") if part]
        encrypted = block.redacted or (DEFAULT_ENCRYPTED if block.signature is None else block.signature)
        item = {"id": f"rs_{mark}", "type": "reasoning", "summary": summary}
        return {**item, "encrypted_content": encrypted} if encrypted else item
    if block.tool is not None:
        arguments: Any = {} if block.arguments is None else block.arguments
        return {
            "id": f"fc_{mark}",
            "type": "function_call",
            "status": "completed",
            "call_id": block.id or f"call_{mark}",
            "name": block.tool,
            "arguments": codec.encode(arguments).decode() if block.arguments_text is None else block.arguments_text,
        }
    raw = dict(block.raw or {})
    return _message(raw, mark) if raw.get("type") in ("refusal", "output_text") else raw


def _message(part: dict[str, Any], mark: str) -> dict[str, Any]:
    return {"id": f"msg_{mark}", "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def _item_events(at: int, item: dict[str, Any], size: int) -> Iterator[Event]:
    opened = {key: value for key, value in item.items() if key != "encrypted_content"}
    place = {"output_index": at, "item_id": item.get("id", "")}
    kind = item.get("type")
    pieces: Iterator[Event] = iter(())
    if kind == "message":
        opened |= {"status": "in_progress", "content": []}
        pieces = _part_events(place, item["content"], size)
    elif kind == "reasoning":
        opened |= {"summary": []}
        pieces = _summary_events(place, item.get("summary", []), size)
    elif kind == "function_call":
        opened |= {"status": "in_progress", "arguments": ""}
        pieces = _text_events("function_call_arguments", place, "arguments", item["arguments"], size, name=item["name"])
    elif kind == "custom_tool_call":
        opened |= {"input": ""}
        pieces = _text_events("custom_tool_call_input", place, "input", item["input"], size)
    yield "response.output_item.added", {"output_index": at, "item": opened}
    yield from pieces
    yield "response.output_item.done", {"output_index": at, "item": item}


def _part_events(place: Mapping[str, Any], parts: list[dict[str, Any]], size: int) -> Iterator[Event]:
    for number, part in enumerate(parts):
        here = {**place, "content_index": number}
        field, name = ("refusal", "refusal") if part["type"] == "refusal" else ("text", "output_text")
        beside: dict[str, Any] = {} if field == "refusal" else {"logprobs": []}
        yield "response.content_part.added", {**here, "part": {**part, field: ""}}
        yield from _text_events(name, {**here, **beside}, field, part[field], size)
        yield "response.content_part.done", {**here, "part": part}


def _summary_events(place: Mapping[str, Any], parts: list[dict[str, Any]], size: int) -> Iterator[Event]:
    for number, part in enumerate(parts):
        here = {**place, "summary_index": number}
        yield "response.reasoning_summary_part.added", {**here, "part": {**part, "text": ""}}
        yield from _text_events("reasoning_summary_text", here, "text", part["text"], size)
        yield "response.reasoning_summary_part.done", {**here, "part": part}


def _text_events(
    event: str, here: Mapping[str, Any], field: str, text: str, size: int, **at_end: Any
) -> Iterator[Event]:
    for at in range(0, len(text), size):
        # The service pads its pieces, so that their lengths tell nothing to whoever listens.
        yield f"response.{event}.delta", {**here, "delta": text[at : at + size], "obfuscation": "x" * (at % 7)}
    yield f"response.{event}.done", {**here, **at_end, field: text}


def _event(kind: str, fields: Mapping[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), codec.encode({"type": kind, **fields}))
