"""The files that a run keeps beside its log; the event log owns the folder (CON-25, CON-39)."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.tool import ArtifactAdded
from drawbar.stores.atomic import private_folder, storage_failure
from drawbar.stores.layout import ARTIFACTS_FOLDER

__all__ = ["RunArtifacts"]

_ODD = re.compile(r"[^A-Za-z0-9_.-]+")
_NAME_LENGTH: Final = 100
OCTETS: Final = "application/octet-stream"


class RunArtifacts:
    """Implements :class:`~drawbar.contracts.tool.Artifacts` for one run.

    Args:
        folder: the run's folder.
        emit: writes the ``artifact.added`` event.
    """

    def __init__(self, folder: Path, emit: Callable[[Payload], Any]) -> None:
        self._run = folder
        self._folder = folder / ARTIFACTS_FOLDER
        self._emit = emit
        self._given: set[str] = set()
        self._mutex = threading.Lock()

    def path(self, name: str) -> Path:
        """An absolute path of its own for a new artifact; ``name`` may hold anything, the path is plain.

        Raises:
            StorageFailed: the folder can't be made.
        """
        private_folder(self._folder)
        plain = _ODD.sub("-", name).strip("-.")[-_NAME_LENGTH:] or "artifact"
        stem, dot, ending = plain.rpartition(".")
        if not stem:
            stem, dot, ending = plain, "", ""
        with self._mutex:
            number = 1
            candidate = plain
            while candidate in self._given or (self._folder / candidate).exists():
                number += 1
                candidate = f"{stem}-{number}{dot}{ending}"
            self._given.add(candidate)
        return self._folder / candidate

    def added(
        self, path: Path, *, call_id: str | None = None, media_type: str = OCTETS, reason: str | None = None
    ) -> str:
        """Record a finished artifact.

        Returns:
            Its path relative to the run folder.

        Raises:
            InvalidInput: it isn't an ordinary file directly in the run's artifact folder.
            StorageFailed: it can't be read, or the event can't be written.
        """
        if path.parent != self._folder or path.is_symlink() or not path.is_file():
            raise InvalidInput(f"{path} is no file in {self._folder}", field="path")
        try:
            path.chmod(0o600)
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size = file.tell()
        except OSError as error:
            raise storage_failure(path, error) from error
        relative = f"{ARTIFACTS_FOLDER}/{path.name}"
        self._emit(
            ArtifactAdded(
                path=relative, sha256=digest, bytes=size, media_type=media_type, call_id=call_id, reason=reason
            )
        )
        return relative
