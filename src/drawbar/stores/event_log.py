"""The one writer of a run's log: validate, redact, chain, persist, then relay (CON-12, CON-26)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from drawbar.contracts.clock import Clock
from drawbar.contracts.codec import encode
from drawbar.contracts.engine import Redactor
from drawbar.contracts.errors import IncompatibleRoot, InvalidInput, StorageFailed
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.lifecycle import SCHEMA_VERSION, ExtensionNotice, Started
from drawbar.contracts.run import LogHead
from drawbar.stores.admission import Unfit, admit, payload_of, refusal
from drawbar.stores.artifacts import RunArtifacts
from drawbar.stores.atomic import private_folder, storage_failure, write_atomic
from drawbar.stores.chained_file import ENVELOPE_BYTES, ChainedFile, Place
from drawbar.stores.late_log import append_late
from drawbar.stores.layout import ARTIFACTS_FOLDER, EVENTS_FILE
from drawbar.stores.log_lines import MAX_LINE, ArtifactReference
from drawbar.stores.log_scan import LogPosition, scan_log
from drawbar.stores.log_state import LIFECYCLE, LogEnd, LogState, is_durable, judge
from drawbar.stores.relay import Relay

__all__ = ["EventLog", "Listener"]

Listener = Callable[[list[bytes]], None]
"""Gets batches of lines as written, line ends included, in order."""


class _Before(NamedTuple):
    """What a refused sync goes back to."""

    place: Place
    state: LogState


class _Unsynced(NamedTuple):
    """A line that others follow and whose sync failed: where it begins, the line, its type and payload."""

    offset: int
    line: bytes
    tag: str
    body: bytes


class EventLog:
    """An open log and its lock; whoever holds one is the run's writer (CON-27).

    Made by :meth:`create` for a new run and by :meth:`take_over` for one that was left. Any thread may append.
    What a listener gets is what was written, byte for byte, never before it was (CON-12).

    Attributes:
        run_id: the run.
        end: what a terminal line found on disk said; None when the run was left unsettled.
    """

    def __init__(
        self,
        file: ChainedFile,
        run_id: str,
        *,
        redactor: Redactor,
        relay: Listener | None,
        position: LogPosition,
        max_line: int,
    ) -> None:
        self.run_id = run_id
        self.end: LogEnd | None = position.end
        self._file = file
        self._redactor = redactor
        self._relay = Relay(relay)
        self._max_line = max_line
        self._mutex = threading.RLock()
        self._state = position.state
        self._syncing = 0
        self._unsynced: _Unsynced | None = None
        self._artifacts: RunArtifacts | None = None

    @classmethod
    def create(
        cls,
        folder: Path,
        run_id: str,
        *,
        redactor: Redactor,
        clock: Clock,
        relay: Listener | None = None,
        max_line: int = MAX_LINE,
    ) -> EventLog:
        """Begin the log of a new run in ``folder`` and hold its lock.

        Args:
            folder: the run's folder, which exists.
            run_id: what the chain starts from.
            redactor: the process's own.
            clock: gives each line its time.
            relay: whom to tell; see :class:`~drawbar.stores.relay.Relay`.
            max_line: bytes above which a payload goes to an artifact (CON-15).

        Raises:
            InvalidInput: the folder has a log already.
            StorageFailed: the disk refuses.
        """
        path = folder / EVENTS_FILE
        try:
            fd = ChainedFile.open_locked(path, new=True)
        except FileExistsError as error:
            raise InvalidInput(f"{path} exists already", field="run.id") from error
        position = LogPosition()
        file = ChainedFile(fd, path, run_id, clock, position)
        return cls(file, run_id, redactor=redactor, relay=relay, position=position, max_line=max_line)

    @classmethod
    def take_over(
        cls,
        folder: Path,
        run_id: str,
        *,
        redactor: Redactor,
        clock: Clock,
        relay: Listener | None = None,
        max_line: int = MAX_LINE,
    ) -> EventLog:
        """Continue a log whose writer is gone: its numbers, its chain, its time (CON-15).

        A fragment after the last line end is first kept as ``artifacts/torn-<offset>.bin``, then cut, and a
        notice says so.

        Raises:
            SessionBusy: its owner, or another recovery, holds the lock.
            IncompatibleRoot: a newer release wrote it; it can be read, not continued (CON-8).
            StorageFailed: the disk refuses.
        """
        path = folder / EVENTS_FILE
        fd = ChainedFile.open_locked(path, new=False)
        try:
            position = scan_log(path)
            if (position.schema_version or 0) > SCHEMA_VERSION:
                raise IncompatibleRoot(
                    f"{path} was written by a newer release (schema {position.schema_version}); it can be read, "
                    "but only that release may continue it",
                    path=str(path),
                )
        except BaseException:
            os.close(fd)
            raise
        file = ChainedFile(fd, path, run_id, clock, position)
        log = cls(file, run_id, redactor=redactor, relay=relay, position=position, max_line=max_line)
        if position.torn:
            try:
                log._set_fragment_aside(position.torn)
            except BaseException:
                log.close()
                raise
        return log

    # -- what it is ---------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def head(self) -> LogHead | None:
        """Number and chain of the last line; None before the first (CON-11)."""
        place = self._file.place
        return LogHead(seq=place.seq, chain=place.chain.decode()) if place.seq >= 0 else None

    @property
    def sealed(self) -> bool:
        """Whether the terminal line is written (CON-13)."""
        return self._state.sealed

    @property
    def status(self) -> str:
        """The run's status as its log tells it."""
        return self._state.status

    def artifacts(self) -> RunArtifacts:
        """The run's artifact folder."""
        if self._artifacts is None:
            self._artifacts = RunArtifacts(self.path.parent, self.append)
        return self._artifacts

    # -- writing ------------------------------------------------------------------------------------

    def append(self, payload: Payload) -> bytes:
        """Record ``payload``; terminal events and answers reach the disk itself before this returns (CON-14).

        An event that doesn't fit its schema isn't written: a notice that names the field is (CON-10). A status
        change along no allowed edge is recorded as ``failed`` (CON-3).

        Returns:
            The line as written, or ``b""`` when it came too late and went to ``late.jsonl`` (CON-13).

        Raises:
            StorageFailed: the disk refused; nothing has changed, and the same event may be tried again (QLT-6).
        """
        with self._mutex:
            if self._unsynced is not None and (again := self._after_failed_sync(payload)):
                return again
            self._begin(payload)
            before = _Before(self._file.place, self._state)
            recorded, line = self._record(payload)
            if not line:
                return line
            if is_durable(recorded):
                self._sync_here(before)
            self._relay.put(line)
            return line

    def append_raw(self, tag: str, payload: Mapping[str, Any]) -> bytes:
        """As :meth:`append`, from plain values; a field that the schema doesn't have is refused by name."""
        try:
            typed = payload_of(tag, payload)
        except Unfit as error:
            typed = refusal(tag, error)
        return self.append(typed)

    async def append_durable(self, payload: Payload) -> bytes:
        """As :meth:`append`, with ``fdatasync`` in a thread before the line is relayed (CON-14).

        Lines that are appended meanwhile are written at once and relayed after it. A cancelled caller leaves
        the line on its way to the disk.
        """
        loop = asyncio.get_running_loop()
        with self._mutex:
            if self._unsynced is not None and (again := self._after_failed_sync(payload)):
                return again
            self._begin(payload)
            before = _Before(self._file.place, self._state)
            recorded, line = self._record(payload)
            if not line:
                return line
            try:
                sync = loop.run_in_executor(None, os.fdatasync, self._file.fd)
            except RuntimeError:  # the loop is shutting its threads down
                self._sync_here(before)
                self._relay.put(line)
                return line
            self._relay.hold()
            self._relay.put(line)
            self._syncing += 1
            sync.add_done_callback(partial(self._synced, before, recorded, line))
        try:
            await asyncio.shield(sync)
        except OSError as error:
            if not self._file.closed:
                raise storage_failure(self.path, error) from error
        return line

    def sync_now(self) -> None:
        """Bring every line to the disk itself. Raises :class:`StorageFailed`."""
        with self._mutex:
            self._file.sync()

    def relocate(self, folder: Path) -> None:
        """The run's folder was renamed (CON-37)."""
        self._file.path = folder / EVENTS_FILE
        self._artifacts = None

    def close(self) -> None:
        """Relay what waits and let the lock go; safe to call twice. What arrives afterwards is late."""
        with self._mutex:
            if self._file.closed:
                return
            with contextlib.suppress(StorageFailed):
                if self._unsynced is not None:
                    self._write_again(self._unsynced)
                if self._syncing:
                    self._file.sync()
            self._file.close()
        self._relay.flush()

    # -- one line -----------------------------------------------------------------------------------

    def _begin(self, payload: Payload) -> None:
        """Line 0 is ``started``, whoever writes first: recovery of a run that never wrote one, say (CON-11)."""
        if self._file.place.seq < 0 and type(payload) is not Started and not self._file.closed:
            started = Started(run_id=self.run_id)
            self._relay.put(self._file.append(started.event, admit(started, self._redactor)))

    def _record(self, payload: Payload) -> tuple[Payload, bytes]:
        """Write what is to be recorded when ``payload`` arrives; the line is empty when it was late."""
        if self._file.closed or self._state.sealed:
            return self._late(payload)
        state = self._state
        try:
            body = admit(payload, self._redactor)
            if type(payload) in LIFECYCLE:
                if type(payload) is Started and self._file.place.seq >= 0:
                    raise Unfit("", "it is line 0 of a log and written once")
                judged = judge(state, payload)
                if judged is None:
                    return self._late(payload)
                changed, state = judged
                if changed is not payload:
                    payload = changed
                    body = admit(payload, self._redactor)
        except Unfit as error:
            payload = refusal(payload.event, error)
            body = admit(payload, self._redactor)
        if len(body) > self._max_line - ENVELOPE_BYTES:
            body = self._spill(body)
        line = self._file.append(payload.event, body)
        self._state = state
        return payload, line

    def _late(self, payload: Payload) -> tuple[Payload, bytes]:
        try:
            body = admit(payload, self._redactor)
        except Unfit as error:
            payload = refusal(payload.event, error)
            body = admit(payload, self._redactor)
        settled = f"the run had settled as {self.status}"
        why = settled if self.sealed or not self._file.closed else "the log was closed"
        append_late(self.path.parent, self._file.now()[1].decode(), payload.event, body, why)
        return payload, b""

    def _spill(self, body: bytes) -> bytes:
        """Keep a payload that is too long for a line as a file; the line carries its reference (CON-15)."""
        path = self.artifacts().path(f"payload-{self._file.place.seq + 1}.json")
        write_atomic(path, body, sync=True)
        return encode(
            ArtifactReference(
                payload_artifact=f"{ARTIFACTS_FOLDER}/{path.name}",
                sha256=hashlib.sha256(body).hexdigest(),
                bytes=len(body),
            )
        )

    def _set_fragment_aside(self, length: int) -> None:
        offset = self._file.place.size
        artifact = f"{ARTIFACTS_FOLDER}/torn-{offset}.bin"
        private_folder(self.path.parent / ARTIFACTS_FOLDER)
        self._file.set_fragment_aside(self.path.parent / artifact)
        self.append(
            ExtensionNotice(
                code="torn_tail",
                message=f"The log ended in {length} bytes of an unfinished line; they are kept in {artifact}.",
                details={"offset": offset, "bytes": length, "artifact": artifact},
            )
        )

    # -- when a sync fails --------------------------------------------------------------------------

    def _sync_here(self, before: _Before) -> None:
        try:
            self._file.sync()
        except StorageFailed:
            self._undo(before)
            raise

    def _undo(self, before: _Before) -> None:
        self._file.undo(before.place)
        self._state = before.state

    def _synced(self, before: _Before, payload: Payload, line: bytes, sync: asyncio.Future[None]) -> None:
        """The thread's ``fdatasync`` ended. A line that the disk refused is taken back, unless others follow it."""
        with self._mutex:
            self._syncing -= 1
            failed = sync.cancelled() or sync.exception() is not None
            if failed and not self._file.closed:
                offset = before.place.size
                if offset + len(line) == self._file.place.size:
                    self._relay.take_back(line)
                    self._undo(before)
                elif self._unsynced is None:
                    # Others chain to it, so it stays; until it is on the disk nothing more is taken or relayed.
                    self._unsynced = _Unsynced(offset, line, payload.event, admit(payload, self._redactor))
                    return
            self._relay.release()

    def _after_failed_sync(self, payload: Payload) -> bytes:
        """Bring the unsynced lines to the disk; the line itself when ``payload`` is its event, tried again."""
        unsynced = self._unsynced
        assert unsynced is not None
        self._write_again(unsynced)
        with contextlib.suppress(Unfit):
            if payload.event == unsynced.tag and admit(payload, self._redactor) == unsynced.body:
                return unsynced.line
        return b""

    def _write_again(self, unsynced: _Unsynced) -> None:
        self._file.write_again(unsynced.offset)
        self._unsynced = None
        self._relay.release()
