"""What a command could change of the supervisor that the next command inherits from, as the kernel tells it (PRF-2).

Any process may change the limits, priority and processors of another of the same user, and the mode of a folder
that is discarded with the sandbox. What differs from how the sandbox began makes the next command get a new one.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["Traces", "traces_of"]

_FOLDERS: Final = ("dev/shm", "run")
_STATUS: Final = (b"Umask:", b"SigBlk:", b"SigIgn:", b"SigCgt:", b"Cpus_allowed:", b"Mems_allowed:", b"NoNewPrivs:")
_PRIORITY, _NICE, _REALTIME, _POLICY = 15, 16, 37, 38
"""Places in ``/proc/PID/stat`` after the closing parenthesis."""
_IOPRIO_GET: Final = {"x86_64": 252, "aarch64": 31}
_BY_PROCESS: Final = 1


@dataclass(frozen=True, slots=True)
class Traces:
    """Comparable: limits, scheduling, masks, and the modes of the discarded folders."""

    limits: bytes
    scheduling: tuple[bytes, ...]
    status: tuple[bytes, ...]
    out_of_memory: bytes
    input_output: int
    folders: tuple[tuple[int, int, int], ...]


def traces_of(pid: int) -> Traces:
    """What a child of the process inherits.

    Raises:
        OSError: when the process is gone.
    """
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    status = tuple(line for line in _read(pid, "status").splitlines() if line.startswith(_STATUS))
    return Traces(
        limits=_read(pid, "limits"),
        scheduling=tuple(fields[place] for place in (_PRIORITY, _NICE, _REALTIME, _POLICY)),
        status=status,
        out_of_memory=_read(pid, "oom_score_adj"),
        input_output=_io_priority()(pid),
        folders=tuple(_folder(f"/proc/{pid}/root/{name}") for name in _FOLDERS),
    )


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()


def _folder(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return (0, 0, 0)
    return (found.st_mode, found.st_uid, found.st_gid)


@functools.cache
def _io_priority() -> Callable[[int], int]:
    number = _IOPRIO_GET.get(platform.machine())
    if number is None:
        return lambda _pid: 0
    call = ctypes.CDLL(None, use_errno=True).syscall
    return lambda pid: int(call(ctypes.c_long(number), _BY_PROCESS, pid))
