"""The temporary names of native writes, and sweeping those that a crash left behind (BND-7).

A name tells what belongs under it: ``.drawbar-<random>-<old>-<new>.tmp``, with the beginnings of the SHA-256 of
the version to be replaced and of the new one. So a sweeper can tell bytes that are safe elsewhere from a
stranger's change that a crash caught between two steps, which it never deletes. Standard library alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from drawbar.boundary.openat2 import open_beneath

__all__ = ["UNFINISHED_MODE", "Swept", "sweep_temporaries", "temporary_name"]

UNFINISHED_MODE = 0o200
"""The permission bits of a temporary file whose bytes aren't complete; no ordinary file has them."""

_NAME = re.compile(r"\.drawbar-[0-9a-f]{16}-(?P<old>[0-9a-f]{16})-(?P<new>[0-9a-f]{16})\.tmp")
_SHORT = 16
_NO_OLD = "0" * _SHORT
_MIN_AGE_S = 60.0


@dataclass(slots=True)
class Swept:
    """What a sweep did: paths removed, paths kept because nobody else has their bytes, folders not looked into."""

    removed: list[str] = field(default_factory=list[str])
    kept: list[str] = field(default_factory=list[str])
    skipped: int = 0


def temporary_name(old: str | None, new: str) -> bytes:
    """A fresh name for the bytes with digest ``new`` that are to replace those with digest ``old``."""
    before = _NO_OLD if old is None else old[:_SHORT]
    return f".drawbar-{secrets.token_hex(8)}-{before}-{new[:_SHORT]}.tmp".encode()


def sweep_temporaries(
    root: str | os.PathLike[str], *, folders: Iterable[str] | None = None, min_age_s: float = _MIN_AGE_S
) -> Swept:
    """Remove what crashed writes left below ``root``.

    Args:
        root: the workspace root; symlinks are never followed and other file systems not entered.
        folders: paths relative to the root to look into, when they are known (a crashed run's log names them);
            None looks into every folder, git's own excepted.
        min_age_s: files that changed within so many seconds are left, as are those whose writer still lives.
    """
    swept = Swept()
    for folder_fd, path in _open_folders(os.fspath(root), folders, swept):
        for name in os.listdir(folder_fd):
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            with contextlib.suppress(OSError):
                if _sweep_one(folder_fd, name, match, min_age_s):
                    swept.removed.append(os.path.join(path, name))
                elif _is_old(os.stat(name, dir_fd=folder_fd, follow_symlinks=False), min_age_s):
                    swept.kept.append(os.path.join(path, name))
    return swept


def _open_folders(root: str, folders: Iterable[str] | None, swept: Swept) -> Iterator[tuple[int, str]]:
    if folders is None:
        device = os.stat(root).st_dev

        def failed(_error: OSError) -> None:
            swept.skipped += 1

        for path, names, _files, fd in os.fwalk(root, follow_symlinks=False, onerror=failed):
            names[:] = [
                name
                for name in names
                if name != ".git" and os.stat(name, dir_fd=fd, follow_symlinks=False).st_dev == device
            ]
            yield fd, path
        return
    root_fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for relative in dict.fromkeys(folders):
            try:
                fd = open_beneath(root_fd, os.fsencode(relative or "."), os.O_RDONLY | os.O_DIRECTORY, links=False)
            except OSError:
                swept.skipped += 1
                continue
            try:
                yield fd, os.path.normpath(os.path.join(root, relative))
            finally:
                os.close(fd)
    finally:
        os.close(root_fd)


def _is_old(found: os.stat_result, min_age_s: float) -> bool:
    return time.time() - found.st_ctime >= min_age_s


def _sweep_one(folder_fd: int, name: str, match: re.Match[str], min_age_s: float) -> bool:
    found = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode) or not _is_old(found, min_age_s):
        return False
    unfinished = stat.S_IMODE(found.st_mode) == UNFINISHED_MODE
    flags = os.O_WRONLY if unfinished else os.O_RDONLY
    fd = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        safe = unfinished or found.st_size == 0 or _digest(fd)[:_SHORT] in (match["old"], match["new"])
        if safe and os.path.samestat(os.fstat(fd), os.stat(name, dir_fd=folder_fd, follow_symlinks=False)):
            os.unlink(name, dir_fd=folder_fd)
            return True
        return False
    finally:
        os.close(fd)


def _digest(fd: int) -> str:
    with os.fdopen(os.dup(fd), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
