"""Every method of the service layer as one table: name, input, output, errors (CON-16, API-1).

The Python API is written against it, the command line calls it, and ``drawbar schema`` prints it; later
surfaces (JSON-RPC, HTTP) are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from drawbar.contracts.boundary import StandingRule
from drawbar.contracts.codec import Meta, Record, Request
from drawbar.contracts.events.human import Answer
from drawbar.contracts.events.progress import TodoItem
from drawbar.contracts.run import RunInput, RunRecord

__all__ = [
    "METHODS",
    "AnswerInput",
    "AnswerOutput",
    "ApproveInput",
    "ApproveOutput",
    "Check",
    "Family",
    "FirstBad",
    "GivenAnswer",
    "Inspection",
    "InterruptOutput",
    "ListRuns",
    "Method",
    "Recovery",
    "ReindexOutput",
    "RunList",
    "RunPrompt",
    "RunRef",
    "RunStart",
    "SectionView",
    "Skipped",
    "Verification",
]


class RunStart(Record):
    """Both ids at once; ``native_session_id`` is null when the engine session couldn't open (RUN-3)."""

    run_id: str
    session_id: str
    native_session_id: str | None


class RunRef(Request):
    """A run by id or unique prefix (CON-2)."""

    run: str


class ListRuns(Request):
    """Filters of ``runs.list`` (RUN-34); ``cursor`` is what the page before returned."""

    session: str | None = None
    status: str | None = None
    trigger: str | None = None
    project: str | None = None
    account: str | None = None
    variant: str | None = None
    since: str | None = None
    until: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50
    cursor: str | None = None


class RunList(Record, omit_defaults=False):
    """Newest first."""

    runs: list[RunRecord]
    cursor: str | None = None


class Family(Record, omit_defaults=False):
    """One run in its tree: children, continuations and side questions below it (RUN-34)."""

    run: RunRecord
    relation: str | None = None
    children: list[Family] = []


class Skipped(Record, omit_defaults=False):
    """A stretch of a file that no reader could use: where it is and how long (QLT-5)."""

    kind: str
    line: int
    offset: int
    bytes: int


class Inspection(Record, omit_defaults=False):
    """What ``runs inspect`` prints (CLI-7): ``events`` is a count."""

    record: dict[str, Any] | None
    events: int
    skipped: list[Skipped]
    first_bad: FirstBad | None
    todo: list[TodoItem]


class FirstBad(Record, omit_defaults=False):
    seq: int | None
    line: int
    cause: Literal["altered", "dropped", "reordered", "cut"]


class Verification(Record, omit_defaults=False):
    """What ``runs verify`` prints (CLI-7, CON-11): ``ok`` although torn when the run never settled."""

    ok: bool
    events: int
    torn: bool
    first_bad: FirstBad | None


class SectionView(Record, omit_defaults=False):
    name: str
    order: int
    sha256: str
    bytes: int
    text: str
    dynamic: bool = False


class RunPrompt(Record, omit_defaults=False):
    """What the model saw (PRM-5)."""

    run_id: str
    sections: list[SectionView]


class InterruptOutput(Record, omit_defaults=False):
    """``settled`` says whether the run had settled when the answer was given; ``status`` is its status then."""

    run_id: str
    settled: bool
    status: str


class ApproveInput(Request):
    """``approval`` may be left out when exactly one is pending."""

    run: str
    decision: Literal["once", "session", "always", "deny"]
    approval: str | None = None
    message: str | None = None


class ApproveOutput(Record, omit_defaults=False):
    approval_id: str
    decision: str


class GivenAnswer(Request):
    """An answer to one question: ``choices`` by label or by number, ``text`` where it takes words of one's own."""

    choices: list[str] = []
    text: str | None = None


class AnswerInput(Request):
    """One answer for each question, in order; a string is read as a person types it (``"2"``, ``"1, 3"``, a label,
    words). ``question`` may be left out when exactly one waits (SES-19)."""

    run: str
    answers: list[str | GivenAnswer]
    question: str | None = None


class AnswerOutput(Record, omit_defaults=False):
    """What was recorded, every choice by its label."""

    question_id: str
    answers: list[Answer]


class ReindexOutput(Record, omit_defaults=False):
    runs: int
    skipped: int


class Check(Record, omit_defaults=False):
    """One finding of ``doctor`` (CLI-4): what was looked at, whether it is well, and how to mend it."""

    name: str
    ok: bool
    message: str
    cure: str | None = None


class Recovery(Record, omit_defaults=False):
    """What opening the root had to settle (RUN-13)."""

    interrupted_run_ids: list[str]


@dataclass(frozen=True, slots=True)
class Method:
    """One entry of the table."""

    name: str
    input: type[Request]
    output: Any
    errors: tuple[str, ...]
    summary: str


class NoInput(Request):
    pass


class RuleRef(Request):
    """A saved rule by its id (SES-18)."""

    id: str


class EventsInput(Request):
    """``from_seq`` is the first event wanted; settled and live runs alike."""

    run: str
    from_seq: Annotated[int, Meta(ge=0)] = 0


METHODS: Final[dict[str, Method]] = {
    method.name: method
    for method in (
        Method(
            "sessions.run",
            RunInput,
            RunStart,
            ("invalid_request", "account_unavailable", "workspace_refused", "session_busy", "capabilities_frozen",
             "unsupported_feature", "sandbox_unavailable"),
            "Start a run; its reply streams as events.",
        ),
        Method("runs.get", RunRef, RunRecord, ("not_found",), "One run's record."),
        Method("runs.list", ListRuns, RunList, ("invalid_request",), "Runs, newest first, by filter and page."),
        Method("runs.family", RunRef, Family, ("not_found",), "A run's parents, children and continuations as a tree."),
        Method("runs.events", EventsInput, list[dict[str, Any]], ("not_found",), "The events written so far."),
        Method("runs.follow", EventsInput, list[dict[str, Any]], ("not_found",),
               "Events as they are written, to the end."),
        Method("runs.prompt", RunRef, RunPrompt, ("not_found",), "What the model saw."),
        Method("runs.verify", RunRef, Verification, ("not_found",), "Recompute the chain of a run's log."),
        Method("runs.inspect", RunRef, Inspection, ("not_found",), "What is in a run's folder, damage included."),
        Method(
            "runs.interrupt",
            RunRef,
            InterruptOutput,
            ("not_found", "run_not_active", "owner_unreachable"),
            "Stop a live run, in this process or another.",
        ),
        Method(
            "runs.approve",
            ApproveInput,
            ApproveOutput,
            ("not_found", "run_not_active", "owner_unreachable", "not_permitted", "invalid_request"),
            "Answer a pending approval.",
        ),
        Method(
            "runs.answer",
            AnswerInput,
            AnswerOutput,
            ("not_found", "run_not_active", "owner_unreachable", "not_permitted", "invalid_request"),
            "Answer the questions that a run waits for.",
        ),
        Method("approvals.list", NoInput, list[StandingRule], ("not_permitted",), "The rules that `always` saved."),
        Method("approvals.revoke", RuleRef, StandingRule, ("not_found", "not_permitted"), "Take a saved rule back."),
        Method("doctor", NoInput, list[Check], (), "Check sandbox, git, accounts and the data root."),
        Method("reindex", NoInput, ReindexOutput, (), "Rebuild the run index from the runs."),
    )
}  # fmt: skip
