"""A system-call filter that keeps a command from ending or changing its supervisor where no namespace does (BND-18).

As long as the supervisor lives, every orphan of the command comes to it, however deep: nothing can shed it. So the
command is refused whatever acts on that one process. All else passes. The supervisor puts its own process id in.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["NEGATIVE", "PLACE", "open_shield"]

PLACE: Final = 0x7FABCDE1
"""Stands for the supervisor's process id."""
NEGATIVE: Final = 0x7FABCDE2
"""Stands for its negative, which names its process group."""
_EVERY: Final = 0xFFFFFFFF

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_REFUSE: Final = 0x00050000 | errno.EPERM
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_FOREIGN_NUMBERS: Final = 0x40000000

_SET_OWNER, _SET_OWNER_BY_POINTER = 8, 15
_OWNER_REQUESTS: Final = (0x8901, 0x8902)
"""FIOSETOWN and SIOCSPGRP, whose process lies behind a pointer."""


@dataclass(frozen=True, slots=True)
class _Table:
    audit: int
    kill: int
    fcntl: int
    ioctl: int
    refused: tuple[int, ...]
    by_first: tuple[int, ...]
    by_second: tuple[int, ...]


# pidfd_send_signal takes a descriptor, also of /proc/PID, that no filter can look behind; programs do without it.
_TABLES: Final = {
    "x86_64": _Table(
        audit=0xC000003E,
        kill=62,
        fcntl=72,
        ioctl=16,
        refused=(424, 321),  # pidfd_send_signal, bpf
        # tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_open, process_vm_writev, prlimit64,
        # sched_setaffinity, sched_setscheduler, sched_setparam, sched_setattr
        by_first=(200, 234, 129, 297, 434, 311, 302, 203, 144, 142, 314),
        by_second=(101, 141, 251, 234),  # ptrace, setpriority, ioprio_set, tgkill
    ),
    "aarch64": _Table(
        audit=0xC00000B7,
        kill=129,
        fcntl=25,
        ioctl=29,
        refused=(424, 280),
        by_first=(130, 131, 138, 240, 434, 271, 261, 122, 119, 118, 274),
        by_second=(117, 140, 30, 131),
    ),
}


def open_shield() -> int | None:
    """A descriptor to the filter, at its start; None on a machine without a table. The caller closes it."""
    table = _TABLES.get(platform.machine())
    if table is None:
        return None
    fd = os.memfd_create("shield", os.MFD_CLOEXEC)
    os.write(fd, _assembled(table))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _assembled(table: _Table) -> bytes:
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, table.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _FOREIGN_NUMBERS),
        (_RETURN, 0, 0, _REFUSE),
    ]
    for number in table.refused:
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    code += _when(table.kill, 0, (PLACE, NEGATIVE, _EVERY))
    for number in table.by_first:
        code += _when(number, 0, (PLACE,), go_on=number in table.by_second)
    for number in table.by_second:
        code += _when(number, 1, (PLACE,))
    code += _when(table.ioctl, 1, _OWNER_REQUESTS)
    code += _owners(table.fcntl)
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _when(call: int, index: int, values: Iterable[int], *, go_on: bool = False) -> list[tuple[int, int, int, int]]:
    """For one call, refuse these values of an argument; the accumulator holds the call's number before and after."""
    tests = [instruction for value in values for instruction in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, _REFUSE))]
    end = [(_LOAD, 0, 0, _NUMBER)] if go_on else [(_RETURN, 0, 0, _ALLOW)]
    body = [(_LOAD, 0, 0, _ARGUMENTS + 8 * index), *tests, *end]
    return [(_EQUAL, 0, len(body), call), *body]


def _owners(call: int) -> list[tuple[int, int, int, int]]:
    """A descriptor's owner gets any signal that the descriptor was given."""
    by_value = [
        (_EQUAL, 0, 5, _SET_OWNER),
        (_LOAD, 0, 0, _ARGUMENTS + 16),
        (_EQUAL, 1, 0, PLACE),
        (_EQUAL, 0, 1, NEGATIVE),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    body = [
        (_LOAD, 0, 0, _ARGUMENTS + 8),
        (_EQUAL, 0, 1, _SET_OWNER_BY_POINTER),
        (_RETURN, 0, 0, _REFUSE),
        *by_value,
        (_RETURN, 0, 0, _ALLOW),
    ]
    return [(_EQUAL, 0, len(body), call), *body]
