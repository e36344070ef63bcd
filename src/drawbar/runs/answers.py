"""What a person may answer to a question, and what they meant: the same on every surface (SES-19)."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Final

from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.events.human import Answer, Question
from drawbar.contracts.methods import GivenAnswer

__all__ = ["TEXT_CHARS", "Given", "keys_of", "read_answer", "read_answers"]

TEXT_CHARS: Final = 20_000
"""Characters of one free answer; more belongs into a file that the agent reads."""

Given = str | GivenAnswer | Answer


def keys_of(question: Question) -> tuple[str, ...]:
    """What each choice may be called besides its label: its number, or a letter where a label is a number itself."""
    count = len(question.choices)
    numeric = any(choice.label.strip().isdecimal() for choice in question.choices)
    if numeric and count <= len(string.ascii_lowercase):
        return tuple(string.ascii_lowercase[:count])
    return tuple(str(number) for number in range(1, count + 1))


def read_answers(questions: Sequence[Question], given: Sequence[Given]) -> tuple[Answer, ...]:
    """One answer for each question, with every choice by its label.

    Args:
        questions: as asked.
        given: in the questions' order; a string is read as typed, see :func:`read_answer`.

    Raises:
        InvalidInput: too few or too many, or one that its question doesn't allow; nothing was answered.
    """
    if len(given) != len(questions):
        asked = "1 question was" if len(questions) == 1 else f"{len(questions)} questions were"
        raise InvalidInput(f"{asked} asked and {len(given)} answered: give each one answer, in order", field="answers")
    read: list[Answer] = []
    for place, (question, answer) in enumerate(zip(questions, given, strict=True), 1):
        try:
            read.append(read_answer(question, answer))
        except InvalidInput as error:
            if len(questions) == 1:
                raise
            raise InvalidInput(f"answer {place}: {error.message}", field="answers") from error
    return tuple(read)


def read_answer(question: Question, given: Given) -> Answer:
    """What ``given`` answers to ``question``.

    A string is what a person types: a label or a key of :func:`keys_of`, several with commas where several may be
    chosen, else words of their own where those are allowed.

    Raises:
        InvalidInput: saying what would be an answer.
    """
    if isinstance(given, str):
        return _typed(question, given)
    choices = [_chosen(question, name) for name in given.choices]
    return _allowed(question, list(dict.fromkeys(choices)), given.text)


def _typed(question: Question, text: str) -> Answer:
    whole = _choice(question, text)
    if whole is not None:
        return Answer(choices=[whole])
    if question.multiple:
        for pieces in (text.split(","), text.split()):
            found = [_choice(question, piece) for piece in pieces if piece.strip()]
            labels = [label for label in found if label is not None]
            if labels and len(labels) == len(found):
                return Answer(choices=list(dict.fromkeys(labels)))
    if not question.free_text:
        _chosen(question, text)
    return _allowed(question, [], text.strip())


def _choice(question: Question, name: str) -> str | None:
    """The label that ``name`` means: a label before a key, so that nothing shown on screen is out of reach."""
    wanted = name.strip().casefold()
    for choice in question.choices:
        if choice.label == name or choice.label.strip().casefold() == wanted:
            return choice.label
    for key, choice in zip(keys_of(question), question.choices, strict=True):
        if key == wanted:
            return choice.label
    return None


def _chosen(question: Question, name: str) -> str:
    label = _choice(question, name)
    if label is None:
        given = f"{name.strip()!r} is none of the choices" if name.strip() else "that is no answer"
        raise InvalidInput(f"{given}: {_possible(question)}", field="answers")
    return label


def _allowed(question: Question, choices: list[str], text: str | None) -> Answer:
    if len(choices) > 1 and not question.multiple:
        raise InvalidInput(f"only one can be chosen: {_possible(question)}", field="answers")
    if text is not None and not question.free_text:
        raise InvalidInput(f"words of your own are no answer here: {_possible(question)}", field="answers")
    if text is not None and len(text) > TEXT_CHARS:
        raise InvalidInput(
            f"the answer has {len(text)} characters, more than {TEXT_CHARS}: put it into a file and name that",
            field="answers",
        )
    said = text if text is not None and text.strip() else None
    if not choices and said is None:
        raise InvalidInput(f"that is no answer: {_possible(question)}", field="answers")
    return Answer(choices=choices, text=said)


def _possible(question: Question) -> str:
    named = ", ".join(
        f"{key} ({choice.label})" for key, choice in zip(keys_of(question), question.choices, strict=True)
    )
    ways = [f"{'any' if question.multiple else 'one'} of {named}"] if named else []
    if question.free_text:
        ways.append("words of your own" if named else "it takes words of your own")
    return ", or ".join(ways)
