"""Opening a root settles every run whose owner is provably gone, and starts no model work (RUN-13, QLT-21)."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from drawbar.contracts.clock import Clock
from drawbar.contracts.codec import as_object, loads
from drawbar.contracts.errors import DrawbarError, SessionBusy
from drawbar.contracts.events.tool import ToolCompleted
from drawbar.contracts.methods import Recovery
from drawbar.runs.settlement import Settlement, interrupted
from drawbar.stores.event_log import EventLog
from drawbar.stores.event_reader import read_events
from drawbar.stores.owner import Owner, current_owner, process_alive
from drawbar.stores.runs import RunStore

__all__ = ["recover"]

UNKNOWN_OUTCOME = (
    "The harness stopped while this call was running, so its outcome is unknown. It was not run again: "
    "look at what it changed before you repeat it."
)
LOCK_WAIT_S = 1.0
LOCK_POLL_S = 0.01
NEVER_RAN = "The harness stopped before this call was carried out. It did not run."


def recover(store: RunStore, clock: Clock) -> Recovery:
    """Settle what a crash left active. Touches no run of a live owner.

    Only the ``active/`` markers are read, so the cost doesn't grow with the number of runs.
    """
    settled: list[str] = []
    for run_id in store.active():
        try:
            if _recover_one(store, run_id, clock):
                settled.append(run_id)
        except SessionBusy:
            continue  # its owner holds the lock, so it lives
        except DrawbarError:
            continue  # a root that can't be written still opens and lists; doctor shows the run
    return Recovery(interrupted_run_ids=settled)


def _recover_one(store: RunStore, run_id: str, clock: Clock) -> bool:
    if not _left(store, run_id):
        return False
    loss = _loss(store.owner(run_id))
    log = store.take_over(run_id)
    try:
        if log.end is None:
            _sweep(store, run_id)
            _close_open_calls(store.folder(run_id), log, store.load(run_id).native_history, clock)
            log.append(loss.event(log.status))
        store.settle_from_log(run_id)
        store.settle_marker(run_id)
        return store.load(run_id).status == "interrupted"
    finally:
        log.close()


def _left(store: RunStore, run_id: str) -> bool:
    """Whether nobody owns the run any more.

    A child that was just being started holds a copy of its dead parent's locks until it runs its own program,
    so a lock whose owner is provably dead is given a moment to go.
    """
    owner = store.owner(run_id)
    deadline = time.monotonic() + LOCK_WAIT_S
    while store.owner_alive(run_id):
        if owner is None or process_alive(owner) or time.monotonic() >= deadline:
            return False
        time.sleep(LOCK_POLL_S)
    return True


def _loss(owner: Owner | None) -> Settlement:
    """Why a run without an end has none: its process died in this boot, or everything was restarted since."""
    if owner is not None and owner.boot_id == current_owner().boot_id:
        return interrupted("owner_gone", f"process {owner.pid}, which owned the run, ended before the run did")
    return interrupted("harness_restart", "the machine was restarted before the run ended")


def _sweep(store: RunStore, run_id: str) -> None:
    """Remove the temporary file that a write left when its process died (BND-7); nobody else's is touched."""
    from drawbar.boundary.temporaries import sweep_temporaries

    root = store.load(run_id).workspace_root
    folders: set[str] = set()
    for event in read_events(store.folder(run_id) / "events.jsonl"):
        if event.type == "tool.started":
            payload = loads(bytes(event.payload))
            path = (as_object(payload.get("arguments")) or {}).get("path")
            if payload.get("tool") in ("write", "edit") and isinstance(path, str) and not os.path.isabs(path):
                folders.add(os.path.dirname(os.path.normpath(path)))
    if root is not None and folders and os.path.isdir(root):
        with contextlib.suppress(OSError, DrawbarError):
            sweep_temporaries(root, folders=folders, min_age_s=0)


def _close_open_calls(folder: Path, log: EventLog, history: str | None, clock: Clock) -> None:
    """A started call without an end gets ``unknown`` and a result entry that says so (SES-21, QLT-8)."""
    started: dict[str, str] = {}
    for event in read_events(folder / "events.jsonl"):
        if event.type == "tool.started":
            payload = loads(bytes(event.payload))
            started[payload["call_id"]] = payload["tool"]
        elif event.type in ("tool.completed", "tool.refused"):
            started.pop(loads(bytes(event.payload)).get("call_id"), None)
    if not started and history is None:
        return
    entries = _answer_in_history(history, started, clock) if history else {}
    for call_id in started:
        log.append(
            ToolCompleted(call_id=call_id, cause="unknown", preview=UNKNOWN_OUTCOME, entry_id=entries.get(call_id))
        )


def _answer_in_history(history: str, started: dict[str, str], clock: Clock) -> dict[str, str]:
    from drawbar.stores.history import HistoryFile

    path = Path(history)
    if not path.exists():
        return {}
    entries: dict[str, str] = {}
    try:
        file = HistoryFile.open(path, clock=clock)
    except DrawbarError:
        return {}
    try:
        answered, unanswered = _calls_of(file.branch())
        for call_id, name in unanswered.items():
            text = UNKNOWN_OUTCOME if call_id in started else NEVER_RAN
            entries[call_id] = file.append_message(
                {
                    "role": "toolResult",
                    "toolCallId": call_id,
                    "toolName": name,
                    "content": [{"type": "text", "text": text}],
                    "isError": True,
                    "timestamp": clock.now_ms(),
                }
            )
        return {**answered, **entries}
    finally:
        file.close()


def _calls_of(branch: Iterable[Mapping[str, Any]]) -> tuple[dict[str, str], dict[str, str]]:
    """Result entry ids by call id, and the names of calls without a result."""
    answered: dict[str, str] = {}
    unanswered: dict[str, str] = {}
    for entry in branch:
        message = as_object(entry.get("message")) or {}
        if message.get("role") == "toolResult":
            call_id = str(message.get("toolCallId"))
            answered[call_id] = str(entry.get("id"))
            unanswered.pop(call_id, None)
        elif message.get("role") == "assistant" and message.get("stopReason") not in ("aborted", "error"):
            content = message.get("content")
            for block in map(as_object, content if isinstance(content, list) else ()):  # pyright: ignore[reportUnknownArgumentType]
                if block is not None and block.get("type") == "toolCall":
                    unanswered[str(block.get("id"))] = str(block.get("name"))
    return answered, unanswered
