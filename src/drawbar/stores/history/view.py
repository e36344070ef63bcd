"""A history read without its lock: shown whole, with every repair named, never changed (QLT-5, CLI-7)."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from drawbar.contracts.errors import InvalidInput, NotFound, StorageFailed
from drawbar.stores.history.context import Entry
from drawbar.stores.history.index import Index, Repair
from drawbar.stores.history.lines import read_lines
from drawbar.stores.history.reader import Reader, version_of
from drawbar.stores.history.roles import Message

__all__ = ["Entries", "HistoryView", "fetch_from", "inspect_history", "open_regular", "read_history", "scan"]

_BUFFER = 2**20


@dataclass(frozen=True, slots=True)
class Entries:
    """Every entry as read, in file order; each iteration reads the file again, one entry at a time."""

    path: Path
    index: Index

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[Entry]:
        with _reader(self.path, self.index) as reader:
            for at in range(len(self.index)):
                yield reader.raw(at)


@dataclass(frozen=True, slots=True)
class HistoryView:
    """A history as it was when it was read; entries are fetched from the file when they are asked for.

    Attributes:
        path: the file.
        header: the header line as read; empty when there is none.
        leaf: the id of the last entry in the file, None when there is none.
        repairs: everything that was skipped or mended, in file order.
        index: the tree; positions count entries in file order.
    """

    path: Path
    header: dict[str, Any]
    leaf: str | None
    repairs: list[Repair]
    index: Index

    @property
    def version(self) -> int | None:
        """The format version; None when the header states something that is no number."""
        return version_of(self.header or None)

    @property
    def name(self) -> str | None:
        """The session's name: the newest in the file, whatever its branch; None when it has none."""
        return self.index.name or None

    @property
    def entries(self) -> Entries:
        """All entries, streamed."""
        return Entries(self.path, self.index)

    @property
    def branch(self) -> list[str]:
        """Entry ids from the root to the leaf."""
        with _reader(self.path, self.index) as reader:
            return [reader.id_of(at) for at in self.index.path(len(self.index) - 1)]

    def branch_entries(self) -> Iterator[Entry]:
        """Entries from the root to the leaf, repaired in memory, streamed."""
        with _reader(self.path, self.index) as reader:
            yield from reader.branch(len(self.index) - 1)

    def messages(self) -> list[Message]:
        """What the model sees of the branch."""
        with _reader(self.path, self.index) as reader:
            return reader.messages(len(self.index) - 1)


def read_history(path: Path) -> HistoryView:
    """Read a history whatever it holds; another process may be writing it.

    Raises:
        NotFound: there is no such file.
        InvalidInput: it is no regular file.
        StorageFailed: it can't be read.
    """
    fd = open_regular(path, os.O_RDONLY)
    try:
        index = scan(fd)
        reader = Reader(index, partial(fetch_from, fd, index))
        last = len(index) - 1
        repairs = sorted([*index.repairs, *reader.missing_results(last)], key=_by_place)
        leaf = reader.id_of(last) if last >= 0 else None
        return HistoryView(path, index.header or {}, leaf, repairs, index)
    finally:
        os.close(fd)


def inspect_history(path: Path) -> dict[str, Any]:
    """What ``sessions inspect`` prints (CLI-7): ``{header, entries, branch, leaf, repairs}``.

    ``header`` is None when the file has none; entries are as read, so one of an old format may lack the id
    that ``branch`` gives it.

    Raises:
        NotFound, InvalidInput, StorageFailed: as :func:`read_history`.
    """
    view = read_history(path)
    return {
        "header": view.header or None,
        "entries": list(view.entries),
        "branch": view.branch,
        "leaf": view.leaf,
        "repairs": [repair._asdict() for repair in view.repairs],
    }


def open_regular(path: Path, flags: int) -> int:
    """A descriptor of a regular file.

    Raises:
        NotFound, InvalidInput, StorageFailed: there is none; it is something else; it can't be opened.
    """
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise NotFound(f"there is no history {path}", path=str(path)) from error
    except OSError as error:
        if not stat.S_ISREG(_mode(path)):
            raise InvalidInput(f"{path} is no session history: not a regular file", path=str(path)) from error
        raise StorageFailed(f"{path} can't be opened: {error.strerror}", path=str(path), errno=error.errno) from error
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise InvalidInput(f"{path} is no session history: not a regular file", path=str(path))


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return stat.S_IFREG


def scan(fd: int, index: Index | None = None) -> Index:
    """Read the file into ``index`` from where that ended, line by line."""
    index = Index() if index is None else index
    number = index.next_line - 1 if index.ragged else index.next_line
    with open(os.dup(fd), "rb", buffering=_BUFFER) as stream:
        stream.seek(index.end)
        index.extend(read_lines(stream, offset=index.end, number=number))
    return index


def fetch_from(fd: int, index: Index, at: int) -> bytes:
    """The bytes of an entry; fewer when the file was cut meanwhile."""
    return os.pread(fd, index.sizes[at], index.offsets[at])


def _by_place(repair: Repair) -> tuple[int, int]:
    return repair.line, repair.offset


@contextlib.contextmanager
def _reader(path: Path, index: Index) -> Generator[Reader]:
    fd = open_regular(path, os.O_RDONLY)
    try:
        yield Reader(index, partial(fetch_from, fd, index))
    finally:
        os.close(fd)
