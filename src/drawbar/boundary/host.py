"""What the machine has mounted where, and what of it a command could reach at all (BND-10, BND-16)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["MountPoint", "missing_mounts", "mount_points", "other_names", "within_reach"]

_MOUNTS: Final = "/proc/self/mountinfo"
_SPECIAL: Final = re.compile(rb"[ \t\n\\]")
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class MountPoint:
    """One mount: the file system's number (``major:minor``) and kind, what of it shows, and where."""

    device: bytes
    kind: str
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
    mounts = mount_points()
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


def mount_points() -> list[MountPoint]:
    """This process's mounts, in the order in which they were made; none where the kernel doesn't tell."""
    try:
        with open(_MOUNTS, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    fields = (line.split(b" ", 5) for line in lines)
    return [
        MountPoint(
            device=part[2],
            kind=os.fsdecode(part[5].partition(b" - ")[2].partition(b" ")[0]),
            inside=_unescaped(part[3]),
            path=_unescaped(part[4]),
        )
        for part in fields
        if len(part) > 5
    ]


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
