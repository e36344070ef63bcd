"""Which of git's files a command may write: commits work, programs that a repository names can't be planted.

``.git`` becomes a mount of its own, so that it can't be renamed and replaced, with its hooks, configuration and
attributes read-only below it; the same for the git folders of submodules and linked worktrees (BND-11).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from drawbar.boundary.git_folders import config_value, git_file_target, is_git_folder, is_plain_folder, named_path
from drawbar.contracts.boundary import PinnedRoot

__all__ = ["GitMounts", "git_mounts", "prepare_git", "remove_redirects"]

GUARDED: Final = ("hooks", "info", "config", "config.worktree")
"""What names programs or rewrites configuration: read-only in every git folder."""

_GUARDED_IN_WORKTREE: Final = ("commondir", "gitdir", "config.worktree")
_FOLDERS: Final = frozenset({"hooks", "info"})

_MAIN_CHECKOUTS: Final = ("HEAD", "index", "modules", "worktrees")
"""In the common git folder, what belongs to the main checkout and to other worktrees."""

_WORKTREE_WRITES: Final = ("objects", "refs", "logs", "lfs", "rr-cache")
"""What a commit in a linked worktree writes in a common git folder that can't be guarded as a whole."""

_MAX_NESTED: Final = 8
"""Submodules, and again linked worktrees, that get mounts of their own; a mount costs every command time."""

_MAX_LOOKED_AT: Final = 500


@dataclass(slots=True)
class GitMounts:
    """The mounts of one root's git folders, and what else keeps them safe.

    ``readable`` must be visible though it may lie in a masked home; ``missing`` are guarded names that don't
    exist yet; ``redirects`` are names that would move a git folder's configuration elsewhere and so must not
    appear; ``notes`` say to the model what git can't do here, and why.
    """

    writable: list[Path] = field(default_factory=list[Path])
    read_only: list[Path] = field(default_factory=list[Path])
    readable: list[Path] = field(default_factory=list[Path])
    missing: list[Path] = field(default_factory=list[Path])
    redirects: list[Path] = field(default_factory=list[Path])
    notes: list[str] = field(default_factory=list[str])


def git_mounts(root: PinnedRoot) -> GitMounts:
    """Read the git folders of ``root`` as they are now and say how each is mounted."""
    mounts = GitMounts()
    dot_git = root.path / ".git"
    try:
        mode = os.lstat(dot_git).st_mode
    except OSError:
        if is_git_folder(root.path):
            _guard(mounts, root.path, GUARDED)
        return mounts
    if stat.S_ISLNK(mode):
        mounts.notes.append(
            f"{dot_git} is a symlink to {os.path.realpath(dot_git)}, which lies outside the workspace: "
            "git can read here but not commit"
        )
    elif stat.S_ISREG(mode):
        mounts.read_only.append(dot_git)
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


def _repository(mounts: GitMounts, root: Path, dot_git: Path) -> None:
    why = _unguardable(dot_git)
    if why is not None:
        mounts.read_only.append(dot_git)
        mounts.notes.append(f"{why}, so {dot_git} is read-only: git can read here but not commit")
        return
    mounts.writable.append(dot_git)
    _guard(mounts, dot_git, GUARDED)
    _hooks_in_tree(mounts, root, dot_git)
    _submodules(mounts, root, dot_git)
    _worktrees(mounts, root, dot_git)


def _unguardable(base: Path) -> str | None:
    """Why nothing could keep a command from choosing the configuration of this git folder, None when it can be."""
    if not is_git_folder(base):
        return f"{base} is no git repository"
    if os.path.lexists(base / "commondir"):
        return f"{base}/commondir sends git to another folder"
    linked = next((name for name in GUARDED if os.path.islink(base / name)), None)
    return None if linked is None else f"{base}/{linked} is a symlink"


def _guard(mounts: GitMounts, base: Path, names: Sequence[str]) -> None:
    for name in names:
        path = base / name
        if os.path.lexists(path):
            mounts.read_only.append(path)
        elif name in GUARDED:
            mounts.missing.append(path)
    if "commondir" not in names:
        mounts.redirects.append(base / "commondir")


def _hooks_in_tree(mounts: GitMounts, root: Path, configured: Path) -> None:
    """A hooks folder inside the root (``core.hooksPath``) is as good as ``.git/hooks``."""
    for name in ("config", "config.worktree"):
        named = config_value(configured / name, "core", "hookspath")
        if not named or named.startswith("~"):
            continue
        hooks = Path(os.path.normpath(root / named))
        if hooks.name == "_":
            hooks = hooks.parent  # husky's generated half calls the scripts beside it
        if hooks == root or not hooks.is_relative_to(root) or not is_plain_folder(hooks):
            continue
        if hooks.is_relative_to(root / ".git"):
            continue
        mounts.read_only.append(hooks)
        _mount_each(mounts, _between(root, hooks))


