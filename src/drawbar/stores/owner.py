"""Who owns a run: an identity that a recycled pid can't fake, beside the lock that decides (CON-27, STL-03)."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
from pathlib import Path
from typing import Final

from drawbar.contracts.codec import Record, decode
from drawbar.contracts.errors import InvalidInput
from drawbar.stores.layout import EVENTS_FILE, OWNER_FILE
from drawbar.stores.locks import locked_elsewhere
from drawbar.stores.regular_file import read_regular

__all__ = ["Owner", "current_owner", "is_this_process", "owner_alive", "process_alive", "read_owner"]

FOREIGN_QUIET_S: Final = 300.0
"""How long a log must have been quiet before a run of another machine counts as left (RUN-17)."""


class Owner(Record, omit_defaults=False):
    """The process that owns a run, as ``owner.json`` holds it.

    ``host`` names the machine, ``start_time`` the process's start in clock ticks after boot, ``boot_id`` the
    boot; together they tell two processes of one pid apart. ``socket`` is the control socket (RUN-9).
    """

    host: str = ""
    pid: int = 0
    start_time: int | None = None
    boot_id: str = ""
    socket: str | None = None


def current_owner(socket: str | None = None) -> Owner:
    """This process."""
    return Owner(
        host=_host_id(), pid=os.getpid(), start_time=_start_time(os.getpid()), boot_id=_boot_id(), socket=socket
    )


def read_owner(folder: Path) -> Owner | None:
    """The owner that a run folder names; None when the file is missing, empty or garbage (STL-04)."""
    try:
        return decode(read_regular(folder / OWNER_FILE), Owner, what=OWNER_FILE)
    except (OSError, InvalidInput):
        return None


def is_this_process(owner: Owner) -> bool:
    """Whether ``owner`` names this process, and not one that had its pid before."""
    return owner.pid == os.getpid() and owner == current_owner(owner.socket)


def process_alive(owner: Owner) -> bool:
    """Whether the very process that ``owner`` names runs on this machine now; a recycled pid doesn't count."""
    if owner.pid <= 0 or owner.boot_id != _boot_id():
        return False
    started = _start_time(owner.pid)
    if started is not None or sys.platform == "linux":
        return started is not None and started == owner.start_time
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def owner_alive(owner: Owner | None, folder: Path) -> bool:
    """Whether somebody owns the run in ``folder``.

    The lock decides: held, there is an owner; free, there is none, whatever ``owner.json`` says (STL-03,
    STL-04). Two cases have no lock to tell by: without a log the process's identity counts, and on a disk
    shared between machines, whose locks may not reach this one, a log that still grows counts.
    """
    locked = locked_elsewhere(folder / EVENTS_FILE)
    if locked:
        return True
    if owner is None:
        return False
    if locked is None:
        return process_alive(owner)
    named = bool(owner.host and owner.boot_id)
    elsewhere = named and owner.host != _host_id() and owner.boot_id != _boot_id()
    return elsewhere and _quiet_s(folder / EVENTS_FILE) < FOREIGN_QUIET_S


def _quiet_s(path: Path) -> float:
    try:
        return abs(time.time() - path.stat().st_mtime)
    except OSError:
        return FOREIGN_QUIET_S


def _start_time(pid: int) -> int | None:
    """Field 22 of ``/proc/<pid>/stat``; None without such a process (a zombie is none), or without ``/proc``."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        # The program's name, in parentheses, may itself hold spaces and parentheses.
        fields = stat[stat.rindex(b")") + 2 :].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _host_id() -> str:
    """A digest that names the machine without giving its id away."""
    for source in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            found = Path(source).read_text().strip()
        except OSError:
            continue
        if found:
            return hashlib.sha256(b"drawbar host " + found.encode()).hexdigest()[:16]
    return hashlib.sha256(b"drawbar host " + platform.node().encode()).hexdigest()[:16]
