"""Path confinement: from a path argument to opened descriptors, or to a refusal that says why (BND-3, BND-7).

What is judged is what is opened: a path's canonical form is taken from the descriptor that the tool will work
on, so a link swapped after the judgement changes nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from drawbar.boundary.openat2 import open_beneath, path_of_fd, reopen
from drawbar.boundary.reach import Reach, Unreachable, below
from drawbar.boundary.shown import shown
from drawbar.boundary.spellings import read_spellings, readings
from drawbar.contracts.boundary import PathUse, PinnedRoot, Target

__all__ = ["PathRefused", "Resolver", "RootGone", "open_root"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
_MAX_HOPS: Final = 8
_MAX_NEW_FOLDERS: Final = 64
_SHOWN_CHARS: Final = 300
_MISSING: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
_SPECIAL: Final[tuple[tuple[Callable[[int], bool], str], ...]] = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


class PathRefused(Exception):
    """A path that a call may not use: ``code`` of the gate's table, ``rule``, and the message to the model."""

    def __init__(self, code: str, rule: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.rule = rule
        self.message = message


class RootGone(Exception):
    """The pinned root isn't there any more, or another folder has taken its place (QLT-11)."""


def open_root(root: PinnedRoot) -> int:
    """A descriptor of the pinned root itself.

    Raises:
        RootGone: when the folder at its path is missing or is not the one that was pinned.
    """
    try:
        fd = os.open(root.path, _FOLDER | os.O_CLOEXEC)
    except OSError as error:
        raise RootGone(f"the workspace root {root.path} can't be opened: {error.strerror}") from error
    found = os.fstat(fd)
    if (found.st_dev, found.st_ino) != (root.device, root.inode):
        os.close(fd)
        raise RootGone(f"another folder stands where the workspace root {root.path} was pinned")
    return fd


class Resolver:
    """Turns the path arguments of one call after another into targets.

    Args:
        root: the pinned root; relative paths start from its working directory.
        reach: what is closed.
        home: what ``~`` stands for.
    """

    def __init__(self, root: PinnedRoot, reach: Reach, home: str) -> None:
        self._root = str(root.path)
        self._base = str(root.working_directory)
        self._reach = reach
        self._home = home

    def resolve(self, root_fd: int, use: PathUse) -> Target:
        """Resolve and open one path.

        Args:
            root_fd: of the pinned root, verified for this call.
            use: the argument and what it is used for.

        Returns:
            a target whose descriptors the caller closes; ``relative`` is None for a read outside the root,
            which is left to the approval mode (BND-6).

        Raises:
            PathRefused: when no approval could allow it.
        """
        try:
            path = self._chosen(use)
        except ValueError as error:
            raise PathRefused("invalid_path", "path:invalid", f"`{use.argument}` {error}; send a file path") from error
        try:
            if use.access == "write":
                return self._writable(root_fd, use, path, path, 0)
            return self._readable(root_fd, use, path)
        except Unreachable as error:
            message = f"{_name(use)} {error.message}"
            raise PathRefused("unreachable_path", error.rule, message) from error
        except OSError as error:
            raise _from_os(use, error) from error

    def _chosen(self, use: PathUse) -> str:
        found = readings(use.path, base=self._base, home=self._home)
        if len(found) == 1:
            return found[0]
        # A hint only: whichever is taken is opened and checked like any other.
        there = [path for path in found if os.path.lexists(path)]
        there += [path for path in found if os.path.isdir(os.path.dirname(path))]
        return (there or found)[0]

    # Reading and listing

    def _readable(self, root_fd: int, use: PathUse, path: str) -> Target:
        opened = self._open_to_look(root_fd, path)
        if opened is None and use.access == "read":
            for spelling in self._other_spellings(path):
                opened = self._open_to_look(root_fd, spelling)
                if opened is not None:
                    break
        if opened is None:
            # Where it would be: its folder resolved as far as it exists.
            canonical = os.path.realpath(path)
            self._check_read(path, canonical)
            return Target(use=use, path=Path(canonical), relative=self._relative(canonical))
        fd, canonical = opened
        try:
            self._check_read(path, canonical)
            self._reach.check_file(canonical, os.fstat(fd))
            real = _open_contents(use, fd)
        finally:
            os.close(fd)
        return Target(use=use, path=Path(canonical), relative=self._relative(canonical), fd=real)

    def _check_read(self, path: str, canonical: str) -> None:
        self._reach.check_read(canonical)
        if path != canonical:
            self._reach.check_read(path)

    def _other_spellings(self, path: str) -> tuple[str, ...]:
        if not below(path, self._root):
            return read_spellings(path)
        # The root's own spelling is known to be right.
        start = len(self._root) + 1
        return tuple(path[:start] + rest for rest in read_spellings(path[start:]))

    def _open_to_look(self, root_fd: int, path: str) -> tuple[int, str] | None:
        """An ``O_PATH`` descriptor and its canonical path; None when nothing is there."""
        for _ in range(_MAX_HOPS):
            relative = self._relative(path)
            try:
                if relative is None:
                    return self._open_outside(path)
                return self._open_inside(root_fd, path, relative, os.O_PATH)
            except OSError as error:
                if error.errno in _MISSING:
                    return None
                # A link leads out, or out and back in; what it names now decides where to look again, and the
                # second opening follows no link at all.
                if error.errno not in (errno.EXDEV, errno.ELOOP):
                    raise
                resolved = os.path.realpath(path)
                if resolved == path:
                    raise
                path = resolved
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)

    def _open_inside(self, root_fd: int, path: str, relative: str, flags: int) -> tuple[int, str]:
        name = os.fsencode(relative)
        try:
            return open_beneath(root_fd, name, flags, links=False), path
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        fd = open_beneath(root_fd, name, flags)
        try:
            canonical = path_of_fd(fd)
            if not below(canonical, self._root):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
        except OSError:
            os.close(fd)
            raise
        return fd, canonical

    def _open_outside(self, path: str) -> tuple[int, str]:
        # Not even a look at what is closed: opening a device or a hidden socket may already do something.
        self._reach.check_read(path)
        slash = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return open_beneath(slash, os.fsencode(path[1:] or "."), os.O_PATH, links=False), path
        finally:
            os.close(slash)

    # Writing

    def _writable(self, root_fd: int, use: PathUse, given: str, path: str, hops: int) -> Target:
        if path == self._root:
            raise PathRefused("not_a_file", "path:kind", f"{_name(use)} is the workspace root, not a file")
        folder, name = os.path.split(path)
        parent_fd, canonical_folder, missing = self._open_parent(root_fd, use, folder)
        try:
            canonical = "/".join((canonical_folder.rstrip("/"), *missing, name))
            self._check_write(given, canonical)
            found = None if missing else _lstat(name, parent_fd)
            if found is not None and stat.S_ISLNK(found.st_mode):
                linked = self._follow_for_write(use, canonical)
                if hops >= _MAX_HOPS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), canonical)
                target = self._writable(root_fd, use, given, linked, hops + 1)
                os.close(parent_fd)
                return target
            fd = None if found is None else self._open_old(use, parent_fd, name, canonical)
        except BaseException:
            os.close(parent_fd)
            raise
        relative = self._relative(canonical)
        return Target(
            use=use, path=Path(canonical), relative=relative, fd=fd, parent_fd=parent_fd, name=name, missing=missing
        )

    def _check_write(self, given: str, canonical: str) -> None:
        relative = self._relative(canonical)
        assert relative is not None
        self._reach.check_write(canonical, relative)
        if given != canonical and (spelled := self._relative(given)) is not None:
            self._reach.check_write(given, spelled)

    def _open_parent(self, root_fd: int, use: PathUse, folder: str) -> tuple[int, str, tuple[str, ...]]:
        """The deepest existing folder of a path, its canonical path, and the names still missing below it."""
        missing: list[str] = []
        while len(missing) <= _MAX_NEW_FOLDERS:
            try:
                fd, canonical = self._open_folder(root_fd, use, folder)
            except OSError as error:
                if error.errno != errno.ENOENT or folder == self._root:
                    raise
                folder, name = os.path.split(folder)
                missing.append(name)
                continue
            names = tuple(reversed(missing))
            if names and (found := _lstat(names[0], fd)) is not None:
                os.close(fd)
                if stat.S_ISLNK(found.st_mode):
                    raise _dangling(use)
                raise OSError(errno.EAGAIN, "the folder changed meanwhile", folder)
            return fd, canonical, names
        raise PathRefused("invalid_path", "path:invalid", f"{_name(use)} names too many new folders")

    def _open_folder(self, root_fd: int, use: PathUse, folder: str) -> tuple[int, str]:
        relative = self._relative(folder)
        if relative is None:
            folder = os.path.realpath(folder)
            relative = self._relative(folder)
        for attempt in range(2):
            if relative is None:
                raise _outside(use, folder)
            try:
                try:
                    return self._open_inside(root_fd, folder, relative, _FOLDER)
                except PermissionError:
                    # A folder that may be entered but not listed still takes new files.
                    return self._open_inside(root_fd, folder, relative, os.O_PATH | os.O_DIRECTORY)
            except OSError as error:
                if error.errno != errno.EXDEV or attempt:
                    raise
            folder = os.path.realpath(folder)
            relative = self._relative(folder)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), folder)

    def _follow_for_write(self, use: PathUse, link: str) -> str:
        linked = os.path.realpath(link)
        if self._relative(linked) is None:
            raise _outside(use, linked)
        if linked == link or not os.path.lexists(linked):
            raise _dangling(use)
        return linked

    def _open_old(self, use: PathUse, parent_fd: int, name: str, canonical: str) -> int:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
        try:
            status = os.fstat(fd)
            if stat.S_ISDIR(status.st_mode):
                raise PathRefused("not_a_file", "path:kind", f"{_name(use)} is a folder, not a file")
            self._reach.check_file(canonical, status)
            return _open_contents(use, fd)
        finally:
            os.close(fd)

    def _relative(self, path: str) -> str | None:
        if path == self._root:
            return "."
        start = len(self._root)
        if path.startswith(self._root) and path[start] == "/":
            return path[start + 1 :]
        return None


