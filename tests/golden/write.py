"""Writes the files of today's format from the samples; ``python -m tests.golden.write FOLDER`` makes a new release's.

A released folder is never written again: a format that changes gets a folder of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.golden import samples

from drawbar.contracts.codec import encode, indent
from drawbar.contracts.events.base import Payload
from drawbar.contracts.run import LogHead
from drawbar.stores.event_log import EventLog
from drawbar.stores.records import file_of, raw_of
from drawbar.stores.redaction import SecretRedactor


class TickingClock:
    """Each reading is 250 ms after the one before."""

    def __init__(self) -> None:
        self.ms = samples.FIRST_MS - 250

    def now_ms(self) -> int:
        self.ms += 250
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


def write_all(folder: Path) -> None:
    """One run that completed with everything in it, and the logs of one that failed and one that was stopped."""
    head = _log(folder, samples.EVENTS)
    (folder / "run.json").write_bytes(file_of(raw_of(samples.record(head))))
    (folder / "owner.json").write_bytes(indent(encode(samples.OWNER)) + b"\n")
    (folder / "capabilities.json").write_bytes(indent(encode(samples.CAPABILITIES)) + b"\n")
    _log(folder / "failed", [samples.STARTED, samples.END_FAILED])
    _log(folder / "interrupted", [samples.STARTED, samples.END_INTERRUPTED])


def _log(folder: Path, events: list[Payload]) -> LogHead | None:
    folder.mkdir(parents=True)
    log = EventLog.create(folder, samples.RUN, redactor=SecretRedactor(), clock=TickingClock())
    for payload in events:
        log.append(payload)
    log.close()
    return log.head


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
