"""Where everything lies: the data, state and config folders and what each holds (CON-26, CON-30, CON-36)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drawbar import __version__
from drawbar.contracts.codec import as_object, encode, indent, loads
from drawbar.contracts.errors import IncompatibleRoot, InvalidInput, StorageFailed
from drawbar.stores.atomic import private_folder, storage_failure, write_atomic
from drawbar.stores.regular_file import read_regular
from drawbar.stores.root_check import explained, refuse_what_is_in_the_way

__all__ = [
    "ARTIFACTS_FOLDER",
    "CALLER_FILE",
    "CAPABILITIES_FILE",
    "CONTEXT_FILE",
    "EVENTS_FILE",
    "FORMAT",
    "LATE_FILE",
    "MCP_CONTEXT_FILE",
    "OWNER_FILE",
    "RUN_FILE",
    "SUBAGENTS_FILE",
    "Layout",
]

FORMAT: Final = 1
"""The data root's format that this release writes; ``needs`` in ``format.json`` is the least that can open it."""

RUN_FILE: Final = "run.json"
EVENTS_FILE: Final = "events.jsonl"
LATE_FILE: Final = "late.jsonl"
OWNER_FILE: Final = "owner.json"
SUBAGENTS_FILE: Final = "subagents.json"
CONTEXT_FILE: Final = "context.json"
CALLER_FILE: Final = "caller.json"
CAPABILITIES_FILE: Final = "capabilities.json"
MCP_CONTEXT_FILE: Final = "mcp-context.json"
ARTIFACTS_FOLDER: Final = "artifacts"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True, slots=True)
class Layout:
    """The three folders of one installation, absolute; making one touches nothing (:meth:`open` does)."""

    data: Path
    state: Path
    config: Path

    @classmethod
    def resolve(cls, environ: Mapping[str, str], root: Path | None = None) -> Layout:
        """Find the folders (CON-30, CON-36).

        Args:
            environ: the environment to read ``DRAWBAR_HOME`` and ``XDG_*_HOME`` from.
            root: a data root named on the command line; it goes before the environment.
        """
        named = str(root) if root is not None else environ.get("DRAWBAR_HOME", "")
        if named.strip():
            data = Path(os.path.abspath(os.path.expanduser(named)))
            return cls(data=data, state=data / "state", config=data / "config")
        data, state, config = (_platform_folder(environ, kind) for kind in ("data", "state", "config"))
        # Where a platform has one folder for all three, they stay apart in the way a named root keeps them.
        return cls(
            data=data,
            state=state if state != data else data / "state",
            config=config if config != data else data / "config",
        )

    def open(self) -> None:
        """Make the folders (0700) and check the root's format; opening costs the same however many runs there are.

        Raises:
            IncompatibleRoot: a newer release made the root in a way this one can't read; nothing was changed.
            StorageFailed: a folder can't be made or read; the message says what is in the way, or whose it is.
        """
        for folder in (self.data, self.state, self.config, self.runs, self.active, self.sessions, self.locks):
            refuse_what_is_in_the_way(folder)
        try:
            self._open()
        except StorageFailed as error:
            raise explained(error, self.data) from error

    def _open(self) -> None:
        known = self._known_format()
        for folder in (self.data, self.state, self.config):
            _make_private(folder, ours=known or not _holds_anything(folder))
        for folder in (self.runs, self.active, self.sessions, self.locks):
            private_folder(folder)
        if not known:
            written = {"format": FORMAT, "needs": FORMAT, "made_by": __version__}
            write_atomic(self.format_file, indent(encode(written)) + b"\n", sync=True)

    def _known_format(self) -> bool:
        try:
            raw = read_regular(self.format_file)
        except FileNotFoundError:
            return False
        except InvalidInput as error:
            raise StorageFailed(error.message, **error.facts) from error
        if not raw.strip(b"\0 \t\r\n"):
            return False  # a power cut while it was first written
        try:
            found = as_object(loads(raw)) or {}
        except ValueError:
            found = {}
        needs = found.get("needs", found.get("format"))
        if not isinstance(needs, int):
            raise IncompatibleRoot(
                f"{self.format_file} can't be understood, so {self.data} was left alone; if the file is damaged, "
                "delete it and open the root again",
                path=str(self.data),
            )
        if needs > FORMAT:
            raise IncompatibleRoot(
                f"{self.data} was made by drawbar {found.get('made_by', '(newer)')} and needs a release that reads "
                f"format {needs}; this one ({__version__}) reads up to {FORMAT}. Nothing was changed: upgrade drawbar, "
                "or name another root with DRAWBAR_HOME",
                path=str(self.data),
                needs=needs,
                reads=FORMAT,
            )
        return True

    # -- the data root (CON-36) --------------------------------------------------------------------

    @property
    def format_file(self) -> Path:
        return self.data / "format.json"

    @property
    def runs(self) -> Path:
        return self.data / "runs"

    @property
    def building(self) -> Path:
        """Run folders that are not published yet (CON-37)."""
        return self.runs / ".building"

    @property
    def active(self) -> Path:
        """One empty marker a run that has not settled, so that opening never scans ``runs/``."""
        return self.data / "active"

    @property
    def sessions(self) -> Path:
        return self.data / "sessions"

    @property
    def variants(self) -> Path:
        return self.data / "variants"

    @property
    def snapshots(self) -> Path:
        return self.data / "snapshots"

    @property
    def registry(self) -> Path:
        return self.data / "registry"

    @property
    def agents(self) -> Path:
        return self.data / "agents"

    @property
    def approvals_file(self) -> Path:
        return self.data / "approvals.jsonl"

    @property
    def trust_file(self) -> Path:
        return self.data / "trust.json"

    @property
    def worktrees_file(self) -> Path:
        return self.data / "worktrees.json"

    @property
    def index_file(self) -> Path:
        return self.data / "index.sqlite"

    def run(self, run_id: str) -> Path:
        """A run's folder; raises :class:`InvalidInput` for what is no name of one."""
        return self.runs / _safe(run_id, "run")

    def marker(self, run_id: str) -> Path:
        return self.active / _safe(run_id, "run")

    def session(self, session_id: str) -> Path:
        return self.sessions / _safe(session_id, "session")

    def history_dir(self, session_id: str) -> Path:
        return self.session(session_id) / "history"

    # -- state and config ---------------------------------------------------------------------------

    def session_tmp(self, session_id: str) -> Path:
        """The session's private temporary folder (not made here)."""
        return self.state / "tmp" / _safe(session_id, "session")

    def sandbox_tmp(self, name: str) -> Path:
        """As :meth:`session_tmp`, for a sandbox that a person named; no session's id begins with ``@``."""
        return self.state / "tmp" / f"@{_safe(name, 'sandbox session')}"

    @property
    def locks(self) -> Path:
        return self.state / "locks"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    def hidden(self) -> tuple[Path, ...]:
        """What no tool and no sandbox scope may reach (BND-16)."""
        return (self.data, self.state, self.config)


def _platform_folder(environ: Mapping[str, str], kind: str) -> Path:
    named = environ.get(f"XDG_{kind.upper()}_HOME", "")
    if os.path.isabs(named):
        return Path(named) / "drawbar"
    import platformdirs

    folders = {
        "data": platformdirs.user_data_path,
        "state": platformdirs.user_state_path,
        "config": platformdirs.user_config_path,
    }
    return Path(os.path.abspath(folders[kind]("drawbar", appauthor=False)))


def _safe(name: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} is no {what} id", field=what)
    return name


def _holds_anything(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(True for _ in entries)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise storage_failure(folder, error) from error


def _make_private(folder: Path, *, ours: bool) -> None:
    """0700, also for a folder that was there already; but one that holds others' files keeps its mode."""
    private_folder(folder)
    try:
        state = folder.stat()
        if ours and state.st_uid == os.geteuid() and state.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise storage_failure(folder, error) from error
