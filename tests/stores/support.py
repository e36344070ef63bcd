"""What the tests of the run store start from: a clock that is told the time, a redactor, logs, an own verifier."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from drawbar.contracts.events.lifecycle import Started, StatusChanged
from drawbar.contracts.events.message import MessageDelta
from drawbar.stores.event_log import EventLog

RUN = "r_01jd00000000000000000000aa"
NOON = 1_796_040_000_000  # 2026-11-30T12:00:00.000Z


class HeldClock:
    """A clock that stands still until it is moved, in either direction."""

    def __init__(self, ms: int = NOON) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


class PlainRedactor:
    """Knows no secrets."""

    def text(self, text: str) -> str:
        return text

    def value(self, value: Any) -> Any:
        return value

    def clean(self, encoded: bytes) -> bool:
        return True

    def stream(self) -> Any:
        raise NotImplementedError

    def add(self, value: str, kind: str) -> None:
        raise NotImplementedError


def new_log(folder: Path, **rest: Any) -> EventLog:
    """The log of a new run, beside the record of one that hasn't settled."""
    folder.mkdir(parents=True, exist_ok=True)
    unsettled(folder)
    rest.setdefault("redactor", PlainRedactor())
    rest.setdefault("clock", HeldClock())
    return EventLog.create(folder, RUN, **rest)


def unsettled(folder: Path) -> None:
    """The record of a run that goes on, or was killed."""
    record = folder / "run.json"
    record.touch(mode=0o600)
    record.write_text(json.dumps({"id": RUN, "status": "running"}))


def taken_over(folder: Path, **rest: Any) -> EventLog:
    rest.setdefault("redactor", PlainRedactor())
    rest.setdefault("clock", HeldClock())
    return EventLog.take_over(folder, RUN, **rest)


def delta(text: str, message_id: str = "m_1") -> MessageDelta:
    return MessageDelta(message_id=message_id, block=0, kind="text", text=text)


def write_run(folder: Path, deltas: int = 8) -> bytes:
    """An unsettled log of ``deltas`` + 2 lines; its bytes."""
    log = new_log(folder)
    log.append(Started(run_id=RUN))
    log.append(StatusChanged(to="running"))
    for number in range(deltas):
        log.append(delta(f"piece {number} ✓"))
    log.close()
    return (folder / "events.jsonl").read_bytes()


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_bytes().splitlines()]


def chain_holds(data: bytes, run_id: str = RUN) -> bool:
    """The chain by the letter of the specification, with nothing of ours (CON-11)."""
    previous = run_id
    for number, line in enumerate(data.split(b"\n")[:-1]):
        match = re.fullmatch(rb'(.*),"chain":"([0-9a-f]{64})"\}', line, re.DOTALL)
        if match is None or json.loads(line)["seq"] != number:
            return False
        if hashlib.sha256(previous.encode("ascii") + match[1]).hexdigest() != match[2].decode():
            return False
        previous = match[2].decode()
    return True


def python(code: str, *args: str, **rest: Any) -> subprocess.Popen[str]:
    """Another process that runs ``code`` with this checkout on its path."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=rest.pop("stderr", subprocess.PIPE),
        text=True,
        cwd=Path(__file__).parents[2],
        **rest,
    )


def answer_of(process: subprocess.Popen[str], timeout: float = 60) -> str:
    """Its standard output, once it ended well."""
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return out


@contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[Path]:
    """A file system of its own with ``kib`` KiB of room."""
    if os.geteuid() != 0:
        pytest.skip("a small file system can only be mounted by root")
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=0700", "drawbar-test", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"a small file system can't be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Callable[[], None]:
    """Leave no room on the disk of ``folder``; what it returns makes room again."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 256, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast.unlink
