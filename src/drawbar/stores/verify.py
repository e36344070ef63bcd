"""Recomputes a log's chain and names the first line that isn't as it was written (CON-11, CLI-7).

What this proves is that nobody changed the file by accident, or without knowing the scheme: the owner of the
disk can rewrite the whole chain and the record with it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from drawbar.contracts.codec import decode
from drawbar.contracts.errors import InvalidInput, NotFound
from drawbar.contracts.events.base import Event
from drawbar.contracts.events.lifecycle import Started
from drawbar.contracts.methods import FirstBad, Verification
from drawbar.contracts.run import LogHead
from drawbar.contracts.status import ACTIVE, SETTLED
from drawbar.stores.agreement import contradictions
from drawbar.stores.event_reader import payload_is_sound
from drawbar.stores.layout import EVENTS_FILE, RUN_FILE
from drawbar.stores.log_lines import RawLine, parse_line, raw_lines
from drawbar.stores.log_state import LogEnd, LogState, end_of, follow
from drawbar.stores.records import head_of, read_raw_record
from drawbar.stores.regular_file import is_there

__all__ = ["verify_run"]

_LINK: Final = re.compile(rb',"chain":"([0-9a-f]{64})"\}')
_LINK_BYTES: Final = 76


def verify_run(folder: Path) -> Verification:
    """Check the log in ``folder`` against itself and against what ``run.json`` remembers of its end.

    ``first_bad`` gives the place of the first wrong line: ``line`` from 1, and the ``seq`` that belongs there. A
    torn tail is reported as such; it is no fault of a run that never settled.

    Only the record can show that the log's end is missing, or that the whole chain is another one, so a log
    proves nothing without it: where the record is missing, empty, damaged, or settled without saying where the
    log ended, the log counts as ``cut`` after its last line. The record of a run that is active, or was killed,
    says no such place yet; then what is there is all that there ever was, as far as anybody knows, and a chain
    that holds is sound. A record that settled otherwise than the terminal line says disagrees with the log,
    and that line is named as ``altered``: which of the two was changed can't be told (CON-13).

    Raises:
        NotFound: there is neither a log nor a record.
        InvalidInput: one of them is no file, or can't be read; the message names it.
    """
    log = folder / EVENTS_FILE
    if not is_there(log) and not is_there(folder / RUN_FILE):
        raise NotFound(f"{folder} holds no run", path=str(folder))
    record = read_raw_record(folder) or {}
    head = head_of(record)
    walk = _walk(folder, log, str(record.get("id") or _named_in(log) or folder.name), head)
    settled = head is not None or record.get("status") not in ACTIVE
    bad = _classify(walk, head) or _against_head(walk, head) or _against_status(walk, record)
    if bad is None and settled and (head is None or not walk.state.sealed):
        bad = _at(walk.expected, "cut")
    torn_end = walk.torn and (settled or walk.state.sealed)
    return Verification(ok=bad is None and not torn_end, events=walk.events, torn=walk.torn, first_bad=bad)


@dataclass(slots=True)
class _Walk:
    """What one pass saw: ``expected`` lines are sound, then comes a ``bad`` one, which says to be line ``found``.

    ``after`` is the number of the readable line after it, ``reappears`` whether the expected one comes later,
    ``at_head`` the chain where the record says that the log ended. ``end`` is what the terminal line says, and
    ``end_seq`` its number.
    """

    events: int = 0
    expected: int = 0
    torn: bool = False
    at_head: str | None = None
    end: LogEnd | None = None
    end_seq: int = -1
    state: LogState = field(default_factory=LogState)
    bad: bool = False
    found: int | None = None
    after: int | None = None
    reappears: bool = False


def _walk(folder: Path, log: Path, run_id: str, head: LogHead | None) -> _Walk:
    walk = _Walk()
    previous = run_id.encode()
    for line in raw_lines(log) if is_there(log) else ():
        if not line.whole:
            walk.torn = True
            break
        event = parse_line(line, -1 if walk.bad else walk.expected)
        seq = event.seq if isinstance(event, Event) else None
        if isinstance(event, Event):
            walk.events += 1
            walk.state = follow(walk.state, event)
        if walk.bad:
            walk.after = seq if walk.after is None else walk.after
            walk.reappears |= seq == walk.expected
            continue
        link = _link(line, previous)
        if link is None or seq != walk.expected or not (isinstance(event, Event) and payload_is_sound(event, folder)):
            walk.bad, walk.found = True, seq
            continue
        if walk.state.sealed and walk.end is None:
            walk.end, walk.end_seq = end_of(event), walk.expected
        previous = link
        if head is not None and seq == head.seq:
            walk.at_head = link.decode()
        walk.expected += 1
    return walk


def _named_in(log: Path) -> str | None:
    """The run that line 0 names, for a log that was copied away from its record."""
    first = next(raw_lines(log), None) if is_there(log) else None
    event = parse_line(first, 0) if first is not None else None
    if not isinstance(event, Event) or event.type != "started":
        return None
    try:
        return decode(bytes(event.payload), Started, what=event.type).run_id or None
    except InvalidInput:
        return None


def _link(line: RawLine, previous: bytes) -> bytes | None:
    """The line's chain if it is what its bytes and the line before make it."""
    if line.data is None:
        return None
    stored = _LINK.fullmatch(line.data[-_LINK_BYTES:])
    if stored is None:
        return None
    computed = hashlib.sha256(previous + line.data[:-_LINK_BYTES]).hexdigest().encode()
    return computed if computed == stored[1] else None


def _classify(walk: _Walk, head: LogHead | None) -> FirstBad | None:
    """Why the first bad line is where it is, from its own number and those of the lines after it."""
    if not walk.bad:
        return None
    found, expected = walk.found, walk.expected
    if found is None or found == expected:
        return _at(expected, "altered")
    if walk.reappears:
        return _at(expected, "reordered")
    renumbered = walk.after == expected + 1 or (head is not None and found > head.seq)
    if renumbered:
        return _at(expected, "altered")
    return _at(expected, "dropped" if found > expected else "reordered")


def _against_head(walk: _Walk, head: LogHead | None) -> FirstBad | None:
    """What the log itself can't show: that lines are missing at its end, or that the whole chain is another one."""
    if head is None or walk.bad:
        return None
    if walk.expected <= head.seq:
        return _at(walk.expected, "cut")
    if walk.at_head != head.chain:
        return _at(head.seq, "altered")
    return _at(head.seq + 1, "altered") if walk.expected > head.seq + 1 else None


def _against_status(walk: _Walk, record: Mapping[str, Any]) -> FirstBad | None:
    """A record that settled with another end than the log's; one that is still active is only late (CON-13)."""
    if walk.end is None or record.get("status") not in SETTLED or not contradictions(record, walk.end):
        return None
    return _at(walk.end_seq, "altered")


def _at(seq: int, cause: str) -> FirstBad:
    return FirstBad(seq=seq, line=seq + 1, cause=cause)  # pyright: ignore[reportArgumentType]
