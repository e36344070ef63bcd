"""Native file work on the descriptors that the gate opened: whole reads and checked, atomic writes (BND-7, QLT-10).

Nothing here looks a path up again but to make sure that it still leads to what was judged.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from typing import Final, Literal

from drawbar.boundary.git_native import git_refusal
from drawbar.boundary.openat2 import open_beneath, reopen
from drawbar.boundary.paths import RootGone, open_root
from drawbar.boundary.root_mounts import holding, mounted_from_elsewhere
from drawbar.boundary.shown import shown
from drawbar.boundary.swap import Conflict, folder_for, place, still_there
from drawbar.contracts.boundary import PinnedRoot, Target
from drawbar.contracts.errors import DrawbarError, StorageFailed

__all__ = [
    "MAX_HASHED_BYTES",
    "FileBytes",
    "FileUnreadable",
    "StaleFile",
    "WriteOutcome",
    "WriteRefused",
    "parent_of",
    "read_target",
    "refusal_of",
    "refuse_untouchable",
    "write_target",
]

MAX_HASHED_BYTES: Final = 4 * 1024**3
"""A larger file isn't read natively: its digest would take longer than a tool call may."""
CURRENT_BYTES: Final = 256 * 1024

_CHUNK: Final = 1 << 20
_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.ENODEV})


class FileUnreadable(DrawbarError):
    """The file isn't there, is no plain file, or is too large to be read natively."""

    code = "file_unreadable"


class StaleFile(DrawbarError):
    """The file on disk isn't the version that the write was based on; nothing was changed (QLT-10).

    Attributes:
        current: what is there now (at most 256 KiB of it), None when no plain file is.
        size: its whole size in bytes.
        sha256: of all of it, so that the next write can be based on it.
        kept: a file beside it with bytes of a third party that couldn't be put back, or None.
    """

    code = "stale_file"

    def __init__(self, message: str, *, current: bytes | None, size: int, sha256: str | None, kept: str | None) -> None:
        super().__init__(message)
        self.current = current
        self.size = size
        self.sha256 = sha256
        self.kept = kept


class WriteRefused(DrawbarError):
    """The write would not land where it was judged to, or the system denies it; nothing was changed."""

    code = "write_refused"


