"""What is mounted below a workspace root from elsewhere: a write in it would change a folder outside (BND-9, BND-12).

A file system of its own (a RAM disk, a container's volume) belongs to the workspace, since it is nowhere else to be
seen. A folder of the machine that shows below the root as well doesn't.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drawbar.boundary.host import mount_points, other_names

__all__ = ["Mounted", "holding", "mounted_from_elsewhere"]


@dataclass(frozen=True, slots=True)
class Mounted:
    """A folder or file at ``place`` below the root that is also to be seen at ``source`` outside."""

    place: Path
    source: Path


def mounted_from_elsewhere(root: Path) -> tuple[Mounted, ...]:
    """Everything below ``root`` that is mounted from outside it, or from a git folder in it."""
    places = sorted({path for mount in mount_points() if (path := Path(mount.path)) != root and _below(path, root)})
    if not places:
        return ()
    roots = (root, *other_names([root]))
    found: list[Mounted] = []
    for place in places:
        source = next((other for other in other_names([place]) if not _belongs(other, roots)), None)
        if source is not None:
            found.append(Mounted(place, source))
    return tuple(found)


def holding(mounted: Sequence[Mounted], path: Path) -> Mounted | None:
    """Which of these mounts ``path`` lies in."""
    return next((mount for mount in mounted if _below(path, mount.place)), None)


def _belongs(path: Path, roots: Sequence[Path]) -> bool:
    """Whether a folder is the workspace's own, so that what shows it a second time opens nothing new."""
    return any(path != root and _below(path, root) and ".git" not in path.relative_to(root).parts for root in roots)


def _below(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder)
