"""Which native writes git would run or take for a repository, though no name on the way is ``.git`` (BND-7, BND-11)."""

from __future__ import annotations

import os
from pathlib import Path

from drawbar.boundary.git_mounts import git_mounts
from drawbar.contracts.boundary import PinnedRoot

__all__ = ["git_refusal"]


def git_refusal(root: PinnedRoot, path: Path) -> str | None:
    """Why no native write may go to ``path`` below the root; None when git has nothing to do with it."""
    if not path.is_relative_to(root.path):
        return None
    guarded = next((kept for kept in git_mounts(root).read_only if path.is_relative_to(kept)), None)
    if guarded is not None:
        return f"lies in {guarded}, which git runs or reads as its own configuration"
    parts = path.relative_to(root.path).parts
    for depth in range(len(parts)):
        folder = root.path.joinpath(*parts[:depth])
        if _is_repository(folder, parts[depth]):
            return f"lies in {folder}, which git takes for a repository of its own: use git commands"
    return None


def _is_repository(folder: Path, coming: str) -> bool:
    """Whether git takes a folder for a bare repository once ``coming`` is in it."""
    there = {name for name in ("HEAD", "objects", "refs", "commondir") if os.path.lexists(folder / name)} | {coming}
    return "HEAD" in there and ({"objects", "refs"} <= there or "commondir" in there)
