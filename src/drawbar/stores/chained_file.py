"""A locked file of chained lines, each written whole or not at all (CON-11, CON-15)."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from drawbar.contracts.clock import Clock, stamp
from drawbar.contracts.errors import SessionBusy
from drawbar.stores.atomic import storage_failure, write_atomic
from drawbar.stores.locks import forget_in_children, lock_within
from drawbar.stores.log_scan import LogPosition

__all__ = ["ENVELOPE_BYTES", "ChainedFile", "Place"]

ENVELOPE_BYTES: Final = 256
"""Room for everything in a line but its payload."""

_LOCK_TRY_S: Final = 0.02
_COPY_CHUNK: Final = 1024 * 1024


class Place(NamedTuple):
    """The end of the file: the last line's number (-1: none), chain and time, and the size in bytes."""

    seq: int
    chain: bytes
    at_ms: int
    size: int


class ChainedFile:
    """One open file and its lock, which lasts as long as the descriptor (CON-27). Not for several threads at once.

    Args:
        fd: open for appending and locked.
        path: the file.
        run_id: what line 0 is chained to.
        clock: gives each line its time.
        position: where the file stands.
    """

    def __init__(self, fd: int, path: Path, run_id: str, clock: Clock, position: LogPosition) -> None:
        self.fd = fd
        self.path = path
        self.place = Place(position.seq, (position.chain or run_id).encode(), position.at_ms, position.size)
        self._clock = clock
        self._second = -1
        self._second_text = b""
        self._ragged = False
        forget_in_children(self)

    @staticmethod
    def open_locked(path: Path, *, new: bool) -> int:
        """Open ``path`` (0600, close-on-exec) and take its lock.

        Raises:
            FileExistsError: ``new``, and it is there already.
            SessionBusy: another writer holds the lock.
            StorageFailed: the disk refuses.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if new else 0)
        try:
            fd = os.open(path, flags, 0o600)
        except FileExistsError:
            raise
        except OSError as error:
            raise storage_failure(path, error) from error
        try:
            if not lock_within(fd, _LOCK_TRY_S):
                raise SessionBusy(f"{path.parent.name} has a writer that holds its lock", path=str(path))
        except BaseException:
            os.close(fd)
            raise
        return fd

    @property
    def closed(self) -> bool:
        return self.fd < 0

    def now(self) -> tuple[int, bytes]:
        """The next line's time, in ms and as text: never before the last line's, whatever the wall clock does."""
        at = max(self._clock.now_ms(), self.place.at_ms)
        second, milli = divmod(at, 1000)
        if second != self._second:
            self._second = second
            self._second_text = stamp(at)[:20].encode()
        return at, b"%s%03dZ" % (self._second_text, milli)

    def append(self, tag: str, body: bytes) -> bytes:
        """Write one line; it has reached the operating system when this returns.

        Raises:
            StorageFailed: the disk refused; nothing has changed.
        """
        place = self.place
        at, text = self.now()
        start = b'{"seq":%d,"at":"%s","type":"%s","payload":%s' % (place.seq + 1, text, tag.encode(), body)
        chain = hashlib.sha256(place.chain + start).hexdigest().encode()
        line = b'%s,"chain":"%s"}\n' % (start, chain)
        if self._ragged:
            self._cut_or_refuse()
        # Until the new place is taken the line doesn't count: whatever ends this in between, the next append
        # begins by taking back what was written of it.
        self._ragged = True
        self._write(line)
        self.place = Place(place.seq + 1, chain, at, place.size + len(line))
        self._ragged = False
        return line

    def sync(self) -> None:
        """Bring what was written to the disk itself. Raises :class:`StorageFailed`."""
        try:
            os.fdatasync(self.fd)
        except OSError as error:
            raise storage_failure(self.path, error) from error

    def undo(self, place: Place) -> None:
        """Take back the lines after ``place``."""
        self.place = place
        self._ragged = True
        with contextlib.suppress(OSError):
            self._cut()

    def write_again(self, offset: int) -> None:
        """Write the bytes from ``offset`` once more and sync: after a failed sync the kernel may drop what it held.

        Raises:
            StorageFailed: the disk still refuses.
        """
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                while offset < self.place.size:
                    piece = os.pread(fd, min(_COPY_CHUNK, self.place.size - offset), offset)
                    offset += os.pwrite(fd, piece, offset)
                os.fdatasync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise storage_failure(self.path, error) from error

    def set_fragment_aside(self, kept: Path) -> None:
        """Copy what follows the last line end to ``kept``, and only then cut it (CON-15).

        Raises:
            StorageFailed: the disk refused; the fragment is still there.
        """
        write_atomic(kept, self._pieces(self.place.size), sync=True)
        self._cut_or_refuse()

    def close(self) -> None:
        """Let the lock go; safe to call twice."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def forget_after_fork(self) -> None:
        """Only for a forked child, which must hold neither lock nor file (CON-27)."""
        self.close()

    def _write(self, line: bytes) -> None:
        """All of ``line`` or, when the disk refuses, nothing of it."""
        try:
            done = os.write(self.fd, line)
            while done < len(line):
                done += os.write(self.fd, memoryview(line)[done:])
        except OSError as error:
            with contextlib.suppress(OSError):
                self._cut()
            raise storage_failure(self.path, error) from error

    def _cut_or_refuse(self) -> None:
        try:
            self._cut()
        except OSError as error:
            raise storage_failure(self.path, error) from error

    def _cut(self) -> None:
        os.ftruncate(self.fd, self.place.size)
        self._ragged = False

    def _pieces(self, offset: int) -> Iterator[bytes]:
        while piece := os.pread(self.fd, _COPY_CHUNK, offset):
            offset += len(piece)
            yield piece
