"""``drawbar runs answer``: the questions of ``ask_user`` shown whole, and answered from anywhere (CLI-2, SES-19)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from drawbar.surfaces.cli.shell import Command

if TYPE_CHECKING:
    from drawbar.app import Harness
    from drawbar.contracts.methods import GivenAnswer
    from drawbar.contracts.question import QuestionAsk
    from drawbar.surfaces.cli.pending import Asks

__all__ = ["answer"]


@click.command(
    "answer",
    cls=Command,
    short_help="Answer a question that a live run waits for.",
    epilog="Example: drawbar runs answer r_01k 2",
)
@click.argument("run")
@click.argument("words", nargs=-1, metavar="[QUESTION] ANSWER…")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def answer(run: str, words: tuple[str, ...], as_json: bool) -> int:
    """Answer what a live run asked; QUESTION may be left out when only one waits.

    Give one ANSWER for each question, in order: the number or the label of a choice, several with commas where
    several may be chosen ("1,3"), or your own words, in quotes, where those are taken. Without an answer, shows
    everything that waits and how to answer it.
    """
    from drawbar.surfaces.cli.harness import call

    async def work(harness: Harness) -> int:
        return await _carry_out(harness, run, words, as_json)

    return call(work)


async def _carry_out(harness: Harness, run: str, words: tuple[str, ...], as_json: bool) -> int:
    from drawbar.contracts.errors import InvalidInput
    from drawbar.contracts.methods import AnswerInput
    from drawbar.surfaces.cli.harness import print_lines, standard_look
    from drawbar.surfaces.cli.output import print_json
    from drawbar.surfaces.cli.pending import how_to_answer, how_to_approve, input_lines, read_asks
    from drawbar.surfaces.cli.questions import answer_text

    run_id = harness.runs.get(run).id
    asks = read_asks(harness.runs.events(run_id))
    named, typed = _named(words, asks)
    waiting = {name: ask for name, ask in asks.questions.items() if named is None or name.startswith(named)}
    if not waiting and asks.waiting:
        raise InvalidInput(
            f"the run waits for an approval, not for an answer: {how_to_approve(run_id, asks.waiting)}",
            field="question",
        )
    look = standard_look()
    if as_json and not typed and waiting:
        print_json({"run_id": run_id, "questions": [_as_json(name, ask) for name, ask in waiting.items()]})
    elif not as_json and (not typed or len(waiting) == 1):
        for name, ask in waiting.items():
            lines = input_lines(run_id, name, ask, look, elsewhere=asks.elsewhere)
            print_lines(lines[:-1] if typed else lines)
    if not typed and waiting:
        raise InvalidInput(f"say what you answer: {how_to_answer(run_id, waiting)}", field="answers")
    only, ask = next(iter(waiting.items())) if len(waiting) == 1 else (named, None)
    # What was shown is what is answered, also if another question came up meanwhile.
    done = await harness.runs.answer(AnswerInput(run=run_id, answers=_given(typed, ask), question=only))
    if as_json:
        print_json(done)
    else:
        print_lines([f"{done.question_id} answered: {' / '.join(map(answer_text, done.answers))}"])
    return 0


def _named(words: tuple[str, ...], asks: Asks) -> tuple[str | None, tuple[str, ...]]:
    """The question that was typed before the answers, if one was: by its id or the beginning of it."""
    from drawbar.contracts.ids import is_id

    first = words[0] if words else ""
    known = len(first) > 2 and any(name.startswith(first) for name in asks.questions)
    if first.startswith("q_") and (known or is_id(first, "question")):
        return first, words[1:]
    return None, words


def _given(typed: tuple[str, ...], ask: QuestionAsk | None) -> list[str | GivenAnswer]:
    """The answers as typed; where one question takes several choices, each word may be one of them."""
    from drawbar.contracts.methods import GivenAnswer

    if ask is not None and len(ask.questions) == 1 and ask.questions[0].multiple and len(typed) > 1:
        return [GivenAnswer(choices=list(typed))]
    return list(typed)


def _as_json(name: str, ask: QuestionAsk) -> Mapping[str, object]:
    return {"question_id": name, "questions": ask.questions, "ui_sketch": ask.ui_sketch}
