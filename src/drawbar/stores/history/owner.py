"""Who holds a history: the kernel's own word for it, so that no file can name a dead owner (SES-3)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from drawbar.contracts.errors import SessionBusy
from drawbar.stores.locks import lock_within

__all__ = ["claim"]

_PATIENCE_S = 0.1


def claim(fd: int, path: Path) -> None:
    """Take the writer's lock on an open history, for as long as ``fd`` is open.

    The lock is the open file's own: the kernel gives it back when its process dies, however that happens,
    so a dead owner never has to be taken over from.

    Raises:
        SessionBusy: a live writer holds it; the facts name its ``pid`` and ``command`` where they are known.
        StorageFailed: the file system can't lock.
    """
    if lock_within(fd, _PATIENCE_S):
        return
    facts = _holder(fd)
    who = f"process {facts['pid']} ({facts['command']})" if facts else "another process"
    raise SessionBusy(f"{path} is being written by {who}; wait for it or stop it", path=str(path), **facts)


def _holder(fd: int) -> dict[str, Any]:
    """The process behind the lock on ``fd``'s file, from the kernel's table; empty where that doesn't tell."""
    inode = str(os.fstat(fd).st_ino)
    try:
        table = Path("/proc/locks").read_text()
        for row in table.splitlines():
            fields = row.split()
            if "FLOCK" in fields and len(fields) >= 6 and fields[5].rpartition(":")[2] == inode:
                pid = int(fields[4])
                return {"pid": pid, "command": Path(f"/proc/{pid}/comm").read_text().strip()} if pid > 0 else {}
    except (OSError, ValueError):
        pass
    return {}
