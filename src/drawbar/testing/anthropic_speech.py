"""Anthropic Messages as the scripted model speaks it (MDL-11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from drawbar.testing.anthropic_reply import error_body, error_event, render, units
from drawbar.testing.anthropic_rules import check_request
from drawbar.testing.cache_accounting import CacheUsage, Unit
from drawbar.testing.scenario import Turn
from drawbar.testing.speech import Facts, Reply

__all__ = ["AnthropicSpeech"]

PATH: Final = "/v1/messages"
_FAULTS: Final = {
    "rate_limit": (429, "rate_limit_error", "This request would exceed your rate limit."),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "status": (500, "api_error", "Internal server error"),
}


class AnthropicSpeech:
    """A :class:`~drawbar.testing.speech.Speech`."""

    protocol = "anthropic-messages"
    malformed = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"del\n\n'

    def takes(self, path: str) -> bool:
        return path == PATH

    def check(self, path: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        return check_request(headers, body)

    def facts(self, path: str, request: Mapping[str, Any]) -> Facts:
        return Facts(
            model=request["model"],
            streams=bool(request.get("stream")),
            system=_text_of(request.get("system", "")),
            last=_text_of(request["messages"][-1]["content"]),
            tools=tuple(str(tool.get("name")) for tool in request.get("tools", [])),
        )

    def units(self, request: dict[str, Any]) -> Sequence[Unit]:
        return units(request)

    def render(self, turn: Turn, *, facts: Facts, number: int, cache: CacheUsage, chunk_chars: int) -> Reply:
        return render(turn, model=facts.model, number=number, cache=cache, chunk_chars=chunk_chars)

    def headers(self, number: int) -> dict[str, str]:
        return {"request-id": f"req_{number:04d}"}

    def error_body(self, kind: str, message: str, number: int, status: int) -> bytes:
        return error_body(kind, message, number)

    def error_event(self, kind: str, message: str) -> bytes:
        return error_event(kind, message)

    def fault(self, kind: str) -> tuple[int, str, str]:
        return _FAULTS[kind]


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    found: list[str] = []
    for block in cast("list[dict[str, Any]]", content):
        if block.get("type") == "text":
            found.append(block["text"])
        elif block.get("type") == "tool_result":
            found.append(_text_of(block.get("content", "")))
    return "\n".join(found)
