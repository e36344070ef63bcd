"""What stops a command from outside: Ctrl-C once in good order, twice by force; a closed terminal; a request to end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Generator

__all__ = ["Stops"]


class Stops:
    """Listens to the signals of one command.

    Before a run is armed, Ctrl-C gives the command up. After it, the first stops the run (RUN-10) and its record
    says so; a second ends the program at once, and whatever opens the data root next settles the run (RUN-13).

    Args:
        say: tells the person what the press did.
        force: ends the program; must not return.
    """

    def __init__(self, say: Callable[[str], None], force: Callable[[int], None] = os._exit) -> None:
        self.ended_by: int | None = None
        self._say = say
        self._force = force
        self._presses = 0
        self._main = asyncio.current_task()
        self._stop: Callable[[], Awaitable[None]] | None = None
        self._stopping: asyncio.Task[None] | None = None

    @property
    def exit_code(self) -> int:
        """Of a command that was given up: 130 for Ctrl-C, else 128 and the signal."""
        return 128 + (self.ended_by or signal.SIGINT)

    def arm(self, stop: Callable[[], Awaitable[None]]) -> None:
        """From now on Ctrl-C calls ``stop``."""
        self._stop = stop

    def press(self) -> None:
        """Ctrl-C."""
        self._presses += 1
        if self._presses > 1:
            self._say("ended by force; the next drawbar command settles the run")
            self._force(130)
        elif self._stop is None:
            self._cancel()
        else:
            self._say("stopping; once more ends it by force")
            self._stopping = asyncio.ensure_future(self._carry_out(self._stop))

    def end(self, number: int) -> None:
        """The terminal closed, or the program was told to end: leaving the harness closes its runs."""
        self.ended_by = number
        self._cancel()

    async def _carry_out(self, stop: Callable[[], Awaitable[None]]) -> None:
        await stop()

    def _cancel(self) -> None:
        if self._main is not None:
            self._main.cancel()

    @contextlib.contextmanager
    def listening(self) -> Generator[None]:
        """Handle the signals for the length of the block."""
        loop = asyncio.get_running_loop()
        handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        loop.add_signal_handler(signal.SIGINT, self.press)
        loop.add_signal_handler(signal.SIGTERM, self.end, int(signal.SIGTERM))
        loop.add_signal_handler(signal.SIGHUP, self.end, int(signal.SIGHUP))
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)
