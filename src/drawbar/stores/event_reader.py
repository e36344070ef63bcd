"""Reads what a log holds, whatever happened to it: every sound event, and each gap once (CON-8, CON-15, QLT-5)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from drawbar.contracts.codec import Raw, decode
from drawbar.contracts.errors import InvalidInput, NotFound
from drawbar.contracts.events.base import Event
from drawbar.contracts.events.progress import todo_of
from drawbar.contracts.methods import Inspection, Skipped
from drawbar.stores.layout import ARTIFACTS_FOLDER, EVENTS_FILE, RUN_FILE
from drawbar.stores.log_lines import ArtifactReference, RawLine, Unreadable, parse_line, raw_lines
from drawbar.stores.log_state import LogState, follow
from drawbar.stores.regular_file import is_there, read_regular

__all__ = ["payload_is_sound", "raw_lines", "read_events", "read_report", "resolve_payload"]

_REFERENCE: Final = b'{"payload_artifact":'


def read_events(path: Path, from_seq: int = 0) -> Iterator[Event]:
    """The events of a log in the order of its lines, streamed; what can't be read is passed over.

    An event of a type that this release doesn't know is given as it is: callers skip what they don't know. A
    payload that lies in an artifact is read from there.

    Args:
        path: the ``events.jsonl``; a missing one is empty.
        from_seq: the first ``seq`` wanted.

    Raises:
        InvalidInput: ``path`` is no file, or can't be read.
    """
    if not is_there(path):
        return
    for _line, event in _lines(path):
        if isinstance(event, Event) and event.seq >= from_seq:
            yield resolve_payload(event, path.parent)


def payload_is_sound(event: Event, folder: Path) -> bool:
    """False when the event's payload lies in an artifact that is gone or isn't what was written."""
    return not bytes(event.payload).startswith(_REFERENCE) or _referred(event, folder) is not None


def resolve_payload(event: Event, folder: Path) -> Event:
    """``event`` with its real payload where the line only refers to one (CON-15).

    The reference stays when the artifact is gone or isn't what was written.
    """
    if not bytes(event.payload).startswith(_REFERENCE):
        return event
    data = _referred(event, folder)
    if data is None:
        return event
    return Event(seq=event.seq, at=event.at, type=event.type, payload=Raw(data), chain=event.chain)


def _referred(event: Event, folder: Path) -> bytes | None:
    """The bytes that a reference names; None when it isn't one, or they aren't there any more."""
    try:
        reference = decode(bytes(event.payload), ArtifactReference, what="payload")
    except InvalidInput:
        return None
    relative = Path(reference.payload_artifact)
    if relative.parts[:1] != (ARTIFACTS_FOLDER,) or len(relative.parts) != 2 or relative.name == "..":
        return None
    try:
        data = read_regular(folder / relative)
    except (OSError, InvalidInput):
        return None
    return data if hashlib.sha256(data).hexdigest() == reference.sha256 else None


def read_report(folder: Path) -> Inspection:
    """What is in a run's folder, damage included (``runs inspect``, CLI-7); of the end, what the log says (CON-13).

    Raises:
        NotFound: the folder has neither a record nor a log.
        InvalidInput: one of them is no file, or can't be read; the message names it.
    """
    from drawbar.stores.agreement import as_logged
    from drawbar.stores.records import read_raw_record
    from drawbar.stores.verify import verify_run

    log = folder / EVENTS_FILE
    if not is_there(log) and not is_there(folder / RUN_FILE):
        raise NotFound(f"{folder} holds no run", path=str(folder))
    skipped: list[Skipped] = []
    count = 0

    def sound() -> Iterator[Event]:
        nonlocal count
        state = LogState()
        for line, event in _lines(log):
            if isinstance(event, Unreadable):
                _note(skipped, line, event)
                continue
            count += 1
            if not state.sealed and event.type in ("todo.updated", "checklist.updated"):
                yield resolve_payload(event, folder)
            state = follow(state, event)

    record = read_raw_record(folder)
    todo = todo_of(sound()) if is_there(log) else []
    return Inspection(
        record=as_logged(folder, record) if record is not None else None,
        events=count,
        skipped=skipped,
        first_bad=verify_run(folder).first_bad,
        todo=todo,
    )


def _lines(path: Path) -> Iterator[tuple[RawLine, Event | Unreadable]]:
    next_seq = 0
    for line in raw_lines(path):
        event = parse_line(line, next_seq)
        next_seq = max(next_seq, event.seq + 1) if isinstance(event, Event) else next_seq + 1
        yield line, event


def _note(skipped: list[Skipped], line: RawLine, why: Unreadable) -> None:
    """Add a line to the stretch that it continues, so that each stretch is reported once (QLT-5)."""
    last = skipped[-1] if skipped else None
    if last is not None and last.kind == why.kind and last.offset + last.bytes + 1 == line.offset:
        last.bytes += 1 + line.length
    else:
        skipped.append(Skipped(kind=why.kind, line=line.number, offset=line.offset, bytes=line.length))
