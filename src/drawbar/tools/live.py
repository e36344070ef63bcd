"""Live output of a running tool as ``tool.delta`` events: redacted as it streams, coalesced, bounded (CON-32)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from drawbar.contracts.engine import Redactor, StreamRedactor
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.tool import ToolDelta
from drawbar.tools.truncation import well_formed

__all__ = ["LiveOutput"]

COALESCE_S: Final = 0.050
COALESCE_CHARS: Final = 512
EVENT_CHARS: Final = 8192
LIVE_CHARS: Final = 128 * 1024
"""How much of one call's output is shown live; a flood would otherwise fill the log (PRC-06)."""


class LiveOutput:
    """Gathers one call's output and writes it out every 50 ms or 512 characters.

    Args:
        call_id: the call.
        emit: writes an event and never raises, since whoever feeds must not fail.
        redactor: the process's redactor; the stream is only opened when there is output.
    """

    def __init__(self, call_id: str, emit: Callable[[Payload], Any], redactor: Redactor) -> None:
        self._call_id = call_id
        self._emit = emit
        self._redactor = redactor
        self._stream: StreamRedactor | None = None
        self._pending: list[str] = []
        self._chars = 0
        self._left = LIVE_CHARS
        self._timer: asyncio.TimerHandle | None = None

    @property
    def takes_more(self) -> bool:
        """Whether output that is fed would still be shown."""
        return self._left > 0

    def feed(self, text: str) -> None:
        """Take output as it comes; never raises, never blocks."""
        if not self.takes_more or not text:
            return
        if self._stream is None:
            self._stream = self._redactor.stream()
        # The redactor sees everything up to the limit in order, so a secret split over pieces is seen whole.
        text, self._left = text[: self._left], self._left - len(text)
        self._keep(self._stream.feed(text))
        if self._left <= 0:
            self._keep(self._stream.end())
            self._keep("\n[live output ends here; the result will hold the end of it]\n")
            self._flush()
        elif self._chars >= COALESCE_CHARS:
            self._flush()
        elif self._pending and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(COALESCE_S, self._flush)

    def end(self) -> None:
        """Write what is left; output that comes later is not shown."""
        if self._stream is not None and self._left > 0:
            self._keep(self._stream.end())
        self._left = 0
        self._flush()

    def _keep(self, text: str) -> None:
        if text:
            self._pending.append(text)
            self._chars += len(text)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text = well_formed("".join(self._pending))
        self._pending.clear()
        self._chars = 0
        for start in range(0, len(text), EVENT_CHARS):
            part = text[start : start + EVENT_CHARS]
            self._emit(ToolDelta(call_id=self._call_id, stream="output", text=part))
