"""Taking the programs out of a git folder that a command left there, and what would lead git elsewhere (BND-11).

Nothing is lost: a hook loses its executable bit, a file is renamed beside itself, settings are taken out and named.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drawbar.boundary.git_config import ConfigUnreadable, Entry, filtered, rewritten
from drawbar.boundary.git_harmless import harmless
from drawbar.boundary.git_state import (
    CONFIGS,
    TODOS,
    FolderState,
    executables,
    folder_at,
    odd_names,
    read_at,
    root_descriptor,
    runs_a_program,
)

__all__ = ["Place", "mend_config", "mend_folder", "mend_hooks", "open_folders", "set_aside"]

ASIDE: Final = ".set-aside"
_MERGES: Final = frozenset({"ort", "recursive", "resolve", "ours", "octopus", "subtree"})
_ATTEMPTS: Final = 100


@dataclass(frozen=True, slots=True)
class Place:
    """A git folder below the root or at one of the root's own verified git folders, opened."""

    path: Path
    fd: int
    root: Path
    allowed: tuple[Path, ...]
    """Folders into which links may lead: the root and its verified git folders."""

    guarded: frozenset[str] = frozenset()
    """Absolute paths that no command could write."""

    settings: Path | None = None
    """The session's copies of configurations, to which a copied git folder still leads."""

    def holds(self, name: str) -> bool:
        """Whether ``name`` was kept from commands, itself or a folder above it."""
        path = self.path / name
        return any(str(above) in self.guarded for above in (path, *path.parents))


def mend_folder(place: Place, before: FolderState | None) -> list[str]:
    """Undo what commands brought into one git folder; ``before`` is None for one that they made.

    Returns:
        What was done, one sentence each.
    """
    known = FolderState() if before is None else before
    _own_settings(place)
    said = list(_links(place, known))
    said += _commondir(place, known)
    now = dict(odd_names(place.fd))
    for name in CONFIGS:
        if name in now and now[name] == known.odd.get(name):
            continue
        said += mend_config(place, name, known.config.get(name, []))
    said += mend_hooks(place, "hooks", known.hooks)
    said += _steps(place, known)
    return said


def mend_config(place: Place, name: str, known: list[Entry] | None) -> list[str]:
    """Take settings out of a configuration that weren't there and aren't known to be harmless."""
    if place.holds(name):
        return []
    text = read_at(place.fd, name)
    if text is None:
        return [] if not _there(place.fd, name) else [_moved(place, name, "git can't be told what is in it")]
    trusted = set(known or ())

    def keep(entry: Entry) -> bool:
        return entry in trusted or harmless(entry, base=place.path, root=place.root)

    try:
        new, dropped = filtered(text, keep)
    except ConfigUnreadable:
        if known is None:
            return []
        said = _moved(place, name, "it can't be read for sure")
        _write(place.fd, name, rewritten("", known, lambda _entry: True))
        return [said]
    if not dropped:
        return []
    _write(place.fd, name, new)
    names = ", ".join(dict.fromkeys(entry.name for entry in dropped))
    return [f"{place.path}/{name}: {names} could make git run a program or work elsewhere, and was taken out"]


def mend_hooks(place: Place, folder: str, known: dict[str, str]) -> list[str]:
    """Take the executable bit from hooks that weren't there before; links are set aside."""
    said: list[str] = []
    if place.holds(folder):
        return said
    for name, digest in list(executables(place.fd, folder)):
        if known.get(name) == digest:
            continue
        path = f"{folder}/{name}"
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place.fd)
        except OSError:
            said.append(_moved(place, path, "git would run what it leads to"))
            continue
        try:
            os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) & ~0o111)
        finally:
            os.close(fd)
        said.append(f"{place.path}/{path} is a program that git would run: it is no longer executable")
    return said


def open_folders(root_fd: int, root: Path, names: Iterable[str]) -> Iterable[str]:
    """Let the person into folders below the root that commands closed, since nobody could tell what is in them."""
    for name in sorted(names):
        above, _, last = name.rpartition("/")
        with contextlib.suppress(OSError):
            folder = folder_at(root_fd, above)
            try:
                fd = os.open(last, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            finally:
                os.close(folder)
            try:
                # By its descriptor: the name may be a link by now.
                os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(os.fstat(fd).st_mode) | stat.S_IRWXU)
            finally:
                os.close(fd)
            yield f"{root / name} was closed, so that nobody could look in: it was opened"


