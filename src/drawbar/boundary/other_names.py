"""Other names of a file that is opened: a hard link of what is closed is closed under each of its names (BND-17).

A file with one link has one name, and nothing here is done for it. Of one with several, the names in the root are
found by their inode; those that aren't there must be elsewhere, so the closed places outside are looked into.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

__all__ = ["OtherNames", "TooManyNames"]

_FRESH_S: Final = 5.0
"""How long one look serves: a burst of reads of such files costs one walk."""
_LIMIT_S: Final = 2.0

_Index = dict[int, list[str]]


class TooManyNames(Exception):
    """Looking for the other names took longer than a judgement may."""


class OtherNames:
    """Finds the names of files that have several.

    Args:
        root: the canonical root.
        closed: absolute paths outside the root that are closed with all that is in them; asked for once a look.
        inside: whether any name inside the root could be closed at all.
    """

    def __init__(self, root: str, closed: Callable[[], Iterable[str]], *, inside: bool) -> None:
        self._root = root
        self._inside = _Look(lambda: [root]) if inside else None
        self._outside = _Look(closed)

    def of(self, found: os.stat_result, path: str) -> tuple[str, ...]:
        """The known names of an opened file besides ``path``, as absolute paths.

        Args:
            found: the file's status.
            path: the canonical path under which it was opened.

        Raises:
            TooManyNames: when they can't be told in time.
        """
        if found.st_nlink < 2 or not stat.S_ISREG(found.st_mode):
            return ()
        names: set[str] = set()
        if self._inside is not None:
            names.update(self._inside.names(found, path if path.startswith(self._root + "/") else None))
        if len(names | {path}) < found.st_nlink:
            names.update(self._outside.names(found, None))
        return tuple(sorted(names - {path}))


class _Look:
    """One walk over some places, by inode; done again when it is no longer fresh."""

    def __init__(self, places: Callable[[], Iterable[str]]) -> None:
        self._places = places
        self._at = float("-inf")
        self._index: _Index = {}
        self._by_status = False

    def names(self, found: os.stat_result, known: str | None) -> list[str]:
        """The names of a file in these places; ``known`` is one that must be among them."""
        self._refresh()
        names = self._matching(found)
        if known is not None and known not in names:
            # It is newer than the look, or folders here list other inode numbers than files have (some overlays).
            self._at = float("-inf")
            self._by_status = True
            self._refresh()
            names = self._matching(found)
        return names

    def _refresh(self) -> None:
        if time.monotonic() - self._at <= _FRESH_S:
            return
        index: _Index = {}
        for inode, path in _files(self._places(), time.monotonic() + _LIMIT_S, by_status=self._by_status):
            index.setdefault(inode, []).append(path)
        self._at, self._index = time.monotonic(), index

    def _matching(self, found: os.stat_result) -> list[str]:
        return [path for path in self._index.get(found.st_ino, ()) if _is(path, found)]


def _is(path: str, found: os.stat_result) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (found.st_dev, found.st_ino)


def _files(places: Iterable[str], deadline: float, *, by_status: bool) -> Iterator[tuple[int, str]]:
    """The inode and path of every plain file in or below ``places``; no link is followed, no mount entered."""
    for place in places:
        try:
            top = os.lstat(place)
        except OSError:
            continue
        if stat.S_ISREG(top.st_mode):
            yield top.st_ino, place
        elif stat.S_ISDIR(top.st_mode):
            yield from _below(place, top.st_dev, deadline, by_status)


def _below(place: str, device: int, deadline: float, by_status: bool) -> Iterator[tuple[int, str]]:
    waiting = [place]
    while waiting:
        if time.monotonic() > deadline:
            raise TooManyNames
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.stat(follow_symlinks=False).st_dev == device:
                        waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield (entry.stat(follow_symlinks=False).st_ino if by_status else entry.inode()), entry.path
            except OSError:
                continue
