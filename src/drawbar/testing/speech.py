"""What the scripted model needs of one protocol: its rules, its replies, its errors (MDL-11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from drawbar.testing.cache_accounting import CacheUsage, Unit
from drawbar.testing.scenario import Turn

__all__ = ["ApiError", "Facts", "Reply", "Speech"]


class ApiError(Exception):
    """A refusal as the service would answer it; ``kind`` is its own word for the type."""

    def __init__(self, message: str, *, status: int = 400, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Facts:
    """What a scenario may expect of a request, whatever the protocol.

    ``last`` is the text of the last message (its texts and tool results), ``system`` of the system prompt;
    ``tools`` are the names offered; ``streams`` says whether the reply is to come as a stream.
    """

    model: str
    streams: bool
    system: str
    last: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """One rendered reply: its events in order, and the same as one message for a client that doesn't stream."""

    events: tuple[bytes, ...]
    message: bytes
    usage: dict[str, Any]


class Speech(Protocol):
    """One protocol as a server speaks it.

    Attributes:
        protocol: its id (MDL-2).
        malformed: an event that is no JSON, in the protocol's framing.
    """

    protocol: str
    malformed: bytes

    def takes(self, path: str) -> bool:
        """Whether requests to ``path`` (without its query) are this protocol's."""
        ...

    def check(self, path: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        """The parsed request.

        Raises:
            ApiError: for what the real service would refuse.
        """
        ...

    def facts(self, path: str, request: Mapping[str, Any]) -> Facts: ...

    def units(self, request: dict[str, Any]) -> Sequence[Unit]:
        """The request in the order that the provider's cache has it."""
        ...

    def render(self, turn: Turn, *, facts: Facts, number: int, cache: CacheUsage, chunk_chars: int) -> Reply:
        """What the provider would send for ``turn``; ``number`` is the request's, from 1, and makes ids."""
        ...

    def headers(self, number: int) -> dict[str, str]:
        """Of every response, such as the request's id."""
        ...

    def error_body(self, kind: str, message: str, number: int, status: int) -> bytes: ...

    def error_event(self, kind: str, message: str) -> bytes:
        """An error inside a stream."""
        ...

    def fault(self, kind: str) -> tuple[int, str, str]:
        """Status, error type and message of ``rate_limit``, ``overloaded`` and ``status`` (a plain 500)."""
        ...
