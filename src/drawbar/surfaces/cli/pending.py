"""Questions that wait for an answer: read from a run's record and shown whole, to whoever answers from elsewhere.

A person who says yes at another terminal must see what the run's own terminal would show (SES-18, QLT-4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drawbar.contracts.boundary import ApprovalAsk, StandingRule
from drawbar.contracts.events.base import Event
from drawbar.contracts.events.human import ApprovalRequested, ApprovalResolved
from drawbar.contracts.events.lifecycle import Completed, Failed, Started, StatusChanged
from drawbar.contracts.status import SETTLED
from drawbar.surfaces.cli.asking import ask_lines
from drawbar.surfaces.cli.output import Look
from drawbar.surfaces.cli.summary import payload_of
from drawbar.surfaces.cli.text import label

__all__ = ["Asks", "ask_of", "how_to_answer", "question_lines", "read_asks"]


@dataclass(slots=True)
class Asks:
    """The questions of one run so far.

    ``waiting`` are those that nobody has answered, by approval id, oldest first; none once the run has settled.
    ``elsewhere`` is false for a run without sandbox, which takes answers in its own terminal alone (BND-16).
    """

    waiting: dict[str, ApprovalAsk] = field(default_factory=dict[str, ApprovalAsk])
    answered: set[str] = field(default_factory=set[str])
    settled: bool = False
    elsewhere: bool = True


def read_asks(events: Iterable[Event]) -> Asks:
    """What was asked and what still waits, by the events of a run from its first one."""
    asks = Asks()
    root: str | None = None
    for event in events:
        if event.type not in _TELLING:
            continue
        match payload_of(event):
            case Started() as started:
                root, asks.elsewhere = started.workspace_root, started.sandbox != "off"
            case ApprovalRequested() as asked:
                asks.waiting[asked.approval_id] = ask_of(asked, root)
            case ApprovalResolved() as resolved:
                asks.waiting.pop(resolved.approval_id, None)
                asks.answered.add(resolved.approval_id)
            case Completed() | Failed():
                asks.settled = True
            case StatusChanged() as changed:
                asks.settled = asks.settled or changed.to in SETTLED
            case _:
                continue
    if asks.settled:
        asks.waiting.clear()
    return asks


_TELLING = frozenset(
    payload.event for payload in (Started, ApprovalRequested, ApprovalResolved, Completed, Failed, StatusChanged)
)


def ask_of(asked: ApprovalRequested, root: str | None) -> ApprovalAsk:
    """The question as it was put, from its event.

    Args:
        asked: the event's payload.
        root: the workspace that a rule would be saved for.
    """
    # A scope that a newer release knows is shown as it is; nothing here decides by it.
    scope: Any = asked.scope
    rule = None
    if asked.rule is not None:
        rule = StandingRule(id=asked.approval_id, tool=asked.tool, scope=scope, pattern=asked.rule, root=root or "")
    return ApprovalAsk(
        call_id=asked.call_id,
        tool=asked.tool,
        arguments=asked.arguments,
        scope=scope,
        reason=asked.reason,
        rule=rule,
    )


def question_lines(
    run_id: str, approval_id: str, ask: ApprovalAsk, look: Look, home: str | None, *, elsewhere: bool = True
) -> list[str]:
    """The whole question, nothing folded, and in the last line how to answer it."""
    how = f"  {look.paint('answer with', 'dim')} {how_to_answer(run_id, {approval_id: ask})}"
    if not elsewhere:
        how = f"  {look.paint('answer it in the terminal of the run: without sandbox no other is heard', 'dim')}"
    return [*ask_lines(ask, look, full=True, home=home), how]


def how_to_answer(run_id: str, waiting: Mapping[str, ApprovalAsk]) -> str:
    """The command that answers what waits, with the choices that it has."""
    names = " ".join(map(label, waiting)) if len(waiting) == 1 else "APPROVAL"
    remembered = "session|always|" if any(ask.rule is not None for ask in waiting.values()) else ""
    return f"drawbar runs approve {label(run_id)} {names} once|{remembered}deny"
