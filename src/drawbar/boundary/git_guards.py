"""Files of the working tree that git runs or reads as its own, because a configuration names them (BND-11).

A hooks folder in the tree (``core.hooksPath``) is as good as ``.git/hooks``, an included file as ``.git/config``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from drawbar.boundary.git_config import ConfigUnreadable, Entry, parse
from drawbar.boundary.git_mend import Place, mend_config, mend_hooks
from drawbar.boundary.git_state import FolderState, executables, folder_at, read_at, root_descriptor

__all__ = ["TreeGuards", "hooks_folders", "included", "mend_tree", "person_entries", "tree_guards"]

_MAX_INCLUDED: Final = 50
_PERSONS: Final = ("~/.gitconfig", "~/.config/git/config", "/etc/gitconfig")


@dataclass(slots=True)
class TreeGuards:
    """Absolute paths below the root: hooks folders with their programs, included files with their settings."""

    hooks: dict[str, dict[str, str]] = field(default_factory=dict[str, "dict[str, str]"])
    configs: dict[str, list[Entry] | None] = field(default_factory=dict[str, "list[Entry] | None"])

    def as_json(self) -> dict[str, Any]:
        """For a record on disk."""
        return {"hooks": self.hooks, "configs": FolderState(config=self.configs).as_json()["config"]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TreeGuards:
        empty: dict[str, Any] = {"hooks": {}, "odd": {}, "steps": [], "commondir": None}
        return cls(dict(data["hooks"]), FolderState.from_json({"config": data["configs"], **empty}).config)


def tree_guards(root: Path, folders: Mapping[str, FolderState]) -> TreeGuards:
    """What the configurations of these git folders, and the person's own, name below the root."""
    guards = TreeGuards()
    persons = list(person_entries())
    for path, state in folders.items():
        base = Path(path)
        checkout = base.parent if base.name == ".git" else base
        entries = [entry for found in state.config.values() for entry in found or ()]
        for hooks in hooks_folders(root, checkout, (*persons, *entries)):
            guards.hooks[str(hooks)] = _programs(root, hooks)
        for name in state.config:
            for file in included(root, base / name, entries):
                guards.configs[str(file)] = _settings(root, file)
    return guards


def mend_tree(root: Path, guards: TreeGuards, guarded: frozenset[str] = frozenset()) -> list[str]:
    """Undo what commands changed of what is named."""
    said: list[str] = []
    root_fd = root_descriptor(root)
    try:
        for hooks, known in guards.hooks.items():
            path = Path(hooks)
            for place, name in _opened(root, root_fd, path, guarded):
                said += mend_hooks(place, name, known)
        for config, settings in guards.configs.items():
            for place, name in _opened(root, root_fd, Path(config), guarded):
                if os.path.lexists(config):
                    said += mend_config(place, name, settings)
    finally:
        os.close(root_fd)
    return said


def person_entries() -> Iterator[Entry]:
    """The settings of the person and the machine; a hooks path in them holds for every repository."""
    for name in _PERSONS:
        try:
            text = Path(os.path.expanduser(name)).read_text("utf-8", "surrogateescape")
            yield from parse(text)
        except (OSError, ConfigUnreadable):
            continue


def hooks_folders(root: Path, checkout: Path, entries: Iterable[Entry]) -> Iterator[Path]:
    """Every hooks folder below the root that a configuration names, links resolved, there or not."""
    for entry in entries:
        if entry.section != "core" or entry.subsection is not None or entry.key != "hookspath" or not entry.value:
            continue
        yield from _hooks_folder(root, checkout, entry.value)


def _hooks_folder(root: Path, checkout: Path, named: str) -> Iterator[Path]:
    """The folder that a ``core.hooksPath`` names, and the one that holds its scripts, where below the root."""
    lexical = Path(os.path.normpath(checkout / os.path.expanduser(named)))
    real = Path(os.path.realpath(lexical))
    for hooks in dict.fromkeys((lexical, real)):
        if not hooks.is_relative_to(root) or hooks == root or ".git" in hooks.relative_to(root).parts:
            continue
        yield hooks
        if hooks.name == "_" and hooks.parent != root:
            yield hooks.parent  # husky's generated half calls the scripts beside it


def included(root: Path, config: Path, entries: Iterable[Entry]) -> list[Path]:
    """The files below the root that a configuration includes, and those that these include, there or not."""
    found: dict[Path, None] = {}
    waiting = [(config, entries)]
    while waiting and len(found) < _MAX_INCLUDED:
        source, settings = waiting.pop()
        for entry in settings:
            if entry.section not in ("include", "includeif") or entry.key != "path" or not entry.value:
                continue
            file = Path(os.path.realpath(source.parent / os.path.expanduser(entry.value)))
            if file in found:
                continue
            if file.is_relative_to(root):
                found[file] = None
            try:
                waiting.append((file, parse(file.read_text("utf-8", "surrogateescape"))))
            except (OSError, ConfigUnreadable):
                continue
    return list(found)


def _programs(root: Path, hooks: Path) -> dict[str, str]:
    fd = root_descriptor(root)
    try:
        return dict(executables(fd, str(hooks.relative_to(root))))
    finally:
        os.close(fd)


def _settings(root: Path, file: Path) -> list[Entry] | None:
    fd = root_descriptor(root)
    try:
        text = read_at(fd, str(file.relative_to(root)))
        return [] if text is None else parse(text)
    except ConfigUnreadable:
        return None
    finally:
        os.close(fd)


def _opened(root: Path, root_fd: int, path: Path, guarded: frozenset[str]) -> Iterator[tuple[Place, str]]:
    try:
        fd = folder_at(root_fd, str(path.parent.relative_to(root)))
    except (OSError, ValueError):
        return
    try:
        yield Place(path.parent, fd, root, (root,), guarded), path.name
    finally:
        os.close(fd)
