"""Git's folders read from the file system alone: no program runs, so no configuration can make one run (QLT-3).

A linked worktree or submodule keeps its real git folder outside its root. It is believed only when both ends
name each other: the ``.git`` file names the folder, and the folder names this root (BND-11).
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

__all__ = ["config_value", "git_file_target", "is_git_folder", "is_plain_folder", "named_path", "verified_git_folders"]

_MAX_POINTER: Final = 8 * 1024
_MAX_CONFIG: Final = 1024 * 1024
_SECTION: Final = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_KEY: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:(=)|(?=[\r\n#;]|$))")
_ESCAPES: Final = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}


def is_git_folder(path: Path) -> bool:
    """Whether git would take ``path`` for a git folder: it has a HEAD, and objects and refs or their whereabouts."""
    if not os.path.lexists(path / "HEAD"):
        return False
    return os.path.isfile(path / "commondir") or (os.path.isdir(path / "objects") and os.path.isdir(path / "refs"))


def is_plain_folder(path: Path) -> bool:
    """Whether ``path`` is a folder that no symlink is needed to reach."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode) and os.path.realpath(path) == str(path)
    except OSError:
        return False


def git_file_target(dot_git: Path) -> Path | None:
    """The canonical folder that a ``.git`` file names, or None when it names none."""
    text = _pointer(dot_git)
    if text is None or not text.startswith("gitdir: "):
        return None
    return _resolved(text.removeprefix("gitdir: "), dot_git.parent)


def named_path(pointer: Path) -> Path | None:
    """The canonical path in one of git's one-line files (``gitdir``, ``commondir``), relative to its folder."""
    text = _pointer(pointer)
    return _resolved(text, pointer.parent) if text else None


def verified_git_folders(root: Path) -> tuple[Path, ...]:
    """The real git folders of a linked worktree or submodule at ``root``, verified at both ends.

    Returns:
        ``(own, common)`` for a linked worktree, ``(own,)`` for a submodule, and nothing for an ordinary
        repository, for no repository, and for a ``.git`` file whose other end doesn't name ``root``.
    """
    dot_git = root / ".git"
    own = git_file_target(dot_git)
    if own is None or not is_plain_folder(own) or not is_git_folder(own):
        return ()
    if own.parent.name == "worktrees":
        common = named_path(own / "commondir")
        linked = common is not None and common == own.parent.parent and named_path(own / "gitdir") == dot_git
        return (own, common) if linked and common is not None and is_git_folder(common) else ()
    worktree = config_value(own / "config", "core", "worktree")
    if worktree is None or _resolved(worktree, own) != root:
        return ()
    return (own,)


def config_value(file: Path, section: str, key: str) -> str | None:
    """The last value of ``section.key`` in one git configuration file, None when unset or unreadable.

    Args:
        file: read as it is; includes are not followed.
        section: without subsection, in lower case.
        key: in lower case.
    """
    try:
        with open(file, "rb") as stream:
            text = stream.read(_MAX_CONFIG).decode("utf-8", "surrogateescape")
    except OSError:
        return None
    found: str | None = None
    current = ""
    at = 0
    while at < len(text):
        if (header := _SECTION.match(text, at)) is not None:
            subsection = f'"{header[2]}"' if header[2] is not None else ""
            current = header[1].lower() + subsection
            at = header.end()
        elif (entry := _KEY.match(text, at)) is not None:
            value, at = _value(text, entry.end()) if entry[2] else ("true", entry.end())
            if current == section and entry[1].lower() == key:
                found = value
        else:
            at = _line_end(text, at) + 1
    return found


def _value(text: str, at: int) -> tuple[str, int]:
    """A value from its ``=`` on, and where it ends: a quote protects, a backslash escapes or joins lines."""
    out: list[str] = []
    kept = 0
    quoted = False
    while at < len(text) and text[at] != "\n":
        character = text[at]
        at += 1
        if character in "#;" and not quoted:
            return "".join(out[:kept]), _line_end(text, at)
        if character == '"':
            quoted = not quoted
        elif character == "\\":
            escaped = text[at : at + 2] if text.startswith("\r\n", at) else text[at : at + 1]
            at += len(escaped)
            if escaped.endswith("\n"):
                continue
            out.append(_ESCAPES.get(escaped, escaped))
            kept = len(out)
        elif quoted or not character.isspace():
            out.append(character)
            kept = len(out)
        elif out:
            out.append(character)
    return "".join(out[:kept]), at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _pointer(file: Path) -> str | None:
    # Opened without following a link or waiting for a pipe's writer: the name may be anything at all.
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        data = os.read(fd, _MAX_POINTER)
    finally:
        os.close(fd)
    text = os.fsdecode(data).rstrip("\r\n")
    return text if text and "\0" not in text and "\n" not in text else None


def _resolved(path: str, base: Path) -> Path:
    return Path(os.path.realpath(os.path.join(base, path)))
