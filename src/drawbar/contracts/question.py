"""Questions to a person, as a tool puts them and a live run carries them (SES-19)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from drawbar.contracts.events.human import Answer, Question

__all__ = ["Answered", "QuestionAsk", "Questioner"]


@dataclass(frozen=True, slots=True)
class QuestionAsk:
    """One to four questions of one call; ``ui_sketch`` says that every choice has a sketch (CON-22)."""

    call_id: str
    questions: tuple[Question, ...]
    ui_sketch: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """The first answer that came, one entry a question; ``answers`` is None when nobody gave one in time."""

    question_id: str
    answers: tuple[Answer, ...] | None
    by: str = ""


class Questioner(Protocol):
    """Asks a person on every surface; implemented by the live run, which records both sides."""

    async def request_answers(self, ask: QuestionAsk) -> Answered: ...
