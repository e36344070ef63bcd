"""A fork: a new history that holds exactly one branch of another, in the current format (SES-6, NAV-01)."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from drawbar.contracts.clock import Clock, stamp
from drawbar.contracts.errors import NotFound
from drawbar.stores.history.context import Entry
from drawbar.stores.history.file import HistoryFile
from drawbar.stores.history.index import CODES, TYPE
from drawbar.stores.history.lines import encode_line
from drawbar.stores.history.publish import new_header, publish
from drawbar.stores.history.reader import Reader
from drawbar.stores.history.roles import GAP
from drawbar.stores.history.view import fetch_from, open_regular, scan

__all__ = ["fork_history"]


def fork_history(
    source: Path,
    folder: Path,
    *,
    clock: Clock,
    at: str | None = None,
    before: bool = False,
    cwd: str | None = None,
    session_id: str | None = None,
) -> HistoryFile:
    """Copy one branch into a new history, open for writing; the source needs no lock and stays as it is.

    Any readable source will do, also one of an older format or a damaged one: the copy is sound and current.
    Entry ids are kept, so that they join transcripts to both; labels of copied entries follow at the end,
    as Pi does it; a hole in the branch becomes a note in the copy.

    Args:
        source: the history to copy from.
        folder: where the new file goes; made when missing.
        clock: time source of the new header.
        at: the last entry to copy; by default the leaf.
        before: leave out ``at`` itself, as when a user message is taken back for editing.
        cwd: the working directory of the new session; by default the source's.
        session_id: as for :meth:`HistoryFile.create`.

    Raises:
        NotFound: no such file, or no entry ``at``.
        InvalidInput: the source is no regular file; ``session_id`` can't be one; the new name is taken.
        StorageFailed: the disk refused; nothing is left.
    """
    fd = open_regular(source, os.O_RDONLY)
    try:
        index = scan(fd)
        leaf = len(index) - 1 if at is None else index.find(at)
        if leaf is None:
            raise NotFound(f"no entry {at!r} in {source}", entry=at, path=str(source))
        if before and leaf >= 0:
            leaf = index.parents[leaf]
        header = new_header(
            cwd=cwd if cwd is not None else str((index.header or {}).get("cwd") or ""),
            session_id=session_id,
            parent_session=os.path.abspath(source),
            clock=clock,
        )
        copier = _Copier(Reader(index, partial(fetch_from, fd, index)), clock)
        path, target = publish(folder, header, copier.lines(leaf))
    finally:
        os.close(fd)
    return HistoryFile(path, target, clock)


class _Copier:
    """Writes a branch out anew: chained entry to entry, current in format, labels last."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._now = stamp(clock.now_ms())
        self._above: str | None = None
        self._new_ids: dict[str, str] = {}
        self._stand_ins: dict[str, str] = {}

    def lines(self, leaf: int) -> Iterator[bytes]:
        """The lines of the branch that ends at ``leaf``."""
        index = self._reader.index
        labels: list[str] = []
        for at in index.path(leaf):
            if at in index.gaps:
                gap = {"type": "custom_message", "customType": "drawbar-gap", "content": GAP, "display": True}
                yield self._next({**gap, "id": self._fresh(), "timestamp": self._now}, labels)
            entry = self._reader.entry(at)
            if entry.get("type") == "label":
                labels.append(entry["id"])
            else:
                yield self._next(self._current({**entry, "id": self._own(entry["id"])}), labels)
        yield from self._labels()

    def _next(self, entry: Entry, labels: list[str]) -> bytes:
        """The line of ``entry``, which also stands for the labels that were left out just before it."""
        for label in labels:
            self._stand_ins[label] = entry["id"]
        labels.clear()
        return self._line(entry)

    def _own(self, entry_id: str) -> str:
        """The id in the copy: the same, unless the branch uses it twice."""
        own = entry_id if entry_id not in self._new_ids else self._fresh()
        self._new_ids[entry_id] = own
        return own

    def _current(self, entry: Entry) -> Entry:
        """``entry`` with references that hold in the copy and no field of an old format."""
        place = entry.pop("firstKeptEntryIndex", None) if entry.get("type") == "compaction" else None
        if isinstance(place, int) and 0 < place <= len(self._reader.index):
            entry.setdefault("firstKeptEntryId", self._reader.id_of(place - 1))
        if isinstance(kept := entry.get("firstKeptEntryId"), str):
            entry["firstKeptEntryId"] = self._stand_ins.get(kept) or self._new_ids.get(kept, kept)
        if isinstance(target := entry.get("targetId"), str):
            entry["targetId"] = self._new_ids.get(target, target)
        return entry

    def _labels(self) -> Iterator[bytes]:
        """The newest label of each copied entry, wherever in the source it was set."""
        newest: dict[str, Entry] = {}
        for at, code in enumerate(self._reader.index.codes):
            if code & TYPE == CODES["label"]:
                label = self._reader.raw(at)
                if isinstance(target := label.get("targetId"), str) and target in self._new_ids:
                    newest[self._new_ids[target]] = label
        for target, label in newest.items():
            if label.get("label"):
                yield self._line({**label, "id": self._fresh(), "targetId": target})

    def _fresh(self) -> str:
        taken = {*self._new_ids, *self._new_ids.values()}
        while (entry_id := secrets.token_hex(4)) in taken:
            pass
        return entry_id

    def _line(self, entry: Entry) -> bytes:
        line = encode_line({**entry, "parentId": self._above})
        self._above = entry["id"]
        return line
