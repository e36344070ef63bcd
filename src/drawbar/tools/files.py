"""What the file tools share: reading an opened file in bounded memory, and helping after a wrong path."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from drawbar.contracts.boundary import Target
from drawbar.tools.names import shown
from drawbar.tools.truncation import MAX_BYTES

__all__ = ["Excerpt", "chunks_of", "excerpt", "in_thread", "is_folder", "missing_message"]

T = TypeVar("T")

_CHUNK: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"
_NAMES_LOOKED_AT: Final = 5000
_SUGGESTIONS: Final = 5


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A stretch of a file and facts about the whole of it, from one pass.

    Attributes:
        data: the bytes from the first wanted line on, at most a little more than a result may hold; no byte
            order mark.
        line_bytes: how long the first wanted line is, its line end left out.
        total_lines: of the whole file; a final line end starts no further line.
        size: of the whole file, in bytes.
        sha256: of the whole file.
        head: the first bytes of the file, to tell its kind by.
    """

    data: bytes
    line_bytes: int
    total_lines: int
    size: int
    sha256: str
    head: bytes


def excerpt(chunks: Iterable[bytes], first_line: int = 1, *, keep: int = MAX_BYTES + 4) -> Excerpt:
    """Go through a file once, whatever its size, keeping ``keep`` bytes from line ``first_line`` on."""
    digest = hashlib.sha256()
    window = bytearray()
    head = b""
    size = feeds = line_bytes = 0
    last = b""
    started = first_line == 1
    line_open = True
    for chunk in chunks:
        digest.update(chunk)
        head = head or chunk[:8192]
        start = 0
        if not started:
            before = feeds
            feeds += chunk.count(b"\n")
            if feeds >= first_line - 1:
                started = True
                for _ in range(first_line - 1 - before):
                    start = chunk.index(b"\n", start) + 1
        else:
            feeds += chunk.count(b"\n")
        if started:
            if len(window) < keep:
                window += chunk[start : start + keep - len(window)]
            if line_open:
                end = chunk.find(b"\n", start)
                line_open = end < 0
                line_bytes += (len(chunk) if end < 0 else end) - start
        size += len(chunk)
        last = chunk[-1:]
    data = bytes(window)
    if first_line == 1 and data.startswith(_BOM):
        data = data[len(_BOM) :]
        line_bytes -= len(_BOM)
    total = feeds + (size > 0 and last != b"\n")
    return Excerpt(data, line_bytes, total, size, digest.hexdigest(), head)


def chunks_of(fd: int) -> Iterator[bytes]:
    """An opened file, piece by piece.

    Raises:
        OSError: it can't be read.
    """
    at = 0
    while chunk := os.pread(fd, _CHUNK, at):
        yield chunk
        at += len(chunk)


class _Own:
    """A duplicate of a descriptor, given back when nobody holds it any more: also when its thread never began."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = -1
        self.fd = os.dup(fd)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


async def in_thread(fd: int, work: Callable[[int], T]) -> T:
    """Run blocking ``work`` on a descriptor of its own.

    A stopped call gives its descriptors back while the thread may still be reading; on a shared one it would go on
    with whatever file gets the number next.
    """
    own = _Own(fd)
    return await asyncio.to_thread(lambda: work(own.fd))


def is_folder(fd: int) -> bool:
    """Whether an opened target is a folder."""
    return stat.S_ISDIR(os.fstat(fd).st_mode)


def missing_message(target: Target, root: Path) -> str:
    """What to say of a path that doesn't exist: the nearest names beside it, or the nearest folder that does."""
    given = shown(target.use.path)
    folder = target.path.parent
    if not target.path.is_relative_to(root):
        return f"{given} does not exist."
    if not folder.is_dir():
        while not folder.is_dir() and folder != root:
            folder = folder.parent
        where = shown(str(folder.relative_to(root)))
        return f"{given} does not exist, nor does its folder. The nearest folder that does is {where}: list it with ls."
    from difflib import get_close_matches

    names = _names(folder)
    close = get_close_matches(target.path.name, names, _SUGGESTIONS, cutoff=0.6)
    folded = target.path.name.casefold()
    close += [name for name in names if name.casefold() == folded and name not in close]
    if close:
        beside = [shown(str((folder / name).relative_to(root))) for name in close[:_SUGGESTIONS]]
        return f"{given} does not exist. Close to it: {', '.join(beside)}."
    return f"{given} does not exist. Find it by name with find, or list its folder with ls."


def _names(folder: Path) -> list[str]:
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) == _NAMES_LOOKED_AT:
                    break
    except OSError:
        pass
    return sorted(names)
