"""A scripted turn as Anthropic would stream it, and a request as its cache sees it (MDL-11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from drawbar.contracts import codec
from drawbar.testing.cache_accounting import CacheUsage, Unit, tokens_of
from drawbar.testing.scenario import Block, Turn
from drawbar.testing.speech import Reply

__all__ = ["error_body", "error_event", "render", "units"]

DEFAULT_SIGNATURE: Final = "c2NyaXB0ZWQ="


def render(turn: Turn, *, model: str, number: int, cache: CacheUsage, chunk_chars: int) -> Reply:
    """Render ``turn``.

    Args:
        turn: what to say.
        model: as the request named it.
        number: of the request, from 1; makes ids.
        cache: the request's input tokens.
        chunk_chars: length of one delta's text.
    """
    blocks = [_content_block(block, f"toolu_{number:04d}_{at}") for at, block in enumerate(turn.reply)]
    stop = turn.stop_reason or ("tool_use" if any(block.tool for block in turn.reply) else "end_turn")
    spoken = sum(len(codec.encode(block)) for block in blocks)
    at_start: dict[str, Any] = {
        "input_tokens": cache.uncached,
        "cache_creation_input_tokens": cache.written,
        "cache_read_input_tokens": cache.read,
        "output_tokens": 1,
    }
    usage = {**at_start, "output_tokens": max(1, tokens_of(spoken)), **(turn.usage or {})}
    usage = {name: value for name, value in usage.items() if value is not None}
    start = {name: value for name, value in {**usage, "output_tokens": 1}.items() if name in usage}
    head: dict[str, Any] = {"id": f"msg_{number:04d}", "type": "message", "role": "assistant", "model": model}
    ends = {"stop_reason": stop, "stop_sequence": None}
    opening: dict[str, Any] = {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": start}
    events = [_event("message_start", message=opening), _event("ping")]
    for at, (block, spec) in enumerate(zip(blocks, turn.reply, strict=True)):
        events += _block_events(at, block, spec, chunk_chars)
    events += [_event("message_delta", delta=ends, usage=usage), _event("message_stop")]
    return Reply(tuple(events), codec.encode({**head, "content": blocks, **ends, "usage": usage}), usage)


def error_body(kind: str, message: str, number: int) -> bytes:
    """The body of an error response."""
    error = {"type": kind, "message": message}
    return codec.encode({"type": "error", "error": error, "request_id": f"req_{number:04d}"})


def error_event(kind: str, message: str) -> bytes:
    """An error inside a stream."""
    return _event("error", error={"type": kind, "message": message})


def units(request: dict[str, Any]) -> list[Unit]:
    """The request in the order that the cache has it: tools, system, messages, block by block."""
    found = [_unit("tool", tool) for tool in request.get("tools", [])]
    system = request.get("system", [])
    found += [_unit("system", block) for block in ([system] if isinstance(system, str) else system)]
    for message in request["messages"]:
        content = message["content"]
        found += [_unit(message["role"], block) for block in ([content] if isinstance(content, str) else content)]
    return found


def _unit(kind: str, value: Any) -> Unit:
    if not isinstance(value, dict):
        return Unit(codec.encode([kind, {"type": "text", "text": value}], canonical=True))
    block = cast("dict[str, Any]", value)
    bare = {name: part for name, part in block.items() if name != "cache_control"}
    return Unit(codec.encode([kind, bare], canonical=True), marked=bool(block.get("cache_control")))


def _content_block(block: Block, call_id: str) -> dict[str, Any]:
    if block.text is not None:
        return {"type": "text", "text": block.text}
    if block.thinking is not None:
        signature = DEFAULT_SIGNATURE if block.signature is None else block.signature
        return {"type": "thinking", "thinking": block.thinking, "signature": signature}
    if block.redacted is not None:
        return {"type": "redacted_thinking", "data": block.redacted}
    if block.tool is not None:
        arguments: Any = {} if block.arguments is None else block.arguments
        return {
            "type": "tool_use",
            "id": call_id if block.id is None else block.id,
            "name": block.tool,
            "input": arguments,
        }
    return dict(block.raw or {})


def _block_events(at: int, block: dict[str, Any], spec: Block, chunk_chars: int) -> list[bytes]:
    kind = block["type"]
    opening = block
    deltas: list[dict[str, Any]] = []
    if kind == "text":
        opening = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"], chunk_chars)]
    elif kind == "thinking":
        opening = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"], chunk_chars)]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif spec.tool is not None:
        opening = {**block, "input": dict[str, Any]()}
        text = codec.encode(block["input"]).decode() if spec.arguments_text is None else spec.arguments_text
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(text, chunk_chars)]
    return [
        _event("content_block_start", index=at, content_block=opening),
        *(_event("content_block_delta", index=at, delta=delta) for delta in deltas),
        _event("content_block_stop", index=at),
    ]


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), codec.encode({"type": kind, **fields}))