def _submodules(mounts: GitMounts, root: Path, base: Path) -> None:
    modules = base / "modules"
    if not is_plain_folder(modules):
        return
    found = _module_folders(modules)
    why = next((why for folder in found if (why := _unguardable(folder)) is not None), None)
    if len(found) > _MAX_NESTED:
        why = f"more than {_MAX_NESTED} submodules have a git folder here"
    if why is not None:
        mounts.read_only.append(modules)
        mounts.notes.append(f"{why}: git can't commit inside submodules")
        return
    for folder in found:
        # Each folder on the way is a mount too, or it could be renamed together with what lies below.
        _mount_each(mounts, (*_between(base, folder), folder))
        _guard(mounts, folder, GUARDED)
        checkout = config_value(folder / "config", "core", "worktree")
        if checkout is not None:
            _git_file(mounts, root, Path(os.path.normpath(folder / checkout / ".git")))


def _module_folders(modules: Path) -> list[Path]:
    """The git folders of submodules: named by path, so at any depth, and nested in one another's ``modules``."""
    found: list[Path] = []
    waiting = [modules]
    for _ in range(_MAX_LOOKED_AT):
        if not waiting or len(found) > _MAX_NESTED:
            break
        for entry in _subfolders(waiting.pop()):
            if not is_git_folder(entry):
                waiting.append(entry)
                continue
            found.append(entry)
            if is_plain_folder(entry / "modules"):
                waiting.append(entry / "modules")
    return found


def _worktrees(mounts: GitMounts, root: Path, dot_git: Path) -> None:
    """Other worktrees' folders: those that lie inside the root stay usable, the rest are closed to writes."""
    worktrees = dot_git / "worktrees"
    if not is_plain_folder(worktrees):
        return
    folders = _subfolders(worktrees)
    if len(folders) > _MAX_NESTED:
        mounts.read_only.append(worktrees)
        mounts.notes.append(f"more than {_MAX_NESTED} linked worktrees: git can't commit in those inside the workspace")
        return
    mounts.writable.append(worktrees)
    for folder in folders:
        back = named_path(folder / "gitdir")
        if back is None or not back.is_relative_to(root) or named_path(folder / "commondir") != dot_git:
            mounts.read_only.append(folder)
        else:
            mounts.writable.append(folder)
            _guard(mounts, folder, _GUARDED_IN_WORKTREE)
            _git_file(mounts, root, back)


def _git_file(mounts: GitMounts, root: Path, path: Path) -> None:
    """Keep a nested checkout's ``.git`` file, which says whose hooks and configuration hold in it.

    A checkout right below the root becomes a mount too, so that it can't be renamed and made anew; deeper ones
    are left movable, since a mount on each folder above would break renames between ordinary folders.
    """
    folder = path.parent
    if not folder.is_relative_to(root) or not is_plain_folder(folder) or git_file_target(path) is None:
        return
    mounts.read_only.append(path)
    if folder.parent == root:
        _mount_each(mounts, [folder])


def _elsewhere(mounts: GitMounts, root: PinnedRoot) -> None:
    """The real git folders of a linked worktree or submodule, as verified when the root was pinned."""
    if not root.git_dirs:
        mounts.notes.append(
            f"{root.path}/.git names a git folder that doesn't name this workspace back: git can read but not commit"
        )
        return
    own, *rest = root.git_dirs
    if not rest:
        why = _unguardable(own)
        if why is not None:
            mounts.readable.append(own)
            mounts.notes.append(f"{why}: git can read here but not commit")
            return
        mounts.writable.append(own)
        _guard(mounts, own, GUARDED)
        _hooks_in_tree(mounts, root.path, own)
        _submodules(mounts, root.path, own)
        return
    common = rest[0]
    mounts.writable.append(own)
    _guard(mounts, own, _GUARDED_IN_WORKTREE)
    if _unguardable(common) is None:
        # The folder itself must take new names: git locks packed-refs there whenever it deletes a ref.
        mounts.writable.append(common)
        _guard(mounts, common, GUARDED)
        present = (common / name for name in _MAIN_CHECKOUTS)
        mounts.read_only += [path for path in present if os.path.exists(path) and not os.path.islink(path)]
    else:
        mounts.readable.append(common)
        mounts.writable += [path for name in _WORKTREE_WRITES if is_plain_folder(path := common / name)]
    _hooks_in_tree(mounts, root.path, common)
    _submodules(mounts, root.path, own)


def _mount_each(mounts: GitMounts, paths: Iterable[Path]) -> None:
    mounts.writable += [path for path in paths if path not in mounts.writable]


def _between(top: Path, folder: Path) -> list[Path]:
    """The folders strictly between ``top`` and ``folder``, from the top down."""
    names = folder.relative_to(top).parts[:-1]
    return [top.joinpath(*names[: depth + 1]) for depth in range(len(names))]


def _subfolders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


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
