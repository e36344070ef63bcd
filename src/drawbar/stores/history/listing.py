"""The histories of a folder, from the head and the tail of each file: what a picker shows (SES-4)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from drawbar.contracts.codec import as_object
from drawbar.stores.history.lines import BOM, Piece, parse, split_damaged
from drawbar.stores.history.reader import CURRENT, version_of
from drawbar.stores.history.roles import plain_text

__all__ = ["HistoryHead", "list_histories", "select_history"]

_HEAD = 32 * 1024
_LONGEST_HEADER = 2**20
_TAIL = 16 * 1024
_LONGEST_TAIL = 2**20
_PREVIEW = 200


@dataclass(frozen=True, slots=True)
class HistoryHead:
    """What a listing knows of one history.

    Attributes:
        path: the file.
        session_id: from the header, or from the file's name where the header was damaged.
        version: the format version; None when the header states something that is no number.
        cwd: the working directory it began in; empty when unknown.
        created: the header's timestamp, as it stands there.
        modified_ms: time of the last entry that is readable at the file's end, in ms since the epoch; the
            file's own time when there is none.
        size: of the file in bytes.
        name: of the newest ``session_info`` in head or tail; None when there is none.
        first_message: beginning of the first user message, when it stands in the head.
        parent_session: the history that this one was forked from.
    """

    path: Path
    session_id: str
    version: int | None
    cwd: str
    created: str
    modified_ms: int
    size: int
    name: str | None
    first_message: str | None
    parent_session: str | None


def list_histories(folder: Path) -> list[HistoryHead]:
    """The histories in ``folder``, newest activity first; what is no history is left out.

    Reads at most some tens of KiB of each file, however long it is. A missing folder has none.
    """
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.name.endswith(".jsonl")]
    except OSError:
        return []
    heads = [head for name in names if not name.startswith(".") and (head := _head(folder / name)) is not None]
    return sorted(heads, key=lambda head: (head.modified_ms, head.path.name), reverse=True)


def select_history(folder: Path, *, resume: bool) -> Path | None:
    """The history to go on with: the newest one when resuming, else none, which begins a new one."""
    heads = list_histories(folder) if resume else []
    return heads[0].path if heads else None


def _head(path: Path) -> HistoryHead | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return None
        return _read_head(path, fd, status)
    except OSError:
        return None
    finally:
        os.close(fd)


def _read_head(path: Path, fd: int, status: os.stat_result) -> HistoryHead | None:
    size = status.st_size
    start = os.pread(fd, _HEAD, 0)
    if b"\n" not in start and size > _HEAD:
        start = os.pread(fd, _LONGEST_HEADER, 0)
    records = list(_records(start if len(start) >= size else start[: start.rfind(b"\n") + 1]))
    header = next((record for record in records if record.get("type") == "session"), None)
    entries = [record for record in records if record.get("type") != "session"]
    if header is None or not isinstance(header.get("id"), str):
        if not any(isinstance(entry.get("id"), str) and "parentId" in entry for entry in entries):
            return None
        header = {"version": CURRENT, **(header or {}), "id": path.stem.partition("_")[2] or path.stem}
    tail = entries if len(start) >= size else _tail(fd, size)
    when = next((ms for entry in reversed(tail) if (ms := _time_ms(entry)) is not None), status.st_mtime_ns // 10**6)
    names = [entry.get("name") for entry in (*entries, *tail) if entry.get("type") == "session_info"]
    return HistoryHead(
        path=path,
        session_id=str(header["id"]),
        version=version_of(header),
        cwd=_text(header, "cwd") or "",
        created=_text(header, "timestamp") or "",
        modified_ms=when,
        size=size,
        name=next((name if isinstance(name, str) and name else None for name in reversed(names)), None),
        first_message=next((text for entry in entries if (text := _said_by_user(entry))), None),
        parent_session=_text(header, "parentSession"),
    )


def _tail(fd: int, size: int) -> list[dict[str, Any]]:
    """The last entries of the file; looks further back while none is readable, as after a power cut."""
    length = _TAIL
    while True:
        start = max(size - length, 0)
        data = os.pread(fd, size - start, start)
        found = list(_records(data if start == 0 else data[data.find(b"\n") + 1 :]))
        if found or start == 0 or length >= _LONGEST_TAIL:
            return found
        length *= 8


def _records(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.removeprefix(BOM).split(b"\n"):
        if line and not line.isspace():
            try:
                record = as_object(parse(line))
            except ValueError:
                record = None
            pieces = [Piece(0, 0, record)] if record is not None else split_damaged(line, 0)
            yield from (piece.record for piece in pieces if piece.record is not None)


def _time_ms(entry: dict[str, Any]) -> int | None:
    try:
        return int(datetime.fromisoformat(entry["timestamp"]).timestamp() * 1000)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _said_by_user(entry: dict[str, Any]) -> str | None:
    message = as_object(entry.get("message")) or {}
    if entry.get("type") != "message" or message.get("role") != "user":
        return None
    return " ".join(plain_text(message.get("content")).split())[:_PREVIEW] or None


def _text(table: dict[str, Any], name: str) -> str | None:
    value = table.get(name)
    return value if isinstance(value, str) else None
