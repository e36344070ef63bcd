"""The run index: a file that can be thrown away and made again from the runs themselves (CON-29, SES-26)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from drawbar.contracts.errors import SessionBusy, StorageFailed
from drawbar.contracts.run import RunRecord
from drawbar.stores.atomic import storage_failure
from drawbar.stores.index_rows import make_tables, put_rows
from drawbar.stores.locks import file_lock

if TYPE_CHECKING:
    import sqlite3

__all__ = ["RunIndex", "Source"]

_VERSION: Final = 1
_BATCH: Final = 500
_BUSY_S: Final = 10.0
_REBUILD_LIMIT_S: Final = 120.0

T = TypeVar("T")


class Source:
    """The runs themselves, from which the index is made.

    Args:
        run_ids: gives every run there is.
        load: gives a run's record; None for what is no run.
    """

    def __init__(self, run_ids: Callable[[], Sequence[str]], load: Callable[[str], RunRecord | None]) -> None:
        self.run_ids = run_ids
        self.load = load


class RunIndex:
    """One row a run, in SQLite beside the runs.

    A root has no index until somebody asks something of it. Whatever is wrong with the file (missing, damaged,
    another release's, half made), the answer is to make it anew; where it can't be written, the answer comes
    from one in memory.

    Args:
        path: the database.
        lock: a file whose lock says who makes the index.
        source: the runs.
    """

    def __init__(self, path: Path, lock: Path, source: Source) -> None:
        self._path = path
        self._lock = lock
        self._source = source

    def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """The answer to ``question``, which may also put and remove rows, from a whole index."""
        import sqlite3

        for _ in range(2):
            try:
                self._ensure()
                with self._open() as db:
                    return question(db)
            except sqlite3.DatabaseError:
                self.discard()
            except (OSError, StorageFailed, SessionBusy):
                break
        with self._in_memory() as db:
            return question(db)

    def put(self, record: RunRecord) -> None:
        """Add or replace a row. Without an index nothing happens; one that refuses is thrown away."""
        if not self._path.exists():
            return
        import sqlite3

        try:
            with self._open() as db:
                put_rows(db, [record])
        except sqlite3.Error as error:
            # While it is being made there are no tables yet, and this run is among those still to be read.
            if "no such table" not in str(error):
                self.discard()

    def rebuild(self, progress: Callable[[int], None] | None = None) -> int:
        """Make the index anew; the number of runs in it.

        Args:
            progress: told how many runs were read so far.

        Raises:
            StorageFailed: it can't be written.
        """
        import sqlite3

        try:
            with file_lock(self._lock, _REBUILD_LIMIT_S):
                return self._make(progress)
        except (sqlite3.Error, OSError) as error:
            cause = error if isinstance(error, OSError) else OSError(str(error))
            raise storage_failure(self._path, cause) from error

    def discard(self) -> None:
        """Throw the index away; the next question makes a new one."""
        for ending in ("", "-journal"):
            with contextlib.suppress(OSError):
                self._path.with_name(self._path.name + ending).unlink()

    def _ensure(self) -> None:
        if self._whole():
            return
        with file_lock(self._lock, _REBUILD_LIMIT_S):
            if not self._whole():
                self._make(None)

    def _whole(self) -> bool:
        if not self._path.exists():
            return False
        with self._open() as db:
            return db.execute("PRAGMA user_version").fetchone()[0] == _VERSION

    def _make(self, progress: Callable[[int], None] | None) -> int:
        self.discard()
        os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with self._open() as db:
            return self._fill(db, progress)

    def _fill(self, db: sqlite3.Connection, progress: Callable[[int], None] | None) -> int:
        """Read every run. Each batch is read while it holds the write lock, so that a run that settles meanwhile
        puts its newer row after the older one; the version goes in last, so that half an index is none."""
        make_tables(db)
        run_ids = self._source.run_ids()
        count = 0
        for start in range(0, len(run_ids), _BATCH):
            db.execute("BEGIN IMMEDIATE")
            records = [r for run_id in run_ids[start : start + _BATCH] if (r := self._source.load(run_id)) is not None]
            put_rows(db, records)
            db.execute("COMMIT")
            count += len(records)
            if progress is not None:
                progress(min(start + _BATCH, len(run_ids)))
        db.execute(f"PRAGMA user_version = {_VERSION}")
        return count

    @contextlib.contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        import sqlite3

        uri = f"{self._path.as_uri()}?mode=rw"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)) as db:
            yield db

    @contextlib.contextmanager
    def _in_memory(self) -> Generator[sqlite3.Connection]:
        import sqlite3

        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            self._fill(db, None)
            yield db
