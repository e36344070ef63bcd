"""A pseudo-terminal of the harness's own, made in the command's own ``/dev/pts`` (BND-10).

A terminal of the machine's ``/dev/pts`` has no name inside a sandbox, so ``tty``, ``ps`` and whatever opens its
terminal by name would fail. The one made here exists only inside; the harness holds its other end.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import termios
from typing import Final

__all__ = ["Terminal", "open_terminal"]

_UNLOCK: Final = 0x40045431
"""TIOCSPTLCK"""
_NUMBER: Final = 0x80045430
"""TIOCGPTN"""
_SIGNAL: Final = 0x40045436
"""TIOCSIG: to the foreground process group."""
_BY_TERMINAL: Final = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP})


class Terminal:
    """The harness's end of a pseudo-terminal.

    Attributes:
        master: the descriptor.
        number: what it is called inside: ``/dev/pts/NUMBER``.
    """

    def __init__(self, master: int, number: int) -> None:
        self.master = master
        self.number = number

    def resize(self, rows: int, columns: int) -> None:
        """Give it another size; the foreground process group hears of it. Nothing happens once it is closed."""
        if self.master >= 0:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def signal(self, number: int) -> bool:
        """Signal the foreground process group; whether this is a signal that a terminal sends."""
        if self.master < 0 or number not in _BY_TERMINAL:
            return False
        try:
            fcntl.ioctl(self.master, _SIGNAL, int(number))
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Hang up; safe to call twice."""
        if self.master >= 0:
            os.close(self.master)
            self.master = -1


def open_terminal(init: int | None, size: tuple[int, int]) -> Terminal:
    """Make a terminal.

    Args:
        init: the first process of the sandbox in which it is to exist; None makes it on the machine itself.
        size: rows and columns.

    Raises:
        OSError: when there is no ``/dev/pts``, or no further terminal in it.
    """
    multiplexer = "/dev/ptmx" if init is None else f"/proc/{init}/root/dev/pts/ptmx"
    master = os.open(multiplexer, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        os.set_blocking(master, False)
        fcntl.ioctl(master, _UNLOCK, struct.pack("i", 0))
        (number,) = struct.unpack("I", fcntl.ioctl(master, _NUMBER, bytes(4)))
    except BaseException:
        os.close(master)
        raise
    terminal = Terminal(master, number)
    terminal.resize(*size)
    return terminal
