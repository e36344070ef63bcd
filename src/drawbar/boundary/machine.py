"""What of the machine's own data no command needs: state of its services, and what the kernel tells root (BND-10).

Toolchains, package managers' records and shared data sets stay in sight. What is hidden here is where services keep
databases, queues and sockets, and the kernel's files that say more about the machine than a build asks for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["MachineView", "machine_view"]

_STATE: Final = "/var/lib"
_NEEDED_STATE: Final = (
    # records of package managers, and what packages generate for the programs that they install
    *("dpkg", "apt", "rpm", "pacman", "dnf", "zypp", "apk", "portage", "xbps", "flatpak", "snapd", "alternatives"),
    *("gems", "ghc", "texmf", "python", "emacsen-common", "sgml-base", "xml-core", "dictionaries-common", "aspell"),
)
"""Of the services' state, what ordinary programs read."""

_DATA: Final = ("/var/spool", "/var/mail", "/var/backups", "/var/crash", "/var/account", "/var/kerberos")

_KERNEL: Final = (
    *("/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/timer_stats"),
    *("/proc/sched_debug", "/proc/latency_stats", "/proc/acpi", "/proc/scsi", "/proc/asound"),
    *("/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/fs/bpf"),
    *("/sys/fs/pstore", "/sys/devices/virtual/powercap"),
)
"""Addresses, keys, timers, hardware: as container runtimes hide them. Those that ordinary users can't read and
empty folders need no mask."""


@dataclass(frozen=True, slots=True)
class MachineView:
    """Folders and files to mask, and what stays readable below them."""

    masked: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()


def machine_view() -> MachineView:
    """Look at this machine's folders as they are now; what is empty needs no mask."""
    state = Path(_STATE)
    return MachineView(
        masked=tuple(Path(name) for name in (*_DATA, _STATE, *_KERNEL) if not os.path.islink(name) and _tells(name)),
        readable=tuple(path for name in _NEEDED_STATE if os.path.exists(path := state / name)),
    )


def _tells(name: str) -> bool:
    try:
        return bool(os.listdir(name)) if os.path.isdir(name) else os.access(name, os.R_OK)
    except OSError:
        return False
