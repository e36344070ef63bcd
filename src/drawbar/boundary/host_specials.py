"""Sockets and named pipes of this machine's programs that a command could reach by a path, to be masked (BND-10).

A private network namespace closes abstract sockets only, and a read-only mount neither kind. Looked for by what the
kernel lists, before every call, and by a search of what stays in sight, once a run. Where the kernel knows the rule
(Landlock from version 9 on) no socket can be connected to in any case, and what the list leaves open isn't searched.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from drawbar.boundary.enter import closes_sockets
from drawbar.boundary.host import mount_points, within_reach
from drawbar.boundary.host_search import DEEP_LIMIT_S, HostSearch, Special, search_tops
from drawbar.boundary.unix_sockets import BoundSocket, bound_sockets

__all__ = ["HostSpecials"]

_PRIVATE: Final = (b"/run/", b"/var/run/", b"/tmp/", b"/var/tmp/", b"/dev/", b"/proc/", b"/sys/")
_CROWD: Final = 8
"""As many in one folder hide the folder, where it is one that nothing else needs: each mask costs a mount."""
_MOST: Final = 60
_LOOKED_THROUGH: Final = 2000
"""Names of a folder among which a renamed socket is looked for."""
_SYSTEM: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr", "/etc", "/boot", "/nix", "/gnu", "/snap")


class HostSpecials:
    """Those of one run's view of the machine.

    Args:
        root: the workspace; a socket in it that a program outside has bound is masked too, a pipe is the workspace's.
        hidden: what is masked anyway.
        needed: folders that a command must see, so that they can't be masked whole.
    """

    def __init__(self, root: Path, hidden: Sequence[Path], needed: Iterable[Path] = ()) -> None:
        self._root = bytes(root)
        self._private = tuple(folder for folder in _PRIVATE if not (self._root + b"/").startswith(folder))
        self._hidden = tuple(bytes(path) + b"/" for path in hidden)
        self._needed = (root, *needed)
        mounts = [(mount.path, mount.kind) for mount in mount_points()]
        tops = search_tops(mounts, hidden)
        self._search = HostSearch([*tops, *_inside(needed, hidden)], [root, *hidden])
        # The workspace is gone through only when a socket is bound somewhere and nothing else says where.
        everywhere = [*tops, *map(Path, _SYSTEM), root, *_inside(needed, hidden)]
        self._deep = HostSearch(everywhere, hidden, depth=None, limit_s=DEEP_LIMIT_S)
        self._places: dict[BoundSocket, Path | None] = {}
        self._devices: set[bytes] | None = None

    def begin(self) -> None:
        """Start the search, so that the first call need not wait for it."""
        self._search.begin()

    def paths(self) -> tuple[Path, ...]:
        """What is to be masked now, files and where there are too many of them folders."""
        found = {special.path for special in self._search.found() if _is_special(special.path)}
        found |= set(self._sockets())
        return tuple(sorted(self._crowded(path for path in found if self._connectable(path))))

    # -- sockets that are bound now -----------------------------------------------------------------------

    def _sockets(self) -> Iterator[Path]:
        lost: list[BoundSocket] = []
        self._devices = None
        for bound in bound_sockets():
            if bound not in self._places or not self._holds(bound, self._places[bound]):
                self._places.pop(bound, None)
                place = next(self._candidates(bound), None)
                if place is None:
                    lost.append(bound)
                    continue
                self._places[bound] = place
            place = self._places[bound]
            if place is not None:
                yield place
        if lost:
            yield from self._searched_for(lost)

    def _holds(self, bound: BoundSocket, place: Path | None) -> bool:
        """Whether what was found earlier is so still; a socket without a place gets none by itself."""
        return place is None or _is(bound, os.fsencode(place))

    def _candidates(self, bound: BoundSocket) -> Iterator[Path]:
        """Where a socket is: by its name, by its name from some process's folder, or renamed in either folder."""
        if bound.name.startswith(b"/"):
            names = [bound.name]
        elif bound.inode is None or not self._in_sight(bound):
            return
        else:
            names = [os.path.join(folder, bound.name) for folder in _working_folders()]
        for name in names:
            real = os.path.realpath(name)
            if _is(bound, real):
                yield Path(os.fsdecode(real))
        if bound.inode is not None and self._in_sight(bound):
            for folder in dict.fromkeys(os.path.realpath(os.path.dirname(name)) for name in names):
                if not (folder + b"/").startswith((*self._private, *self._hidden)):
                    yield from _renamed(bound, folder)

    def _in_sight(self, bound: BoundSocket) -> bool:
        """Whether its file system is mounted where a command could see it."""
        if bound.device is None:
            return False
        if self._devices is None:
            places = ((mount.device, os.fsencode(mount.path) + b"/") for mount in mount_points())
            self._devices = {device for device, path in places if not path.startswith(self._private)}
        return b"%d:%d" % bound.device in self._devices

    def _searched_for(self, lost: list[BoundSocket]) -> Iterator[Path]:
        wanted = [bound for bound in lost if bound.inode is not None and self._in_sight(bound)]
        found: Sequence[Special] = ()
        if wanted and not closes_sockets():
            found = self._deep.found(fresh=True)
        by_inode = {special.inode: special.path for special in found}
        for bound in lost:
            place = by_inode.get(bound.inode) if bound.inode is not None else None
            if place is not None and not _is(bound, bytes(place)):
                place = None
            self._places[bound] = place
            if place is not None:
                yield place

    # -- what of it matters --------------------------------------------------------------------------------

    def _connectable(self, path: Path) -> bool:
        text = bytes(path)
        shown = any(path.is_relative_to(needed) for needed in self._needed)
        if not shown and text.startswith((*self._hidden, *self._private)):
            return False
        return (os.access(text, os.W_OK) or os.access(text, os.R_OK)) and within_reach(str(path))

    def _crowded(self, paths: Iterable[Path]) -> set[Path]:
        """The folder instead of its sockets, where it holds many of them."""
        found = set(paths)
        crowd = _CROWD if len(found) <= _MOST else 1
        for folder, number in Counter(path.parent for path in found).items():
            if number >= crowd and self._dispensable(folder):
                found = {path for path in found if path.parent != folder} | {folder}
        return found

    def _dispensable(self, folder: Path) -> bool:
        if len(folder.parts) < 3 or str(folder).startswith(tuple(f"{tree}/" for tree in _SYSTEM)):
            return False
        return not any(needed.is_relative_to(folder) or folder.is_relative_to(needed) for needed in self._needed)


def _inside(needed: Iterable[Path], hidden: Sequence[Path]) -> list[Path]:
    """The folders that are shown within masked ones: the search leaves the masked ones out."""
    return [path for path in needed if path.is_dir() and any(path.is_relative_to(folder) for folder in hidden)]


def _is_special(path: Path) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)


def _is(bound: BoundSocket, path: bytes) -> bool:
    """Whether the socket's file is at ``path``; without a known inode any socket there counts."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(status.st_mode) and bound.inode in (None, status.st_ino & 0xFFFFFFFF)


def _renamed(bound: BoundSocket, folder: bytes) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number >= _LOOKED_THROUGH:
                    return
                if entry.inode() & 0xFFFFFFFF == bound.inode and _is(bound, entry.path):
                    yield Path(os.fsdecode(entry.path))
    except OSError:
        return


def _working_folders() -> list[bytes]:
    """The folder in which each process is that this one may ask."""
    folders: dict[bytes, None] = {}
    for name in os.listdir(b"/proc"):
        if name.isdigit():
            try:
                folders[os.readlink(b"/proc/%s/cwd" % name)] = None
            except OSError:
                continue
    return list(folders)
