"""What in one git folder makes git run a program or write elsewhere, as it is now (BND-11, QLT-3).

An observation is what a person is answerable for: taken before commands run, it tells afterwards what they brought.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from drawbar.boundary.git_config import ConfigUnreadable, Entry, parse

__all__ = [
    "CONFIGS",
    "TODOS",
    "FolderState",
    "executables",
    "folder_at",
    "observe",
    "odd_names",
    "read_at",
    "root_descriptor",
    "runs_a_program",
]

CONFIGS: Final = ("config", "config.worktree")
TODOS: Final = ("rebase-merge/git-rebase-todo", "rebase-apply/git-rebase-todo", "sequencer/todo")
"""Lists of steps that the person's next ``--continue`` carries out."""

MAX_TEXT: Final = 1024 * 1024
_EXEC: Final = re.compile(r"\s*(?:exec|x)(?:\s|$)")
_APART: Final = frozenset({"modules", "worktrees"})
"""Other git folders, each looked at on its own."""


@dataclass(slots=True)
class FolderState:
    """One git folder: its settings, its active hooks by digest, links and special files, steps that run something.

    ``config`` is None where a configuration can't be read for sure. ``commondir`` is that file's text.
    """

    config: dict[str, list[Entry] | None] = field(default_factory=dict[str, "list[Entry] | None"])
    hooks: dict[str, str] = field(default_factory=dict[str, str])
    odd: dict[str, str] = field(default_factory=dict[str, str])
    steps: list[str] = field(default_factory=list[str])
    commondir: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For a record on disk."""
        config = {
            name: None if entries is None else [[e.section, e.subsection, e.key, e.value] for e in entries]
            for name, entries in self.config.items()
        }
        rest: dict[str, Any] = {"hooks": self.hooks, "odd": self.odd, "steps": self.steps, "commondir": self.commondir}
        return {"config": config} | rest

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> FolderState:
        config = {
            name: None if entries is None else [Entry(*entry) for entry in entries]
            for name, entries in data["config"].items()
        }
        return cls(config, data["hooks"], data["odd"], data["steps"], data["commondir"])


def observe(folder_fd: int) -> FolderState:
    """Look at the git folder that ``folder_fd`` is."""
    state = FolderState(odd=dict(odd_names(folder_fd)), commondir=_text(folder_fd, "commondir"))
    for name in CONFIGS:
        text = _text(folder_fd, name)
        if text is None:
            continue
        try:
            state.config[name] = parse(text)
        except ConfigUnreadable:
            state.config[name] = None
    state.hooks = dict(executables(folder_fd, "hooks"))
    for name in TODOS:
        text = _text(folder_fd, name)
        state.steps += [] if text is None else [line for line in text.splitlines() if runs_a_program(line)]
    return state


def runs_a_program(step: str) -> bool:
    """Whether a line of a rebase's list runs a command."""
    return bool(_EXEC.match(step))


def executables(folder_fd: int, name: str) -> Iterator[tuple[str, str]]:
    """What git would run from the folder ``name``: each entry that is executable or a link, with its digest."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    except OSError:
        return
    try:
        for entry in sorted(os.listdir(fd)):
            if entry.endswith(".sample"):
                continue
            with contextlib.suppress(OSError):
                found = os.stat(entry, dir_fd=fd, follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    yield entry, "link:" + _target_digest(fd, entry)
                elif stat.S_ISREG(found.st_mode) and found.st_mode & 0o111:
                    yield entry, _digest(fd, entry)
    finally:
        os.close(fd)


def _target_digest(fd: int, entry: str) -> str:
    """Of a link both where it leads and what is there now: either changes what git runs."""
    target = os.readlink(entry, dir_fd=fd)
    content = ""
    with contextlib.suppress(OSError):
        content = _digest(fd, entry, follow=True)
    return f"{target}:{content}"


def _digest(fd: int, entry: str, *, follow: bool = False) -> str:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    with open(os.open(entry, flags, dir_fd=fd), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return ""
        return hashlib.file_digest(file, "sha256").hexdigest()


def odd_names(folder_fd: int) -> Iterator[tuple[str, str]]:
    """Links, pipes, sockets and devices in a git folder, each with what it is; loose objects aren't looked through.

    An ordinary git folder holds none: git opens its files by name, and would write through whatever is there.
    """
    waiting = [""]
    while waiting:
        above = waiting.pop()
        try:
            fd = os.open(above or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
        except OSError:
            continue
        with os.scandir(fd) as entries:
            for entry in entries:
                name = f"{above}/{entry.name}" if above else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if not (above == "objects" and len(entry.name) == 2) and not (not above and entry.name in _APART):
                        waiting.append(name)
                elif entry.is_symlink():
                    with contextlib.suppress(OSError):
                        yield name, os.readlink(name, dir_fd=folder_fd)
                elif not entry.is_file(follow_symlinks=False):
                    yield name, "special"
        os.close(fd)


def read_at(folder_fd: int, name: str) -> str | None:
    """The text of a plain file in a folder, byte for byte; None for anything else."""
    return _text(folder_fd, name)


def _text(folder_fd: int, name: str) -> str | None:
    # Neither followed nor waited for: the name may be a link or a pipe by now.
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
    except OSError:
        return None
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_TEXT:
            return None
        return file.read(MAX_TEXT).decode("utf-8", "surrogateescape")


def folder_at(root_fd: int, relative: str) -> int:
    """Open a folder below the root that no link is needed to reach.

    Raises:
        OSError: there is none.
    """
    from drawbar.boundary.openat2 import open_beneath

    return open_beneath(root_fd, os.fsencode(relative or "."), os.O_RDONLY | os.O_DIRECTORY, links=False)


def root_descriptor(root: Path) -> int:
    """The root, opened for looking things up below it."""
    return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
