"""A real terminal for a real program: a pseudo-terminal that is the program's controlling one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Terminal:
    """One program on a terminal of ``columns``; what it printed so far is in :attr:`text`, colours taken out."""

    def __init__(self, argv: Sequence[str], *, cwd: Path, env: dict[str, str], columns: int = 100) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))

        def own() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave, close_fds=True, preexec_fn=own
        )
        os.close(slave)
        self.raw = b""

    @property
    def text(self) -> str:
        return CONTROL.sub("", self.raw.decode("utf-8", "replace"))

    def read(self, seconds: float = 0.05) -> bool:
        """Take what is there; False when the terminal is closed."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.raw += data
        return bool(data)

    def expect(self, wanted: str, seconds: float = 20) -> None:
        """Wait until ``wanted`` was printed."""
        deadline = time.monotonic() + seconds
        while wanted not in self.text:
            assert time.monotonic() < deadline, f"{wanted!r} was never printed:\n{self.text}"
            assert self.read() or wanted in self.text, f"ended before {wanted!r}:\n{self.text}"

    def type(self, line: str) -> None:
        os.write(self.master, line.encode() + b"\n")

    def press(self, number: signal.Signals) -> None:
        """Ctrl-C as the terminal sends it (SIGINT), or another signal."""
        if number == signal.SIGINT:
            os.write(self.master, b"\x03")
        else:
            os.kill(self.process.pid, number)

    def wait(self, seconds: float = 20) -> int:
        """The exit code, with everything that was printed."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"didn't end:\n{self.text}"
            self.read()
        while self.read(0.05) and select.select([self.master], [], [], 0)[0]:
            pass
        return self.process.returncode

    def hang_up(self) -> None:
        """Close the terminal window."""
        os.close(self.master)
        self.master = -1


@contextlib.contextmanager
def terminal(argv: Sequence[str], *, cwd: Path, env: dict[str, str], columns: int = 100) -> Iterator[Terminal]:
    at = Terminal(argv, cwd=cwd, env=env, columns=columns)
    try:
        yield at
    finally:
        if at.process.poll() is None:
            at.process.kill()
        at.process.wait()
        if at.master >= 0:
            os.close(at.master)
