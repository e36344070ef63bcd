"""What the machine shows that no command may use: host sockets, other names of hidden folders (BND-10, BND-16)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["host_sockets", "missing_mounts", "other_names", "within_reach"]

_SOCKETS: Final = "/proc/net/unix"
_MOUNTS: Final = "/proc/self/mountinfo"
_MASKED_ANYWAY: Final = (b"/run/", b"/var/run/", b"/tmp/", b"/var/tmp/", b"/dev/")
_SPECIAL: Final = re.compile(rb"[ \t\n\\]")
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")


def host_sockets(root: Path) -> tuple[Path, ...]:
    """Sockets of this machine's programs that a command could connect to by their path.

    A private network namespace closes abstract sockets only. Those in folders that are always private are left
    out, unless ``root`` lies there, and so is one that this user may not connect to. A socket that a confined
    command made is of another namespace and not listed.
    """
    try:
        with open(_SOCKETS, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return ()
    shown = bytes(root)
    private = tuple(folder for folder in _MASKED_ANYWAY if not shown.startswith(folder))
    named = {path for line in lines[1:] if (path := line[_path_column(line) :]).startswith(b"/")}
    found: set[Path] = set()
    for path in named:
        if path.startswith(private):
            continue
        real = os.path.realpath(path)
        try:
            if stat.S_ISSOCK(os.lstat(real).st_mode) and os.access(real, os.W_OK) and within_reach(os.fsdecode(real)):
                found.add(Path(os.fsdecode(real)))
        except OSError:
            continue
    return tuple(sorted(found))


def _path_column(line: bytes) -> int:
    """Where the path begins: after seven columns and one space; a path may hold spaces itself."""
    position = 0
    for _ in range(7):
        while position < len(line) and line[position] == 0x20:
            position += 1
        end = line.find(b" ", position)
        if end < 0:
            return len(line)
        position = end
    return position + 1


@dataclass(frozen=True, slots=True)
class _MountPoint:
    device: bytes
    inside: str
    path: str


def within_reach(path: str) -> bool:
    """Whether the folders above ``path`` let this user through without root's override, which no command has.

    What no command can reach needs no mask, and can't be given one either: the sandbox is set up without it.
    """
    if os.geteuid() != 0:
        return True
    groups = {os.getegid(), *os.getgroups()}
    for folder in Path(path).parents:
        try:
            found = os.stat(folder)
        except OSError:
            return False  # gone meanwhile
        bit = 0o100 if found.st_uid == 0 else 0o010 if found.st_gid in groups else 0o001
        if not found.st_mode & bit:
            return False
    return True


def other_names(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Further paths under which folders show, because a file system or a part of it is mounted twice."""
    mounts = _mount_points()
    found: dict[Path, None] = {}
    for path in paths:
        text = str(path)
        own = next((mount for mount in reversed(mounts) if _within(text, mount.path)), None)
        if own is None:
            continue
        inside = _join(own.inside, text[len(own.path) :])
        for mount in mounts:
            if mount.device != own.device or not _within(inside, mount.inside):
                continue
            other = Path(_join(mount.path, inside[len(mount.inside.rstrip("/")) :]))
            if other != path and _same(path, other):
                found[other] = None
    return tuple(found)


def missing_mounts(pid: int, paths: Iterable[Path]) -> Path | None:
    """The first of ``paths`` at which the process sees no mount, None when each is there.

    Raises:
        OSError: when the process is gone or not ours.
    """
    with open(f"/proc/{pid}/mountinfo", "rb") as file:
        present = {line.split(b" ", 5)[4] for line in file.read().splitlines()}
    return next((path for path in paths if _escaped(path) not in present), None)


def _escaped(path: Path) -> bytes:
    """As the kernel writes a mount point: white space and backslashes in octal."""
    return _SPECIAL.sub(lambda match: b"\\%03o" % match[0][0], bytes(path))


def _mount_points() -> list[_MountPoint]:
    try:
        with open(_MOUNTS, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    fields = (line.split(b" ", 5) for line in lines)
    return [_MountPoint(part[2], _unescaped(part[3]), _unescaped(part[4])) for part in fields if len(part) > 5]


def _unescaped(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8)]), field))


def _within(path: str, folder: str) -> bool:
    return folder == "/" or path == folder or path.startswith(folder + "/")


def _join(folder: str, rest: str) -> str:
    return "/" + f"{folder}/{rest}".strip("/").replace("//", "/")


def _same(path: Path, other: Path) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.lstat(other))
    except OSError:
        return False
