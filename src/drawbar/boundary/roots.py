"""The workspace root: which folder a run may work in, pinned by identity and checked before every command.

Upholds BND-1 (what may be a root, and why not) and QLT-11 (no tool ever runs in another folder).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from drawbar.boundary.credentials import passwd_homes
from drawbar.boundary.git_folders import is_git_folder, verified_git_folders
from drawbar.contracts.boundary import PinnedRoot
from drawbar.contracts.errors import WorkspaceRefused

__all__ = ["SYSTEM_FOLDERS", "SYSTEM_TREES", "check_root", "nearest_repository", "pin_root"]

SYSTEM_TREES: Final = ("/proc", "/sys", "/dev", "/etc", "/usr", "/boot")
"""Neither these nor anything below them can be a root."""

SYSTEM_FOLDERS: Final = frozenset(
    {
        *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/run", "/var", "/tmp", "/var/tmp", "/opt"),
        *("/home", "/root", "/srv", "/mnt", "/media", "/nix", "/nix/store", "/snap", "/lost+found", "/var/run"),
        *("/var/lib", "/var/cache", "/var/log", "/var/spool", "/var/mail", "/usr/local"),
    }
)
"""Folders that belong to the machine: they can't be a root themselves, a folder below them can."""


def pin_root(cwd: Path, *, hidden: Sequence[Path], read_only: bool = False, home: Path | None = None) -> PinnedRoot:
    """Find the workspace root of ``cwd`` and pin it: canonical path, device and inode (BND-1).

    The root is the nearest git repository or worktree above ``cwd``, else ``cwd``. A home folder that is itself
    a repository falls back to ``cwd``.

    Args:
        cwd: the effective working directory; symlinks are followed.
        hidden: the data, state and config folders and the sockets' folder; none may meet the root.
        read_only: for scope ``read-only``, where the root need not be writable.
        home: the person's home folder; ``$HOME`` when None.

    Raises:
        WorkspaceRefused: saying why this folder can't be a root and what to do instead.
    """
    working_directory = _folder(cwd)
    homes = _homes(home)
    root = nearest_repository(working_directory)
    if root is None or root in homes:
        root = working_directory
    _refuse_system(root)
    _refuse_homes(root, homes)
    _refuse_hidden(root, hidden)
    if not read_only:
        _refuse_unwritable(root)
    status = os.stat(root)
    return PinnedRoot(
        path=root,
        device=status.st_dev,
        inode=status.st_ino,
        working_directory=working_directory,
        git_dirs=verified_git_folders(root),
    )


def check_root(root: PinnedRoot) -> None:
    """Make sure that the pinned path still leads to the pinned folder (QLT-11).

    Raises:
        WorkspaceRefused: when the folder is gone, was replaced, or is reached through a symlink now.
    """
    try:
        status = os.lstat(root.path)
    except OSError as error:
        raise WorkspaceRefused(
            f"The workspace root {root.path} can't be reached any more ({error.strerror}); "
            "put it back, or start a new run in another folder.",
            path=str(root.path),
        ) from error
    same = stat.S_ISDIR(status.st_mode) and (status.st_dev, status.st_ino) == (root.device, root.inode)
    if not same or os.path.realpath(root.path) != str(root.path):
        raise WorkspaceRefused(
            f"The folder at {root.path} is not the one this run was started in: it was replaced meanwhile. "
            "Start a new run to work in the new one.",
            path=str(root.path),
        )


def nearest_repository(folder: Path) -> Path | None:
    """The nearest folder from ``folder`` up that git would work in; like git, never across file systems."""
    device = os.stat(folder).st_dev
    for candidate in (folder, *folder.parents):
        try:
            if os.stat(candidate).st_dev != device:
                return None
            dot_git = os.lstat(candidate / ".git")
        except FileNotFoundError:
            continue
        except OSError:
            return None
        if stat.S_ISREG(dot_git.st_mode) or is_git_folder(candidate / ".git"):
            return candidate
    return None


def _folder(cwd: Path) -> Path:
    try:
        path = Path(os.path.realpath(cwd, strict=True))
        mode = os.stat(path).st_mode
    except OSError as error:
        raise WorkspaceRefused(
            f"The folder {cwd} can't be opened ({error.strerror}). Name an existing folder.", path=str(cwd)
        ) from error
    if not stat.S_ISDIR(mode):
        raise WorkspaceRefused(f"{cwd} is no folder. Name the folder that holds it.", path=str(cwd))
    return path


def _homes(home: Path | None) -> frozenset[Path]:
    own = os.path.expanduser("~") if home is None else os.fspath(home)
    found = set(passwd_homes())
    if os.path.isabs(own):
        found.add(Path(os.path.realpath(own)))
    return frozenset(found)


def _refuse_system(root: Path) -> None:
    if root == Path("/"):
        raise _refused(root, "it is the root of the file system", "Start in a project folder.")
    tree = next((tree for tree in SYSTEM_TREES if _within(root, Path(tree))), None)
    if tree is not None:
        raise _refused(root, f"it lies in {tree}, which belongs to the system", "Start in a project folder.")
    if str(root) in SYSTEM_FOLDERS:
        raise _refused(root, "it is a system directory", "Make a folder below it and start there.")


def _refuse_homes(root: Path, homes: Iterable[Path]) -> None:
    for home in sorted(homes):
        if root == home:
            raise _refused(
                root, "it is a home folder, with everything that is private in it", "Start in a project below it."
            )
        if home.is_relative_to(root):
            raise _refused(root, f"it holds the home folder {home}", "Start in a project folder further down.")


def _refuse_hidden(root: Path, hidden: Iterable[Path]) -> None:
    for named in hidden:
        folder = Path(os.path.realpath(named))
        if _within(root, folder) or folder.is_relative_to(root):
            raise _refused(
                root,
                f"the harness keeps its own files in {folder}, and no run may reach those",
                "Start elsewhere, or move the harness's files with DRAWBAR_HOME.",
            )


def _refuse_unwritable(root: Path) -> None:
    effective = os.access in os.supports_effective_ids
    if not os.access(root, os.W_OK | os.X_OK, effective_ids=effective):
        raise _refused(
            root, "you can't write to it", "Change its owner or mode, or work read-only (approval mode read-only)."
        )


def _within(path: Path, folder: Path) -> bool:
    return path == folder or path.is_relative_to(folder)


def _refused(root: Path, why: str, instead: str) -> WorkspaceRefused:
    return WorkspaceRefused(f"{root} can't be a workspace root: {why}. {instead}", path=str(root))
