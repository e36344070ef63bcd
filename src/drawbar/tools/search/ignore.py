"""Walking a folder as ripgrep and fd do: ignore files respected, ``.git`` left out, symlinks not followed.

Ignore files are ``.gitignore`` and ``.git/info/exclude`` (inside a git repository), ``.ignore`` and the program's own
(``.rgignore``, ``.fdignore``); those of the folders above count as well, a person's global ones don't, so that a
search gives the same answer on every machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from drawbar.tools.search.globs import BadGlob, glob_regex, name_bytes

__all__ = ["Override", "Walk"]


class _Rule(NamedTuple):
    regex: re.Pattern[str]
    ignores: bool
    folders_only: bool


class Override:
    """``grep``'s ``glob`` argument: what it names is searched whatever an ignore file says, the rest isn't.

    Raises:
        BadGlob: naming what is wrong with the glob.
    """

    def __init__(self, glob: str | None) -> None:
        rule = _rule(glob, strict=True) if glob else None
        # Overrides read the other way round: a plain glob includes, a "!" excludes.
        self._rules = [rule] if rule else []
        self._includes = bool(rule and rule.ignores)

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """True to take ``path``, False to leave it out, None to ask the ignore files."""
        if path.rpartition("/")[2] == ".git":
            return False
        matched = _match(self._rules, path, is_folder)
        if matched is None and self._includes and not is_folder:
            return False
        return matched


class _Folder:
    """The ignore rules that one folder brings, and the folders above it."""

    __slots__ = ("above", "base", "exclude", "git", "has_git", "own", "plain")

    def __init__(self, path: str, base: str, above: _Folder | None, own: str) -> None:
        self.base = base
        self.above = above
        self.has_git = os.path.lexists(os.path.join(path, ".git"))
        self.git = _rules(os.path.join(path, ".gitignore"))
        self.exclude = _rules(os.path.join(_git_folder(path), "info", "exclude")) if self.has_git else []
        self.plain = _rules(os.path.join(path, ".ignore"))
        self.own = _rules(os.path.join(path, own))

    def chain(self) -> Iterator[_Folder]:
        folder: _Folder | None = self
        while folder is not None:
            yield folder
            folder = folder.above

    def ignores(self, absolute: str, is_folder: bool) -> bool:
        in_git = any(folder.has_git for folder in self.chain())
        found: list[bool | None] = [None, None, None, None]
        left_repository = not in_git
        for folder in self.chain():
            relative = absolute[len(folder.base) :]
            sources = (folder.own, folder.plain) if left_repository else (
                folder.own, folder.plain, folder.git, folder.exclude,
            )  # fmt: skip
            for place, rules in enumerate(sources):
                if rules and found[place] is None:
                    found[place] = _match(rules, relative, is_folder)
            left_repository = left_repository or folder.has_git
        return next((verdict for verdict in found if verdict is not None), False)


class Walk:
    """Every entry below the current folder that is not ignored, folders before what they hold, sorted by name.

    Args:
        own: the name of the program's own ignore file.
        override: the glob that comes before the ignore files.
    """

    def __init__(self, own: str, override: Override | None = None) -> None:
        self.unreadable = 0
        self._own = own
        self._override = override or Override(None)
        self._root = name_bytes(os.getcwd()).rstrip("/") + "/"

    def __iter__(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        return self._below("", self._enclosing())

    def _enclosing(self) -> _Folder:
        folder: _Folder | None = None
        path = ""
        for part in os.getcwd().split("/"):
            path += part + "/"
            if path != "//":
                folder = _Folder(path, name_bytes(path), folder, self._own)
        assert folder is not None
        return folder

    def _below(self, prefix: str, rules: _Folder) -> Iterator[tuple[str, os.DirEntry[str]]]:
        try:
            with os.scandir("./" + prefix) as found:
                entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
        except OSError:
            self.unreadable += 1
            return
        for entry in entries:
            path = prefix + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if not self._wanted(path, is_folder, rules):
                continue
            yield path, entry
            if is_folder:
                inner = path + "/"
                yield from self._below(inner, _Folder(inner, self._root + name_bytes(inner), rules, self._own))

    def _wanted(self, path: str, is_folder: bool, rules: _Folder) -> bool:
        raw = name_bytes(path)
        verdict = self._override.verdict(raw, is_folder)
        return not rules.ignores(self._root + raw, is_folder) if verdict is None else verdict


def _match(rules: list[_Rule], path: str, is_folder: bool) -> bool | None:
    """The last rule that fits decides; None when none does."""
    for rule in reversed(rules):
        if (is_folder or not rule.folders_only) and rule.regex.match(path):
            return rule.ignores
    return None


def _rules(path: str) -> list[_Rule]:
    try:
        with open(path, "rb") as file:
            lines = file.read().decode("latin-1").split("\n")
    except OSError:
        return []
    rules = (_rule(line[:-1] if line.endswith("\r") else line) for line in lines)
    return [rule for rule in rules if rule]


def _rule(line: str, *, strict: bool = False) -> _Rule | None:
    """One line of an ignore file; a faulty one is no rule unless ``strict``."""
    if strict:
        line = name_bytes(line)
    elif line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    ignores = not line.startswith("!")
    glob = line if ignores else line[1:]
    if glob.startswith(("\\!", "\\#")) and ignores:
        glob = glob[1:]
        anchored = False
    else:
        anchored = glob.startswith("/")
        glob = glob[anchored:]
    folders_only = glob.endswith("/")
    if folders_only:
        glob = glob[:-1]
        glob = glob[:-1] if glob.endswith("\\") else glob
    if not glob:
        return None
    if not anchored and "/" not in glob and glob != "**":
        glob = "**/" + glob
    if glob.endswith("/**"):
        glob += "/*"
    try:
        return _Rule(glob_regex(glob), ignores, folders_only)
    except BadGlob:
        if strict:
            raise
        return None


def _git_folder(path: str) -> str:
    """The git folder whose ``info/exclude`` counts for ``path``; a linked worktree's is the main one's."""
    git = os.path.join(path, ".git")
    try:
        with open(git, "rb") as file:
            text = file.read(8192).decode("utf-8", "surrogateescape")
    except OSError:
        return git
    if not text.startswith("gitdir: "):
        return git
    linked = os.path.join(path, text[8:].strip("\n"))
    try:
        with open(os.path.join(linked, "commondir"), "rb") as file:
            return os.path.join(linked, os.fsdecode(file.read(8192)).strip("\n"))
    except OSError:
        return linked
