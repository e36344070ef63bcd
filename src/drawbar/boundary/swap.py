"""Putting a file in place atomically, and checking at that very moment what was there (BND-7, QLT-10).

The new bytes are written beside the old file and exchanged with it in one step; then what came out of the
exchange is compared with what was to be replaced, and put back if it is anything else. Names are always looked
up in an open folder and never through a symlink. The module uses the standard library alone, because the write
helper runs it without any installed package.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal

from drawbar.boundary.openat2 import RENAME_EXCHANGE, RENAME_NOREPLACE, open_beneath, rename_at, reopen
from drawbar.boundary.temporaries import UNFINISHED_MODE, temporary_name

__all__ = ["Conflict", "Placed", "digest_of", "folder_for", "place", "still_there"]

_CHUNK = 1 << 20
_LOCK_WAIT_S = 2.0
_LOCK_POLL_S = 0.002
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

ConflictKind = Literal["changed", "exists", "gone", "kind", "moved"]


class Conflict(Exception):
    """What is on disk isn't what the write was meant for; nothing of it was replaced.

    ``kind`` is ``changed`` (other bytes), ``exists`` (a new file is there already), ``gone`` (the file vanished),
    ``kind`` (a link, folder or device has its name) or ``moved`` (its folder isn't where it was). ``kept`` names a
    file in the same folder that holds somebody else's bytes which couldn't be put back.
    """

    def __init__(self, kind: ConflictKind, kept: str | None = None) -> None:
        super().__init__(kind)
        self.kind: ConflictKind = kind
        self.kept = kept


@dataclass(frozen=True, slots=True)
class Placed:
    """SHA-256 of the bytes before (None for a new file) and after."""

    before: str | None
    after: str

    @property
    def changed(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class _Old:
    fd: int
    found: os.stat_result
    digest: str


def digest_of(fd: int) -> str:
    """SHA-256 of an open file, from its start to its end, without moving its position."""
    digest = hashlib.sha256()
    at = 0
    while piece := os.pread(fd, _CHUNK, at):
        digest.update(piece)
        at += len(piece)
    return digest.hexdigest()


def still_there(root_fd: int, relative: bytes, folder_fd: int) -> None:
    """Check that an open folder is still the one at ``relative`` below the root, reached without a symlink.

    Raises:
        Conflict: ``moved``, when it isn't.
    """
    try:
        fd = open_beneath(root_fd, relative, os.O_PATH | os.O_DIRECTORY, links=False)
    except OSError as error:
        raise Conflict("moved") from error
    try:
        if not os.path.sameopenfile(fd, folder_fd):
            raise Conflict("moved")
    finally:
        os.close(fd)


@contextlib.contextmanager
def folder_for(parent_fd: int, missing: Sequence[bytes]) -> Generator[int]:
    """The folder below ``parent_fd`` that the ``missing`` names lead to, made one by one.

    Folders that were made are taken away again when the body fails and they are still empty.

    Raises:
        Conflict: ``moved``, when something else than a folder has one of the names.
    """
    opened: list[int] = []
    made: list[tuple[int, bytes]] = []
    fd = parent_fd
    try:
        for name in missing:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o777, dir_fd=fd)
                made.append((fd, name))
            try:
                below = os.open(name, _FOLDER, dir_fd=fd)
            except (NotADirectoryError, FileNotFoundError) as error:
                raise Conflict("moved") from error
            opened.append(below)
            fd = below
        yield fd
    except BaseException:
        for folder_fd, name in reversed(made):
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=folder_fd)
        raise
    finally:
        for below in opened:
            os.close(below)


def place(
    folder_fd: int,
    name: bytes,
    data: bytes,
    *,
    expected: str | None,
    create: bool = True,
    overwrite: bool = False,
    sync: bool = True,
) -> Placed:
    """Put ``data`` at ``name``, if what is there now is what the caller expects.

    Args:
        folder_fd: the folder, opened and checked.
        name: a file name, no path.
        data: all the new bytes.
        expected: SHA-256 of the version that the write is based on; None when it is based on none.
        create: whether the file may be new.
        overwrite: replace whatever plain file is there, ``expected`` or not.
        sync: bring the bytes to the disk before they take the name, so that a power cut leaves old or new.

    An existing file keeps its permission bits, and its owner, group, user attributes and access list where the
    system lets them be set. A hard link is broken: other names keep the old bytes. Equal bytes write nothing.

    Raises:
        Conflict: when something else is there; the file system is as it was.
        OSError: what the disk refused; the file system is as it was.
    """
    after = hashlib.sha256(data).hexdigest()
    with _old(folder_fd, name) as old:
        if old is None:
            if (expected is not None and not overwrite) or not create:
                raise Conflict("gone")
        elif not overwrite and old.digest != expected:
            raise Conflict("exists" if expected is None else "changed")
        elif old.digest == after:
            return Placed(after, after)
        with _temporary(folder_fd, data, after, old, sync=sync) as temporary, _one_at_a_time(folder_fd):
            if old is None:
                _add(folder_fd, temporary, name)
            else:
                _exchange(folder_fd, temporary, name, old)
        return Placed(None if old is None else old.digest, after)


@contextlib.contextmanager
def _old(folder_fd: int, name: bytes) -> Generator[_Old | None]:
    try:
        look = os.open(name, _LOOK, dir_fd=folder_fd)
    except FileNotFoundError:
        yield None
        return
    try:
        found = os.fstat(look)
        if not stat.S_ISREG(found.st_mode):
            raise Conflict("kind")
        fd = reopen(look, os.O_RDONLY | os.O_NONBLOCK)
    finally:
        os.close(look)
    try:
        yield _Old(fd, found, digest_of(fd))
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class _Temporary:
    name: bytes
    identity: tuple[int, int]


@contextlib.contextmanager
def _temporary(folder_fd: int, data: bytes, after: str, old: _Old | None, *, sync: bool) -> Generator[_Temporary]:
    """The new bytes, complete and synced, under a name of their own; that name is gone afterwards."""
    name = temporary_name(None if old is None else old.digest, after)
    fd = os.open(name, _NEW, 0o666, dir_fd=folder_fd)
    try:
        found = os.fstat(fd)
        mine = _Temporary(name, (found.st_dev, found.st_ino))
        try:
            # The lock tells a sweeper that the owner lives, the odd mode that the bytes aren't complete.
            with contextlib.suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.fchmod(fd, UNFINISHED_MODE)
            _write_all(fd, data)
            mode = stat.S_IMODE(found.st_mode)
            if old is not None:
                _take_over(fd, old)
                mode = stat.S_IMODE(old.found.st_mode) & 0o777
            os.fchmod(fd, mode)
            if sync:
                os.fsync(fd)
            yield mine
        finally:
            if _identity(folder_fd, name) == mine.identity:
                os.unlink(name, dir_fd=folder_fd)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _take_over(fd: int, old: _Old) -> None:
    mine = os.fstat(fd)
    if (mine.st_uid, mine.st_gid) != (old.found.st_uid, old.found.st_gid):
        try:
            os.fchown(fd, old.found.st_uid, old.found.st_gid)
        except OSError:
            with contextlib.suppress(OSError):
                os.fchown(fd, -1, old.found.st_gid)
    with contextlib.suppress(OSError):
        for attribute in os.listxattr(old.fd):
            if attribute.startswith("user.") or attribute == "system.posix_acl_access":
                with contextlib.suppress(OSError):
                    os.setxattr(fd, attribute, os.getxattr(old.fd, attribute))


@contextlib.contextmanager
def _one_at_a_time(folder_fd: int) -> Generator[None]:
    """Keep native writers of one folder apart, so that none sees another's exchange before it was checked.

    Others don't know the lock, and a program in the sandbox may hold it for ever: after a while it is done
    without, and the check of what came out still holds.
    """
    lock = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        until = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= until:
                    break
                time.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(lock)


def _add(folder_fd: int, temporary: _Temporary, name: bytes) -> None:
    try:
        if rename_at(folder_fd, temporary.name, name, RENAME_NOREPLACE):
            return
        # A file system without that flag: a hard link never replaces either, and the first name is taken away.
        os.link(temporary.name, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd, follow_symlinks=False)
    except FileExistsError as error:
        raise Conflict("exists") from error


def _exchange(folder_fd: int, temporary: _Temporary, name: bytes, old: _Old) -> None:
    # Looked at once more first: undoing an exchange is possible, not having made it is better.
    if not _is_what_was_judged(folder_fd, name, old):
        raise Conflict("gone" if _identity(folder_fd, name) is None else "changed")
    try:
        exchanged = rename_at(folder_fd, temporary.name, name, RENAME_EXCHANGE)
    except FileNotFoundError as error:
        raise Conflict("gone") from error
    if not exchanged:
        # A file system without that flag has no more than the look just taken.
        os.rename(temporary.name, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
        return
    if _is_what_was_judged(folder_fd, temporary.name, old):
        os.unlink(temporary.name, dir_fd=folder_fd)
        return
    _put_back(folder_fd, temporary, name)


def _is_what_was_judged(folder_fd: int, name: bytes, old: _Old) -> bool:
    try:
        look = os.open(name, _LOOK, dir_fd=folder_fd)
    except FileNotFoundError:
        return False
    try:
        found = os.fstat(look)
        if not stat.S_ISREG(found.st_mode):
            return False
        if os.path.samestat(found, old.found):
            return digest_of(old.fd) == old.digest
        fd = reopen(look, os.O_RDONLY | os.O_NONBLOCK)
    finally:
        os.close(look)
    try:
        return digest_of(fd) == old.digest
    finally:
        os.close(fd)


def _put_back(folder_fd: int, temporary: _Temporary, name: bytes) -> None:
    """Undo an exchange that took out somebody else's change, without losing any of their versions."""
    kept = os.fsdecode(temporary.name)
    try:
        rename_at(folder_fd, temporary.name, name, RENAME_EXCHANGE)
        if _identity(folder_fd, temporary.name) == temporary.identity:
            raise Conflict("changed")
        # They wrote once more in between: the newest belongs at the name, the one before is kept beside it.
        rename_at(folder_fd, temporary.name, name, RENAME_EXCHANGE)
    except FileNotFoundError:
        pass
    raise Conflict("changed", kept)


def _identity(folder_fd: int, name: bytes) -> tuple[int, int] | None:
    try:
        found = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
