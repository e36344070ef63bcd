"""What no tool may reach, as data shared by the native tools and the mounts: credential stores, deny patterns.

The lists here are the one source for both sides of BND-17, so that a file closed to ``read`` is closed to
``cat`` as well. Paths are compared in their canonical form, and once more as a file system compares them that
knows no case, no trailing dots and several spellings of a letter: where names are exact, that closes a little more.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from drawbar.boundary.credentials import (
    HOME_CREDENTIALS,
    SYSTEM_CREDENTIALS,
    credential_paths,
    passwd_homes,
    system_credential_paths,
)
from drawbar.boundary.other_names import OtherNames, TooManyNames
from drawbar.contracts.boundary import Policy

__all__ = [
    "HOME_CREDENTIALS",
    "PROTECTED_NAMES",
    "SYSTEM_CREDENTIALS",
    "Reach",
    "Unreachable",
    "below",
    "credential_paths",
    "deny_matcher",
    "folded",
    "passwd_homes",
    "system_credential_paths",
]

PROTECTED_NAMES: Final[frozenset[str]] = frozenset({".git", ".drawbar"})
"""Names that no native write may create, replace or enter, at any depth (BND-7); compared without case."""

_KERNEL_FOLDERS: Final = ("/proc", "/sys", "/dev")
_GLOB: Final = frozenset("*?[!")
_SHORT_NAMES: Final = {"git~1": ".git", "drawba~1": ".drawbar"}
"""What a file system with short names calls the protected ones."""
_WHY_PROTECTED: Final = {
    ".git": "is git's own: use git commands",
    ".drawbar": "holds settings that only a person changes",
}


def below(path: str, folder: str) -> bool:
    """Whether the absolute ``path`` is ``folder`` or lies in it; both normalised."""
    return path == folder or folder == "/" or (path.startswith(folder) and path[len(folder)] == "/")


def folded(path: str) -> str:
    """``path`` as a lenient file system compares it: without case, trailing dots and spaces, or unseen characters."""
    text = path.casefold()
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
        text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    if text.endswith((".", " ")) or "./" in text or " /" in text:
        text = "/".join(name.rstrip(". ") or name for name in text.split("/"))
    return text


def deny_matcher(patterns: Sequence[str], root: Path) -> Callable[[Path], bool]:
    """A test of canonical absolute paths against the ``deny_read`` patterns of account and project.

    A pattern is what a ``.gitignore`` line would be, relative to ``root`` (``.env``, ``secrets/``,
    ``config/*.key``, a later ``!keep.env`` opens again), or an absolute or ``~/`` path, which may hold globs.
    One that begins with ``/`` is read both ways; read as absolute it never covers the root itself. Outside the
    root, patterns without a folder in them hold too, so that ``id_rsa`` closes every ``id_rsa``.
    A path is closed when it or any folder above it matches, as written or as :func:`folded`.

    Raises:
        ValueError: for a pattern that git would refuse as well.
    """
    if not patterns:
        return lambda _path: False
    exact = _matcher(patterns, str(root))
    lenient = _matcher([folded(pattern) for pattern in patterns], str(root), expanded=patterns)
    same = all(pattern == folded(pattern) for pattern in patterns)

    def denied(path: Path) -> bool:
        # A pattern's own wildcards don't go over a line's end, which a folder's name may well hold.
        text = str(path).replace("\n", "_")
        if exact(text):
            return True
        start = len(str(root)) if below(text, str(root)) else 0
        bent = text[:start] + folded(text[start:])
        return not (same and bent == text) and lenient(bent)

    return denied


def _matcher(patterns: Sequence[str], root_text: str, *, expanded: Sequence[str] = ()) -> Callable[[str], bool]:
    from pathspec import GitIgnoreSpec

    absolute_lines = _absolute_lines(expanded or patterns, root_text)
    if expanded:
        absolute_lines = [folded(line) for line in absolute_lines]
    inside = GitIgnoreSpec.from_lines([line for line in patterns if not line.startswith("~/")])
    absolute = GitIgnoreSpec.from_lines(absolute_lines)
    anywhere = [line for line in patterns if "/" not in line.removeprefix("!").removeprefix("**/").rstrip("/")]
    outside = GitIgnoreSpec.from_lines([*anywhere, *absolute_lines])

    def closed(spec: GitIgnoreSpec, relative: str) -> bool:
        # The trailing slash lets a folder-only pattern match the folder itself.
        return spec.match_file(relative) or spec.match_file(relative + "/")

    def denied(text: str) -> bool:
        if not below(text, root_text):
            return closed(outside, text[1:])
        relative = text[len(root_text) + 1 :]
        return (bool(relative) and closed(inside, relative)) or closed(absolute, text[1:])

    return denied


def _absolute_lines(patterns: Iterable[str], root: str) -> list[str]:
    lines: list[str] = []
    for pattern in patterns:
        path = os.path.expanduser(pattern) if pattern.startswith("~/") else pattern
        if not path.startswith("/"):
            continue
        bare = path.rstrip("/")
        spellings = [bare] if _GLOB & set(bare) else list(dict.fromkeys((bare, os.path.realpath(bare))))
        lines += [spelling for spelling in spellings if spelling and not below(root, spelling)]
    return lines


class Unreachable(Exception):
    """A path that policy puts out of reach: ``rule`` names which list, ``message`` says it to the model."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message


class Reach:
    """The closed paths of one policy, compiled once and asked for every path that a native tool names.

    Args:
        policy: its ``hidden``, ``readable``, ``deny_read`` and root are used.
        homes: home folders whose credential stores are closed; None looks them up at the first need.
    """

    def __init__(self, policy: Policy, homes: Sequence[Path] | None = None) -> None:
        self._root = str(policy.root.path)
        self._git_folders = tuple(str(path) for path in policy.root.git_dirs)
        self._hidden = tuple(dict.fromkeys(map(folded, _spellings(policy.hidden))))
        self._readable = _spellings(policy.readable)
        self._denied = deny_matcher(policy.deny_read, policy.root.path) if policy.deny_read else None
        self._homes = homes
        self._hidden_as_given = _spellings(policy.hidden)
        self._stores: frozenset[str] | None = None
        self._bent_stores: frozenset[str] | None = None
        self._stores_here: frozenset[str] | None = None
        self._closed_files = tuple(_literal(policy.deny_read))
        self._other_names = OtherNames(self._root, self._closed_outside, inside=bool(policy.deny_read))

    def pinned(self, path: str) -> bool:
        """Whether the run pinned ``path`` as readable, such as a skill's file (BND-16)."""
        return any(below(path, folder) for folder in self._readable)

    def check_read(self, path: str) -> None:
        """Refuse a canonical path that nothing may read.

        Raises:
            Unreachable: for kernel folders, hidden folders, credential stores and ``deny_read`` (BND-16, BND-17).
        """
        self._check(path, pinned_too=True)

    def check_write(self, path: str, relative: str) -> None:
        """Refuse a canonical path below the root that no native write may touch (BND-7).

        Raises:
            Unreachable: for git's own files, the settings folder, and whatever :meth:`check_read` refuses; a
                pinned file of the harness may be read but not written (BND-16).
        """
        for part in folded(relative).split("/"):
            name = _SHORT_NAMES.get(part, part)
            if name in PROTECTED_NAMES:
                raise Unreachable(f"path:{name.lstrip('.')}", _WHY_PROTECTED[name])
        if any(below(path, folder) for folder in self._git_folders):
            raise Unreachable("path:git", _WHY_PROTECTED[".git"])
        self._check(path, pinned_too=False)

    def check_file(self, path: str, status: os.stat_result) -> None:
        """Refuse an opened file of which another name is closed: a hard link is the file itself.

        Args:
            path: the canonical path under which it was opened.
            status: of the opened file.

        Raises:
            Unreachable: as :meth:`check_read`, or when the names of the file can't be told.
        """
        try:
            names = self._other_names.of(status, path)
        except TooManyNames as error:
            message = "has several names (hard links), and whether one of them is closed can't be told in time"
            raise Unreachable("path:links", message) from error
        for name in names:
            try:
                self.check_read(name)
            except Unreachable as error:
                message = "is another name (a hard link) of a file that no tool may open"
                raise Unreachable(error.rule, message) from error

    def _closed_outside(self) -> Iterable[str]:
        return (*self._credential_stores(), *self._hidden_as_given, *self._closed_files)

    def _check(self, path: str, *, pinned_too: bool) -> None:
        bent = folded(path)
        if below(path, self._root):
            stores = self._credential_stores_here()
        else:
            if any(below(path, folder) for folder in _KERNEL_FOLDERS):
                raise Unreachable("path:kernel", "is a kernel or device path, which file tools don't open")
            stores = self._credential_stores()
        if self._denied is not None and self._denied(Path(path)):
            raise Unreachable("path:deny_read", "is closed to every tool by a deny_read setting")
        if stores and (_in_any(path, stores) or (bent != path and _in_any(bent, self._folded_stores()))):
            raise Unreachable("path:credential", "is a credential store, which no tool may open")
        if self._hidden and any(below(bent, folder) for folder in self._hidden):
            if pinned_too and self.pinned(path):
                return
            raise Unreachable("path:hidden", "belongs to the harness, which no tool may touch")

    def _credential_stores(self) -> frozenset[str]:
        if self._stores is None:
            homes = passwd_homes() if self._homes is None else self._homes
            found = set(_spellings(system_credential_paths()))
            for home in homes:
                found.update(_stores_of(str(home)))
            self._stores = frozenset(found)
        return self._stores

    def _folded_stores(self) -> frozenset[str]:
        if self._bent_stores is None:
            self._bent_stores = frozenset(map(folded, self._credential_stores()))
        return self._bent_stores

    def _credential_stores_here(self) -> frozenset[str]:
        # A root seldom lies near a credential store, so an ordinary path inside is compared with none.
        if self._stores_here is None:
            self._stores_here = frozenset(
                store for store in self._credential_stores() if below(store, self._root) or below(self._root, store)
            )
        return self._stores_here


def _literal(patterns: Iterable[str]) -> Iterable[str]:
    """The patterns that are a path of their own, which can be looked into."""
    for pattern in patterns:
        path = os.path.expanduser(pattern) if pattern.startswith("~/") else pattern
        if path.startswith("/") and path.strip("/") and not _GLOB & set(path):
            yield os.path.realpath(path)


def _in_any(path: str, folders: frozenset[str]) -> bool:
    """As ``any(below(path, f) for f in folders)``, by looking each ancestor up."""
    end = len(path)
    while end > 0:
        if path[:end] in folders:
            return True
        end = path.rfind("/", 0, end)
    return False


def _stores_of(home: str) -> set[str]:
    # Resolving a hundred names in each of thirty homes costs milliseconds; only what exists can be a symlink.
    try:
        present = set(os.listdir(home))
    except OSError:
        present = set[str]()
    found: set[str] = set()
    for relative in HOME_CREDENTIALS:
        path = f"{home}/{relative}"
        found.add(path)
        if relative.split("/", 1)[0] in present:
            found.add(os.path.realpath(path))
    return found


def _spellings(paths: Iterable[Path]) -> tuple[str, ...]:
    """Each path as given and as resolved, since a store may itself be a symlink."""
    found: dict[str, None] = {}
    for path in paths:
        text = os.path.normpath(str(path))
        found[text] = None
        found[os.path.realpath(text)] = None
    return tuple(found)