def set_aside(folder_fd: int, name: str) -> str:
    """Rename ``name`` to a free name beside it, and say which.

    Raises:
        OSError: it can't be renamed.
    """
    for number in range(_ATTEMPTS):
        free = f"{name}{ASIDE}{number or ''}"
        if not _there(folder_fd, free):
            os.rename(name, free, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
            return free
    os.unlink(name, dir_fd=folder_fd)
    return "nothing"


def _own_settings(place: Place) -> None:
    """A git folder that a command copied (``cp -r``) gets a configuration of its own for the link to the session's."""
    if place.settings is None:
        return
    for name in CONFIGS:
        with contextlib.suppress(OSError):
            target = Path(os.readlink(name, dir_fd=place.fd))
            if target.parent != place.settings:
                continue
            folder = root_descriptor(place.settings)
            try:
                text = read_at(folder, target.name)
            finally:
                os.close(folder)
            if text is not None:
                _write(place.fd, name, text)


def _links(place: Place, known: FolderState) -> Iterable[str]:
    for name, what in list(odd_names(place.fd)):
        if known.odd.get(name) == what or name.startswith("hooks/") or place.holds(name):
            continue
        if what != "special" and name not in ("hooks", *CONFIGS):
            real = Path(os.path.realpath(place.path / name))
            if any(real.is_relative_to(folder) for folder in place.allowed):
                continue
        if name in ("hooks", *CONFIGS):
            yield _moved(place, name, "git would follow it")
            continue
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=place.fd)
            where = "is no plain file" if what == "special" else f"leads to {what}"
            yield f"{place.path}/{name} {where}, where git would write: it was removed"


def _commondir(place: Place, known: FolderState) -> Iterable[str]:
    if not _there(place.fd, "commondir"):
        return
    text = read_at(place.fd, "commondir")
    if text is not None and text == known.commondir:
        return
    if text is not None and place.path.parent.name == "worktrees":
        named = Path(os.path.realpath(place.path / text.rstrip("\r\n")))
        if named == Path(os.path.realpath(place.path.parent.parent)):
            return
    with contextlib.suppress(OSError):
        if known.commondir is not None:
            _write(place.fd, "commondir", known.commondir)
        elif text is None and stat.S_ISDIR(os.stat("commondir", dir_fd=place.fd, follow_symlinks=False).st_mode):
            set_aside(place.fd, "commondir")
        else:
            os.unlink("commondir", dir_fd=place.fd)
        yield f"{place.path}/commondir would send git to another folder: it was removed"


def _steps(place: Place, known: FolderState) -> Iterable[str]:
    for name in TODOS:
        text = read_at(place.fd, name)
        if text is None:
            continue
        lines = text.splitlines(keepends=True)
        bad = [at for at, line in enumerate(lines) if runs_a_program(line) and line.rstrip("\r\n") not in known.steps]
        if bad:
            first = lines[bad[0]].strip()
            for at in bad:
                lines[at] = "noop\n"
            _write(place.fd, name, "".join(lines))
            yield f"{place.path}/{name} would run `{first}` when the rebase goes on: that step was taken out"
    for folder in ("rebase-merge", "rebase-apply", "sequencer"):
        strategy = read_at(place.fd, f"{folder}/strategy")
        if strategy is not None and strategy.strip() and strategy.strip() not in _MERGES:
            yield _moved(place, f"{folder}/strategy", "git would run a program of that name")


def _moved(place: Place, name: str, why: str) -> str:
    try:
        free = set_aside(place.fd, name)
    except OSError as error:
        return f"{place.path}/{name}: {why}, and it could not be set aside ({error.strerror}): look at it first"
    return f"{place.path}/{name}: {why}, so it was set aside as {os.path.basename(free)}"


def _there(folder_fd: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except OSError:
        return False
    return True


def _write(folder_fd: int, name: str, text: str) -> None:
    """Replace a plain file in one step, keeping its permission bits."""
    mode = 0o644
    with contextlib.suppress(OSError):
        mode = stat.S_IMODE(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode) & 0o777
    temporary = f"{name}.{os.getpid()}.drawbar"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder_fd)
    fd = os.open(temporary, flags, 0o600, dir_fd=folder_fd)
    with open(fd, "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
        os.fchmod(fd, mode)
    os.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
