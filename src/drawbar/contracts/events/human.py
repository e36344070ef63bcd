"""Payloads of what a person was asked: approvals, questions, sketches (CON-22, SES-18, SES-19)."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from drawbar.contracts.codec import Free, FreeJson, Ident, Record
from drawbar.contracts.events.base import Payload

SKETCH_LINES = 24
SKETCH_COLUMNS = 80
_SKETCH = re.compile(r"[ -~]{0,80}(?:\n[ -~]{0,80}){0,23}")
_REDACTED = re.compile(r"\[redacted(?::[^\]\s]{0,200})?\]")


class ApprovalRequested(Payload):
    """``rule`` is the exact rule that ``always`` would save, so that a person sees it first (QLT-4)."""

    event: ClassVar[str] = "approval.requested"
    approval_id: Ident
    call_id: Ident
    tool: Ident
    arguments: FreeJson
    scope: Ident
    reason: Free
    rule: Free | None = None


class ApprovalResolved(Payload):
    event: ClassVar[str] = "approval.resolved"
    approval_id: Ident
    decision: Literal["once", "session", "always", "deny"]
    by: Ident
    message: Free | None = None


class Choice(Record, omit_defaults=False):
    label: Free
    description: Free | None = None
    sketch: Free | None = None


class Question(Record, omit_defaults=False):
    text: Free
    header: Free | None = None
    choices: list[Choice] = []
    multiple: bool = False
    free_text: bool = False


class Dialog(Record):
    """A plugin's dialog behind a question; a host may ignore it (CON-22)."""

    kind: Literal["select", "confirm", "input", "editor"]
    title: Free
    message: Free | None = None
    placeholder: Free | None = None
    prefill: Free | None = None
    options: list[Free] | None = None


class QuestionRequested(Payload):
    """``call_id`` is the tool call that asks, where one does; whoever answers first is in ``question.answered``."""

    event: ClassVar[str] = "question.requested"
    question_id: Ident
    questions: list[Question]
    ui_sketch: bool = False
    dialog: Dialog | None = None
    call_id: Ident | None = None

    def __post_init__(self) -> None:
        # Raised while decoding, so that the writer refuses it with the field named (CON-10, CON-22).
        for question in self.questions:
            for choice in question.choices:
                if not self.ui_sketch and choice.sketch is not None:
                    raise ValueError("questions.choices.sketch: given although ui_sketch is not set")
                # What redaction put into a recorded sketch may be longer than what it took out.
                if self.ui_sketch and not sketch_fits(_REDACTED.sub("#", choice.sketch or "")):
                    raise ValueError(
                        "questions.choices.sketch: needs 1 to 24 lines of at most 80 printable ASCII"
                        " characters with at least one visible"
                    )


class Answer(Record, omit_defaults=False):
    choices: list[Free] = []
    text: Free | None = None


class QuestionAnswered(Payload):
    event: ClassVar[str] = "question.answered"
    question_id: Ident
    answers: list[Answer]
    by: Ident


def sketch_fits(sketch: Any) -> bool:
    """Whether ``sketch`` obeys CON-22; white space is kept to the letter, so nothing is stripped."""
    return isinstance(sketch, str) and bool(_SKETCH.fullmatch(sketch)) and not sketch.isspace() and sketch != ""
