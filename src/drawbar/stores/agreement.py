"""Where a run's log and its record disagree about the end, the log wins (CON-13): for whoever only reads, too.

A full disk, or a crash between two writes, leaves a record behind the log that is already sealed; a hand may
change a record that had settled. What a terminal line says is read from the log's last bytes, so that it costs
the same however long the log is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.status import SETTLED
from drawbar.stores.layout import EVENTS_FILE
from drawbar.stores.locks import locked_elsewhere
from drawbar.stores.log_lines import RawLine, Unreadable, parse_line
from drawbar.stores.log_state import LogEnd, end_of
from drawbar.stores.owner import is_this_process, read_owner
from drawbar.stores.records import changes_of_end, ends_in_order
from drawbar.stores.regular_file import open_regular

__all__ = ["as_logged", "contradictions", "end_in_tail"]

_TAIL: Final = 16 * 1024
_LONGEST_TAIL: Final = 1024 * 1024
_ENDS: Final = (b'"completed"', b'"failed"', b'"interrupted"')


def as_logged(folder: Path, raw: Mapping[str, Any]) -> dict[str, Any]:
    """``raw`` with the log's word where the two differ about the end; nothing is written.

    The record of a run that this very process is settling is left as it is: what is still missing in it is
    about to be written.
    """
    try:
        end = end_in_tail(folder / EVENTS_FILE)
    except (InvalidInput, OSError):
        return dict(raw)  # the record can still be shown; whoever reads the log itself is told why it can't be
    changes = contradictions(raw, end) if end is not None else {}
    if not changes or (raw.get("status") not in SETTLED and _settling_here(folder)):
        return dict(raw)
    return ends_in_order({**raw, **changes})


def contradictions(raw: Mapping[str, Any], end: LogEnd) -> dict[str, Any]:
    """The fields of the record that ``end`` says otherwise, with what it says; what it leaves out it doesn't deny."""
    said = changes_of_end(end)
    if raw.get("status") != end.status:
        return said
    return {
        name: said[name]
        for name in ("terminal_code", "outcome")
        if said[name] is not None and raw.get(name) not in (None, said[name])
    }


def end_in_tail(path: Path) -> LogEnd | None:
    """What the terminal line says, looked for in the last whole lines of a log; None without one, or without a log.

    Raises:
        InvalidInput: ``path`` is no file, or can't be read.
    """
    try:
        fd = open_regular(path)
    except FileNotFoundError:
        return None
    try:
        lines = _last_lines(fd)
    finally:
        os.close(fd)
    for line in lines.split(b"\n"):
        if any(mark in line for mark in _ENDS):
            event = parse_line(RawLine(1, 0, len(line), line, True), 0)
            if not isinstance(event, Unreadable) and (end := end_of(event)) is not None:
                return end
    return None


def _last_lines(fd: int) -> bytes:
    """The whole lines in the file's last bytes; more of these where a single line is longer than they are."""
    size = os.fstat(fd).st_size
    wanted = _TAIL
    while True:
        start = max(0, size - wanted)
        data = os.pread(fd, size - start, start)
        first = data.find(b"\n") + 1 if start else 0
        last = data.rfind(b"\n") + 1
        if first < last or not start or wanted >= _LONGEST_TAIL:
            return data[first:last]
        wanted *= 4


def _settling_here(folder: Path) -> bool:
    owner = read_owner(folder)
    return owner is not None and is_this_process(owner) and bool(locked_elsewhere(folder / EVENTS_FILE))
