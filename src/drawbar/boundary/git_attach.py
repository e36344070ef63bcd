"""Puts a session's own copies over a repository's settings inside one sandbox (BND-11).

Git replaces a configuration file by renaming a new one over it, which no mount of a file allows; but it first
follows a link. So each file shows as a link to the copy: the link itself is mounted, which only the kernel's own
mount calls can do. Run as ``python -I -S git_attach.py`` by the harness, never inside the sandbox: for each line
``{"pid", "pairs"}`` on standard input a child enters the namespaces of that process, mounts and ends, and the answer
is a line, ``ok`` or ``no``. It ends with its input. Standard library alone.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import sys
from typing import Any, NoReturn

_NS_GET_USERNS = 0xB701
_CLONE_NEWUSER, _CLONE_NEWNS = 0x10000000, 0x00020000
_OPEN_TREE, _MOVE_MOUNT = 428, 429
_CLONE_AT_FD = 0x1000 | 0x1 | os.O_CLOEXEC
_MOVE_FROM_FD = 0x4
_AT_FDCWD = -100


def main() -> None:
    """Answer each request in turn."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _carry_out(line)
        _, status = os.waitpid(child, 0)
        sys.stdout.write("ok\n" if status == 0 else "no\n")
        sys.stdout.flush()


def _carry_out(line: str) -> NoReturn:
    """Mount each ``[source, place]``, the first that can't be is the end; only a child can enter a namespace."""
    failed = 1
    try:
        request: dict[str, Any] = json.loads(line)
        _enter(request["pid"])
        for source, place in request["pairs"]:
            _mount(source, place)
        failed = 0
    finally:
        os._exit(failed)


def _enter(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    # The namespace that owns the mounts: the sandbox's own, or one above it.
    owner = fcntl.ioctl(mounts, _NS_GET_USERNS)
    for namespace, kind in ((owner, _CLONE_NEWUSER), (mounts, _CLONE_NEWNS)):
        _checked(libc.setns(namespace, kind))
    os.fchdir(root)
    os.chroot(".")
    os.chdir("/")


def _mount(source: str, place: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(source, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    tree = _checked(libc.syscall(_OPEN_TREE, fd, b"", ctypes.c_uint(_CLONE_AT_FD)))
    at = ctypes.c_uint(_MOVE_FROM_FD)
    _checked(libc.syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(place), at))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


if __name__ == "__main__":
    main()
