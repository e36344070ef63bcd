"""The rows of the run index and the questions asked of them: filters, pages, what hangs below a run (RUN-34)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from drawbar.contracts.clock import stamp
from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.methods import ListRuns
from drawbar.contracts.run import RunRecord
from drawbar.contracts.status import ACTIVE, SETTLED, Status

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Cursor", "below", "make_tables", "page", "put_rows", "remove_rows"]

_TABLES: Final = (
    """CREATE TABLE runs (
        id TEXT PRIMARY KEY, created TEXT NOT NULL, session TEXT, status TEXT, "trigger" TEXT, root TEXT,
        account TEXT, scope TEXT, version TEXT, above TEXT
    ) WITHOUT ROWID""",
    "CREATE INDEX runs_by_time ON runs (created, id)",
    "CREATE INDEX runs_by_session ON runs (session, created, id)",
    "CREATE INDEX runs_by_status ON runs (status, created, id)",
    "CREATE INDEX runs_by_above ON runs (above, created, id) WHERE above IS NOT NULL",
)
_COLUMNS: Final = 10
_GROUPS: Final = {"active": ACTIVE, "settled": SETTLED}

Row = tuple[str | None, ...]


class Cursor(NamedTuple):
    """Where a page ended: the last run's time and id."""

    created: str
    id: str

    def __str__(self) -> str:
        return f"{self.created}~{self.id}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        created, mark, run_id = text.partition("~")
        if not mark or not run_id:
            raise InvalidInput(f"cursor: {text!r} is not what a page before returned", field="cursor")
        return cls(created, run_id)


def make_tables(db: sqlite3.Connection) -> None:
    for statement in _TABLES:
        db.execute(statement)


def put_rows(db: sqlite3.Connection, records: Iterable[RunRecord]) -> None:
    """Add or replace the rows of ``records``; one that is there as it should be costs no write."""
    rows = [_row(record) for record in records]
    new = [row for row in rows if db.execute("SELECT * FROM runs WHERE id = ?", row[:1]).fetchone() != row]
    if new:
        db.executemany(f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * _COLUMNS)})", new)


def remove_rows(db: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    db.executemany("DELETE FROM runs WHERE id = ?", [(run_id,) for run_id in run_ids])


def page(db: sqlite3.Connection, query: ListRuns, after: Cursor | None, limit: int) -> list[Cursor]:
    """Up to ``limit`` runs that ``query`` asks for, newest first, older than ``after``.

    Raises:
        InvalidInput: a filter's value makes no sense.
    """
    where: list[str] = []
    values: list[str] = []

    def narrow(condition: str, *given: str) -> None:
        where.append(condition)
        values.extend(given)

    if after is not None:
        narrow("(created, id) < (?, ?)", *after)
    for column, wanted in (("session", query.session), ('"trigger"', query.trigger), ("account", query.account)):
        if wanted is not None:
            narrow(f"{column} = ?", wanted)
    if query.status is not None:
        statuses = _statuses(query.status)
        narrow(f"status IN ({', '.join('?' * len(statuses))})", *statuses)
    if query.project is not None:
        narrow(*_project(query.project))
    if query.variant is not None:
        narrow("? IN (scope, version, scope || '@' || version)", query.variant)
    if query.since is not None:
        narrow("created >= ?", _time("since", query.since))
    if query.until is not None:
        narrow("created <= ?", _time("until", query.until))
    clause = f"WHERE {' AND '.join(where)}" if where else ""
    found = db.execute(f"SELECT created, id FROM runs {clause} ORDER BY created DESC, id DESC LIMIT {limit:d}", values)
    return [Cursor(*row) for row in found]


def below(db: sqlite3.Connection, run_id: str) -> list[str]:
    """Runs that continue or were started by ``run_id``, oldest first."""
    found = db.execute("SELECT id FROM runs WHERE above = ? ORDER BY created, id", (run_id,))
    return [row[0] for row in found]


def _row(record: RunRecord) -> Row:
    return (
        record.id,
        record.created_at or "",
        record.session_id,
        record.status,
        record.trigger,
        record.workspace_root or record.working_directory,
        record.account,
        record.variant.scope if record.variant else None,
        record.variant.version if record.variant else None,
        record.resumed_from_run_id or record.parent_run_id,
    )


def _statuses(wanted: str) -> Sequence[str]:
    known = get_args(Status)
    if wanted not in known and wanted not in _GROUPS:
        raise InvalidInput(f"status: {wanted!r} is none of {', '.join((*known, *_GROUPS))}", field="status")
    return sorted(_GROUPS.get(wanted, {wanted}))


def _project(wanted: str) -> tuple[str, ...]:
    """A project is its folder (with what lies in it), or, without a slash, the folder's name."""
    if "/" not in wanted:
        return ("substr(root, -length(?)) = ?", f"/{wanted}", f"/{wanted}")
    folder = wanted.rstrip("/")
    return ("(root = ? OR substr(root, 1, length(?)) = ?)", folder or "/", f"{folder}/", f"{folder}/")


def _time(name: str, text: str) -> str:
    try:
        moment: Any = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"{name}: {text!r} is no ISO 8601 time", field=name) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return stamp(round(moment.timestamp() * 1000))
