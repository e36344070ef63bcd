"""Processes as the kernel lists them: who descends from whom, and who carries a call's marker."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

__all__ = ["carriers", "descendants", "living_children", "signal_all"]


def descendants(pid: int) -> list[int]:
    """The living descendants of ``pid``, children before grandchildren; zombies are dead and left out."""
    children: dict[int, list[int]] = {}
    dead: set[int] = set()
    for process in _pids():
        fields = _stat(process)
        if fields is None:
            continue
        state, parent = fields
        children.setdefault(parent, []).append(process)
        if state in ("Z", "X"):
            dead.add(process)
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(0), ()):
            waiting.append(child)
            if child not in dead:
                found.append(child)
    return found


def living_children(pid: int) -> list[int]:
    """The living children of ``pid``: in a namespace whose first process it is, none means that nothing lives."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            children = [int(child) for child in file.read().split()]
    except OSError:
        return descendants(pid)
    return [child for child in children if (stat := _stat(child)) is not None and stat[0] not in ("Z", "X")]


def carriers(marker: str) -> list[int]:
    """The living processes of this user whose environment holds ``marker``, a ``NAME=value``."""
    wanted = os.fsencode(marker)
    found: list[int] = []
    for pid in _pids():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if wanted in file.read().split(b"\0"):
                found.append(pid)
    return found


def signal_all(pids: list[int], number: signal.Signals) -> None:
    """Signal each process that is still there and ours to signal."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _pids() -> Iterator[int]:
    with os.scandir("/proc") as entries:
        yield from (int(entry.name) for entry in entries if entry.name.isdigit())


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command name may hold anything, so fields count from the last closing parenthesis.
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode("ascii"), int(fields[1])
    except (OSError, IndexError, ValueError):
        return None
