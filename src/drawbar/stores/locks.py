"""Operating-system locks: who may write, told by the kernel and not by a file's content (CON-27, STL-03, STL-04).

A lock lives on an open file description, so it is gone the moment its process is, however that ended. No
lock file is ever left to be cleaned up, and what a file says about its owner never blocks anybody.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
import weakref
from collections.abc import Generator
from pathlib import Path
from typing import Protocol

from drawbar.contracts.errors import SessionBusy, StorageFailed

__all__ = ["file_lock", "folder_lock", "forget_in_children", "lock_within", "locked_elsewhere"]

_BUSY = frozenset({errno.EWOULDBLOCK, errno.EACCES})
_POLL_S = 0.005


class _Forgetful(Protocol):
    def forget_after_fork(self) -> None: ...


_holders: weakref.WeakSet[_Forgetful] | None = None


def lock_within(fd: int, limit_s: float, *, shared: bool = False) -> bool:
    """Take the lock on ``fd``'s file, trying for ``limit_s`` seconds; whether it was got.

    A few tries bridge the instant in which somebody else merely probes (:func:`locked_elsewhere`).

    Raises:
        StorageFailed: the file system has no locks, so one writer can't be guaranteed.
    """
    mode = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    deadline = time.monotonic() + limit_s
    while True:
        try:
            fcntl.flock(fd, mode)
            return True
        except OSError as error:
            if error.errno not in _BUSY:
                raise StorageFailed(
                    f"this file system can't lock files ({error.strerror}); put the data root on one that can",
                    errno=error.errno,
                ) from error
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)


def locked_elsewhere(path: Path) -> bool | None:
    """Whether another open file holds the writer's lock on ``path``; None when there is nothing to tell by."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return not lock_within(fd, 0.0, shared=True)
    except StorageFailed:
        return None
    finally:
        os.close(fd)


@contextlib.contextmanager
def folder_lock(folder: Path, limit_s: float = 10.0) -> Generator[None]:
    """Hold ``folder`` for one read-modify-write; the folder itself is locked, so nothing is left behind (SES-24).

    Raises:
        SessionBusy: somebody held it for longer than ``limit_s`` seconds.
        StorageFailed: it can't be opened or locked.
    """
    with _held(folder, os.O_RDONLY | os.O_DIRECTORY, limit_s):
        yield


@contextlib.contextmanager
def file_lock(path: Path, limit_s: float) -> Generator[None]:
    """As :func:`folder_lock`, with a file for it; what the file says means nothing, and it is never removed."""
    with _held(path, os.O_RDWR | os.O_CREAT, limit_s):
        yield


@contextlib.contextmanager
def _held(path: Path, flags: int, limit_s: float) -> Generator[None]:
    try:
        fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageFailed(f"{path} can't be opened: {error.strerror}", path=str(path), errno=error.errno) from error
    try:
        if not lock_within(fd, limit_s):
            raise SessionBusy(f"another process has held {path} for {limit_s:g} s", path=str(path))
        yield
    finally:
        os.close(fd)


def forget_in_children(holder: _Forgetful) -> None:
    """Have ``holder`` drop its descriptor in every forked child, so that a lock is never inherited (CON-27).

    Close-on-exec covers programs that are started; this covers a bare ``fork``, whose child would otherwise
    keep the lock after its parent died.
    """
    global _holders
    if _holders is None:
        _holders = weakref.WeakSet()
        os.register_at_fork(after_in_child=_forget_all)
    _holders.add(holder)


def _forget_all() -> None:
    for holder in list(_holders or ()):
        holder.forget_after_fork()
