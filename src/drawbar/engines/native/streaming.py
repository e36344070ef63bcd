"""From provider deltas to ``message.delta`` events: redacted first, then coalesced (CON-32, PRF-3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from drawbar.contracts.clock import Clock
from drawbar.contracts.engine import Redactor, StreamRedactor
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.message import MessageDelta
from drawbar.contracts.model import Delta

COALESCE_S = 0.050
COALESCE_CHARS = 512


@dataclass(slots=True)
class _Stream:
    """One redacted stream: a reasoning or tool block, or text blocks that follow each other.

    Text blocks share one, because a secret may be split over them. ``pending`` is what went in and has not
    come out, ``owners`` whose it is. Once something was replaced, lengths no longer tell, and what comes out
    belongs to the latest block.
    """

    kind: Any
    redactor: StreamRedactor
    pending: str = ""
    owners: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    exact: bool = True

    def feed(self, block: int, text: str) -> list[tuple[int, str]]:
        self.owners.append((block, len(text)))
        self.pending += text
        return self._given(self.redactor.feed(text))

    def end(self) -> list[tuple[int, str]]:
        return self._given(self.redactor.end())

    def _given(self, out: str) -> list[tuple[int, str]]:
        if not out:
            return []
        if not (self.exact and self.pending.startswith(out)):
            first = self.owners[0][0] if self.exact else self.owners[-1][0]
            self.exact = False
            self.owners = self.owners[-1:]
            self.pending = ""
            return [(first, out)]
        self.pending = self.pending[len(out) :]
        given: list[tuple[int, str]] = []
        while out:
            block, length = self.owners.pop(0)
            piece, out = out[:length], out[length:]
            given.append((block, piece))
            if len(piece) < length:
                self.owners.insert(0, (block, length - len(piece)))
        return given


class DeltaWriter:
    """Streams one message's blocks into events, in the order in which they were said.

    What was written for the text blocks, joined, is the message's completed text.

    Args:
        message_id: the message the deltas belong to.
        emit: writes an event.
        redactor: the process's redactor.
        clock: for the coalescing window.
    """

    def __init__(self, message_id: str, emit: Callable[[Payload], Any], redactor: Redactor, clock: Clock) -> None:
        self._message_id = message_id
        self._emit = emit
        self._redactor = redactor
        self._clock = clock
        self._stream: _Stream | None = None
        self._fed: int = -1
        self._block: int = -1
        self._gathered: list[str] = []
        self._characters = 0
        self._flushed_at = -COALESCE_S
        self._written: dict[int, list[str]] = {}

    def feed(self, delta: Delta) -> None:
        """Take one delta. It goes out at once, but at most every 50 ms or 512 characters; a new block cuts in."""
        if not delta.text:
            return
        stream = self._stream
        if stream is None or stream.kind != delta.kind or (delta.kind != "text" and delta.block != self._fed):
            self._close()
            stream = self._stream = _Stream(delta.kind, self._redactor.stream())
        self._fed = delta.block
        for block, text in stream.feed(delta.block, delta.text):
            self._gather(block, text)

    def end(self) -> dict[int, str]:
        """Flush everything held and give each text block's streamed text by block index."""
        self._close()
        return {block: "".join(parts) for block, parts in self._written.items()}

    def _gather(self, block: int, text: str) -> None:
        if block != self._block:
            self._flush()
            self._block = block
        self._gathered.append(text)
        self._characters += len(text)
        if self._characters >= COALESCE_CHARS or self._clock.monotonic() - self._flushed_at >= COALESCE_S:
            self._flush()

    def _close(self) -> None:
        if self._stream is not None:
            for block, text in self._stream.end():
                self._gather(block, text)
            self._flush()
            self._stream = None

    def _flush(self) -> None:
        if not self._gathered or self._stream is None:
            return
        text = "".join(self._gathered)
        self._gathered.clear()
        self._characters = 0
        self._flushed_at = self._clock.monotonic()
        if self._stream.kind == "text":
            self._written.setdefault(self._block, []).append(text)
        self._emit(MessageDelta(message_id=self._message_id, block=self._block, kind=self._stream.kind, text=text))
