"""``ask_user``: the model's questions to a person, one to four at a time, each with one answer (SES-19, CON-22)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from drawbar.contracts.boundary import Verdict
from drawbar.contracts.codec import Meta, Request
from drawbar.contracts.events.human import Answer, Choice, Question, sketch_fits
from drawbar.contracts.question import QuestionAsk
from drawbar.contracts.tool import ToolContext, ToolResult, ToolSpec

__all__ = ["AskUserInput", "AskUserTool"]

QUESTIONS: Final = 4
CHOICES: Final = 20
SKETCH_RULE: Final = (
    "a sketch is 1 to 24 lines, separated by \\n, of at most 80 printable ASCII characters each, with one visible "
    "character at least; no tabs and no other characters"
)
NOBODY: Final = (
    "Nobody answered: no person was there in time. Don't ask the same again. Where one answer is the safe and obvious "
    "one, go on with it and say in your reply that you assumed it; otherwise leave that part undone, and say what is "
    "still to be decided."
)


class ChoiceInput(Request):
    label: Annotated[str, Meta(min_length=1, max_length=200, description="A few words; what the answer will say.")]
    description: Annotated[str, Meta(max_length=2000, description="What choosing it means.")] | None = None
    sketch: Annotated[str, Meta(description="An ASCII drawing, only with ui_sketch.")] | None = None


class QuestionInput(Request):
    text: Annotated[str, Meta(min_length=1, max_length=4000, description="The whole question.")]
    header: Annotated[str, Meta(max_length=80, description="What it is about, in a few words.")] | None = None
    choices: Annotated[list[ChoiceInput], Meta(max_length=CHOICES)] = []
    multiple: Annotated[bool, Meta(description="Several choices may be taken.")] = False
    free_text: Annotated[bool, Meta(description="The person may also answer in their own words.")] = False


class AskUserInput(Request):
    questions: Annotated[list[QuestionInput], Meta(min_length=1, max_length=QUESTIONS)]
    ui_sketch: Annotated[bool, Meta(description="Every choice of every question has a sketch.")] = False

    def __post_init__(self) -> None:
        # Raised while the arguments are read, so that the gate refuses the call and says why.
        for place, question in enumerate(self.questions, 1):
            _check(question, f"question {place}")
        choices = [(place, choice) for place, question in enumerate(self.questions, 1) for choice in question.choices]
        if self.ui_sketch and not choices:
            raise ValueError("ui_sketch is set but no question has choices; leave it out")
        for place, choice in choices:
            if not self.ui_sketch and choice.sketch is not None:
                raise ValueError(f"question {place}: choices have a sketch only with ui_sketch: true, and then all do")
            if self.ui_sketch and not sketch_fits(choice.sketch):
                fault = "has none" if choice.sketch is None else "has one that doesn't fit"
                raise ValueError(
                    f"question {place}: with ui_sketch every choice needs a sketch, and {choice.label!r} {fault}; "
                    f"{SKETCH_RULE}"
                )


def _check(question: QuestionInput, where: str) -> None:
    if not question.text.strip():
        raise ValueError(f"{where}: its text is empty")
    if not question.choices and not question.free_text:
        raise ValueError(f"{where}: nobody could answer it; give choices, or free_text: true, or both")
    if question.multiple and len(question.choices) < 2:
        raise ValueError(f"{where}: multiple needs at least two choices")
    seen: set[str] = set()
    for choice in question.choices:
        name = choice.label.strip().casefold()
        if not name or not choice.label.isprintable():
            raise ValueError(f"{where}: the label {choice.label!r} must be words in one line")
        if name in seen:
            raise ValueError(f"{where}: two choices are called {choice.label!r}; every label must be different")
        seen.add(name)


class AskUserTool:
    """Puts the questions to whoever is there; the run waits as long as it takes (RUN-20)."""

    spec = ToolSpec(
        name="ask_user",
        description=(
            f"Ask the person you work for 1 to {QUESTIONS} questions and wait for the answers. Each question has "
            "choices, or takes free text, or both. With ui_sketch: true every choice carries an ASCII sketch of what "
            "it would look like; " + SKETCH_RULE + "."
        ),
        input=AskUserInput,
        kind="internal",
        waits_for_person=True,
        plan_mode_safe=True,
        guidance=(
            "Use ask_user when the work depends on a decision that is the person's to make and that neither the "
            "request nor the workspace answers: look first, then ask, with real alternatives and what each one means. "
            "Ask what belongs together in one call. Don't ask for permission to call a tool (that is asked where it is "
            "needed), for things you can find out, or whether to go on.",
        ),
    )

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        given: AskUserInput = verdict.input
        if context.questions is None:
            return ToolResult.error("No person can be asked during this run. Decide what you may, report the rest.")
        questions = tuple(_question(question) for question in given.questions)
        ask = QuestionAsk(call_id=context.call_id, questions=questions, ui_sketch=given.ui_sketch)
        answered = await context.questions.request_answers(ask)
        if answered.answers is None:
            return ToolResult.text(NOBODY)
        return ToolResult.text(answers_text(questions, answered.answers))


def _question(given: QuestionInput) -> Question:
    return Question(
        text=given.text,
        header=given.header,
        choices=[Choice(label=c.label, description=c.description, sketch=c.sketch) for c in given.choices],
        multiple=given.multiple,
        free_text=given.free_text,
    )


def answers_text(questions: Sequence[Question], answers: Sequence[Answer]) -> str:
    """Each question with its answer, for the model."""
    told: list[str] = []
    for question, answer in zip(questions, answers, strict=True):
        lines = [f"Question: {question.text}"]
        if answer.choices:
            lines.append(f"Chosen: {'; '.join(answer.choices)}")
        if answer.text is not None:
            lines.append(f"In their own words: {answer.text}")
        told.append("\n".join(lines))
    return "\n\n".join(told)
