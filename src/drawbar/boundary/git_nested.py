"""The git folders of submodules and of linked worktrees, inside the repository that they belong to (BND-11)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from drawbar.boundary.git_folders import is_git_folder, is_plain_folder, named_path
from drawbar.boundary.git_table import GUARDED, GitMounts, between, guard, mount_each, subfolders, unguardable

__all__ = ["mount_submodules", "mount_worktrees"]

_MAX_NESTED: Final = 8
"""Submodules that get mounts of their own, each of which costs time; of more all are looked at afterwards alone."""

_MAX_OUTSIDE: Final = 8
_MAX_LOOKED_AT: Final = 500


def mount_submodules(mounts: GitMounts, base: Path) -> None:
    """Guard the git folders of submodules; one that can't be is read-only, all of them with it."""
    modules = base / "modules"
    if not is_plain_folder(modules):
        return
    found = _module_folders(modules)
    why = next((why for folder in found if (why := unguardable(folder)) is not None), None)
    if why is not None:
        mounts.read_only.append(modules)
        mounts.notes.append(f"{why}: git can't commit inside submodules")
        return
    if len(found) > _MAX_NESTED:
        return
    for folder in found:
        # Each folder on the way is a mount too, or it could be renamed together with what lies below.
        mount_each(mounts, (*between(base, folder), folder))
        guard(mounts, folder, GUARDED)


def mount_worktrees(mounts: GitMounts, root: Path, dot_git: Path) -> None:
    """Close the folders of worktrees that lie outside the root; those inside are looked at after each command."""
    worktrees = dot_git / "worktrees"
    if not is_plain_folder(worktrees):
        return
    outside = [folder for folder in subfolders(worktrees) if not _is_inside(folder, root)]
    if len(outside) > _MAX_OUTSIDE:
        mounts.read_only.append(worktrees)
        mounts.notes.append(
            f"more than {_MAX_OUTSIDE} linked worktrees lie outside the workspace: git can't add any, "
            "nor commit in those inside"
        )
    elif outside:
        mounts.writable.append(worktrees)
        mounts.read_only += outside


def _is_inside(folder: Path, root: Path) -> bool:
    back = named_path(folder / "gitdir")
    return back is not None and back.is_relative_to(root)


def _module_folders(modules: Path) -> list[Path]:
    """The git folders of submodules: named by path, so at any depth, and nested in one another's ``modules``."""
    found: list[Path] = []
    waiting = [modules]
    for _ in range(_MAX_LOOKED_AT):
        if not waiting or len(found) > _MAX_NESTED:
            break
        for entry in subfolders(waiting.pop()):
            if not is_git_folder(entry):
                waiting.append(entry)
                continue
            found.append(entry)
            if is_plain_folder(entry / "modules"):
                waiting.append(entry / "modules")
    return found
