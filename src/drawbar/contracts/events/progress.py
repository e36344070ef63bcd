"""Payloads of how the work goes: todo list, checkpoints, heartbeats (CON-21, CON-23, CON-24)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from drawbar.contracts.codec import Free, Ident, Meta, Record
from drawbar.contracts.events.base import Payload

MAX_TODO_ITEMS = 50


class TodoItem(Record):
    text: Free
    status: Literal["pending", "in_progress", "completed"]


class TodoUpdated(Payload):
    """The whole list; the latest replaces every earlier one (CON-21)."""

    event: ClassVar[str] = "todo.updated"
    items: Annotated[list[TodoItem], Meta(max_length=MAX_TODO_ITEMS)]


class CheckRun(Record):
    command: Free
    exit_code: int | None = None


class Checkpoint(Payload):
    """The handoff derived from the run's own evidence; older logs may hold model-written text (CON-24)."""

    event: ClassVar[str] = "checkpoint"
    by: Ident = "harness"
    files_changed: list[Free] = []
    checks: list[CheckRun] = []
    todo: list[TodoItem] = []
    blocked: bool = False
    text: Free | None = None


class RunningTool(Record):
    tool: Ident
    age_s: float


class Heartbeat(Payload):
    """CON-23; slice counters are zero without a slice."""

    event: ClassVar[str] = "heartbeat"
    steps: int = 0
    elapsed_s: float = 0.0
    last_tool: Ident | None = None
    compactions: int = 0
    slice_calls: int = 0
    slice_seconds: float = 0.0
    slice_tokens: int = 0
    call_budget: int | None = None
    running_tools: list[Ident] = []
    oldest_tool_s: float | None = None


def todo_of(events: Any) -> list[TodoItem]:
    """The current todo list of a run, from its events in order (CON-21).

    Args:
        events: an iterable of :class:`~drawbar.contracts.events.base.Event`; the older
            ``checklist.updated`` counts as well (CON-9).
    """
    from drawbar.contracts.codec import decode
    from drawbar.contracts.errors import InvalidInput

    items: list[TodoItem] = []
    for event in events:
        if event.type in ("todo.updated", "checklist.updated"):
            try:
                items = decode(bytes(event.payload), TodoUpdated, what=event.type).items
            except InvalidInput:
                continue
    return items
