"""The run store: run folders, their records and owners, and the list of runs (CON-26, CON-36, CON-37)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from drawbar.contracts.capability import CapabilitySet
from drawbar.contracts.clock import Clock, stamp
from drawbar.contracts.codec import decode, encode, indent
from drawbar.contracts.engine import Redactor
from drawbar.contracts.errors import CapabilitiesFrozen, InvalidInput, NotFound, StorageFailed
from drawbar.contracts.ids import is_id
from drawbar.contracts.methods import Family, ListRuns, ReindexOutput, RunList
from drawbar.contracts.run import RunRecord
from drawbar.contracts.status import SETTLED
from drawbar.stores.agreement import as_logged
from drawbar.stores.atomic import write_atomic
from drawbar.stores.event_log import EventLog, Listener
from drawbar.stores.index import RunIndex, Source
from drawbar.stores.layout import CAPABILITIES_FILE, EVENTS_FILE, OWNER_FILE, RUN_FILE, Layout
from drawbar.stores.locks import folder_lock
from drawbar.stores.owner import Owner, current_owner, owner_alive, read_owner
from drawbar.stores.records import (
    changes_of_end,
    file_of,
    load_raw_record,
    patched,
    raw_of,
    record_of,
    redacted,
)
from drawbar.stores.regular_file import read_regular
from drawbar.stores.run_folders import RunFolders

if TYPE_CHECKING:
    import sqlite3

__all__ = ["RunStore"]

_SHOWN: Final = 5


class RunStore:
    """Every run of a data root. Opening one reads nothing; only ``active/`` is ever scanned to find live runs.

    Args:
        layout: an opened root.
        redactor: what records pass before they are written (CON-31).
        clock: gives a record the time it was made, where it has none.
    """

    def __init__(self, layout: Layout, *, redactor: Redactor, clock: Clock) -> None:
        self._layout = layout
        self._redactor = redactor
        self._clock = clock
        self._folders = RunFolders(layout)
        self._index = RunIndex(layout.index_file, layout.locks / "index", Source(self._folders.names, self._found))

    # -- one run ------------------------------------------------------------------------------------

    def create(
        self,
        record: RunRecord,
        capabilities: CapabilitySet,
        *,
        socket: str | None = None,
        relay: Listener | None = None,
    ) -> EventLog:
        """Make a run's folder, and hold its log.

        It is built aside with everything in it and its lock held, then published by one rename, so that nobody
        ever sees half a run, and a run id starts at most once (CON-37, SCL-4).

        Args:
            record: as it is to be saved; its ``capabilities_digest`` and, where missing, ``created_at`` are set.
            capabilities: frozen from now on (RUN-5).
            socket: the control socket, for ``owner.json``.
            relay: whom the log tells; see :class:`EventLog`.

        Raises:
            InvalidInput: the id is none, or is taken.
            CapabilitiesFrozen: the id is taken, by a run with another capability set.
            StorageFailed: the disk refuses; no run is left.
        """
        if not is_id(record.id, "run"):
            raise InvalidInput(f"{record.id!r} is no run id", field="run.id")
        frozen = capabilities.normalised()
        record.capabilities_digest = frozen.digest()
        record.created_at = record.created_at or stamp(self._clock.now_ms())
        self._refuse_taken(record.id, record.capabilities_digest)
        aside = self._folders.aside(record.id)
        log: EventLog | None = None
        try:
            log = EventLog.create(aside, record.id, redactor=self._redactor, clock=self._clock, relay=relay)
            write_atomic(aside / RUN_FILE, file_of(redacted(raw_of(record), self._redactor)))
            write_atomic(aside / OWNER_FILE, _pretty(current_owner(socket)))
            write_atomic(aside / CAPABILITIES_FILE, _pretty(frozen))
            if not self._folders.publish(aside, record.id):
                self._refuse_taken(record.id, record.capabilities_digest)
        except BaseException:
            if log is not None:
                log.close()
            self._folders.abandon(aside, record.id)
            raise
        log.relocate(self.folder(record.id))
        return log

    def take_over(self, run_id: str, *, socket: str | None = None, relay: Listener | None = None) -> EventLog:
        """Become the owner of a run that was left: its lock first, then ``owner.json`` (CON-27).

        Raises:
            NotFound, SessionBusy, IncompatibleRoot, StorageFailed: as :meth:`EventLog.take_over`.
        """
        folder = self._folders.existing(run_id)
        log = EventLog.take_over(folder, run_id, redactor=self._redactor, clock=self._clock, relay=relay)
        try:
            write_atomic(folder / OWNER_FILE, _pretty(current_owner(socket)))
        except BaseException:
            log.close()
            raise
        return log

    def patch(self, run_id: str, changes: Mapping[str, Any]) -> RunRecord:
        """Change fields of a record; what else is in the file stays as it is (CON-37).

        A record that settles reaches the disk itself before this returns.

        Raises:
            NotFound: no such run.
            InvalidInput: a change that is no field, doesn't fit, or reopens a settled run.
            IncompatibleRoot: a newer release wrote the record (CON-8).
            StorageFailed: the disk refuses; the record is as it was.
        """
        folder = self._folders.existing(run_id)
        with folder_lock(folder):
            raw = patched(load_raw_record(folder), changes, self._redactor)
            settled = raw.get("status") in SETTLED
            write_atomic(folder / RUN_FILE, file_of(raw), sync=settled)
        record = record_of(raw, run_id)
        if settled:
            self._index.put(record)
        return record

    def settle_from_log(self, run_id: str) -> RunRecord | None:
        """Bring a record in line with the terminal line of its log, which wins (CON-13); None without one."""
        from drawbar.stores.log_scan import scan_log

        folder = self._folders.existing(run_id)
        found = scan_log(folder / EVENTS_FILE)
        if found.end is None:
            return None
        return self.patch(run_id, {**changes_of_end(found.end), "log_head": {"seq": found.seq, "chain": found.chain}})

    def load(self, run_id: str) -> RunRecord:
        """A run's record; where it and the log disagree about the end, what the log says (CON-13).

        Raises:
            NotFound: no such run.
            InvalidInput: ``run.json`` is no file, or can't be read.
        """
        folder = self._folders.existing(run_id)
        return record_of(as_logged(folder, load_raw_record(folder)), run_id)

    def resolve(self, prefix: str) -> str:
        """The run that ``prefix`` begins, with or without its ``r_`` (CON-2).

        Raises:
            NotFound: it begins none, or several, which the error then names.
        """
        wanted = prefix.strip()
        if wanted and self._folders.is_run(wanted):
            return wanted
        found = (self._folders.names(wanted) or self._folders.names(f"r_{wanted}")) if wanted else []
        if not found:
            raise NotFound(f"no run begins with {prefix!r}", run=prefix)
        if len(found) > 1:
            shown = ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
            raise NotFound(f"{prefix!r} begins {len(found)} runs: {shown}", run=prefix, candidates=found[:_SHOWN])
        return found[0]

    def folder(self, run_id: str) -> Path:
        """Where a run's files lie; whether they do isn't asked."""
        return self._layout.run(run_id)

    def capabilities(self, run_id: str) -> CapabilitySet:
        """The set that was frozen at the run's start (RUN-5).

        Raises:
            NotFound: no such run.
            StorageFailed: the file is gone or damaged; nothing is assumed in its place.
        """
        path = self._folders.existing(run_id) / CAPABILITIES_FILE
        try:
            return decode(read_regular(path), CapabilitySet, what=CAPABILITIES_FILE)
        except (OSError, InvalidInput) as error:
            raise StorageFailed(f"the capabilities of run {run_id} can't be read: {error}", path=str(path)) from error

    def owner(self, run_id: str) -> Owner | None:
        """Who owns, or owned, the run; None when the file doesn't say."""
        return read_owner(self._layout.run(run_id))

    def owner_alive(self, run_id: str) -> bool:
        """Whether somebody owns the run now; see :func:`~drawbar.stores.owner.owner_alive`."""
        folder = self._layout.run(run_id)
        return owner_alive(read_owner(folder), folder)

    # -- the active ones ----------------------------------------------------------------------------

    def active(self) -> list[str]:
        """Runs with a marker, oldest first: the ones that live, and the ones that a crash left.

        A marker whose run was never published, and never will be, is dropped on the way.
        """
        return self._folders.active()

    def settle_marker(self, run_id: str) -> None:
        """The run has settled: it is in the index, and no opening looks at it again.

        Raises:
            StorageFailed: the marker can't be removed.
        """
        if (record := self._found(run_id)) is not None:
            self._index.put(record)
        self._folders.unmark(run_id)

    def sweep(self) -> int:
        """Remove what a crash left of run folders that were never published; how many."""
        return self._folders.sweep()

    # -- all of them --------------------------------------------------------------------------------

    def list(self, query: ListRuns) -> RunList:
        """Runs by filter, newest first, a page at a time (RUN-34).

        Raises:
            InvalidInput: a filter or the cursor makes no sense.
        """
        from drawbar.stores.index_rows import Cursor, page, remove_rows

        after = Cursor.parse(query.cursor) if query.cursor is not None else None

        def answer(db: sqlite3.Connection) -> RunList:
            self._put_active(db)
            runs: list[RunRecord] = []
            place = after
            while True:
                found = page(db, query, place, query.limit + 1 - len(runs))
                loaded = [(cursor, self._found(cursor.id)) for cursor in found]
                runs += [record for _, record in loaded if record is not None]
                lost = [cursor.id for cursor, record in loaded if record is None]
                if not lost:
                    break
                # Somebody removed the folders, or made a record unreadable; look further down for as many.
                remove_rows(db, [run_id for run_id in lost if not self._folders.is_run(run_id)])
                place = found[-1]
            more = len(runs) > query.limit
            last = runs[: query.limit][-1:] if more else []
            cursor = next((str(Cursor(record.created_at or "", record.id)) for record in last), None)
            return RunList(runs=runs[: query.limit], cursor=cursor)

        return self._index.ask(answer)

    def family(self, run_id: str) -> Family:
        """The tree that a run belongs to, from its oldest ancestor down (RUN-34). Raises :class:`NotFound`."""
        from drawbar.stores.index_rows import below

        top = self._topmost(self.load(run_id))

        def answer(db: sqlite3.Connection) -> Family:
            self._put_active(db)
            tree = Family(run=top, relation=top.relation)
            seen = {top.id}
            waiting = [tree]
            while waiting:
                node = waiting.pop()
                for child_id in below(db, node.run.id):
                    child = self._found(child_id)
                    if child is not None and child.id not in seen:
                        seen.add(child.id)
                        node.children.append(Family(run=child, relation=_relation(child, node.run.id)))
                waiting += node.children
            return tree

        return self._index.ask(answer)

    def reindex(self, *, progress: Callable[[int], None] | None = None) -> ReindexOutput:
        """Make the index anew from the runs (CON-29).

        Args:
            progress: told how many folders were looked at so far.

        Raises:
            StorageFailed: it can't be written.
        """
        indexed = self._index.rebuild(progress)
        return ReindexOutput(runs=indexed, skipped=len(self._folders.names()) - indexed)

    # -- inside -------------------------------------------------------------------------------------

    def _found(self, run_id: str) -> RunRecord | None:
        with contextlib.suppress(NotFound, InvalidInput):
            return self.load(run_id)
        return None

    def _put_active(self, db: sqlite3.Connection) -> None:
        """Live runs have no lasting row yet; a settled one got its row before its marker went."""
        from drawbar.stores.index_rows import put_rows

        put_rows(db, [record for run_id in self.active() if (record := self._found(run_id)) is not None])

    def _topmost(self, record: RunRecord) -> RunRecord:
        seen = {record.id}
        while True:
            above = next(
                (
                    found
                    for run_id in (record.resumed_from_run_id, record.parent_run_id)
                    if run_id and run_id not in seen and (found := self._found(run_id)) is not None
                ),
                None,
            )
            if above is None:
                return record
            seen.add(above.id)
            record = above

    def _refuse_taken(self, run_id: str, digest: str) -> None:
        if not self._folders.is_run(run_id):
            return
        if self.load(run_id).capabilities_digest != digest:
            raise CapabilitiesFrozen(
                f"run {run_id} exists, and its capabilities are frozen; they differ from those asked for", run=run_id
            )
        raise InvalidInput(f"run {run_id} exists already; a run id starts once", field="run.id")


def _relation(child: RunRecord, above: str) -> str:
    if child.resumed_from_run_id == above:
        return child.relation or "continuation"
    return child.relation or "child"


def _pretty(value: Any) -> bytes:
    return indent(encode(value)) + b"\n"
