"""Linux file calls that Python lacks: opening beneath a folder, and renames that swap or never replace.

``open_beneath`` keeps one promise on every kernel: what it opens lies below the given folder at the moment
of opening, whatever symlinks are swapped meanwhile (BND-7). It is ``openat2`` with ``RESOLVE_BENEATH`` where
the kernel has it and a walk by folder descriptors where it hasn't. The module uses the standard library
alone, because the write helper runs it without any installed package.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import stat
import struct

__all__ = [
    "RENAME_EXCHANGE",
    "RENAME_NOREPLACE",
    "have_openat2",
    "open_beneath",
    "path_of_fd",
    "rename_at",
    "reopen",
    "walk_beneath",
]

_SYS_OPENAT2 = 437
_SYS_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "ppc64le": 357, "s390x": 347}

_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2

_AGAIN = 64
_MAX_LINKS = 40
_MISSING_CALL = frozenset({errno.ENOSYS, errno.EPERM})
_OPEN_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@functools.cache
def _how(flags: int, mode: int, resolve: int) -> tuple[ctypes.Array[ctypes.c_char], int]:
    packed = struct.pack("QQQ", flags, mode, resolve)
    return ctypes.create_string_buffer(packed, len(packed)), len(packed)


def _openat2(folder_fd: int, path: bytes, flags: int, resolve: int) -> int:
    how, size = _how(flags | os.O_CLOEXEC, 0, resolve)
    number = errno.EAGAIN
    for _ in range(_AGAIN):
        fd = _libc().syscall(_SYS_OPENAT2, folder_fd, path, how, size)
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        # The kernel says EAGAIN when a rename raced with "..": it couldn't tell, so ask again.
        if number != errno.EAGAIN:
            break
    raise OSError(number, os.strerror(number), os.fsdecode(path))


@functools.cache
def have_openat2() -> bool:
    """Whether the kernel answers ``openat2``; a seccomp filter of an older container may say EPERM."""
    folder = os.open("/", _OPEN_FOLDER)
    try:
        os.close(_openat2(folder, b".", os.O_PATH, 0))
    except OSError as error:
        if error.errno in _MISSING_CALL:
            return False
        raise
    finally:
        os.close(folder)
    return True


def open_beneath(folder_fd: int, path: bytes, flags: int, *, links: bool = True) -> int:
    """Open ``path`` below ``folder_fd``; never anything outside it.

    Args:
        folder_fd: a folder's descriptor (``O_PATH`` will do).
        path: relative, as bytes; ``b"."`` is the folder itself.
        flags: as for :func:`os.open`, without ``O_CREAT``; ``O_CLOEXEC`` is always added.
        links: whether symlinks that stay below the folder are followed; without, any symlink is ``ELOOP``.

    Raises:
        OSError: ``EXDEV`` when the path leads outside (absolute links and links that climb out and back in
            count as leading outside), ``ELOOP`` for a refused or endless link, else what ``open`` says.
    """
    if not have_openat2():
        return walk_beneath(folder_fd, path, flags, links=links)
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | (0 if links else _RESOLVE_NO_SYMLINKS)
    return _openat2(folder_fd, path, flags, resolve)


def walk_beneath(folder_fd: int, path: bytes, flags: int, *, links: bool = True) -> int:
    """As :func:`open_beneath`, one component at a time, each opened from the descriptor before it."""
    if path.startswith(b"/"):
        raise _os_error(errno.EXDEV, path)
    if not path:
        raise _os_error(errno.ENOENT, path)
    stack = [os.open(b".", _OPEN_FOLDER, dir_fd=folder_fd)]
    todo = _parts(path)
    must_be_folder = path.endswith((b"/", b"/."))
    followed = 0
    try:
        while todo:
            name = todo.pop()
            if name == b"..":
                if len(stack) == 1:
                    raise _os_error(errno.EXDEV, path)
                os.close(stack.pop())
                continue
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=stack[-1])
            mode = os.fstat(fd).st_mode
            if stat.S_ISLNK(mode):
                # "link/" and "link/." name what the link leads to, whatever the flags say about links.
                is_leaf = not todo and not must_be_folder and flags & os.O_NOFOLLOW
                if is_leaf and flags & os.O_PATH:
                    return fd
                try:
                    target = os.readlink(b"", dir_fd=fd)
                finally:
                    os.close(fd)
                followed += 1
                if not links or followed > _MAX_LINKS or is_leaf:
                    raise _os_error(errno.ELOOP, path)
                if target.startswith(b"/"):
                    raise _os_error(errno.EXDEV, path)
                must_be_folder = must_be_folder or (not todo and target.endswith(b"/"))
                todo.extend(_parts(target))
            elif stat.S_ISDIR(mode):
                stack.append(fd)
            elif todo or must_be_folder:
                os.close(fd)
                raise _os_error(errno.ENOTDIR, path)
            else:
                try:
                    return _reopen_leaf(stack[-1], name, fd, flags)
                finally:
                    os.close(fd)
        return os.open(b".", flags | os.O_CLOEXEC, dir_fd=stack[-1])
    finally:
        for fd in stack:
            os.close(fd)


def _reopen_leaf(folder_fd: int, name: bytes, seen_fd: int, flags: int) -> int:
    fd = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    if os.path.sameopenfile(fd, seen_fd):
        return fd
    os.close(fd)
    raise _os_error(errno.EAGAIN, name)


def _parts(path: bytes) -> list[bytes]:
    return [part for part in reversed(path.split(b"/")) if part not in (b"", b".")]


def _os_error(number: int, path: bytes) -> OSError:
    return OSError(number, os.strerror(number), os.fsdecode(path))


def reopen(path_fd: int, flags: int) -> int:
    """Open for real the very file that an ``O_PATH`` descriptor holds: no name is looked up again."""
    return os.open(f"/proc/self/fd/{path_fd}", flags | os.O_CLOEXEC | os.O_NOCTTY)


def path_of_fd(fd: int) -> str:
    """The canonical path under which the kernel knows an open file now.

    Raises:
        OSError: ``ENOENT`` when the file has no name any more, or the name leads to another file.
    """
    path = os.readlink(f"/proc/self/fd/{fd}")
    mine = os.fstat(fd)
    there = os.stat(path, follow_symlinks=False)
    if (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino):
        raise _os_error(errno.ENOENT, os.fsencode(path))
    return path


def rename_at(folder_fd: int, old: bytes, new: bytes, how: int) -> bool:
    """``renameat2`` within one folder; False where the kernel or the file system hasn't got ``how``.

    Args:
        folder_fd: the folder that holds both names.
        old, new: file names, no paths.
        how: :data:`RENAME_NOREPLACE` or :data:`RENAME_EXCHANGE`.

    Raises:
        OSError: ``EEXIST`` (no-replace), ``ENOENT`` (exchange), or what the rename met.
    """
    number = _SYS_RENAMEAT2.get(platform.machine())
    if number is None:
        return False
    if _libc().syscall(number, folder_fd, old, folder_fd, new, how) == 0:
        return True
    failed = ctypes.get_errno()
    if failed in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(failed, os.strerror(failed), os.fsdecode(new))
