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
class _Block:
    kind: Any
    redactor: StreamRedactor
    pending: list[str] = field(default_factory=list[str])
    pending_chars: int = 0
    written: list[str] = field(default_factory=list[str])
    since: float = 0.0


class DeltaWriter:
    """Streams one message's blocks into events.

    What a block's redactor holds back comes out at :meth:`end`, before the message's own event; what was
    written for a text block, joined, is its completed text.

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
        self._blocks: dict[int, _Block] = {}
        self._open: int | None = None

    def feed(self, delta: Delta) -> None:
        """Take one delta; events go out when 50 ms or 512 characters have gathered, or the block changes."""
        block = self._blocks.get(delta.block)
        if block is None:
            block = self._blocks[delta.block] = _Block(delta.kind, self._redactor.stream())
        if self._open is not None and self._open != delta.block:
            self._flush(self._open)
        self._open = delta.block
        text = block.redactor.feed(delta.text)
        if not text:
            return
        now = self._clock.monotonic()
        if not block.pending:
            block.since = now
        block.pending.append(text)
        block.pending_chars += len(text)
        if block.pending_chars >= COALESCE_CHARS or now - block.since >= COALESCE_S:
            self._flush(delta.block)

    def end(self) -> dict[int, str]:
        """Flush everything held and give each text block's streamed text by block index."""
        for index in sorted(self._blocks):
            block = self._blocks[index]
            rest = block.redactor.end()
            if rest:
                block.pending.append(rest)
            self._flush(index)
        return {i: "".join(b.written) for i, b in self._blocks.items() if b.kind == "text"}

    def _flush(self, index: int) -> None:
        block = self._blocks[index]
        if not block.pending:
            return
        text = "".join(block.pending)
        block.pending.clear()
        block.pending_chars = 0
        block.written.append(text)
        self._emit(MessageDelta(message_id=self._message_id, block=index, kind=block.kind, text=text))
