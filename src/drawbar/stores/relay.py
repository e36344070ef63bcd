"""Hands written lines on to listeners: after the disk, in order, in batches, and never in the run's way (CON-12)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

__all__ = ["Relay"]


class Relay:
    """A queue between the event log and whoever listens.

    Lines that are put while the event loop is busy go out together in its next turn; without a loop each goes
    out at once. While somebody holds the relay (a line is on its way to the disk) nothing goes out, so that no
    later line can overtake that one. A listener that raises loses that batch, which it can read from the log;
    the run doesn't notice.

    Args:
        deliver: gets whole lines as written, line ends included; None relays nothing.
    """

    def __init__(self, deliver: Callable[[list[bytes]], None] | None) -> None:
        self._deliver = deliver
        self._pending: list[bytes] = []
        self._holds = 0
        self._scheduled = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._mutex = threading.Lock()
        self._order = threading.RLock()
        self.missed = 0

    def put(self, line: bytes) -> None:
        """Relay ``line``, now or soon."""
        if self._deliver is None:
            return
        with self._mutex:
            self._pending.append(line)
        if not self._scheduled and not self._holds:
            self._schedule()

    def hold(self) -> None:
        """Let nothing out until :meth:`release`; holds nest."""
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        if self._pending and not self._scheduled and not self._holds:
            self._schedule()

    def take_back(self, line: bytes) -> None:
        """``line``, the last one put, did not reach the disk after all."""
        with self._mutex:
            if self._pending and self._pending[-1] is line:
                self._pending.pop()

    def flush(self) -> None:
        """Send what waits, in order; nothing while the relay is held."""
        with self._order:
            with self._mutex:
                self._scheduled = False
                if self._holds or not self._pending or self._deliver is None:
                    return
                batch, self._pending = self._pending, []
            try:
                self._deliver(batch)
            except Exception:
                # The log has every line; a listener's own fault must not end the run.
                self.missed += len(batch)

    def _schedule(self) -> None:
        try:
            loop = self._loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = self._loop
            if loop is None or loop.is_closed():
                self.flush()
                return
            self._scheduled = True
            try:
                loop.call_soon_threadsafe(self.flush)
            except RuntimeError:
                self.flush()
            return
        self._scheduled = True
        loop.call_soon(self.flush)
