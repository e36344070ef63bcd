"""Which of git's files a command may write: commits work, programs that a repository names can't be planted.

``.git`` becomes a mount of its own, so that it can't be renamed and replaced, with its hooks, configuration and
attributes read-only below it; the same for the git folders of submodules and linked worktrees (BND-11).
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from drawbar.boundary.git_config import ConfigUnreadable, Entry, parse
from drawbar.boundary.git_folders import git_file_target, is_git_folder, is_plain_folder
from drawbar.boundary.git_guards import hooks_folders, included, person_entries
from drawbar.boundary.git_nested import mount_submodules, mount_worktrees
from drawbar.boundary.git_state import CONFIGS
from drawbar.boundary.git_table import (
    GUARDED,
    GUARDED_IN_WORKTREE,
    GitMounts,
    between,
    guard,
    mount_each,
    unguardable,
)
from drawbar.contracts.boundary import PinnedRoot

__all__ = ["GitMounts", "git_mounts", "prepare_git", "remove_redirects"]

_FOLDERS: Final = frozenset({"hooks", "info"})

_MAIN_CHECKOUTS: Final = ("HEAD", "index", "modules", "worktrees")
"""In the common git folder, what belongs to the main checkout and to other worktrees."""

_WORKTREE_WRITES: Final = ("objects", "refs", "logs", "lfs", "rr-cache")
"""What a commit in a linked worktree writes in a common git folder that can't be guarded as a whole."""


def git_mounts(root: PinnedRoot) -> GitMounts:
    """Read the git folders of ``root`` as they are now and say how each is mounted."""
    mounts = GitMounts()
    dot_git = root.path / ".git"
    try:
        mode = os.lstat(dot_git).st_mode
    except OSError:
        if is_git_folder(root.path):
            guard(mounts, root.path, GUARDED)
        return mounts
    if stat.S_ISLNK(mode):
        _linked(mounts, root.path, Path(os.path.realpath(dot_git)))
    elif stat.S_ISREG(mode):
        mounts.read_only.append(dot_git)
        target = git_file_target(dot_git)
        if not root.git_dirs and target is not None and _within(root.path, target):
            _apart(mounts, root.path, target)
        else:
            _elsewhere(mounts, root)
    elif stat.S_ISDIR(mode):
        _repository(mounts, root.path, dot_git)
    return mounts


def prepare_git(mounts: GitMounts) -> None:
    """Make the guarded names that are missing, empty: only what exists can be mounted read-only.

    Git reads nothing into an empty one. Each is made relative to its folder, opened without following a link. A
    folder that can't be written is left: the command can't write it either.
    """
    for path in mounts.missing:
        with contextlib.suppress(OSError):
            _make(path)


def remove_redirects(mounts: GitMounts) -> list[Path]:
    """Remove each ``commondir`` that a command left: it would make git read its configuration elsewhere.

    Returns:
        What was found and removed.
    """
    removed: list[Path] = []
    for path in mounts.redirects:
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode):
                os.rmdir(path)
            else:
                os.unlink(path)
        except OSError:
            continue
        removed.append(path)
    return removed


def _linked(mounts: GitMounts, root: Path, real: Path) -> None:
    """``.git`` is a symlink: what it leads to is guarded when it lies below the root, the link by a later look."""
    if _within(root, real) and is_plain_folder(real):
        _apart(mounts, root, real)
        return
    mounts.notes.append(
        f"{root}/.git is a symlink to {real}, which lies outside the workspace: git can read here but not commit"
    )


def _apart(mounts: GitMounts, root: Path, real: Path) -> None:
    """A git folder below the root by another name: each folder above it is a mount, so that it keeps that name."""
    _repository(mounts, root, real)
    if real in mounts.writable:
        mount_each(mounts, between(root, real))


def _within(root: Path, path: Path) -> bool:
    return path != root and path.is_relative_to(root)


def _repository(mounts: GitMounts, root: Path, dot_git: Path) -> None:
    why = unguardable(dot_git)
    if why is not None:
        mounts.read_only.append(dot_git)
        mounts.notes.append(f"{why}, so {dot_git} is read-only: git can read here but not commit")
        return
    mounts.writable.append(dot_git)
    guard(mounts, dot_git, GUARDED)
    _named_in_tree(mounts, root, dot_git)
    mount_submodules(mounts, dot_git)
    mount_worktrees(mounts, root, dot_git)


def _named_in_tree(mounts: GitMounts, root: Path, configured: Path) -> None:
    """A hooks folder in the tree is as good as ``.git/hooks``, an included file as good as ``.git/config``.

    One that isn't there yet can't be mounted; it is looked for after each command.
    """
    entries = [*person_entries(), *(entry for name in CONFIGS for entry in _entries(configured / name))]
    hooks = [path for path in hooks_folders(root, root, entries) if is_plain_folder(path)]
    files = [path for name in CONFIGS for path in included(root, configured / name, entries)]
    for path in (*hooks, *(path for path in files if _is_plain_file(path))):
        if path.is_relative_to(root / ".git"):
            continue
        mounts.read_only.append(path)
        mount_each(mounts, between(root, path))


def _entries(config: Path) -> list[Entry]:
    try:
        return parse(config.read_text("utf-8", "surrogateescape"))
    except (OSError, ConfigUnreadable):
        return []


def _is_plain_file(path: Path) -> bool:
    return os.path.isfile(path) and os.path.realpath(path) == str(path)


def _elsewhere(mounts: GitMounts, root: PinnedRoot) -> None:
    """The real git folders of a linked worktree or submodule, as verified when the root was pinned."""
    if not root.git_dirs:
        mounts.notes.append(
            f"{root.path}/.git names a git folder that doesn't name this workspace back: git can read but not commit"
        )
        return
    own, *rest = root.git_dirs
    if not rest:
        why = unguardable(own)
        if why is not None:
            mounts.readable.append(own)
            mounts.notes.append(f"{why}: git can read here but not commit")
            return
        mounts.writable.append(own)
        guard(mounts, own, GUARDED)
        _named_in_tree(mounts, root.path, own)
        mount_submodules(mounts, own)
        return
    common = rest[0]
    mounts.writable.append(own)
    guard(mounts, own, GUARDED_IN_WORKTREE)
    if unguardable(common) is None:
        # The folder itself must take new names: git locks packed-refs there whenever it deletes a ref.
        mounts.writable.append(common)
        guard(mounts, common, GUARDED)
        present = (common / name for name in _MAIN_CHECKOUTS)
        mounts.read_only += [path for path in present if os.path.exists(path) and not os.path.islink(path)]
    else:
        mounts.readable.append(common)
        mounts.writable += [path for name in _WORKTREE_WRITES if is_plain_folder(path := common / name)]
    _named_in_tree(mounts, root.path, common)
    mount_submodules(mounts, own)


def _make(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if path.name in _FOLDERS:
            os.mkdir(path.name, dir_fd=folder)
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(path.name, flags, 0o666, dir_fd=folder))
    finally:
        os.close(folder)
