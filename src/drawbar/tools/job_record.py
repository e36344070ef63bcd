"""The output of a background job: redacted as it comes, in a file up to a cap, its end in memory (BND-14, QLT-20)."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
from pathlib import Path
from typing import Final

from drawbar.contracts.engine import Redactor, StreamRedactor
from drawbar.contracts.errors import StorageFailed
from drawbar.contracts.tool import Artifacts
from drawbar.tools.escapes import PlainText
from drawbar.tools.truncation import well_formed

__all__ = ["CAP_BYTES", "JobRecord", "Part"]

CAP_BYTES: Final = 64 << 20
END_BYTES: Final = 64 * 1024
"""How much of the end stays in memory, for what the file doesn't take any more."""


class Part:
    """A part of the output.

    Attributes:
        text: whole characters.
        start: the byte at which it begins; later than asked for where that part is kept no more.
        end: the byte after it.
    """

    __slots__ = ("end", "start", "text")

    def __init__(self, data: bytes, start: int, *, last: bool) -> None:
        skipped = 0
        while skipped < min(3, len(data)) and data[skipped] & 0xC0 == 0x80:
            skipped += 1
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = decoder.decode(data[skipped:], final=last)
        self.start = start + skipped
        self.end = start + len(data) - len(decoder.getstate()[0])


class JobRecord:
    """Takes one job's output.

    Args:
        artifacts: the run's.
        name: of the file.
        redactor: the process's; None keeps the text as it is.
        cap_bytes: how much the file takes.

    Attributes:
        total: bytes so far, as they can be read.
        path: of the file; None where the disk refused it.
        news: set when there is more, or no more will come.
    """

    def __init__(
        self, artifacts: Artifacts, name: str, redactor: Redactor | None, *, cap_bytes: int = CAP_BYTES
    ) -> None:
        self.total = 0
        self.path: Path | None = None
        self.news = asyncio.Event()
        self._plain = PlainText()
        self._stream: StreamRedactor | None = None if redactor is None else redactor.stream()
        self._room = cap_bytes
        self._in_file = 0
        self._end = bytearray()
        self._fd: int | None = None
        try:
            self.path = artifacts.path(name)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except (OSError, StorageFailed):
            self.path = None

    def feed(self, text: str) -> None:
        """Take output as it comes; never raises."""
        shown = self._plain.feed(text)
        self._take(shown if self._stream is None else self._stream.feed(shown))

    def finish(self) -> Path | None:
        """No more will come; the file, if there is one."""
        if self._stream is not None:
            self._take(self._stream.end())
            self._stream = None
        self.news.set()
        return self.path

    def read(self, start: int, limit: int) -> Part:
        """At most ``limit`` bytes from ``start`` on."""
        start = min(start, self.total)
        held = self.total - len(self._end)
        if start >= held:
            data = bytes(self._end[start - held : start - held + limit])
        elif start < self._in_file and self._fd is not None:
            data = self._from_file(start, min(limit, self._in_file - start))
        else:
            start, data = held, bytes(self._end[:limit])
        return Part(data, start, last=start + len(data) >= self.total)

    def close(self) -> None:
        """Give the descriptor back; what is in memory can still be read. Safe to call twice."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def discard(self) -> None:
        """Nothing ran, so there is nothing to keep."""
        self.close()
        if self.path is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()
            self.path = None

    def _from_file(self, start: int, size: int) -> bytes:
        assert self._fd is not None
        try:
            return os.pread(self._fd, size, start)
        except OSError:
            return b""

    def _take(self, text: str) -> None:
        data = well_formed(text).encode()
        if not data:
            return
        self.total += len(data)
        self._end += data
        if len(self._end) > 2 * END_BYTES:
            del self._end[:-END_BYTES]
        self.news.set()
        part = memoryview(data)[: self._room]
        if len(part) < len(data):
            self._room = len(part)
        try:
            while part and self._fd is not None:
                written = os.write(self._fd, part)
                self._in_file += written
                self._room -= written
                part = part[written:]
        except OSError:
            # What is there stays readable; a gap in the middle would not be told from the rest.
            self._room = 0
