"""From a plan to an ordered list of mounts: the most specific path wins, and nothing redundant is mounted.

Pure but for the kinds of paths already looked up by the plan. A back end turns each mount into its own terms.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from drawbar.boundary.environment import CACHE_VARIABLE
from drawbar.contracts.boundary import SandboxPlan

__all__ = ["Anchor", "Mount", "MountTable", "mount_table", "table_of", "unconfined_table"]

Kind = Literal["read-only", "writable", "hidden-folder", "hidden-file", "fresh", "private"]

TMP: Final = Path("/tmp")
VAR_TMP: Final = Path("/var/tmp")
SHM: Final = Path("/dev/shm")
RUN: Final = Path("/run")

_EMPTY: Final = frozenset[Kind]({"hidden-folder", "hidden-file", "fresh", "private"})
"""Below these, nothing of the machine's own files shows."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount at ``path``, an absolute canonical path, from the same path of the machine or from ``source``.

    ``read-only`` and ``writable`` show the machine's files; ``hidden-folder`` and ``hidden-file`` show nothing;
    ``fresh`` is writable and discarded; ``private`` is writable and kept for the session. ``open`` says that a
    hidden folder holds mounts and so must let them be reached.
    """

    path: Path
    kind: Kind
    source: Path | None = None
    open: bool = False


@dataclass(frozen=True, slots=True)
class Anchor:
    """An entry that must exist in a private folder before something can be mounted over it at ``path``."""

    folder: Path
    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class MountTable:
    """The mounts in the order to make them, parents first; private folders and anchors to make beforehand."""

    mounts: tuple[Mount, ...]
    private: tuple[Path, ...] = ()
    anchors: tuple[Anchor, ...] = ()


@functools.lru_cache(maxsize=32)
def table_of(plan: SandboxPlan) -> MountTable:
    """The mounts of a plan, remembered, since a run's plans seldom differ from one command to the next."""
    return unconfined_table(plan) if plan.scope == "outside" else mount_table(plan)


def mount_table(plan: SandboxPlan) -> MountTable:
    """The mounts of a confined scope over a read-only view of the whole machine (BND-9, BND-10)."""
    root_kind: Kind = "writable" if plan.scope == "workspace" else "read-only"
    # From weak to strong: where two name the same path, the later one holds.
    entries: dict[Path, Mount] = {path: Mount(path, "fresh") for path in (TMP, VAR_TMP, SHM, RUN)}
    cache = _cache(plan)
    if cache is not None:
        entries[cache] = Mount(cache, "fresh")
    for path in plan.readable:
        entries[path] = Mount(path, "read-only")
    entries[plan.root.path] = Mount(plan.root.path, root_kind)
    for path in plan.writable:
        entries[path] = Mount(path, "writable")
    for path in plan.read_only:
        entries[path] = Mount(path, "read-only")
    _hide(entries, plan)
    kept = _pruned(entries.values(), base="read-only")
    if plan.private_tmp is None:
        return MountTable(mounts=tuple(_opened(kept)))
    return _with_private(kept, plan, plan.private_tmp, cache)


def unconfined_table(plan: SandboxPlan) -> MountTable:
    """The few masks that hold without the file sandbox too, over the machine as it is (BND-16)."""
    entries = {path: Mount(path, "read-only") for path in plan.readable}
    _hide(entries, plan)
    kept = _pruned(entries.values(), base="writable")
    # What isn't below a mask is the machine's own and stays as it is.
    masks = [mount.path for mount in kept if mount.kind == "hidden-folder"]
    return MountTable(
        mounts=tuple(
            _opened(m for m in kept if m.kind != "read-only" or any(m.path.is_relative_to(mask) for mask in masks))
        )
    )


def _cache(plan: SandboxPlan) -> Path | None:
    """The private cache folder when it lies in a masked home; elsewhere it is part of the private ``/tmp``."""
    named = next((value for name, value in plan.env if name == CACHE_VARIABLE), None)
    cache = Path(named) if named else None
    return cache if cache is not None and any(cache.is_relative_to(mask) for mask in plan.masked) else None


def _hide(entries: dict[Path, Mount], plan: SandboxPlan) -> None:
    for path in plan.masked:
        entries[path] = Mount(path, "hidden-folder")
    for path in plan.masked_files:
        entries[path] = Mount(path, "hidden-file")


