"""Evidence of what came after a run had settled: kept, never applied, never relayed (CON-13)."""

from __future__ import annotations

import os
from pathlib import Path

from drawbar.contracts.codec import Raw, encode
from drawbar.stores.atomic import storage_failure
from drawbar.stores.layout import LATE_FILE

__all__ = ["append_late"]


def append_late(folder: Path, at: str, tag: str, payload: bytes, why: str) -> None:
    """Add one line ``{at, type, payload, why}`` to ``late.jsonl``; it has no number and no chain.

    Args:
        folder: the run's folder.
        at: when it came.
        tag: the event's type.
        payload: its encoded, redacted payload.
        why: what it was too late for.

    Raises:
        StorageFailed: the disk refused.
    """
    path = folder / LATE_FILE
    line = encode({"at": at, "type": tag, "payload": Raw(payload), "why": why}) + b"\n"
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                line = b"\n" + line  # an earlier line was torn; this one begins on its own
            done = 0
            while done < len(line):
                done += os.write(fd, memoryview(line)[done:])
        finally:
            os.close(fd)
    except OSError as error:
        raise storage_failure(path, error) from error
