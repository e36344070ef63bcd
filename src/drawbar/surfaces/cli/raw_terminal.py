"""The person's own terminal while a program on another one has it: raw, and given back whatever happens (CLI-6)."""

from __future__ import annotations

import contextlib
import os
import signal
import termios
import tty
from collections.abc import Generator
from typing import Any, Final

__all__ = ["RawTerminal", "terminal_size"]

_FALLBACK: Final = (24, 80)


def terminal_size(fd: int) -> tuple[int, int]:
    """Rows and columns, 24 and 80 where the terminal doesn't say."""
    try:
        size = os.get_terminal_size(fd)
    except OSError:
        return _FALLBACK
    return size.lines or _FALLBACK[0], size.columns or _FALLBACK[1]


class RawTerminal:
    """Every key goes through as it is, Ctrl-C too.

    In the background, where a job may not change its terminal, the kernel stops it until it is brought forward.

    Args:
        fd: of the terminal.

    Raises:
        termios.error: it is none.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._found: list[Any] = termios.tcgetattr(fd)

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        """Raw for the length of the block."""
        try:
            self._raw()
            yield
        finally:
            self._give_back()

    def stop(self) -> None:
        """Stop this program, as its shell asks it to, with the terminal as it was; returns when it goes on."""
        self._give_back()
        found = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            os.kill(os.getpid(), signal.SIGTSTP)
        finally:
            signal.signal(signal.SIGTSTP, found)
        self._raw()

    def _raw(self) -> None:
        # Not TCSAFLUSH: what was typed ahead is for the program.
        tty.setraw(self._fd, termios.TCSANOW)

    def _give_back(self) -> None:
        # At once and also from the background: neither a reader that stopped nor the shell may keep it raw.
        found = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            with contextlib.suppress(termios.error, OSError):
                termios.tcsetattr(self._fd, termios.TCSANOW, self._found)
        finally:
            signal.signal(signal.SIGTTOU, found)
