"""Time as a dependency, so that tests can hold it: wall clock for records, monotonic for durations."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

__all__ = ["Clock", "SystemClock", "stamp"]


class Clock(Protocol):
    """Where time comes from."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards, for durations and limits."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


def stamp(ms: int) -> str:
    """``ms`` since the epoch as ``2026-11-30T12:00:00.000Z`` (CON-11)."""
    seconds, millis = divmod(ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{millis:03d}Z"
