"""The mounts of one root's git folders as data, and the guards that every kind of git folder gets (BND-11)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from drawbar.boundary.git_folders import is_git_folder

__all__ = [
    "GUARDED",
    "GUARDED_IN_WORKTREE",
    "GitMounts",
    "between",
    "guard",
    "mount_each",
    "subfolders",
    "unguardable",
]

GUARDED: Final = ("hooks", "info", "config", "config.worktree")
"""What names programs or rewrites configuration: read-only in every git folder."""

GUARDED_IN_WORKTREE: Final = ("commondir", "gitdir", "config.worktree")


@dataclass(slots=True)
class GitMounts:
    """The mounts of one root's git folders, and what else keeps them safe.

    ``readable`` must be visible though it may lie in a masked home; ``missing`` are guarded names that don't
    exist yet; ``settings`` are git folders whose configuration commands may have a copy of; ``redirects`` are
    names that would move a git folder's configuration elsewhere and so must not appear; ``notes`` say to the
    model what git can't do here, and why.
    """

    writable: list[Path] = field(default_factory=list[Path])
    read_only: list[Path] = field(default_factory=list[Path])
    readable: list[Path] = field(default_factory=list[Path])
    missing: list[Path] = field(default_factory=list[Path])
    settings: list[Path] = field(default_factory=list[Path])
    redirects: list[Path] = field(default_factory=list[Path])
    notes: list[str] = field(default_factory=list[str])


def unguardable(base: Path) -> str | None:
    """Why nothing could keep a command from choosing the configuration of this git folder, None when it can be."""
    if not is_git_folder(base):
        return f"{base} is no git repository"
    if os.path.lexists(base / "commondir"):
        return f"{base}/commondir sends git to another folder"
    linked = next((name for name in GUARDED if os.path.islink(base / name)), None)
    return None if linked is None else f"{base}/{linked} is a symlink"


def guard(mounts: GitMounts, base: Path, names: Sequence[str]) -> None:
    for name in names:
        path = base / name
        if os.path.lexists(path):
            mounts.read_only.append(path)
        elif name in GUARDED:
            mounts.missing.append(path)
    if "config" in names:
        mounts.settings.append(base)
    if "commondir" not in names:
        mounts.redirects.append(base / "commondir")


def mount_each(mounts: GitMounts, paths: Iterable[Path]) -> None:
    mounts.writable += [path for path in paths if path not in mounts.writable]


def between(top: Path, folder: Path) -> list[Path]:
    """The folders strictly between ``top`` and ``folder``, from the top down."""
    names = folder.relative_to(top).parts[:-1]
    return [top.joinpath(*names[: depth + 1]) for depth in range(len(names))]


def subfolders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
