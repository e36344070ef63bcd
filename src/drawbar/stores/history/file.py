"""One history open for writing: an append-only file with one writer, whose failures are seen at once (SES-1, SES-3)."""

from __future__ import annotations

import os
import secrets
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from drawbar.contracts.clock import Clock, stamp
from drawbar.contracts.errors import InvalidInput, NotFound, StorageFailed
from drawbar.stores.atomic import storage_failure
from drawbar.stores.history.context import Entry
from drawbar.stores.history.index import CODES, Index, Repair, code_of
from drawbar.stores.history.lines import LINE_LIMIT, encode_line
from drawbar.stores.history.owner import claim
from drawbar.stores.history.publish import new_header, publish
from drawbar.stores.history.reader import CURRENT, Reader, version_of
from drawbar.stores.history.roles import Message
from drawbar.stores.history.view import fetch_from, open_regular, scan
from drawbar.stores.locks import forget_in_children

__all__ = ["HistoryFile"]

_GIVEN = ("id", "parentId", "timestamp")


class HistoryFile:
    """One open history and its writer's lock, held until :meth:`close` or the end of the process.

    An append that fails is visible at once and loses nothing: the entry has its id and its place on the
    branch, stays in memory, and is written before any later one, by the next append, :meth:`sync` or
    :meth:`flush` that the disk lets through (QLT-6). So a caller never appends it again.

    Methods may be called from any thread; each call is one step.

    Attributes:
        path: the file, absolute.
        session_id: from the header.
        header: the header line as read.
        foreign_entries: how many another program appended meanwhile (Pi, which takes no lock).
        repairs: what was mended in memory on opening, in file order (SES-2); the file is as it was.
    """

    def __init__(self, path: Path, fd: int, clock: Clock) -> None:
        """Use :meth:`create` or :meth:`open`; takes over ``fd``, which is open for appending and locked."""
        self._fd = fd
        self._clock = clock
        self._mutex = threading.RLock()
        self._unsaved: deque[tuple[int, bytes]] = deque()
        self.path = path
        self.foreign_entries = 0
        try:
            self._index = scan(fd)
            self._reader = Reader(self._index, self._fetch)
            self.header: dict[str, Any] = _usable_header(self._index, path)
            self.session_id = str(self.header["id"])
            self._leaf = len(self._index) - 1
            self._leaf_id = self._reader.id_of(self._leaf) if self._leaf >= 0 else None
            missing = self._reader.missing_results(self._leaf)
            self.repairs: list[Repair] = sorted([*self._index.repairs, *missing], key=lambda it: (it.line, it.offset))
        except BaseException:
            self.forget_after_fork()
            raise
        forget_in_children(self)

    @classmethod
    def create(
        cls,
        folder: Path,
        *,
        cwd: str,
        session_id: str | None = None,
        parent_session: str | None = None,
        clock: Clock,
    ) -> Self:
        """Start a history in ``folder``: on disk with its header, synced, 0600, and locked, at once.

        Args:
            folder: made when missing (0700).
            cwd: the working directory that the header records.
            session_id: letters, digits, ``.``, ``_`` and ``-``, as Pi takes them; by default a new UUIDv7.
            parent_session: the absolute path of the history that this one was forked from.
            clock: time source of the header and of every entry.

        Raises:
            InvalidInput: the id can't be one, or a history of that name exists.
            StorageFailed: the disk refused; nothing is left.
        """
        header = new_header(cwd=cwd, session_id=session_id, parent_session=parent_session, clock=clock)
        path, fd = publish(folder, header, ())
        return cls(path, fd, clock)

    @classmethod
    def open(cls, path: Path, *, clock: Clock) -> Self:
        """Open a history to go on with it, whatever damage it holds (QLT-5); nothing is written yet.

        Raises:
            NotFound: there is no such file.
            SessionBusy: a live writer holds it, in this process or another (SES-3).
            InvalidInput: it is no Pi session; or its format is older (its entries have no ids that an append
                could name, and Pi rewrites it on loading) or newer than this program writes: the facts say
                ``fork`` when a fork of it can go on.
            StorageFailed: it can't be opened for writing.
        """
        path = Path(os.path.abspath(path))
        fd = open_regular(path, os.O_RDWR | os.O_APPEND)
        try:
            claim(fd, path)
        except BaseException:
            os.close(fd)
            raise
        return cls(path, fd, clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        """One that was dropped without being closed gives back its lock."""
        if getattr(self, "_fd", -1) >= 0:
            self.forget_after_fork()

    # -- the branch ---------------------------------------------------------------------------------

    @property
    def leaf(self) -> str | None:
        """The id of the entry that the next append hangs on; None before the first."""
        return self._leaf_id

    def move_to(self, entry_id: str | None) -> None:
        """Let the branch end at another entry (None: before the first); nothing is written.

        On the next opening the last entry in the file is the leaf again, so that a move lasts only with an
        entry appended after it (SES-6).

        Raises:
            NotFound: no entry has this id.
        """
        with self._mutex:
            at = -1 if entry_id is None else self._index.find(entry_id)
            if at is None:
                raise NotFound(f"no entry {entry_id!r} in {self.path}", entry=entry_id, path=str(self.path))
            self._leaf, self._leaf_id = at, entry_id

    def branch(self) -> list[Entry]:
        """Entries from the root to the leaf, repaired in memory: ids given, parents joined."""
        with self._mutex:
            return list(self._reader.branch(self._leaf))

    def last(self, kind: str) -> Entry | None:
        """The entry of type ``kind`` nearest to the leaf on the branch, such as the latest ``model_change``."""
        with self._mutex:
            return self._reader.last(kind, self._leaf)

    def messages(self) -> list[Message]:
        """What the model sees: Pi's rebuild of the branch, roles user, assistant and toolResult only.

        Compaction, edits, custom messages and summaries are applied; a hole in the branch shows as a note.
        Pairing of calls and results is the request builder's (:class:`MessageRepairer`).
        """
        with self._mutex:
            return self._reader.messages(self._leaf)

    @property
    def name(self) -> str | None:
        """The session's name: the newest ``session_info`` in the file, whatever its branch."""
        return self._index.name or None

    # -- writing ------------------------------------------------------------------------------------

    @property
    def unsaved(self) -> int:
        """How many entries the disk has refused so far; a run with any is not saved (QLT-6)."""
        return len(self._unsaved)

    def append_message(self, message: Mapping[str, Any]) -> str:
        """Append a ``message`` entry; see :meth:`append`."""
        return self.append({"type": "message", "message": message})

    def append(self, entry: Mapping[str, Any]) -> str:
        """Hang an entry on the leaf and write it with one call; returns its id.

        Args:
            entry: ``type`` and whatever belongs to it; ``id``, ``parentId`` and ``timestamp`` are given here.

        Raises:
            StorageFailed: the disk refused. The entry (``entry`` in the facts) stays in memory and is written
                before any later one.
            InvalidInput: it has no type, or is longer than a line may be.
        """
        kind = entry.get("type")
        if not isinstance(kind, str) or not kind or kind == "session":
            raise InvalidInput("an entry needs a type", what="type")
        with self._mutex:
            entry_id = self._new_id()
            record = {
                "type": kind,
                "id": entry_id,
                "parentId": self._leaf_id,
                "timestamp": stamp(self._clock.now_ms()),
                **{key: value for key, value in entry.items() if key != "type" and key not in _GIVEN},
            }
            line = encode_line(record)
            if len(line) > LINE_LIMIT:
                raise InvalidInput(f"an entry of {len(line)} bytes can't be read back: at most {LINE_LIMIT}", what=kind)
            self._leaf, self._leaf_id = self._index.add(entry_id, self._leaf, _code(record)), entry_id
            self._unsaved.append((self._leaf, line))
            if kind == "session_info":
                name = record.get("name")
                self._index.name = name if isinstance(name, str) else ""
            self._flush(entry_id)
            return entry_id

    def flush(self) -> None:
        """Write what the disk refused before, in order.

        Raises:
            StorageFailed: it still refuses.
        """
        with self._mutex:
            self._flush(None)

    def sync(self) -> None:
        """Bring everything appended to the disk itself.

        Raises:
            StorageFailed: something could not be written or synced.
        """
        with self._mutex:
            self._flush(None)
            fd = os.dup(self._descriptor())
        try:
            os.fdatasync(fd)  # appends from other threads go on meanwhile
        except OSError as error:
            raise storage_failure(self.path, error) from error
        finally:
            os.close(fd)

    def close(self) -> None:
        """Write what is left and give back the lock; closing twice is nothing.

        Raises:
            StorageFailed: entries could not be written; the lock is given back all the same.
        """
        with self._mutex:
            if self._fd < 0:
                return
            try:
                self._flush(None)
            finally:
                fd, self._fd = self._fd, -1
                os.close(fd)

    def forget_after_fork(self) -> None:
        """Drop the descriptor: a forked child neither holds the lock nor writes."""
        self._mutex = threading.RLock()  # another thread of the parent may have held it
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    # -- inside -------------------------------------------------------------------------------------

    def _descriptor(self) -> int:
        if self._fd < 0:
            raise StorageFailed(f"{self.path} is closed", path=str(self.path))
        return self._fd

    def _fetch(self, at: int) -> bytes:
        if self._index.offsets[at] < 0:
            return next(line for place, line in self._unsaved if place == at)
        return fetch_from(self._descriptor(), self._index, at)

    def _new_id(self) -> str:
        while self._index.has_id(entry_id := secrets.token_hex(4)):
            pass
        return entry_id

    def _flush(self, entry_id: str | None) -> None:
        try:
            while self._unsaved:
                at, line = self._unsaved[0]
                self._index.place(at, self._write(line), len(line) - 1)
                self._unsaved.popleft()
        except OSError as error:
            failure = storage_failure(self.path, error)
            failure.facts |= {"entry": entry_id, "unsaved": self.unsaved}
            raise failure from error
        except StorageFailed as failure:
            failure.facts |= {"entry": entry_id, "unsaved": self.unsaved}
            raise

    def _write(self, line: bytes) -> int:
        """Append one line with one call; returns where it begins. On failure the file is as it was before."""
        fd = self._descriptor()
        start = self._catch_up(fd)
        data = b"\n" + line if self._index.ragged else line
        written = 0
        try:
            while written < len(data):
                written += os.write(fd, memoryview(data)[written:])
        except OSError:
            self._take_back(fd, start, written)
            raise
        return start + len(data) - len(line)

    def _take_back(self, fd: int, start: int, written: int) -> None:
        """Cut the part of a line that still got through; where even that fails, the next line starts anew."""
        if not written:
            return
        try:
            if os.fstat(fd).st_size == start + written:
                os.ftruncate(fd, start)
        except OSError:
            self._index.end = start + written
            self._index.next_line += not self._index.ragged
            self._index.ragged = True

    def _catch_up(self, fd: int) -> int:
        """The file's end, after taking in what a program without locks (Pi) appended meanwhile.

        Such entries hang where their writer put them; the branch in hand keeps its leaf.
        """
        index, there = self._index, os.fstat(fd)
        try:
            same = os.path.samestat(os.stat(self.path), there)
        except FileNotFoundError:
            same = False
        if not same or there.st_size < index.end:
            what = "was cut short" if same else "was removed or replaced"
            raise StorageFailed(f"{self.path} {what} by another program while it was open", path=str(self.path))
        if there.st_size > index.end:
            before = len(index)
            scan(fd, index)
            self.foreign_entries += len(index) - before
        return index.end


def _usable_header(index: Index, path: Path) -> dict[str, Any]:
    """The header to go on with; one that was damaged is made up from the file's name.

    Raises:
        InvalidInput: see :meth:`HistoryFile.open`.
    """
    header = index.header
    if header is None or not isinstance(header.get("id"), str):
        if not index.shaped:
            raise InvalidInput(f"{path} is no Pi session: it has no header", path=str(path))
        session_id = path.stem.partition("_")[2] or path.stem
        known = {"version": CURRENT, "timestamp": "", "cwd": "", **(header or {})}
        return {"type": "session", **known, "id": session_id}
    version = version_of(header)
    if version == CURRENT:
        return header
    known = version is not None and version < CURRENT
    what = "an older" if known else "a newer or unknown"
    advice = "fork it and go on in the copy; this file stays as it is" if known else "it can be read, not written"
    raise InvalidInput(
        f"{path} has {what} session format ({header.get('version', 'no version')}): {advice}",
        path=str(path),
        version=version,
        fork=known,
    )


def _code(record: Entry) -> int:
    message: Any = record.get("message")
    if record["type"] not in CODES or not isinstance(message, Mapping):
        return CODES.get(record["type"], 0)
    return code_of("message", message.get("role"), message.get("stopReason"), calls=message.get("role") == "assistant")  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]
