"""Chat completions as the scripted model speaks them: OpenAI's form, its automatic caching, its errors (MDL-11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from drawbar.contracts import codec
from drawbar.testing.cache_accounting import CacheUsage, Unit, tokens_of
from drawbar.testing.chat_rules import check_chat_request
from drawbar.testing.scenario import Block, Turn
from drawbar.testing.speech import Facts, Reply

__all__ = ["ChatSpeech"]

PATH: Final = "/v1/chat/completions"
_FAULTS: Final = {
    "rate_limit": (429, "rate_limit_exceeded", "Rate limit reached for this model."),
    "overloaded": (503, "server_error", "The engine is currently overloaded, please try again later."),
    "status": (500, "server_error", "The server had an error while processing your request."),
}
_STOPS: Final = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
"""What the words of the scenario file mean here; other words are sent as they are."""


class ChatSpeech:
    """A :class:`~drawbar.testing.speech.Speech`.

    Reasoning is streamed as ``reasoning_content``, as the servers do that show theirs, and taken back.
    """

    protocol = "openai-chat"
    malformed = b'data: {"id":"chatcmpl","choices":[{"index":0,"del\n\n'

    def takes(self, path: str) -> bool:
        return path == PATH

    def check(self, path: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        return check_chat_request(headers, body, lenient=True)

    def facts(self, path: str, request: Mapping[str, Any]) -> Facts:
        messages: list[dict[str, Any]] = request["messages"]
        last: list[str] = []
        for message in reversed(messages):
            if message["role"] not in ("user", "tool"):
                break
            last.append(_text_of(message.get("content")))
        return Facts(
            model=request["model"],
            streams=bool(request.get("stream")),
            system="\n".join(_text_of(one["content"]) for one in messages if one["role"] in ("system", "developer")),
            last="\n".join(reversed(last)),
            tools=tuple(tool["function"]["name"] for tool in request.get("tools", [])),
        )

    def units(self, request: dict[str, Any]) -> Sequence[Unit]:
        pieces = [["tool", tool] for tool in request.get("tools", [])]
        pieces += [["message", message] for message in request["messages"]]
        return [Unit(codec.encode(piece, canonical=True), marked=True) for piece in pieces]

    def render(self, turn: Turn, *, facts: Facts, number: int, cache: CacheUsage, chunk_chars: int) -> Reply:
        message = _message(turn, number)
        spoken = tokens_of(len(codec.encode(message)))
        calls = any(block.tool for block in turn.reply)
        stop = turn.stop_reason or ("tool_calls" if calls else "stop")
        stop = _STOPS.get(stop, stop)
        usage: dict[str, Any] = {
            "prompt_tokens": cache.total,
            "completion_tokens": max(1, spoken),
            "total_tokens": cache.total + max(1, spoken),
            "prompt_tokens_details": {"cached_tokens": cache.read},
            **(turn.usage or {}),
        }
        usage = {name: value for name, value in usage.items() if value is not None}
        head = {"id": f"chatcmpl-{number:04d}", "created": 1_700_000_000, "model": facts.model}
        chunk = {**head, "object": "chat.completion.chunk"}
        deltas = [{"role": "assistant", "content": ""}, *_deltas(turn, message, chunk_chars)]
        events = [_event({**chunk, "choices": [_choice(delta)]}) for delta in deltas]
        events.append(_event({**chunk, "choices": [_choice({}, stop)]}))
        events.append(_event({**chunk, "choices": [], "usage": usage}))
        events.append(b"data: [DONE]\n\n")
        choice = {"index": 0, "message": message, "finish_reason": stop}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        return Reply(tuple(events), codec.encode(whole), usage)

    def headers(self, number: int) -> dict[str, str]:
        return {"x-request-id": f"req_{number:04d}"}

    def error_body(self, kind: str, message: str, number: int, status: int) -> bytes:
        return codec.encode({"error": {"message": message, "type": kind, "param": None, "code": kind}})

    def error_event(self, kind: str, message: str) -> bytes:
        return _event({"error": {"message": message, "type": kind, "code": kind}})

    def fault(self, kind: str) -> tuple[int, str, str]:
        return _FAULTS[kind]


def _message(turn: Turn, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant"}
    texts = [block.text for block in turn.reply if block.text is not None]
    message["content"] = "".join(texts) if texts else None
    reasoning = "".join(block.thinking for block in turn.reply if block.thinking is not None)
    if reasoning:
        message["reasoning_content"] = reasoning
    calls = [_call(block, f"call_{number:04d}_{at}") for at, block in enumerate(turn.reply) if block.tool is not None]
    if calls:
        message["tool_calls"] = calls
    for block in turn.reply:
        message.update(block.raw or {})
    return message


def _call(block: Block, call_id: str) -> dict[str, Any]:
    arguments: Any = {} if block.arguments is None else block.arguments
    text = codec.encode(arguments).decode() if block.arguments_text is None else block.arguments_text
    name = block.tool or ""
    return {"id": block.id or call_id, "type": "function", "function": {"name": name, "arguments": text}}


def _deltas(turn: Turn, message: Mapping[str, Any], size: int) -> Iterator[dict[str, Any]]:
    """The message in pieces, in the order of the scenario's blocks."""
    calls: list[dict[str, Any]] = message.get("tool_calls", [])
    at = 0
    for block in turn.reply:
        if block.text is not None:
            yield from ({"content": piece} for piece in _pieces(block.text, size))
        elif block.thinking is not None:
            yield from ({"reasoning_content": piece} for piece in _pieces(block.thinking, size))
        elif block.tool is not None:
            call, function = calls[at], calls[at]["function"]
            yield {"tool_calls": [{**call, "index": at, "function": {**function, "arguments": ""}}]}
            for piece in _pieces(function["arguments"], size):
                yield {"tool_calls": [{"index": at, "function": {"arguments": piece}}]}
            at += 1
        elif block.raw is not None:
            yield dict(block.raw)


def _choice(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def _event(payload: Mapping[str, Any]) -> bytes:
    return b"data: %s\n\n" % codec.encode(payload)


def _text_of(content: Any) -> str:
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = cast("list[dict[str, Any]]", content)
    return "\n".join(str(part["text"]) for part in parts if part.get("type") == "text")