def _pruned(mounts: Iterable[Mount], *, base: Kind) -> list[Mount]:
    """Parents before children, without what its nearest parent already gives."""
    kept: list[Mount] = []
    above: list[Mount] = []
    for mount in sorted(mounts, key=lambda m: m.path.parts):
        while above and not mount.path.is_relative_to(above[-1].path):
            above.pop()
        parent = above[-1].kind if above else base
        if mount.kind in ("hidden-folder", "hidden-file") and parent in _EMPTY:
            continue
        if mount.kind == "read-only" and parent == "read-only":
            continue
        kept.append(mount)
        above.append(mount)
    return kept


def _opened(mounts: Iterable[Mount]) -> list[Mount]:
    """Mark the hidden folders that hold mounts."""
    ordered = list(mounts)
    holding = {above for mount in ordered for above in mount.path.parents}
    return [
        Mount(m.path, m.kind, m.source, open=True) if m.kind == "hidden-folder" and m.path in holding else m
        for m in ordered
    ]


def _with_private(mounts: list[Mount], plan: SandboxPlan, folder: Path, cache: Path | None) -> MountTable:
    """Bind the session's own folders in place of discarded ones.

    A command may have left anything in them, a symlink in the place of a mount point above all. So each folder on
    the way from a private folder to a mount below it is a mount of its own, over an entry that the harness made:
    while a command runs, those names are mounts in its view and can't be renamed or replaced. Each set of such
    names has folders of its own, so that no command runs without them.
    """
    names = {TMP: "tmp", VAR_TMP: "var-tmp"}
    if cache is not None:
        names[cache] = "cache"
    places = {mount.path for mount in mounts if mount.path in names}
    held = _held(mounts, places)
    closed = _closed(plan)
    bound: dict[Path, Mount] = {mount.path: mount for mount in mounts}
    anchors: list[Anchor] = []
    for place in sorted(places):
        inside = sorted(path for path, top in held.items() if top == place)
        base = folder / (f"{names[place]}-{_digest(inside)}" if inside else names[place])
        bound[place] = Mount(place, "private", base / "0")
        for path in inside:
            for step in (*_between(place, path), path):
                parent = bound[step.parent].source
                if parent is None:
                    break  # below an empty folder, where names are made anew for each call
                anchors.append(Anchor(parent, step.name, step))
                if step not in bound:
                    open_to_writes = plan.root.path.is_relative_to(step) and not any(map(step.is_relative_to, closed))
                    bound[step] = (
                        Mount(step, "private", base / _digest([step]))
                        if open_to_writes
                        else Mount(step, "hidden-folder")
                    )
    ordered = sorted(bound.values(), key=lambda mount: mount.path.parts)
    sources = tuple(mount.source for mount in ordered if mount.kind == "private" and mount.source is not None)
    return MountTable(tuple(_opened(ordered)), sources, tuple(dict.fromkeys(anchors)))


def _closed(plan: SandboxPlan) -> set[Path]:
    """Folders that take no writes though they lie in a private one: homes, and checkouts beside the root.

    A write there would seem to work and change nothing.
    """
    checkouts = {
        Path(*path.parts[: path.parts.index(".git")])
        for path in (*plan.writable, *plan.readable)
        if ".git" in path.parts and not path.is_relative_to(plan.root.path)
    }
    return checkouts | set(plan.masked)


def _held(mounts: Iterable[Mount], places: Container[Path]) -> dict[Path, Path]:
    """The mounts whose nearest mount above is a private place, and that place; mounts come parents first."""
    found: dict[Path, Path] = {}
    above: list[Path] = []
    for mount in mounts:
        while above and not mount.path.is_relative_to(above[-1]):
            above.pop()
        if above and above[-1] in places:
            found[mount.path] = above[-1]
        above.append(mount.path)
    return found


def _between(top: Path, path: Path) -> list[Path]:
    """The folders strictly between ``top`` and ``path``, from the top down."""
    names = path.relative_to(top).parts[:-1]
    return [top.joinpath(*names[: depth + 1]) for depth in range(len(names))]


def _digest(paths: Iterable[Path]) -> str:
    joined = b"\0".join(bytes(path) for path in paths)
    return hashlib.sha256(joined).hexdigest()[:12]
