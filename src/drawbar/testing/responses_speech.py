"""OpenAI's responses as the scripted model speaks them: items, events, automatic caching, errors (MDL-11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from drawbar.contracts import codec
from drawbar.testing.cache_accounting import CacheUsage, Unit
from drawbar.testing.responses_reply import render
from drawbar.testing.responses_rules import check_responses_request
from drawbar.testing.scenario import Turn
from drawbar.testing.speech import Facts, Reply

__all__ = ["ResponsesSpeech"]

PATH: Final = "/v1/responses"
_FAULTS: Final = {
    "rate_limit": (429, "rate_limit_exceeded", "Rate limit reached for this model."),
    "overloaded": (503, "server_error", "The engine is currently overloaded, please try again later."),
    "status": (500, "server_error", "The server had an error while processing your request."),
}


class ResponsesSpeech:
    """A :class:`~drawbar.testing.speech.Speech`. Thinking is a summary, a blank line between two of its parts."""

    protocol = "openai-responses"
    malformed = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","del\n\n'

    def takes(self, path: str) -> bool:
        return path == PATH

    def check(self, path: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        return check_responses_request(headers, body)

    def facts(self, path: str, request: Mapping[str, Any]) -> Facts:
        items = _items(request)
        last: list[str] = []
        for item in reversed(items):
            if item.get("role") != "user" and not str(item.get("type")).endswith("_output"):
                break
            last.append(_text_of(item.get("content", item.get("output"))))
        given = [_text_of(item.get("content")) for item in items if item.get("role") in ("system", "developer")]
        return Facts(
            model=request["model"],
            streams=bool(request.get("stream")),
            system="\n".join([request.get("instructions") or "", *given]),
            last="\n".join(reversed(last)),
            tools=tuple(tool["name"] for tool in request.get("tools", [])),
        )

    def units(self, request: dict[str, Any]) -> Sequence[Unit]:
        pieces: list[Any] = [["tool", tool] for tool in request.get("tools", [])]
        pieces.append(["instructions", request.get("instructions")])
        pieces += [["item", item] for item in _items(request)]
        return [Unit(codec.encode(piece, canonical=True), marked=True) for piece in pieces]

    def render(self, turn: Turn, *, facts: Facts, number: int, cache: CacheUsage, chunk_chars: int) -> Reply:
        return render(turn, model=facts.model, number=number, cache=cache, chunk_chars=chunk_chars)

    def headers(self, number: int) -> dict[str, str]:
        return {"x-request-id": f"req_{number:04d}"}

    def error_body(self, kind: str, message: str, number: int, status: int) -> bytes:
        return codec.encode({"error": {"message": message, "type": kind, "param": None, "code": kind}})

    def error_event(self, kind: str, message: str) -> bytes:
        fields = {"type": "error", "code": kind, "message": message, "param": None, "sequence_number": 0}
        return b"event: error\ndata: %s\n\n" % codec.encode(fields)

    def fault(self, kind: str) -> tuple[int, str, str]:
        return _FAULTS[kind]


def _items(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    given: Any = request["input"]
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return cast("list[dict[str, Any]]", given)


def _text_of(content: Any) -> str:
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = cast("list[dict[str, Any]]", content)
    return "\n".join(str(part["text"]) for part in parts if part.get("type") == "input_text")
