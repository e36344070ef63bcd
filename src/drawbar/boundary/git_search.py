"""Where git would find a repository below a folder, and which files run with another user's rights (BND-11).

Git takes a folder for a repository because of a ``.git`` in it, or because it looks like one itself (a bare one).
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drawbar.boundary.git_folders import is_git_folder
from drawbar.boundary.root_walk import CLOSED, collect, gnu_find

__all__ = ["Found", "search"]

_PRIVILEGED: Final = stat.S_ISUID | stat.S_ISGID


@dataclass(frozen=True, slots=True)
class Found:
    """Paths relative to the root, ``.`` for itself: git folders, ``.git`` files and links, set-user-id files.

    ``closed`` are folders that this user can't look into.
    """

    folders: frozenset[str]
    pointers: frozenset[str]
    privileged: frozenset[str]
    closed: frozenset[str] = frozenset()


async def search(root: Path, limit_s: float) -> Found | None:
    """Look through ``root`` without following a link; None when it took longer than ``limit_s`` seconds."""
    program = gnu_find()
    if program is None:
        records = await asyncio.to_thread(_in_python, root, time.monotonic() + limit_s)
    else:
        output, whole = await collect(_command(program, root), limit_s)
        records = [os.fsdecode(record) for record in output.split(b"\0") if record] if whole else None
    return None if records is None else _sorted(root, records)


def _command(program: str, root: Path) -> list[str]:
    apart = ["-path", f"{_literal(root)}/.git/objects", "-prune", "-o"]
    names = ["(", "-iname", ".git", "-o", "-name", "HEAD", ")", "-printf", "g%P\\0"]
    privileged = ["-type", "f", "-perm", "/6000", "-printf", "s%P\\0"]
    closed = [*CLOSED, "-printf", "c%P\\0"]
    return [program, str(root), *apart, "(", *names, ",", *privileged, ",", *closed, ")"]


def _literal(path: Path) -> str:
    """A path as a pattern that matches it alone."""
    return "".join(f"\\{character}" if character in "*?[]\\" else character for character in str(path))


def _in_python(root: Path, deadline: float) -> list[str] | None:
    records: list[str] = []
    start = len(str(root)) + 1
    waiting = [str(root)]
    while waiting:
        if time.monotonic() > deadline:
            return None
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            relative = entry.path[start:]
            if entry.name == "HEAD" or entry.name.lower() == ".git":
                records.append(f"g{relative}")
            if entry.is_dir(follow_symlinks=False):
                if relative != ".git/objects":
                    waiting.append(entry.path)
                    if not os.access(entry.path, os.R_OK | os.X_OK):
                        records.append(f"c{relative}")
            elif entry.is_file(follow_symlinks=False) and _is_privileged(entry):
                records.append(f"s{relative}")
    return records


def _is_privileged(entry: os.DirEntry[str]) -> bool:
    try:
        return bool(entry.stat(follow_symlinks=False).st_mode & _PRIVILEGED)
    except OSError:
        return False


def _sorted(root: Path, records: list[str]) -> Found:
    folders = set(_folders(root, records))
    pointers = {
        record[1:]
        for record in records
        if record[0] == "g" and record[1:].rpartition("/")[2] != "HEAD" and not _is_folder(root / record[1:])
    }
    privileged, closed = (frozenset(record[1:] for record in records if record[0] == kind) for kind in "sc")
    return Found(frozenset(folders), frozenset(pointers), privileged, closed)


def _folders(root: Path, records: list[str]) -> Iterator[str]:
    for record in records:
        above, _, name = record[1:].rpartition("/")
        if record[0] == "g" and name == "HEAD" and is_git_folder(root / above):
            yield above or "."


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
