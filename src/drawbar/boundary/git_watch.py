"""Looking after a workspace's git folders around commands: what they bring is taken out before the person's git runs.

The mounts keep the workspace's own git folder while a command runs. Every other one below the root, and whatever a
command makes anew, is compared afterwards with what was there before (BND-11, QLT-3).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import stat
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from drawbar.boundary.git_guards import TreeGuards, mend_tree, tree_guards
from drawbar.boundary.git_mend import Place, mend_folder, open_folders, set_aside
from drawbar.boundary.git_search import Found, search
from drawbar.boundary.git_state import FolderState, folder_at, observe, read_at, root_descriptor
from drawbar.boundary.supervised import through_cancellation
from drawbar.contracts.boundary import PinnedRoot
from drawbar.contracts.errors import WorkspaceRefused

__all__ = ["GitWatch"]

LIMIT_S: Final = 10.0
FRESH_S: Final = 10.0
"""How long what was seen between commands counts as how the person left things."""

_NOBODY: Final = 0
"""No process has this number, so that the record is taken for that of one that is gone."""

_UNLOOKED: Final = (
    "No command is started meanwhile. Look at new .git folders before you run git in them (find . -name .git). Try "
    "again when the machine is less busy, or work in a smaller folder."
)
_PRIVILEGED: Final = stat.S_ISUID | stat.S_ISGID


@dataclass(slots=True)
class _Seen:
    """What was there before commands ran: git folders by absolute path, pointers by text, privileged files."""

    folders: dict[str, FolderState] = field(default_factory=dict[str, FolderState])
    pointers: dict[str, str] = field(default_factory=dict[str, str])
    privileged: set[str] = field(default_factory=set[str])
    closed: set[str] = field(default_factory=set[str])
    guards: TreeGuards = field(default_factory=TreeGuards)

    def as_json(self) -> dict[str, Any]:
        return {
            "folders": {path: state.as_json() for path, state in self.folders.items()},
            "pointers": self.pointers,
            "privileged": sorted(self.privileged),
            "closed": sorted(self.closed),
            "guards": self.guards.as_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> _Seen:
        folders = {path: FolderState.from_json(state) for path, state in data["folders"].items()}
        guards = TreeGuards.from_json(data["guards"])
        return cls(folders, dict(data["pointers"]), set(data["privileged"]), set(data["closed"]), guards)

    def moved(self, old: str, new: str) -> _Seen:
        """The same of a root that has another path now."""

        def there(path: str) -> str:
            return new + path.removeprefix(old) if path == old or path.startswith(f"{old}/") else path

        guards = TreeGuards(
            {there(path): programs for path, programs in self.guards.hooks.items()},
            {there(path): settings for path, settings in self.guards.configs.items()},
        )
        folders = {there(path): state for path, state in self.folders.items()}
        return _Seen(folders, self.pointers, self.privileged, self.closed, guards)


class GitWatch:
    """Watches one root on behalf of one run.

    Args:
        root: the pinned root.
        records: a folder out of every command's reach. While commands run it holds what was there before, so that
            a crash of the harness between a command and the look after it is made good by the next run.
        settings: the session's copies of configurations.
    """

    def __init__(self, root: PinnedRoot, records: Path, settings: Path | None = None) -> None:
        self._root = root
        self._records = records
        self._settings = settings
        self._record = records / f"git-{_workspace(root)}-{os.getpid()}-{secrets.token_hex(4)}.json"
        self._seen: _Seen | None = None
        self._at = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        self._running = 0
        self._recovered_said: list[str] = []
        self.owed: str | None = None
        """Why what commands left could not be looked at yet; until it was, none may start."""

    def begin(self) -> None:
        """Look beside the model's request at how the person left things; nothing when a command is running."""
        # While a look is owed, what is there may be a command's doing.
        if self._running == 0 and self.owed is None and (self._looking is None or self._looking.done()):
            self._looking = asyncio.ensure_future(self._look())

    async def before(self) -> list[str]:
        """A command that may write is about to start.

        Returns:
            What an earlier command had left whose look was prevented, and was undone now.

        Raises:
            WorkspaceRefused: the tree can't be looked through in time, so that nobody could tell afterwards what the
                command brought.
        """
        self._recovered_said += await self._recovered()
        if self.owed is not None and self._seen is not None:
            await self._pay(self._seen)
        if self._running == 0 and (self._looking is None or self._seen is None or self._stale()):
            self.begin()
        if self._looking is not None and not self._looking.done():
            await asyncio.shield(self._looking)
        if self._seen is None:
            raise self._refused(_too_slow(self._root.path))
        if self._running == 0:
            self._refresh(self._seen)
        self._running += 1
        if self._running == 1:
            self._write_record(self._seen)
        said, self._recovered_said = self._recovered_said, []
        return said

    async def after(self, guarded: Iterable[Path] = ()) -> list[str]:
        """The command has ended: undo what it brought that git would run or follow.

        Args:
            guarded: what it could not write; a change there is the person's own.

        Returns:
            What was done, one sentence each.
        """
        seen = self._seen or _Seen()
        try:
            said = await through_cancellation(self._mended(seen, frozenset(map(str, guarded))))
        finally:
            self._running -= 1
        if self._running == 0 and self.owed is None:
            self._record.unlink(missing_ok=True)
        return said

    async def close(self) -> None:
        """End a look that is under way; one that is owed is left to the next run in this workspace."""
        if self._looking is not None and not self._looking.done():
            self._looking.cancel()
            await asyncio.wait((self._looking,))
        if self.owed is not None:
            left = f"git-{_workspace(self._root)}-{_NOBODY}-{secrets.token_hex(4)}.json"
            with contextlib.suppress(FileNotFoundError):
                os.replace(self._record, self._records / left)

    # -- looking ----------------------------------------------------------------------------------------

    def _stale(self) -> bool:
        return time.monotonic() - self._at > FRESH_S

    async def _look(self) -> None:
        found = await search(self._root.path, LIMIT_S)
        self._seen = None if found is None else self._observed(found)
        self._at = time.monotonic()

    def _refresh(self, seen: _Seen) -> None:
        """The person may have changed a known git folder since the look: what it holds now is theirs."""
        inside = [os.path.relpath(path, self._root.path) for path in seen.folders if self._is_below(path)]
        for path, fd in self._places(inside):
            seen.folders[str(path)] = observe(fd)

    def _is_below(self, path: str) -> bool:
        return Path(path).is_relative_to(self._root.path)

    def _observed(self, found: Found) -> _Seen:
        seen = _Seen(privileged=set(found.privileged), closed=set(found.closed))
        for path, fd in self._places(found.folders):
            seen.folders[str(path)] = observe(fd)
        with self._opened_root() as root_fd:
            seen.pointers = {name: _pointer(root_fd, name) for name in found.pointers}
        seen.guards = tree_guards(self._root.path, seen.folders)
        return seen

    def _places(self, folders: Iterable[str]) -> Iterator[tuple[Path, int]]:
        """Each git folder below the root and the root's own elsewhere, opened."""
        with self._opened_root() as root_fd:
            for relative in sorted(folders):
                with contextlib.suppress(OSError):
                    fd = folder_at(root_fd, relative)
                    try:
                        yield (self._root.path if relative == "." else self._root.path / relative), fd
                    finally:
                        os.close(fd)
        for path in self._elsewhere():
            with contextlib.suppress(OSError):
                fd = root_descriptor(path)
                try:
                    yield path, fd
                finally:
                    os.close(fd)

    def _elsewhere(self) -> Iterator[Path]:
        """A linked worktree's or submodule's verified folders; other worktrees' are closed to commands."""
        yield from (path for path in self._root.git_dirs if not path.is_relative_to(self._root.path))

    @contextlib.contextmanager
    def _opened_root(self) -> Generator[int]:
        fd = root_descriptor(self._root.path)
        try:
            yield fd
        finally:
            os.close(fd)

    # -- mending ----------------------------------------------------------------------------------------

    async def _mended(self, seen: _Seen, guarded: frozenset[str] = frozenset()) -> list[str]:
        try:
            said: list[str] = []
            found = await search(self._root.path, LIMIT_S)
            known = set(seen.closed)
            while found is not None and (closed := found.closed - known):
                # What lies in one can't be told before it is open, a further closed one above all.
                known |= closed
                with self._opened_root() as root_fd:
                    said += open_folders(root_fd, self._root.path, closed)
                found = await search(self._root.path, LIMIT_S)
            said += [] if found is None else self._undone(found, seen, guarded)
            self.owed = _too_slow(self._root.path) if found is None else None
        except OSError as error:
            said, self.owed = [], f"{self._root.path} could not be looked through ({error.strerror})"
        return said

    async def _pay(self, seen: _Seen) -> None:
        """Make up for a look that was prevented."""
        self._recovered_said += await self._mended(seen)
        if self.owed is not None:
            raise self._refused(self.owed)
        if self._running == 0:
            self._record.unlink(missing_ok=True)
            self._seen = None

    def _refused(self, why: str) -> WorkspaceRefused:
        return WorkspaceRefused(f"{why}. {_UNLOOKED}", path=str(self._root.path))

    def _undone(self, found: Found, seen: _Seen, guarded: frozenset[str]) -> list[str]:
        said: list[str] = []
        allowed = (self._root.path, *self._root.git_dirs)
        for path, fd in self._places(found.folders):
            place = Place(path, fd, self._root.path, allowed, guarded, self._settings)
            said += mend_folder(place, seen.folders.get(str(path)))
        with self._opened_root() as root_fd:
            for name in sorted(found.pointers):
                said += self._mend_pointer(root_fd, name, seen)
            for name in sorted(found.privileged - seen.privileged):
                said += self._mend_privileged(root_fd, name)
        said += mend_tree(self._root.path, seen.guards, guarded)
        return list(dict.fromkeys(said))

    def _mend_pointer(self, root_fd: int, name: str, seen: _Seen) -> Iterator[str]:
        """A ``.git`` file or link may lead below the root, where it is looked at itself, or stay as it was."""
        text = _pointer(root_fd, name)
        if not text or seen.pointers.get(name) == text:
            return
        kind, _, target = text.partition(":")
        real = Path(os.path.realpath((self._root.path / name).parent / target.strip()))
        if kind in ("gitdir", "link") and any(
            real.is_relative_to(folder) for folder in (self._root.path, *self._root.git_dirs)
        ):
            return
        folder, _, last = name.rpartition("/")
        with contextlib.suppress(OSError):
            fd = folder_at(root_fd, folder)
            try:
                free = set_aside(fd, last)
            finally:
                os.close(fd)
            yield f"{self._root.path / name} would send git to {real}: it was set aside as {free}"

    def _mend_privileged(self, root_fd: int, name: str) -> Iterator[str]:
        folder, _, last = name.rpartition("/")
        with contextlib.suppress(OSError):
            above = folder_at(root_fd, folder)
            try:
                fd = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=above)
            finally:
                os.close(above)
            try:
                os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) & ~_PRIVILEGED)
            finally:
                os.close(fd)
            yield f"{self._root.path / name} would run with its owner's rights for anybody: that bit was taken off"

    # -- across crashes ---------------------------------------------------------------------------------

    def _write_record(self, seen: _Seen) -> None:
        self._records.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = self._record.with_suffix(".part")
        data = {"root": str(self._root.path), **seen.as_json()}
        part.write_text(json.dumps(data), "utf-8", "surrogateescape")
        os.replace(part, self._record)

    async def _recovered(self) -> list[str]:
        """Undo what commands left of runs whose harness died before it could look."""
        said: list[str] = []
        for record in _abandoned(self._records, _workspace(self._root)):
            try:
                data = json.loads(record.read_text("utf-8", "surrogateescape"))
                seen = _Seen.from_json(data).moved(data["root"], str(self._root.path))
            except (OSError, ValueError, KeyError, TypeError):
                seen = _Seen()
            said += await self._mended(seen)
            if self.owed is not None:
                # The record stays, and with it the look that is owed.
                why, self.owed = self.owed, None
                self._recovered_said += said
                raise self._refused(why)
            record.unlink(missing_ok=True)
        if said and self._running == 0:
            self._seen = None
        return said