def _name(use: PathUse) -> str:
    return shown(use.path[:_SHOWN_CHARS], one_line=True)


def _lstat(name: str, folder_fd: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _open_contents(use: PathUse, fd: int) -> int:
    """Open for reading what an ``O_PATH`` descriptor holds, if it is a plain file or a folder."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return reopen(fd, os.O_RDONLY | os.O_NONBLOCK)
    if stat.S_ISDIR(mode):
        return reopen(fd, _FOLDER)
    kind = next((name for test, name in _SPECIAL if test(mode)), "no plain file")
    raise PathRefused("special_file", "path:kind", f"{_name(use)} is {kind}, which file tools don't open")


def _outside(use: PathUse, path: str) -> PathRefused:
    where = f" (it leads to {shown(path)})" if path != use.path else ""
    message = f"{_name(use)} is outside the workspace{where}; write below the workspace root instead"
    return PathRefused("outside_workspace", "path:outside", message)


def _dangling(use: PathUse) -> PathRefused:
    message = f"{_name(use)} goes through a symlink that leads nowhere; name the real file instead"
    return PathRefused("dangling_link", "path:dangling", message)


def _from_os(use: PathUse, error: OSError) -> PathRefused:
    name = _name(use)
    if error.errno == errno.ELOOP:
        return PathRefused("link_loop", "path:loop", f"{name} is a loop of symlinks, or one that keeps changing")
    if error.errno == errno.EXDEV:
        return PathRefused("outside_workspace", "path:outside", f"{name} leads outside the workspace")
    if error.errno == errno.ENOTDIR:
        return PathRefused("not_a_folder", "path:kind", f"{name} goes through a file as if it were a folder")
    if error.errno in (errno.EACCES, errno.EPERM):
        return PathRefused("no_permission", "path:permission", f"{name} can't be opened: permission denied")
    if error.errno == errno.ENAMETOOLONG:
        return PathRefused("invalid_path", "path:invalid", f"{name} is too long for a file name")
    return PathRefused("path_failed", "path:failed", f"{name} can't be opened: {error.strerror}")
