"""Where the command line writes: from a thread, so that a reader who stops reading never holds up a run (CON-12)."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, TextIO

__all__ = ["GLYPHS", "GLYPHS_ASCII", "Glyphs", "Look", "Output", "look_of", "print_json"]

DEFAULT_WIDTH = 80
UNMEASURED_WIDTH = 120
"""Columns assumed where the output is a file or a pipe: lines are cut there as well, but later."""
MIN_WIDTH = 20


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The few signs in use, in what the stream's encoding can say."""

    bullet: str
    ok: str
    bad: str
    ask: str
    warn: str
    retry: str
    dots: str
    rule: str
    spin: str


GLYPHS = Glyphs(bullet="•", ok="✓", bad="✗", ask="?", warn="!", retry="↻", dots="…", rule="─", spin="⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
GLYPHS_ASCII = Glyphs(bullet="*", ok="ok", bad="x", ask="?", warn="!", retry="~", dots="...", rule="-", spin="|/-\\")
_CODES = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "dim": "2", "bold": "1"}


@dataclass(frozen=True, slots=True)
class Look:
    """What a stream can show.

    Args:
        tty: whether it is a terminal, at which a person can be asked.
        colour: whether to colour (a terminal, no ``NO_COLOR``, no dumb one).
        glyphs: in an encoding that the stream has.
        fd: of the terminal, to ask for its width as it is now.
        draws: whether something may be drawn and taken back (CLI-5): a terminal that isn't a dumb one.
        columns: a width set by hand (``COLUMNS``), or None.
    """

    tty: bool
    colour: bool
    glyphs: Glyphs
    fd: int | None = None
    draws: bool = False
    columns: int | None = None

    @property
    def width(self) -> int:
        """Columns, at least 20."""
        columns = self.columns
        if columns is None and self.tty and self.fd is not None:
            with contextlib.suppress(OSError):
                columns = os.get_terminal_size(self.fd).columns
        if not columns:
            columns = DEFAULT_WIDTH if self.tty else UNMEASURED_WIDTH
        return max(columns, MIN_WIDTH)

    def paint(self, text: str, *styles: str) -> str:
        """``text`` in colours, where there are colours. Every line is painted by itself."""
        if not self.colour or not text or not styles:
            return text
        start = f"\x1b[{';'.join(_CODES[style] for style in styles)}m"
        return "\n".join(f"{start}{line}\x1b[0m" if line else line for line in text.split("\n"))


def look_of(stream: TextIO, environ: Mapping[str, str]) -> Look:
    """What ``stream`` can show, by itself and by the environment (``NO_COLOR``, ``TERM``, ``COLUMNS``)."""
    tty = stream.isatty()
    fd: int | None = None
    with contextlib.suppress(OSError, ValueError):
        fd = stream.fileno()
    dumb = environ.get("TERM") in ("dumb", "")
    columns = environ.get("COLUMNS", "")
    return Look(
        tty=tty,
        draws=tty and not dumb,
        colour=tty and not dumb and not environ.get("NO_COLOR"),
        glyphs=GLYPHS if _can_say(stream.encoding, "".join(astuple(GLYPHS))) else GLYPHS_ASCII,
        fd=fd,
        columns=int(columns) if columns.isdecimal() and int(columns) else None,
    )


def _can_say(encoding: str | None, text: str) -> bool:
    try:
        text.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


class Output:
    """Writes to one stream in order from a thread of its own.

    Text that the stream's encoding can't say is written as codes. When the reader is gone
    :attr:`broken` is set and the rest is dropped.

    Args:
        stream: standard output or standard error.
    """

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self._stream = stream
        self._encoding = stream.encoding or "utf-8"
        self._queue: queue.SimpleQueue[bytes | threading.Event | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.broken = threading.Event()

    def text(self, text: str) -> None:
        """Write ``text``; returns at once."""
        if text:
            self.raw(text.encode(self._encoding, "backslashreplace"))

    def raw(self, data: bytes) -> None:
        """Write bytes as they are; returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="drawbar-output", daemon=True)
            self._thread.start()
        self._queue.put(data)

    def drain(self, timeout_s: float | None = None) -> bool:
        """Wait until what was written so far is out; whether it was, within ``timeout_s`` seconds."""
        if self._thread is None:
            return True
        done = threading.Event()
        self._queue.put(done)
        return done.wait(timeout_s)

    def close(self) -> None:
        """Write everything and end the thread."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            try:
                if isinstance(item, bytes) and not self.broken.is_set():
                    self._stream.buffer.write(item)
                if self._queue.empty() or not isinstance(item, bytes):
                    self._stream.buffer.flush()
            except (OSError, ValueError) as error:
                self._fail(error)
            if isinstance(item, threading.Event):
                item.set()

    def _fail(self, error: Exception) -> None:
        """The reader is gone, which needs no word; or nothing can be written, which does (QLT-6)."""
        unsaid = not self.broken.is_set() and isinstance(error, OSError) and not isinstance(error, BrokenPipeError)
        self.broken.set()
        if unsaid and self._stream is not sys.stderr:
            with contextlib.suppress(OSError):
                print(f"drawbar: standard output can't be written: {error}", file=sys.stderr)


def print_json(value: Any) -> None:
    """One JSON object on standard output: indented on a terminal, one line elsewhere."""
    from drawbar.contracts.codec import encode, indent
    from drawbar.surfaces.cli.text import escaped_json

    data = encode(value)
    sys.stdout.flush()
    sys.stdout.buffer.write((escaped_json(indent(data)) if sys.stdout.isatty() else data) + b"\n")
    sys.stdout.flush()