@dataclass(frozen=True, slots=True)
class FileBytes:
    """The beginning of a file, and the digest and size of all of it.

    ``truncated`` says that ``data`` isn't the whole.
    """

    data: bytes
    sha256: str
    size: int

    @property
    def truncated(self) -> bool:
        return len(self.data) < self.size


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What a write did: SHA-256 before (None for a new file) and after; ``unchanged`` when the bytes were the same."""

    before: str | None
    after: str
    change: Literal["created", "modified", "unchanged"]


def read_target(target: Target, *, limit: int) -> FileBytes:
    """Read a file that the gate opened.

    Args:
        target: of access ``read`` or ``write``, with an open file.
        limit: bytes of the beginning to return; the digest is over the whole file.

    Raises:
        FileUnreadable: no file there, a folder, or more than :data:`MAX_HASHED_BYTES`.
    """
    name = shown(target.use.path, one_line=True)
    if target.fd is None:
        raise FileUnreadable(f"{name} doesn't exist", path=target.use.path)
    found = os.fstat(target.fd)
    if stat.S_ISDIR(found.st_mode):
        raise FileUnreadable(f"{name} is a folder", path=target.use.path)
    if found.st_size > MAX_HASHED_BYTES:
        raise FileUnreadable(f"{name} is larger than {MAX_HASHED_BYTES} bytes; look into it with bash", path=name)
    return _read(target.fd, limit)


def _read(fd: int, limit: int) -> FileBytes:
    digest = hashlib.sha256()
    head: list[bytes] = []
    at = 0
    while piece := os.pread(fd, _CHUNK, at):
        digest.update(piece)
        if at < limit:
            head.append(piece[: limit - at])
        at += len(piece)
        if at > MAX_HASHED_BYTES:
            raise FileUnreadable(f"the file grew beyond {MAX_HASHED_BYTES} bytes while it was read")
    return FileBytes(b"".join(head), digest.hexdigest(), at)


def write_target(
    target: Target,
    data: bytes,
    *,
    root: PinnedRoot,
    expected_sha256: str | None,
    create: bool = True,
    overwrite: bool = False,
    sync: bool = True,
) -> WriteOutcome:
    """Write a whole file where the gate judged that it goes.

    At the moment of writing the root must be the pinned one, the file's folder must still be where it was, and
    what stands at the name must be the version that the write is based on; the exchange is atomic, and undone if
    it took out anything else. Missing folders are made one by one.

    Args:
        target: of access ``write``, as the gate opened it.
        data: all the new bytes.
        root: the pinned root.
        expected_sha256: of the version that the model last read; None when it read none, so that an existing file
            is a conflict.
        create: whether the file may be new.
        overwrite: replace a plain file that is there whatever its version.
        sync: bring the bytes to the disk before they take the name.

    Raises:
        StaleFile: with what is there now.
        WriteRefused: when the place isn't the one that was judged any more, or the system denies it.
        StorageFailed: when the disk refused (full, quota, read-only).
    """
    if target.parent_fd is None or target.relative is None:
        raise WriteRefused("this path wasn't opened for writing", path=target.use.path)
    refuse_untouchable(target, root)
    try:
        root_fd = open_root(root)
        try:
            still_there(root_fd, parent_of(target), target.parent_fd)
        finally:
            os.close(root_fd)
        name = os.fsencode(target.name)
        with folder_for(target.parent_fd, [os.fsencode(part) for part in target.missing]) as folder_fd:
            placed = place(
                folder_fd, name, data, expected=expected_sha256, create=create, overwrite=overwrite, sync=sync
            )
    except (Conflict, OSError, RootGone) as error:
        raise refusal_of(error, target, root) from error
    if not placed.changed:
        return WriteOutcome(placed.before, placed.after, "unchanged")
    return WriteOutcome(placed.before, placed.after, "created" if placed.before is None else "modified")


def refuse_untouchable(target: Target, root: PinnedRoot) -> None:
    """Refuse what a replacement would change but bytes, and what git would run or take for a repository.

    Raises:
        WriteRefused: the file is another user's, write-protected, in a folder that is mounted from outside, or git's
            own in all but name (BND-7, QLT-10).
    """
    name = shown(target.use.path, one_line=True)
    if target.fd is not None:
        found = os.fstat(target.fd)
        if found.st_uid != os.geteuid() and os.geteuid() != 0:
            raise WriteRefused(f"{name} belongs to another user: replacing it would make it yours", path=name)
        if not found.st_mode & 0o222:
            raise WriteRefused(f"{name} is write-protected (mode {found.st_mode & 0o777:04o})", path=name)
    mount = holding(mounted_from_elsewhere(root.path), target.path)
    if mount is not None:
        why = f"lies in {mount.place}, where {mount.source} outside the workspace is mounted"
        raise WriteRefused(f"{name} {why}", path=target.use.path)
    why_not = git_refusal(root, target.path)
    if why_not is not None:
        raise WriteRefused(f"{name} {why_not}", path=target.use.path)


def parent_of(target: Target) -> bytes:
    """The path of ``target.parent_fd`` relative to the root, as it was judged."""
    assert target.relative is not None
    parts = target.relative.split("/")
    return os.fsencode("/".join(parts[: len(parts) - len(target.missing) - 1]) or ".")


def refusal_of(error: Conflict | OSError | RootGone, target: Target, root: PinnedRoot) -> DrawbarError:
    """What a failed write is called, with what is on disk now where that is the reason."""
    name = shown(target.use.path, one_line=True)
    if isinstance(error, RootGone):
        return WriteRefused(f"{error}; nothing was written", path=target.use.path)
    if isinstance(error, OSError):
        if error.errno in _DISK:
            return StorageFailed(f"{name} could not be written: {error.strerror}", path=target.use.path)
        return WriteRefused(f"{name} could not be written: {error.strerror}", path=target.use.path)
    if error.kind == "moved":
        return WriteRefused(f"the folder of {name} isn't where it was; nothing was written", path=target.use.path)
    return _stale(error, name, target, root)


_STALE: Final = {
    "changed": "has changed since it was read",
    "exists": "already exists and has not been read",
    "gone": "is not there any more",
    "kind": "is not a plain file any more",
}


def _stale(error: Conflict, name: str, target: Target, root: PinnedRoot) -> StaleFile:
    now = _now(target, root)
    message = f"{name} {_STALE[error.kind]}; nothing was written. Base the change on what is there now"
    if error.kept is not None:
        message += f". Bytes of another writer were kept in {error.kept}"
    if now is None:
        return StaleFile(message, current=None, size=0, sha256=None, kept=error.kept)
    return StaleFile(message, current=now.data, size=now.size, sha256=now.sha256, kept=error.kept)


def _now(target: Target, root: PinnedRoot) -> FileBytes | None:
    assert target.relative is not None
    try:
        root_fd = open_root(root)
    except RootGone:
        return None
    try:
        look = open_beneath(root_fd, os.fsencode(target.relative), os.O_PATH, links=False)
    except OSError:
        return None
    finally:
        os.close(root_fd)
    try:
        if not stat.S_ISREG(os.fstat(look).st_mode):
            return None
        fd = reopen(look, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    finally:
        os.close(look)
    try:
        return _read(fd, CURRENT_BYTES)
    finally:
        os.close(fd)
