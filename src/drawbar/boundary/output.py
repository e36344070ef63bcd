"""The output of a command in bounded memory: both ends kept, the middle counted, the whole in a file up to a cap.

Upholds QLT-12: a flood, a line without an end and bytes that are no text all leave one readable result.
"""

from __future__ import annotations

import codecs
import contextlib
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

__all__ = ["Output"]

_MAX_CHARACTER: Final = 4


class Output:
    """Takes chunks of bytes as they come.

    Args:
        head_bytes, tail_bytes: how much of each end stays in memory.
        artifact: where the whole goes once it outgrows both ends; None keeps no file. It must not exist.
        cap_bytes: how much of it the file takes.
        on_text: gets the text as it comes, cut between characters; None for nobody.
    """

    def __init__(
        self,
        *,
        head_bytes: int,
        tail_bytes: int,
        artifact: Path | None = None,
        cap_bytes: int = 0,
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        self.total = 0
        self._head = bytearray()
        self._head_bytes = max(0, head_bytes)
        self._tail: deque[bytes] = deque()
        self._tail_held = 0
        self._tail_bytes = max(0, tail_bytes)
        self._path = artifact
        self._file: BinaryIO | None = None
        self._room = cap_bytes
        self._on_text = on_text
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def artifact(self) -> Path | None:
        """The file with the whole output up to the cap; None when both ends hold it or the disk refused it."""
        return self._path if self._file is not None else None

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes, of any size."""
        self.total += len(chunk)
        if self._on_text is not None:
            text = self._decoder.decode(chunk)
            if text:
                self._on_text(text)
        if self._path is not None and self.total > self._head_bytes + self._tail_bytes:
            self._spill(chunk)
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._keep_tail(chunk)

    def finish(self) -> None:
        """No more bytes will come: give out what the decoder held, and put the file to the disk's care."""
        if self._on_text is not None:
            text = self._decoder.decode(b"", final=True)
            if text:
                self._on_text(text)
        if self._file is not None:
            try:
                self._file.close()
            except OSError:
                self._drop_file()

    def ends(self) -> tuple[str, str, int]:
        """Head, tail, and how many bytes lie between; a character cut by a limit belongs to the middle."""
        tail = b"".join(self._tail)[-self._tail_bytes :] if self._tail_bytes else b""
        if len(self._head) + len(tail) == self.total:
            return (bytes(self._head) + tail).decode("utf-8", "replace"), "", 0
        head = _without_cut_end(bytes(self._head))
        tail = _without_cut_start(tail)
        dropped = self.total - len(head) - len(tail)
        return head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), dropped

    def _keep_tail(self, chunk: bytes) -> None:
        self._tail.append(chunk[-self._tail_bytes :] if self._tail_bytes else b"")
        self._tail_held += len(self._tail[-1])
        while self._tail and self._tail_held - len(self._tail[0]) >= self._tail_bytes:
            self._tail_held -= len(self._tail.popleft())
        if len(self._tail) > self._tail_bytes // 512 + 64:
            # Many tiny writes would cost more in objects than in bytes.
            joined = b"".join(self._tail)
            self._tail = deque([joined])

    def _spill(self, chunk: bytes) -> None:
        assert self._path is not None
        try:
            if self._file is None:
                self._file = _create(self._path)
                self._write(bytes(self._head))
                for earlier in self._tail:
                    self._write(earlier)
            self._write(chunk)
        except OSError:
            self._drop_file()

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        if self._room > 0:
            self._file.write(data[: self._room])
            self._room -= min(self._room, len(data))

    def _drop_file(self) -> None:
        """Half a file that says it is the whole one would be worse than none."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            if self._path is not None:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)
        self._file = None
        self._path = None


def _create(path: Path) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb", buffering=64 * 1024)


def _without_cut_end(data: bytes) -> bytes:
    """Leave off an unfinished character at the end."""
    for back in range(1, min(_MAX_CHARACTER, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back else data
    return data


def _without_cut_start(data: bytes) -> bytes:
    """Leave off the rest of a character that began before."""
    start = 0
    while start < min(_MAX_CHARACTER - 1, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
