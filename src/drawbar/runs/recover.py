"""Opening a root settles every run whose owner is provably gone, and starts no model work (RUN-13, QLT-21)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from drawbar.contracts.clock import Clock, stamp
from drawbar.contracts.codec import as_object, loads
from drawbar.contracts.engine import Redactor
from drawbar.contracts.errors import DrawbarError, SessionBusy
from drawbar.contracts.events.base import Event
from drawbar.contracts.events.tool import ToolCompleted
from drawbar.contracts.methods import Recovery
from drawbar.contracts.status import ACTIVE
from drawbar.runs.settlement import Settlement, interrupted
from drawbar.stores.event_log import EventLog
from drawbar.stores.event_reader import read_events
from drawbar.stores.runs import RunStore

__all__ = ["recover"]

UNKNOWN_OUTCOME = (
    "The harness stopped while this call was running, so its outcome is unknown. It was not run again: "
    "look at what it changed before you repeat it."
)
NEVER_RAN = "The harness stopped before this call was carried out. It did not run."


def recover(store: RunStore, *, redactor: Redactor, clock: Clock) -> Recovery:
    """Settle what a crash left active. Touches no run of a live owner.

    Only the ``active/`` markers are read, so the cost doesn't grow with the number of runs.
    """
    settled: list[str] = []
    for run_id in store.active():
        try:
            if _recover_one(store, run_id, redactor=redactor, clock=clock):
                settled.append(run_id)
        except SessionBusy:
            continue  # its owner holds the lock, so it lives
        except DrawbarError:
            continue  # a root that can't be written still opens and lists; doctor shows the run
    return Recovery(interrupted_run_ids=settled)


def _recover_one(store: RunStore, run_id: str, *, redactor: Redactor, clock: Clock) -> bool:
    folder = store.folder(run_id)
    if not (folder / "run.json").exists():
        store.settle_marker(run_id)  # never published: no run (CON-39)
        return False
    if store.owner_alive(run_id):
        return False
    log = EventLog.take_over(folder, run_id, redactor=redactor, clock=clock)
    try:
        settlement = _settled_by(folder / "events.jsonl")
        if settlement is None:
            owner_known = store.owner(run_id) is not None
            settlement = interrupted(
                "harness_restart" if owner_known else "owner_gone",
                "the process that owned the run ended before the run did",
            )
            record = store.load(run_id)
            _close_open_calls(folder, log, record.native_history, clock)
            log.append(settlement.event(record.status if record.status in ACTIVE else "running"))
            log.sync_now()
            ended = stamp(clock.now_ms())
        else:
            ended = None
        head = log.head
        record = store.load(run_id)
        changes = {
            "status": settlement.status,
            "terminal_code": settlement.code,
            "terminal_reason": settlement.reason,
            "outcome": settlement.outcome,
            "ended_at": record.ended_at or ended or stamp(clock.now_ms()),
            "log_head": head,
        }
        store.patch(run_id, changes)
        store.settle_marker(run_id)
        return settlement.status == "interrupted"
    finally:
        log.close()


def _settled_by(log: Path) -> Settlement | None:
    """What a terminal line already on disk says: where log and record disagree, the log wins (CON-13)."""
    last: Event | None = None
    for event in read_events(log):
        last = event
    if last is None:
        return None
    payload = loads(bytes(last.payload))
    if last.type == "completed":
        return Settlement(status="completed", code=payload.get("code", "completed"), outcome=payload.get("outcome"))
    if last.type == "failed":
        return Settlement(status="failed", code=payload.get("code", "failed"), reason=payload.get("reason"))
    if last.type == "status.changed" and payload.get("to") == "interrupted":
        return interrupted(payload.get("code") or "", payload.get("reason") or "")
    return None


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
