"""Run folders as a whole: built aside and published by one rename, with a marker while they live (CON-36, CON-37)."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from pathlib import Path
from typing import Final

from drawbar.contracts.errors import InvalidInput, NotFound
from drawbar.stores.atomic import private_folder, storage_failure
from drawbar.stores.layout import EVENTS_FILE, RUN_FILE, Layout
from drawbar.stores.locks import locked_elsewhere
from drawbar.stores.regular_file import is_there

__all__ = ["RunFolders"]

_STALE_S: Final = 60.0
"""After this many seconds a folder aside without a lock is a crash's, not one that is just being made."""


class RunFolders:
    """What lies in ``runs/`` and ``active/`` of one root."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def is_run(self, run_id: str) -> bool:
        """A folder without ``run.json`` is no run (CON-39), and neither is what can't be a folder's name."""
        try:
            folder = self._layout.run(run_id)
        except InvalidInput:
            return False
        try:
            return is_there(folder / RUN_FILE)
        except InvalidInput:
            return True  # it can't be looked into, which whoever reads it is told

    def existing(self, run_id: str) -> Path:
        """A run's folder. Raises :class:`NotFound`."""
        if not self.is_run(run_id):
            raise NotFound(f"there is no run {run_id}", run=run_id)
        return self._layout.run(run_id)

    def names(self, prefix: str = "") -> list[str]:
        """The folders whose names begin so, oldest run first; the only reading that grows with their number."""
        try:
            found = [name for name in os.listdir(self._layout.runs) if name.startswith(prefix)]
        except OSError:
            return []
        return sorted(name for name in found if not name.startswith("."))

    # -- building -----------------------------------------------------------------------------------

    def aside(self, run_id: str) -> Path:
        """A new folder to build a run in; what crashes left of others goes first."""
        self.sweep()
        private_folder(self._layout.building)
        folder = self._layout.building / f"{run_id}.{secrets.token_hex(4)}"
        private_folder(folder)
        return folder

    def publish(self, aside: Path, run_id: str) -> bool:
        """Make a built folder the run's; False when the run exists already.

        The marker goes first, so that a run that is published is always found by the next opening.

        Raises:
            StorageFailed: the disk refuses.
        """
        marker = self._layout.marker(run_id)
        folder = self._layout.run(run_id)
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            os.rename(aside, folder)
        except OSError as error:
            if self.is_run(run_id):
                return False
            raise storage_failure(folder, error) from error
        return True

    def abandon(self, aside: Path, run_id: str) -> None:
        """Remove a folder that won't be published, and its marker."""
        shutil.rmtree(aside, ignore_errors=True)
        self._drop_marker_of_nothing(run_id)

    def sweep(self) -> int:
        """Remove what a crash left of folders that were never published; how many."""
        left = [folder for folder in self._building("") if _old(folder) and _abandoned(folder)]
        for folder in left:
            shutil.rmtree(folder, ignore_errors=True)
        return len(left)

    # -- markers ------------------------------------------------------------------------------------

    def active(self) -> list[str]:
        """Published runs with a marker, oldest first; a marker of nothing is dropped on the way."""
        try:
            names = sorted(name for name in os.listdir(self._layout.active) if not name.startswith("."))
        except OSError:
            return []
        found: list[str] = []
        for name in names:
            if not self.is_run(name):
                self._drop_marker_of_nothing(name)
            if self.is_run(name):
                found.append(name)
        return found

    def unmark(self, run_id: str) -> None:
        """Remove a run's marker; that of a run still being built stays. Raises :class:`StorageFailed`."""
        if not self.is_run(run_id):
            self._drop_marker_of_nothing(run_id)
            return
        marker = self._layout.marker(run_id)
        try:
            marker.unlink(missing_ok=True)
        except OSError as error:
            raise storage_failure(marker, error) from error

    def _drop_marker_of_nothing(self, run_id: str) -> None:
        """Remove the marker of a run that was never published, unless somebody is about to.

        The order matters: publishing moves a folder from aside to its place, so a run that is neither aside nor,
        looked for after that, in its place, isn't on its way.
        """
        if any(not _abandoned(folder) for folder in self._building(f"{run_id}.")) or self.is_run(run_id):
            return
        with contextlib.suppress(OSError, InvalidInput):
            self._layout.marker(run_id).unlink(missing_ok=True)

    def _building(self, prefix: str) -> list[Path]:
        folder = self._layout.building
        try:
            return [folder / name for name in os.listdir(folder) if name.startswith(prefix)]
        except OSError:
            return []


def _abandoned(folder: Path) -> bool:
    """Whether nobody builds in ``folder`` any more: its log's lock is free, or it never got one in time."""
    locked = locked_elsewhere(folder / EVENTS_FILE)
    return not locked if locked is not None else _old(folder)


def _old(folder: Path) -> bool:
    """Past the instants in which a folder that is just being made has no lock yet."""
    try:
        return time.time() - folder.stat().st_mtime > _STALE_S
    except OSError:
        return False
