"""A walk over the workspace beside the model's turn: hard-link aliases, and what ``deny_read`` closes (BND-12).

A command inside can make no alias of a file outside, but it can move the folder of one, or of what ``deny_read``
closes. So what a walk found is looked at again before each use: if anything isn't where it was, the walk is void.
"""

from __future__ import annotations

import asyncio
import glob
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drawbar.boundary.aliases import LinkedFile, aliases, cover
from drawbar.boundary.reach import deny_matcher
from drawbar.boundary.root_mounts import Mounted, holding, mounted_from_elsewhere
from drawbar.boundary.root_walk import Walked, walk

__all__ = ["LIMIT_S", "RootScan", "Scanned"]

LIMIT_S: Final = 3.0
FRESH_S: Final = 10.0
"""How old a walk may be that a call relies on, unless the turn itself began with one."""

_MAX_DENIED: Final = 200
_WALKS: Final = 3
_NAMED: Final = 5
_NO_SUCH_NAME: Final = "drawbar-any-name-at-all"


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a call's plan needs: what to keep read-only, paths to mask, folders that must keep their names.

    ``read_only`` are aliases and what is ``mounted`` from outside the root.
    ``pinned`` are folders above a path that a pattern closes only in that place (``config/*.key``): renamed, they
    would take it out of the pattern's reach for good. ``refused`` says why no command may write in the root,
    ``unknown`` why none may even read: what ``deny_read`` closes could not be found or is too much to mask.
    """

    read_only: tuple[Path, ...] = ()
    denied: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()
    refused: str | None = None
    unknown: str | None = None
    identities: tuple[tuple[Path, tuple[int, int] | None], ...] = ()
    mounted: tuple[Mounted, ...] = ()

    def moved(self) -> Path | None:
        """The first path found that isn't the same file or folder any more, None when all are in place."""
        return next((path for path, identity in self.identities if _identity(path) != identity), None)


class RootScan:
    """Walks one root, at most one walk at a time.

    Args:
        root: canonical.
        deny_read: patterns of account and project.
        limit_s: seconds that a walk may take.
    """

    def __init__(self, root: Path, deny_read: Sequence[str], *, limit_s: float = LIMIT_S) -> None:
        self._root = root
        self._patterns = tuple(deny_read)
        self._limit_s = limit_s
        self._walk: asyncio.Task[Scanned] | None = None
        self._began = float("-inf")
        self._void = False

    def begin(self) -> None:
        """Start a walk now, if none is under way: the turn's calls then rely on it."""
        if self._walk is None or self._walk.done():
            self._void = False
            self._began = time.monotonic()
            self._walk = asyncio.ensure_future(self._scan())

    def disturb(self) -> None:
        """A command that may write is running or has run: a walk under way may have met names half moved."""
        if self._walk is not None and not self._walk.done():
            self._void = True

    async def result(self) -> Scanned:
        """A walk that still holds: the newest one, or one started now."""
        for _ in range(_WALKS):
            if self._walk is None or (self._walk.done() and (self._void or self._stale())):
                self.begin()
            assert self._walk is not None
            scanned = await asyncio.shield(self._walk)
            self._void = self._void or scanned.moved() is not None
            if not self._void:
                return scanned
        return Scanned(
            refused=f"Names in {self._root} keep changing, so what must be protected there can't be told. Try again.",
            unknown=f"Names in {self._root} keep changing, so what deny_read closes can't be told. Try again."
            if self._patterns
            else None,
        )

    def _stale(self) -> bool:
        assert self._walk is not None
        found = self._walk.result() if not self._walk.cancelled() else Scanned(refused="")
        failed = found.refused is not None or found.unknown is not None
        return failed or time.monotonic() - self._began > FRESH_S

    async def close(self) -> None:
        """End a walk that is under way."""
        if self._walk is not None and not self._walk.done():
            self._walk.cancel()
            await asyncio.wait((self._walk,))

    async def _scan(self) -> Scanned:
        absolute = tuple(_absolute_matches(self._patterns))
        names = tuple(dict.fromkeys(name for pattern in self._patterns if (name := _last_name(pattern))))
        walked = await walk(self._root, names, self._limit_s)
        if not walked.whole:
            unknown = self._too_slow(walked, " and which are closed by deny_read") if names else None
            return Scanned(denied=absolute, refused=self._too_slow(walked), unknown=unknown)
        linked = walked.linked
        mounted = mounted_from_elsewhere(self._root)
        # What is read-only as a whole needs no cover for each file in it.
        # A command could open a folder again into which nobody can look now.
        leading = (*aliases(linked), *walked.closed)
        covered = cover([path for path in leading if holding(mounted, self._root / path) is None])
        read_only = (*(mount.place for mount in mounted), *(self._root / path for path in covered.read_only))
        inside, pinned = self._denied(walked.candidates)
        inside += tuple(self._other_names(inside, linked))
        denied = (*absolute, *inside)
        unknown = None
        if len(denied) + len(pinned) > _MAX_DENIED:
            unknown = (
                f"deny_read closes {len(denied)} paths in {self._root}, more than can be masked for a command. "
                "Name the folders that hold them instead."
            )
        return Scanned(
            read_only=read_only,
            denied=denied,
            pinned=pinned,
            refused=covered.refused,
            unknown=unknown,
            identities=tuple((path, _identity(path)) for path in (*read_only, *inside, *pinned)),
            mounted=mounted,
        )

    def _too_slow(self, walked: Walked, also: str = "") -> str:
        first = ", ".join(name.path for name in walked.linked[:_NAMED])
        found = f". Files with several names are, among others, {first}" if first else ""
        return (
            f"Looking through {self._root} took over {self._limit_s:g} s, so it isn't known which files there are "
            f"hard links to files outside it{also}{found}. Try again when the machine is less busy, or work in a "
            "smaller folder."
        )

    def _other_names(self, denied: Iterable[Path], linked: Iterable[LinkedFile]) -> Iterator[Path]:
        """Further names in the root of the files that are closed: a hard link opens no way to their bytes."""
        names = {self._root / name.path: name.identity for name in linked}
        closed = set(denied)
        files = {identity for path, identity in names.items() if closed & {path, *path.parents}}
        yield from (
            path for path, identity in names.items() if identity in files and not closed & {path, *path.parents}
        )

    def _denied(self, candidates: Iterable[str]) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
        """What the patterns close, and the folders above it that must stay where they are."""
        paths = sorted({self._root / candidate for candidate in candidates if candidate})
        if not paths:
            return (), ()
        closed = deny_matcher(self._patterns, self._root)
        found = tuple(_topmost(path for path in paths if _closes(closed, path)))
        pinned = {
            folder: None
            for path in found
            for folder in path.parents
            if folder != self._root and folder.is_relative_to(self._root) and self._escapes(closed, path, folder)
        }
        return found, tuple(pinned)

    def _escapes(self, closed: Callable[[Path], bool], path: Path, folder: Path) -> bool:
        """Whether ``path`` would be open to reads if ``folder`` above it had another name or place."""
        rest = path.relative_to(folder)
        elsewhere = (folder.parent / _NO_SUCH_NAME, self._root / _NO_SUCH_NAME, self._root / "a" / _NO_SUCH_NAME)
        return not all(closed(place / rest) or closed(place / rest / _NO_SUCH_NAME) for place in elsewhere)


def _closes(closed: Callable[[Path], bool], path: Path) -> bool:
    """Whether a path is closed, or is a folder of which everything inside is (``secrets/**``)."""
    return closed(path) or (os.path.isdir(path) and not os.path.islink(path) and closed(path / _NO_SUCH_NAME))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _topmost(paths: Iterable[Path]) -> Iterator[Path]:
    last: Path | None = None
    for path in paths:
        if last is None or not path.is_relative_to(last):
            last = path
            yield path


def _last_name(pattern: str) -> str | None:
    """What the last folder or file name of a match must look like, as ``find -name`` takes it; None for none.

    Of a pattern for everything in a folder it is the folder's name, of one for everything any name. The full rule
    decides about each candidate.
    """
    if pattern.startswith(("!", "#", "~/")):
        return None
    names = [name for name in pattern.strip().split("/") if name not in ("", "**")]
    if len(names) > 1 and names[-1] == "*":
        names.pop()
    return names[-1] if names else "*"


def _absolute_matches(patterns: Iterable[str]) -> Iterator[Path]:
    """Existing paths that patterns name absolutely, globs expanded."""
    for pattern in patterns:
        path = os.path.expanduser(pattern) if pattern.startswith("~/") else pattern
        if not path.startswith("/") or path.strip("/") == "":
            continue
        for match in glob.iglob(path.rstrip("/"), recursive=True, include_hidden=True):
            yield Path(os.path.realpath(match))
