"""Hard links whose other name lies outside the workspace: which of them are kept read-only, and how (BND-12).

Writing through such a name would change the file outside. A name is an alias when the tree holds fewer names of
its file than the file has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

__all__ = ["MAX_MOUNTS", "Cover", "LinkedFile", "aliases", "cover"]

MAX_MOUNTS: Final = 48
"""Read-only mounts of aliases in one call; each costs the call time, and more than linearly."""

DEPENDENCY_FOLDERS: Final = frozenset(
    {
        *("node_modules", ".venv", "venv", "site-packages", "vendor", "target", ".tox", ".nox", "__pypackages__"),
        *("bower_components", "Pods", ".yarn", ".pnpm-store", "_build", "deps", ".stack-work", "dist-newstyle"),
    }
)
"""Folders that a package manager fills, often with links into its store."""

_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class LinkedFile:
    """A name of a file with several: relative to the root, the file's identity, and how many names it has."""

    path: str
    identity: str
    links: int


@dataclass(frozen=True, slots=True)
class Cover:
    """Paths relative to the root that are mounted read-only, or why no command may start."""

    read_only: tuple[str, ...] = ()
    refused: str | None = None


def aliases(found: Iterable[LinkedFile]) -> list[str]:
    """The names that lead outside, in order."""
    names: defaultdict[str, list[LinkedFile]] = defaultdict(list)
    for name in found:
        names[name.identity].append(name)
    return sorted(name.path for group in names.values() if len(group) < group[0].links for name in group)


def cover(paths: Sequence[str]) -> Cover:
    """Choose the mounts for these aliases.

    Up to ``MAX_MOUNTS`` files are mounted one by one. Of more, those in git's object store are left: objects are
    named by their content, which git checks. Then dependency folders are taken whole, the fullest first. What
    still is too much is refused, since leaving any out would let a command write outside.
    """
    if len(paths) <= MAX_MOUNTS:
        return Cover(read_only=tuple(paths))
    singles = [path for path in paths if not _is_git_object(path)]
    folders: defaultdict[str, list[str]] = defaultdict(list)
    for path in singles:
        folder = _dependency_folder(path)
        if folder is not None:
            folders[folder].append(path)
    chosen: list[str] = []
    remaining = set(singles)
    for folder, members in sorted(folders.items(), key=lambda item: (-len(item[1]), item[0])):
        if len(remaining) + len(chosen) <= MAX_MOUNTS:
            break
        chosen.append(folder)
        remaining.difference_update(members)
    if len(remaining) + len(chosen) > MAX_MOUNTS:
        first = ", ".join(sorted(remaining)[:_NAMED])
        return Cover(
            refused=(
                f"{len(remaining)} files in the workspace are hard links to files outside it ({first}, …), and a "
                "command could change those. Replace them by copies (for a file: cp -p F F.new && mv F.new F), "
                "or move them into a dependency folder."
            )
        )
    return Cover(read_only=tuple(sorted((*chosen, *remaining))))


def _is_git_object(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return ".git" in parts and "objects" in parts[parts.index(".git") :]


def _dependency_folder(path: str) -> str | None:
    """The topmost dependency folder that holds ``path``."""
    parts = PurePosixPath(path).parts[:-1]
    depth = next((depth for depth, name in enumerate(parts) if name in DEPENDENCY_FOLDERS), None)
    return None if depth is None else "/".join(parts[: depth + 1])
