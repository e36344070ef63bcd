"""Questions that wait for an answer: read from a run's record and shown whole, to whoever answers from elsewhere.

A person who says yes at another terminal must see what the run's own terminal would show (SES-18, QLT-4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drawbar.contracts.boundary import ApprovalAsk, StandingRule
from drawbar.contracts.events.base import Event
from drawbar.contracts.events.human import ApprovalRequested, ApprovalResolved, QuestionAnswered, QuestionRequested
from drawbar.contracts.events.lifecycle import Completed, Failed, Started, StatusChanged
from drawbar.contracts.question import QuestionAsk
from drawbar.contracts.status import SETTLED
from drawbar.surfaces.cli.asking import ask_lines
from drawbar.surfaces.cli.output import Look
from drawbar.surfaces.cli.questions import answer_text, ways_of
from drawbar.surfaces.cli.questions import ask_lines as whole_questions
from drawbar.surfaces.cli.summary import payload_of
from drawbar.surfaces.cli.text import clip, label

__all__ = [
    "WAITING",
    "Asks",
    "ask_of",
    "how_to_answer",
    "how_to_approve",
    "input_lines",
    "question_lines",
    "questions_of",
    "read_asks",
    "resolved_text",
    "waiting_lines",
]

WAITING = ("waiting_for_approval", "waiting_for_input")
"""The statuses of a run that somebody must answer."""


@dataclass(slots=True)
class Asks:
    """The questions of one run so far.

    ``waiting`` are the approvals that nobody has given or denied, by id, oldest first, and ``questions`` those of
    ``ask_user``; none once the run has settled. ``answered`` has the ids of both.
    ``elsewhere`` is false for a run without sandbox, which takes answers in its own terminal alone (BND-16).
    """

    waiting: dict[str, ApprovalAsk] = field(default_factory=dict[str, ApprovalAsk])
    questions: dict[str, QuestionAsk] = field(default_factory=dict[str, QuestionAsk])
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
            case QuestionRequested() as put:
                asks.questions[put.question_id] = questions_of(put)
            case QuestionAnswered() as replied:
                asks.questions.pop(replied.question_id, None)
                asks.answered.add(replied.question_id)
            case Completed() | Failed():
                asks.settled = True
            case StatusChanged() as changed:
                asks.settled = asks.settled or changed.to in SETTLED
            case _:
                continue
    if asks.settled:
        asks.waiting.clear()
        asks.questions.clear()
    return asks


_TELLING = frozenset(
    payload.event
    for payload in (
        Started,
        ApprovalRequested,
        ApprovalResolved,
        QuestionRequested,
        QuestionAnswered,
        Completed,
        Failed,
        StatusChanged,
    )
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
    how = _how(how_to_approve(run_id, {approval_id: ask}), look, elsewhere=elsewhere)
    return [*ask_lines(ask, look, full=True, home=home), how]


def _how(command: str, look: Look, *, elsewhere: bool) -> str:
    if not elsewhere:
        return f"  {look.paint('answer it in the terminal of the run: without sandbox no other is heard', 'dim')}"
    return f"  {look.paint('answer with', 'dim')} {command}"


def how_to_approve(run_id: str, waiting: Mapping[str, ApprovalAsk]) -> str:
    """The command that answers what waits, with the choices that it has."""
    names = " ".join(map(label, waiting)) if len(waiting) == 1 else "APPROVAL"
    remembered = "session|always|" if any(ask.rule is not None for ask in waiting.values()) else ""
    return f"drawbar runs approve {label(run_id)} {names} once|{remembered}deny"


def questions_of(put: QuestionRequested) -> QuestionAsk:
    """The questions as they were put, from their event."""
    return QuestionAsk(call_id=put.call_id or "", questions=tuple(put.questions), ui_sketch=put.ui_sketch)


def input_lines(run_id: str, question_id: str, ask: QuestionAsk, look: Look, *, elsewhere: bool = True) -> list[str]:
    """The whole of one ask of ``ask_user``, and in the last line how to answer it."""
    how = _how(how_to_answer(run_id, {question_id: ask}), look, elsewhere=elsewhere)
    return [*whole_questions(ask, look), how]


def how_to_answer(run_id: str, waiting: Mapping[str, QuestionAsk]) -> str:
    """The command that answers what waits, with what each answer can be."""
    if len(waiting) != 1:
        return f"drawbar runs answer {label(run_id)} QUESTION ANSWER…"
    ((name, ask),) = waiting.items()
    ways = " ".join(f"'{ways_of(question).upper()}'" for question in ask.questions)
    return f"drawbar runs answer {label(run_id)} {label(name)} {ways}"


def waiting_lines(run_id: str, asks: Asks, look: Look, home: str | None) -> list[str]:
    """Everything that a run waits for, whole, each with how to answer it; nothing when it doesn't wait."""
    lines: list[str] = []
    for name, ask in asks.waiting.items():
        lines += question_lines(run_id, name, ask, look, home, elsewhere=asks.elsewhere)
    for name, questions in asks.questions.items():
        lines += input_lines(run_id, name, questions, look, elsewhere=asks.elsewhere)
    return lines


def resolved_text(payload: ApprovalResolved | QuestionAnswered, look: Look) -> str:
    """Who answered and what, in one line."""
    if isinstance(payload, ApprovalResolved):
        said = "denied" if payload.decision == "deny" else f"allowed ({label(payload.decision)})"
        nobody = "nobody was there to approve it"
    else:
        said, nobody = "answered", "nobody was there to answer it"
    if payload.by == "nobody":
        return look.paint(f"{look.glyphs.warn} {nobody}", "yellow")
    by = "from another process" if payload.by.startswith("socket:") else f"by {label(payload.by)}"
    text = f"{look.glyphs.bullet} {said} {by}"
    if isinstance(payload, QuestionAnswered):
        text += ": " + " / ".join(map(answer_text, payload.answers))
    return look.paint(clip(text, look.width, look.glyphs.dots), "dim")
