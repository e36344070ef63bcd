"""The full output of a call, kept beside the log when its result can only show a part (ENG-6, QLT-12).

It is redacted as it comes, so that no secret is on disk even for a moment (QLT-20), and holds at most a cap.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from drawbar.contracts.engine import Redactor, StreamRedactor
from drawbar.contracts.errors import StorageFailed
from drawbar.contracts.tool import Artifacts
from drawbar.tools.truncation import well_formed

__all__ = ["FullOutput"]

HELD_BYTES: Final = 48 * 1024
CAP_BYTES: Final = 64 << 20


class FullOutput:
    """Takes one call's output; in memory while that is small, then in a file.

    Args:
        artifacts: the run's.
        name: of the file, if one is made.
        call_id: the call.
        redactor: the process's.
        failed: told when the disk refused; the output is then not kept, and the call goes on.
        cap_bytes: how much is kept.
    """

    def __init__(
        self,
        artifacts: Artifacts,
        name: str,
        call_id: str,
        redactor: Redactor,
        failed: Callable[[Exception], None],
        *,
        cap_bytes: int = CAP_BYTES,
    ) -> None:
        self._artifacts = artifacts
        self._name = name
        self._call_id = call_id
        self._redactor = redactor
        self._failed = failed
        self._room = cap_bytes
        self._stream: StreamRedactor | None = None
        self._held = bytearray()
        self._path: Path | None = None
        self._file: BinaryIO | None = None
        self._closed = False

    @property
    def takes_more(self) -> bool:
        """Whether output that is fed would still be kept."""
        return not self._closed and self._room > 0

    def feed(self, text: str) -> None:
        """Take output as it comes; never raises."""
        if not self.takes_more or not text:
            return
        if self._stream is None:
            self._stream = self._redactor.stream()
        self._take(self._stream.feed(text))

    def keep(self) -> str | None:
        """Record what came as an artifact; its path relative to the run folder, or None where the disk refused."""
        if self._stream is not None and self._room > 0:
            self._take(self._stream.end())
        if not self._closed and self._held:
            self._spill()
        path = self._path
        self._close()
        if path is None:
            return None
        self._path = None
        try:
            return self._artifacts.added(path, call_id=self._call_id, media_type="text/plain", reason="full_output")
        except StorageFailed as error:
            self._failed(error)
            return None

    def discard(self) -> None:
        """Forget what wasn't kept; safe after :meth:`keep`."""
        self._close()
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            self._path = None

    def _take(self, text: str) -> None:
        data = well_formed(text).encode()[: self._room]
        self._room -= len(data)
        self._held += data
        if len(self._held) > HELD_BYTES:
            self._spill()

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._path = self._artifacts.path(self._name)
                self._file = self._path.open("xb")
                self._path.chmod(0o600)
            self._file.write(self._held)
            self._held.clear()
        except (OSError, StorageFailed):
            self.discard()

    def _close(self) -> None:
        self._closed = True
        self._held.clear()
        if self._file is not None:
            try:
                self._file.close()
            except OSError:
                with contextlib.suppress(OSError):
                    assert self._path is not None
                    self._path.unlink()
                self._path = None
            self._file = None
