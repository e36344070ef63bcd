"""Server-sent events from bytes, cut anywhere: the provider's own framing and nothing else (MDL-4).

HTTP clients decode to text first, which hides damaged UTF-8 behind replacement characters and lets a wrong
``charset`` or a line separator inside a JSON string change the framing. Here only CR, LF and CRLF end a
line, and an event's data stays bytes until it is parsed strictly.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["MAX_EVENT_BYTES", "EventTooLarge", "ServerEvent", "SseParser"]

MAX_EVENT_BYTES: Final = 64 * 1024 * 1024
"""MDL-4: the largest event that is read."""

_BOM = b"\xef\xbb\xbf"


class ServerEvent(NamedTuple):
    """One event: its name (empty when none was given) and its data lines joined by LF."""

    name: str
    data: bytes


class EventTooLarge(ValueError):
    """An event grew past the limit before it ended."""


class SseParser:
    """Feeds on chunks of any size and gives the events that they complete.

    The cost of a chunk doesn't depend on what is held: an unfinished line is a list of pieces, so a large
    event that arrives byte by byte is read in linear time.

    Args:
        max_event_bytes: the largest event, data and unfinished line together.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._pieces: list[bytes] = []
        self._held = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._name = ""
        self._skip_lf = False
        self._first_line = True

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that ``chunk`` completes, in order.

        Raises:
            EventTooLarge: when the event under way passes the limit.
        """
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if b"\r" in chunk:
            # A CR ends its line at once; an LF that follows in the next chunk belongs to it.
            self._skip_lf = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *lines = chunk.split(b"\n")
        self._hold(first)
        if not lines:
            return []
        rest = lines.pop()
        events: list[ServerEvent] = []
        self._line(self._take(), events)
        for line in lines:
            self._line(line, events)
        self._hold(rest)
        return events

    def end(self) -> list[ServerEvent]:
        """What the end of the stream completes: an event whose closing blank line the server left out."""
        events: list[ServerEvent] = []
        if self._held:
            self._line(self._take(), events)
        self._line(b"", events)
        return events

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        self._pieces.append(piece)
        self._held += len(piece)
        if self._held + self._data_size > self._limit:
            raise EventTooLarge(f"a stream event passed {self._limit} bytes")

    def _take(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        return line

    def _line(self, line: bytes, events: list[ServerEvent]) -> None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data or self._name:
                events.append(ServerEvent(self._name, b"\n".join(self._data)))
                self._data.clear()
                self._data_size = 0
                self._name = ""
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._data_size += len(value) + 1
            if self._data_size > self._limit:
                raise EventTooLarge(f"a stream event passed {self._limit} bytes")
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")
