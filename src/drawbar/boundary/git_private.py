"""A repository's settings as a session's commands see and change them, and what of it the person's own get (BND-11).

A command that writes ``.git/config`` writes a copy. Afterwards what ordinary git work records there (upstreams, new
remotes, submodules, sparse checkouts) is carried over through a strict reader; nothing that names a program is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from drawbar.boundary.git_attacher import Attacher
from drawbar.boundary.git_config import ConfigUnreadable, Entry, parse, rewritten
from drawbar.boundary.git_harmless import carried
from drawbar.boundary.git_state import CONFIGS, read_at, root_descriptor

__all__ = ["PrivateSettings"]

_SPARSE: Final = "sparse-checkout"
_LOCK_TRIES, _LOCK_WAIT_S = 20, 0.005
_NAMED: Final = 6


@dataclass(slots=True)
class _Copy:
    """One file of a git folder: where it is, its copy's name, and the text that both had when they last agreed."""

    real: Path
    name: str
    base: str = ""


@dataclass(slots=True)
class _Info:
    real: Path
    name: str
    base: str | None = None


@dataclass(slots=True)
class PrivateSettings:
    """The copies of one session.

    Args:
        folder: the session's own, shown to its commands at the same path and writable for them. Whatever they make
            of it harms only what they see themselves.
        attacher: mounts the copies.
    """

    folder: Path
    attacher: Attacher = field(default_factory=Attacher)
    _copies: dict[Path, _Copy] = field(default_factory=dict[Path, _Copy])
    _infos: dict[Path, _Info] = field(default_factory=dict[Path, _Info])
    _attached: set[int] = field(default_factory=set[int])
    _told: set[tuple[str, Entry]] = field(default_factory=set[tuple[str, Entry]])
    _works: bool = True

    def prepare(self, bases: Iterable[Path]) -> bool:
        """Bring the copies for these git folders up to what the person has; whether commands can have copies."""
        if not self._works:
            return False
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = root_descriptor(self.folder)
        except OSError:
            return False
        try:
            for base in bases:
                for name in CONFIGS:
                    self._prepare_config(fd, base / name)
                self._prepare_info(fd, base / "info")
        except OSError:
            return False
        finally:
            os.close(fd)
        return True

    def attach(self, init: int) -> bool:
        """Mount the copies in the sandbox whose first process is ``init``; whether they are there.

        Where it can't be done the files stay read-only there, and git says that it could not write them.
        """
        if not self._works or not self._copies or init in self._attached:
            return self._works
        pairs = [(str(self.folder / f"link-{copy.name}"), str(copy.real)) for copy in self._copies.values()]
        pairs += [(str(self.folder / info.name), str(info.real)) for info in self._infos.values()]
        self._works = self.attacher.attach(init, pairs)
        if self._works:
            self._attached = {init}
        return self._works

    def carry_over(self) -> list[str]:
        """Give the person's own files what a command recorded in the copies.

        Returns:
            What was not carried over, one sentence each and each but once.
        """
        if not self._works:
            return []
        said: list[str] = []
        try:
            fd = root_descriptor(self.folder)
        except OSError:
            return said
        try:
            for copy in self._copies.values():
                said += self._carry_config(fd, copy)
            for info in self._infos.values():
                self._carry_sparse(fd, info)
        finally:
            os.close(fd)
        return said

    # -- configuration ----------------------------------------------------------------------------------

    def _prepare_config(self, fd: int, real: Path) -> None:
        text = _text(real)
        if text is None:
            return
        copy = self._copies.get(real)
        if copy is not None and copy.base == text and _readable(read_at(fd, copy.name)):
            return
        if copy is None:
            copy = self._copies[real] = _Copy(real, f"{real.name}-{_digest(real)}")
            self._attached.clear()
        copy.base = text
        _put(fd, copy.name, text)
        link = f"link-{copy.name}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(link, dir_fd=fd)
        os.symlink(self.folder / copy.name, link, dir_fd=fd)

    def _carry_config(self, fd: int, copy: _Copy) -> list[str]:
        text = read_at(fd, copy.name)
        if text is None or text == copy.base:
            return []
        try:
            new, base = parse(text), parse(copy.base)
        except ConfigUnreadable:
            return []
        steady = [entry for entry in base if _probed(entry)]
        if steady != [entry for entry in new if _probed(entry)]:
            text = rewritten(text, steady, _probed)
            _put(fd, copy.name, text)
            new = parse(text)
        added, removed = _difference(new, base), _difference(base, new)
        taken = [entry for entry in added if carried(entry) and not _redirects(entry, base)]
        left = [entry for entry in added if entry not in taken]
        # What a command put in the place of a setting isn't carried over, so the setting stays.
        replaced = {entry.name for entry in left}
        given_up = [entry for entry in removed if carried(entry) and entry.name not in replaced]
        if (taken or given_up) and not self._write_real(copy, taken, given_up):
            left += taken
        fresh = [entry for entry in left if (copy.name, entry) not in self._told]
        if not fresh:
            return []
        self._told.update((copy.name, entry) for entry in fresh)
        names = ", ".join(list(dict.fromkeys(entry.name for entry in fresh))[:_NAMED])
        return [f"{names}: set for this session's commands only, {copy.real} was not changed in that"]

    def _write_real(self, copy: _Copy, added: list[Entry], removed: list[Entry]) -> bool:
        """Change the person's file under git's own lock, on top of whatever it is now."""
        try:
            folder = root_descriptor(copy.real.parent)
        except OSError:
            return False
        lock = f"{copy.real.name}.lock"
        try:
            with _locked(folder, lock) as fd:
                now = read_at(folder, copy.real.name)
                if fd is None or now is None:
                    return False
                entries = parse(now)
                gone, wanted = Counter(removed), list[Entry]()
                for entry in entries:
                    if carried(entry) and gone[entry] > 0:
                        gone[entry] -= 1
                    elif carried(entry):
                        wanted.append(entry)
                wanted += [entry for entry in added if entry not in wanted]
                text = rewritten(now, wanted, carried)
                with open(fd, "wb", closefd=False) as file:
                    file.write(text.encode("utf-8", "surrogateescape"))
                os.fchmod(fd, os.stat(copy.real.name, dir_fd=folder, follow_symlinks=False).st_mode & 0o777)
                os.rename(lock, copy.real.name, src_dir_fd=folder, dst_dir_fd=folder)
        except (OSError, ConfigUnreadable):
            return False
        finally:
            os.close(folder)
        copy.base = text
        return True

    # -- sparse checkouts -------------------------------------------------------------------------------

    def _prepare_info(self, fd: int, real: Path) -> None:
        try:
            names = [name for name in os.listdir(real) if not os.path.islink(real / name)]
        except OSError:
            return
        info = self._infos.get(real)
        base = "\0".join(f"{name}\0{_text(real / name)}" for name in sorted(names))
        if info is not None and info.base == base:
            return
        if info is None:
            info = self._infos[real] = _Info(real, f"info-{_digest(real)}")
            self._attached.clear()
        info.base = base
        with contextlib.suppress(FileExistsError):
            os.mkdir(info.name, 0o755, dir_fd=fd)
        inner = os.open(info.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        try:
            for name in names:
                text = _text(real / name)
                if text is not None:
                    _put(inner, name, text)
        finally:
            os.close(inner)

    def _carry_sparse(self, fd: int, info: _Info) -> None:
        """The patterns of a sparse checkout: names of files, which git matches and never runs."""
        with contextlib.suppress(OSError):
            inner = os.open(info.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            try:
                text = read_at(inner, _SPARSE)
            finally:
                os.close(inner)
            if text is None or text == _text(info.real / _SPARSE):
                return
            folder = root_descriptor(info.real)
            try:
                _put(folder, _SPARSE, text)
            finally:
                os.close(folder)


def _readable(text: str | None) -> bool:
    """Whether commands can go on with their copy; a broken one would stop every git command."""
    if text is None:
        return False
    try:
        parse(text)
    except ConfigUnreadable:
        return False
    return True


def _probed(entry: Entry) -> bool:
    """What ``git init`` finds out by trying it on the configuration file, which here is a link."""
    return entry.section == "core" and entry.key in ("filemode", "symlinks")


def _difference(left: Iterable[Entry], right: Iterable[Entry]) -> list[Entry]:
    """The entries of ``left`` that ``right`` lacks, in order."""
    there = Counter(right)
    found: list[Entry] = []
    for entry in left:
        if there[entry] > 0:
            there[entry] -= 1
        else:
            found.append(entry)
    return found


def _redirects(entry: Entry, base: Iterable[Entry]) -> bool:
    """Whether a remote or submodule that the person has would come from or go to another place."""
    same = (entry.section, entry.subsection, "url")
    return entry.key in ("url", "fetch") and any((e.section, e.subsection, e.key) == same for e in base)


@contextlib.contextmanager
def _locked(folder: int, lock: str) -> Generator[int | None]:
    """Git's lock on a file, as a new file that becomes it; None when somebody holds it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = None
    for _ in range(_LOCK_TRIES):
        try:
            fd = os.open(lock, flags, 0o600, dir_fd=folder)
            break
        except FileExistsError:
            time.sleep(_LOCK_WAIT_S)
    if fd is None:
        yield None
        return
    mine = os.fstat(fd)
    try:
        yield fd
    finally:
        os.close(fd)
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(lock, dir_fd=folder, follow_symlinks=False), mine):
                os.unlink(lock, dir_fd=folder)


def _put(fd: int, name: str, text: str) -> None:
    part = f"{name}.{os.getpid()}.part"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(part, dir_fd=fd)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(part, flags, 0o644, dir_fd=fd), "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
    os.rename(part, name, src_dir_fd=fd, dst_dir_fd=fd)


def _text(path: Path) -> str | None:
    try:
        fd = root_descriptor(path.parent)
    except OSError:
        return None
    try:
        return read_at(fd, path.name)
    finally:
        os.close(fd)


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
