"""What a log says of its run, and what may be recorded next: a pure fold over its lifecycle events (CON-3, CON-13)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from drawbar.contracts.codec import as_object, loads
from drawbar.contracts.events.base import Event, Payload
from drawbar.contracts.events.human import ApprovalResolved, QuestionAnswered
from drawbar.contracts.events.lifecycle import Completed, Failed, Started, StatusChanged
from drawbar.contracts.status import EDGES, SETTLED, edge_allowed

__all__ = ["LIFECYCLE", "LogEnd", "LogState", "end_of", "is_durable", "judge"]

LIFECYCLE: frozenset[type[Payload]] = frozenset({Started, StatusChanged, Completed, Failed})
"""The payloads that move a run; the writer passes every other one straight on."""

STATUS_EDGE = "status_edge"
"""The error code of a run that failed because its status was to change along no edge."""


@dataclass(frozen=True, slots=True)
class LogState:
    """The run's status as its log tells it; ``sealed`` once the terminal line is written."""

    status: str = "queued"
    sealed: bool = False


@dataclass(frozen=True, slots=True)
class LogEnd:
    """What a terminal line says; ``code`` is None where it names none, never guessed from the reason (CON-39)."""

    status: str
    code: str | None
    reason: str | None = None
    outcome: str | None = None
    error: str | None = None
    at: str = ""


def judge(state: LogState, payload: Payload) -> tuple[Payload, LogState] | None:
    """What is recorded when ``payload`` arrives in ``state``, and the state after it; None: it came too late.

    A change along an allowed edge is recorded as it is (its ``from`` is the log's own status, since the log
    knows best). Another change of an active run is recorded as ``failed`` with the fault named; one of a
    settled run is late (CON-3).
    """
    if state.sealed:
        return None
    if isinstance(payload, StatusChanged):
        if state.status in SETTLED:
            return None
        if not edge_allowed(state.status, payload.to):
            return _fault(state, payload.to)
        if payload.from_ != state.status:
            payload = StatusChanged(from_=state.status, to=payload.to, code=payload.code, reason=payload.reason)
        return payload, LogState(payload.to, sealed=payload.to == "interrupted")
    if isinstance(payload, (Completed, Failed)):
        end = payload.event
        if state.status == end or edge_allowed(state.status, end):
            return payload, LogState(end, sealed=True)
        return None if state.status in SETTLED else _fault(state, end)
    return payload, state


def _fault(state: LogState, wanted: str) -> tuple[Payload, LogState]:
    reason = f"the run's status can't change from {state.status} to {wanted}"
    return Failed(code="failed", error=STATUS_EDGE, reason=reason), LogState("failed", sealed=True)


def is_durable(payload: Payload) -> bool:
    """Whether ``payload`` reaches the disk before it is relayed (CON-14)."""
    if isinstance(payload, StatusChanged):
        return payload.to == "interrupted"
    return isinstance(payload, (Completed, Failed, ApprovalResolved, QuestionAnswered))


def follow(state: LogState, event: Event) -> LogState:
    """``state`` after an event that is already on disk; nothing after a terminal line counts (CON-13)."""
    if state.sealed or event.type not in ("status.changed", "completed", "failed"):
        return state
    if event.type != "status.changed":
        return LogState(event.type, sealed=True)
    to = _fields(event).get("to")
    if not isinstance(to, str) or to not in EDGES:
        return state
    return replace(state, status=to, sealed=to == "interrupted")


def end_of(event: Event) -> LogEnd | None:
    """What ``event`` says of the run's end; None unless it is a terminal one."""
    if event.type not in ("status.changed", "completed", "failed"):
        return None
    fields = _fields(event)
    if event.type == "status.changed" and fields.get("to") != "interrupted":
        return None

    def text(name: str) -> str | None:
        value = fields.get(name)
        return value if isinstance(value, str) else None

    status = "interrupted" if event.type == "status.changed" else event.type
    return LogEnd(status, text("code"), text("reason"), text("outcome"), text("error"), event.at)


def _fields(event: Event) -> dict[str, object]:
    try:
        return as_object(loads(bytes(event.payload))) or {}
    except ValueError:
        return {}
