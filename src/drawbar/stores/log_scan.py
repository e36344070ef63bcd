"""Where a log stands: what a new writer must know before its first line (CON-15, CON-11)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from drawbar.contracts.codec import as_object, loads
from drawbar.contracts.events.base import Event
from drawbar.stores.log_lines import Unreadable, parse_line, raw_lines
from drawbar.stores.log_state import LogEnd, LogState, end_of, follow
from drawbar.stores.regular_file import is_there

__all__ = ["LogPosition", "scan_log"]


@dataclass(slots=True)
class LogPosition:
    """The end of a log.

    ``seq`` is the last number given (-1: none), counting lines that can't be read, so that no number is given
    twice. ``chain`` is the last sound line's, ``at_ms`` the latest time seen, ``size`` the bytes up to the last
    line end, ``torn`` the bytes after it. ``end`` is what the terminal line says, once there is one.
    """

    seq: int = -1
    chain: str = ""
    at_ms: int = 0
    size: int = 0
    torn: int = 0
    schema_version: int | None = None
    state: LogState = field(default_factory=LogState)
    end: LogEnd | None = None


def scan_log(path: Path) -> LogPosition:
    """Read ``path`` once, streaming; a missing file is an empty log. Raises :class:`InvalidInput` for no file."""
    at = LogPosition()
    if not is_there(path):
        return at
    for line in raw_lines(path):
        if not line.whole:
            at.torn = line.length
            break
        at.size = line.offset + line.length + 1
        event = parse_line(line, at.seq + 1)
        if isinstance(event, Unreadable):
            at.seq += 1
            continue
        if at.schema_version is None and event.type == "started":
            at.schema_version = _schema_version(event)
        at.seq = max(at.seq, event.seq)
        at.chain = event.chain or at.chain
        at.at_ms = max(at.at_ms, _milliseconds(event.at))
        if at.end is None:
            at.state = follow(at.state, event)
            if at.state.sealed:
                at.end = end_of(event)
    return at


def _schema_version(event: Event) -> int | None:
    try:
        found = (as_object(loads(bytes(event.payload))) or {}).get("schema_version")
    except ValueError:
        return None
    return found if isinstance(found, int) else None


def _milliseconds(at: str) -> int:
    try:
        return round(datetime.fromisoformat(at).timestamp() * 1000)
    except ValueError:
        return 0
