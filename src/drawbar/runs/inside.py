"""Whether this very process could be a model's doing, before it takes its own word for a person's (BND-16).

A command that a run started can drop its marker and start what it likes, but not choose whom it descends from: the
marker stays readable in the process that was given it, and in a PID namespace of a run's the line ends at a process
that has it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from drawbar.contracts.errors import NotPermitted
from drawbar.runs.peers import MARKER
from drawbar.stores.owner import process_alive

if TYPE_CHECKING:
    from drawbar.stores.runs import RunStore

__all__ = ["refuse_inside_a_run"]

_DEPTH: Final = 1000
_SANDBOX: Final = "bwrap"


def refuse_inside_a_run(store: RunStore | None) -> None:
    """Refuse when this process was started by a run.

    Args:
        store: whose runs' owners are looked at; None where there is no data root in sight.

    Raises:
        NotPermitted: saying which sign was found.
    """
    pids = [os.getpid(), *_ancestors(os.getpid())]
    if MARKER in os.environ or any(_carries_marker(pid) for pid in pids):
        raise NotPermitted("this was started by a tool call; only a person may run a command outside the sandbox")
    if store is not None and not _living_owners(store).isdisjoint(pids):
        raise NotPermitted(
            "this was started by the process of a run; only a person may run a command outside the sandbox"
        )
    # Its first process may keep its environment to itself.
    if _name(1) == _SANDBOX and not _readable(1):
        raise NotPermitted("this is a sandbox's own PID namespace; only a person outside of it may leave the sandbox")


def _living_owners(store: RunStore) -> set[int]:
    owners = [store.owner(run_id) for run_id in store.active()]
    return {owner.pid for owner in owners if owner is not None and process_alive(owner)}


def _ancestors(pid: int) -> Iterator[int]:
    for _ in range(_DEPTH):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # The command name may hold anything, so fields count from the last closing parenthesis.
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return
        if pid < 1:
            return
        yield pid


def _carries_marker(pid: int) -> bool:
    """Whether a process was given the marker; one of another user, such as the login's, wasn't by a run of ours."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return any(item.startswith(MARKER.encode() + b"=") for item in file.read().split(b"\0"))
    except OSError:
        return False


def _readable(pid: int) -> bool:
    return os.access(f"/proc/{pid}/environ", os.R_OK)


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