def _abandoned(records: Path, workspace: str) -> list[Path]:
    found: list[Path] = []
    try:
        names = os.listdir(records)
    except OSError:
        return found
    for name in names:
        parts = name.removesuffix(".json").split("-")
        if not name.endswith(".json") or len(parts) != 4 or parts[:2] != ["git", workspace]:
            continue
        if parts[2].isdigit() and not os.path.exists(f"/proc/{parts[2]}"):
            found.append(records / name)
    return found


def _too_slow(root: Path) -> str:
    return f"Looking through {root} for what git would run or follow took over {LIMIT_S:g} s"


def _workspace(root: PinnedRoot) -> str:
    return f"{root.device:x}_{root.inode:x}"


def _pointer(root_fd: int, name: str) -> str:
    """What a ``.git`` that is no folder says: ``gitdir: …``, ``link: …``, or nothing that git would follow."""
    folder, _, last = name.rpartition("/")
    try:
        fd = folder_at(root_fd, folder)
    except OSError:
        return ""
    try:
        found = os.stat(last, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            return "link: " + os.readlink(last, dir_fd=fd)
        text = read_at(fd, last)
        return text.rstrip("\r\n") if text is not None and text.startswith("gitdir: ") else ""
    except OSError:
        return ""
    finally:
        os.close(fd)
