"""Questions of the model: both sides on record, the first answer wins, what nobody answers is told (SES-19, CON-14)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runs.kit import bench, environment_for, of, types

import drawbar
from drawbar.contracts.boundary import Approval, ApprovalAsk
from drawbar.contracts.clock import SystemClock
from drawbar.contracts.errors import InvalidInput, NotFound, RunNotActive
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.human import Answer, Choice, Question, QuestionRequested
from drawbar.contracts.events.lifecycle import ExtensionNotice, Started, StatusChanged
from drawbar.contracts.methods import AnswerInput, ApproveInput, GivenAnswer
from drawbar.contracts.question import Answered, QuestionAsk
from drawbar.runs.answers import keys_of, read_answer, read_answers
from drawbar.runs.asking import Asking
from drawbar.stores.event_log import EventLog
from drawbar.stores.redaction import SecretRedactor
from drawbar.testing.scripted_model import ScriptedModel, say, use

COLOUR = Question(text="Which colour?", choices=[Choice(label="Red"), Choice(label="Deep blue")])
EXTRAS = Question(text="Which extras?", choices=[Choice(label=n) for n in ("a", "b", "c")], multiple=True)
NAME = Question(text="What name?", free_text=True)
ARGUMENTS = {"questions": [{"text": "Which colour?", "choices": [{"label": "Red"}, {"label": "Deep blue"}]}]}
ASK = [use("ask_user", ARGUMENTS), say("Done.")]


# -- what is an answer ----------------------------------------------------------------------------


@pytest.mark.clause("SES-19")
@pytest.mark.parametrize(
    ("question", "typed", "choices", "text"),
    [
        (COLOUR, "2", ["Deep blue"], None),
        (COLOUR, " deep BLUE ", ["Deep blue"], None),
        (EXTRAS, "1,3", ["a", "c"], None),
        (EXTRAS, "1 c, ", None, None),
        (EXTRAS, "3 1 3", ["c", "a"], None),
        (EXTRAS, "b", ["b"], None),
        (NAME, " Anna Bell ", [], "Anna Bell"),
        (COLOUR, "3", None, None),
        (COLOUR, "1,2", None, None),
        (COLOUR, "", None, None),
        (NAME, "  ", None, None),
    ],
)
def test_what_is_typed_is_a_number_a_label_or_words(
    question: Question, typed: str, choices: list[str] | None, text: str | None
) -> None:
    if choices is None:
        with pytest.raises(InvalidInput):
            read_answer(question, typed)
    else:
        assert read_answer(question, typed) == Answer(choices=choices, text=text)


@pytest.mark.clause("SES-19")
@pytest.mark.parametrize(
    ("question", "answer", "why"),
    [
        (COLOUR, GivenAnswer(choices=["1", "2"]), "only one can be chosen"),
        (COLOUR, GivenAnswer(text="green"), "words of your own are no answer here"),
        (COLOUR, GivenAnswer(), "no answer"),
        (COLOUR, GivenAnswer(choices=["green"]), r"none of the choices: one of 1 \(Red\), 2 \(Deep blue\)"),
        (NAME, GivenAnswer(text="x" * 20_001), "put it into a file"),
    ],
)
def test_an_answer_that_its_question_does_not_allow_is_refused_with_what_would_be_one(
    question: Question, answer: GivenAnswer, why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        read_answers([question], [answer])


@pytest.mark.clause("SES-19")
def test_every_question_needs_its_own_answer() -> None:
    for few in ([], ["1"], ["1", "x", "y"]):
        with pytest.raises(InvalidInput, match="one answer, in order"):
            read_answers([COLOUR, NAME], few)
    with pytest.raises(InvalidInput, match="answer 2: "):
        read_answers([COLOUR, COLOUR], ["1", "9"])


@pytest.mark.clause("SES-19")
def test_choices_that_are_numbers_themselves_are_lettered_so_that_none_is_taken_for_another() -> None:
    workers = Question(text="How many?", choices=[Choice(label="2"), Choice(label="1")], free_text=True)
    assert keys_of(workers) == ("a", "b")
    assert read_answer(workers, "1").choices == ["1"]
    assert read_answer(workers, "a").choices == ["2"]
    assert read_answer(workers, "7") == Answer(text="7")


LABELS = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), min_size=1, max_size=8)


@given(LABELS, st.booleans(), st.booleans(), st.text(max_size=20))
def test_whatever_is_typed_is_one_of_the_choices_or_words_that_are_allowed(
    labels: list[str], multiple: bool, free: bool, typed: str
) -> None:
    question = Question(text="?", choices=[Choice(label=n) for n in labels], multiple=multiple, free_text=free)
    try:
        answer = read_answer(question, typed)
    except InvalidInput:
        return
    assert set(answer.choices) <= set(labels)
    assert len(answer.choices) <= (len(labels) if multiple else 1)
    assert answer.text is None or (free and answer.text == typed.strip())
    assert answer.choices or answer.text
    assert read_answers([question], [answer]) == (answer,), "an answer as recorded is an answer again"


# -- the whole stack ------------------------------------------------------------------------------


@pytest.mark.clause("SES-19", "CON-14", "RUN-9")
async def test_a_question_blocks_the_run_until_it_is_answered_and_the_model_is_told(tmp_path: Path) -> None:
    async with bench(tmp_path, ASK) as b:
        run_id = await b.start(ask_timeout_s=30)
        asked = await b.until(run_id, lambda event: event.type == "question.requested")
        while b.harness.runs.get(run_id).status != "waiting_for_input":
            await asyncio.sleep(0.01)
        (name,) = b.harness.runs.live[run_id].pending_questions
        with pytest.raises(InvalidInput, match="none of the choices"):
            await b.harness.runs.answer(AnswerInput(run=run_id, answers=["green"]))
        with pytest.raises(NotFound):
            await b.harness.runs.answer(AnswerInput(run=run_id, answers=["1"], question="q_nonsense"))
        with pytest.raises(InvalidInput, match="runs answer"):
            await b.harness.runs.approve(ApproveInput(run=run_id, decision="once"))
        done = await b.harness.runs.answer(AnswerInput(run=run_id, answers=[GivenAnswer(choices=["2"])]))
        # What an answering call returns from is on record (CON-14).
        assert "question.answered" in types(b.harness.runs.events(run_id))
        assert (done.question_id, done.answers) == (name, [Answer(choices=["Deep blue"])])
        events = await b.finish(run_id)
        assert [s["to"] for s in of(events, "status.changed")] == ["running", "waiting_for_input", "running"]
        requested = json.loads(bytes(asked.payload))
        assert (requested["question_id"], requested["call_id"]) == (name, of(events, "tool.started")[0]["call_id"])
        (answered,) = of(events, "question.answered")
        assert answered == {
            "question_id": name, "answers": [{"choices": ["Deep blue"], "text": None}], "by": "api",
        }  # fmt: skip
        assert "Chosen: Deep blue" in str(b.server.requests[-1].parsed)
        with pytest.raises(RunNotActive):
            await b.harness.runs.answer(AnswerInput(run=run_id, answers=["1"]))


@pytest.mark.clause("SES-19", "RUN-35")
async def test_a_surface_of_the_same_process_answers_and_what_it_may_not_say_counts_as_nothing(tmp_path: Path) -> None:
    for given_answer, told in (
        (Answer(choices=["red"]), "Chosen: Red"),
        (Answer(choices=["green"]), "Nobody answered"),
    ):

        async def surface(ask: QuestionAsk, question_id: str, said: Answer = given_answer) -> Answered:
            return Answered(question_id, (said,), "test")

        async with bench(tmp_path, ASK) as b:
            started = await b.harness.sessions.run(
                drawbar.RunInput(text="Do it.", cwd=str(b.project)), question_handler=surface
            )
            events = await b.finish(started.run_id)
            assert told in str(b.server.requests[-1].parsed)
            assert of(events, "question.answered")[0]["by"] == ("test" if "Red" in told else "nobody")


@pytest.mark.clause("RUN-35", "SES-19")
@pytest.mark.parametrize("timeout", [0.0, 0.3])
async def test_a_question_that_nobody_takes_is_no_error_and_the_run_goes_on(tmp_path: Path, timeout: float) -> None:
    async with bench(tmp_path, ASK) as b:
        record, events = await b.run(ask_timeout_s=timeout)
        assert record.status == "completed"
        assert of(events, "question.answered")[0]["by"] == "nobody"
        (ended,) = of(events, "tool.completed")
        assert (ended["cause"], "Nobody answered" in ended["preview"]) == ("ok", True)


@pytest.mark.clause("SES-18", "RUN-20", "BND-18")
async def test_no_limit_of_a_call_ends_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from drawbar.tools import executor
    from drawbar.tools.ask_user import AskUserTool

    monkeypatch.setattr(AskUserTool, "spec", replace(AskUserTool.spec, limit_s=0.1))
    monkeypatch.setattr(executor, "WATCH_S", 0.1)
    async with bench(tmp_path, ASK) as b:
        run_id = await b.start(ask_timeout_s=30)
        await b.until(run_id, lambda event: event.type == "question.requested")
        await asyncio.sleep(0.6)
        await b.harness.runs.answer(AnswerInput(run=run_id, answers=["1"]))
        events = await b.finish(run_id)
        assert of(events, "tool.completed")[0]["cause"] == "ok"


@pytest.mark.clause("SES-19", "RUN-10")
async def test_an_interruption_ends_a_question_cleanly_and_leaves_it_unanswered(tmp_path: Path) -> None:
    async with bench(tmp_path, ASK) as b:
        run_id = await b.start(ask_timeout_s=60)
        await b.until(run_id, lambda event: event.type == "question.requested")
        assert (await b.harness.runs.interrupt(run_id)).settled
        events = await b.finish(run_id)
        assert of(events, "question.answered") == []
        assert of(events, "tool.completed")[0]["cause"] == "aborted"
        assert b.harness.runs.get(run_id).status == "interrupted"
        with pytest.raises(RunNotActive):
            await b.harness.runs.answer(AnswerInput(run=run_id, answers=["1"]))


@pytest.mark.clause("CON-22", "SES-19")
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"questions": []}, "questions"),
        ({"questions": [ARGUMENTS["questions"][0]] * 5}, "questions"),
        ({"questions": [{"text": "Which?"}]}, "nobody could answer it; give choices, or free_text"),
        ({"questions": [{"text": "?", "choices": [{"label": "a"}, {"label": "A "}]}]}, "every label must be different"),
        ({"questions": [{"text": "?", "choices": [{"label": "a", "sketch": "+"}]}]}, "only with ui_sketch: true"),
        ({"questions": [{"text": "?", "choices": [{"label": "a"}]}], "ui_sketch": True}, "'a' has none; a sketch is 1"),
        (
            {"questions": [{"text": "?", "choices": [{"label": "a", "sketch": "\t"}]}], "ui_sketch": True},
            "80 printable",
        ),
        ({"questions": [{"text": "?", "free_text": True}], "ui_sketch": True}, "no question has choices"),
        ({"questions": [{"text": "?", "free_text": True, "kind": "x"}]}, "kind"),
    ],
)
async def test_a_question_that_does_not_fit_is_refused_with_what_would(
    tmp_path: Path, arguments: dict[str, Any], why: str
) -> None:
    async with bench(tmp_path, [use("ask_user", arguments), say("Done.")]) as b:
        _, events = await b.run(ask_timeout_s=30)
        (refused,) = of(events, "tool.refused")
        assert refused["code"] == "invalid_arguments"
        assert why in refused["message"]
        assert "question.requested" not in types(events)


@pytest.mark.clause("RUN-6", "SES-19", "BND-2")
async def test_an_automatic_run_has_no_questions(tmp_path: Path) -> None:
    async with bench(tmp_path, ASK) as b:
        _, events = await b.run(automatic=True)
        assert "ask_user" not in str([tool["name"] for tool in b.server.requests[0].parsed["tools"]])
        assert "question.requested" not in types(events)
        assert of(events, "tool.refused")


def test_a_sketch_that_redaction_made_longer_can_still_be_read() -> None:
    from drawbar.contracts.codec import decode, encode

    choice = Choice(label="a", sketch=f"{'x' * 70}[redacted:ANTHROPIC_API_KEY]")
    put = QuestionRequested(question_id="q", questions=[Question(text="?", choices=[choice])], ui_sketch=True)
    assert decode(encode(put), QuestionRequested, what="question").questions[0].choices == [choice]


DRIVER = textwrap.dedent(
    """
    import asyncio, sys
    import drawbar

    async def main():
        async with drawbar.open() as harness:
            started = await harness.sessions.run(drawbar.RunInput(text="Do it.", cwd=sys.argv[1], ask_timeout_s=60))
            async for event in harness.runs.follow(started.run_id):
                print(started.run_id, event.type, flush=True)

    asyncio.run(main())
    """
)


@pytest.mark.clause("SES-18", "SES-19", "RUN-13")
async def test_a_killed_owner_leaves_the_question_unanswered_and_never_answered(tmp_path: Path) -> None:
    project, root = tmp_path / "project", tmp_path / "data"
    project.mkdir()
    async with ScriptedModel(ASK) as server:
        environ = environment_for(server, root, tmp_path)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", DRIVER, str(project), env={**os.environ, **environ}, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        line = b""
        while b"question.requested" not in line:
            line = await process.stdout.readline()
            assert line
        run_id = line.split()[0].decode()
        process.kill()
        await process.wait()
        async with drawbar.open(root, environ=environ) as harness:
            assert harness.recovery.interrupted_run_ids == [run_id]
            events = harness.runs.events(run_id)
            assert of(events, "question.answered") == []
            assert of(events, "tool.completed")[0]["cause"] == "unknown"
            assert harness.runs.verify(run_id).ok
            with pytest.raises(RunNotActive):
                await harness.runs.answer(AnswerInput(run=run_id, answers=["1"]))
        assert len(server.requests) == 1


# -- one mechanism, any order ---------------------------------------------------------------------


class Recorded:
    """A run with a real log, whose disk answers when it likes."""

    def __init__(self, folder: Path) -> None:
        self.id = "r_1"
        self.log = EventLog.create(folder, self.id, redactor=SecretRedactor({}), clock=SystemClock())
        self.log.append(Started(run_id=self.id))
        self.status = "queued"
        self.set_status("running")

    def emit(self, payload: Payload) -> None:
        self.log.append(payload)

    async def emit_durable(self, payload: Payload) -> None:
        await self.log.append_durable(payload)

    def set_status(self, new: str) -> None:
        self.log.append(StatusChanged(from_=self.status, to=new))
        self.status = new

    def notice(self, code: str, message: str) -> None:
        self.log.append(ExtensionNotice(code=code, message=message))

    def of(self, kind: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.path.read_bytes().splitlines()]
        return [line["payload"] for line in lines if line["type"] == kind]


@asynccontextmanager
async def recorded() -> AsyncIterator[Recorded]:
    with tempfile.TemporaryDirectory() as folder:
        run = Recorded(Path(folder))
        try:
            yield run
        finally:
            run.log.close()


async def ticks(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.clause("SES-19", "SES-18", "CON-14")
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=4), st.integers(0, 12) | st.none(), st.integers(0, 14) | st.none()
)
def test_of_any_answers_in_any_order_exactly_one_wins_and_exactly_one_is_recorded(
    elsewhere: list[int], here: int | None, stop: int | None
) -> None:
    async def play() -> None:
        async with recorded() as run:

            async def surface(ask: QuestionAsk, question_id: str) -> Answered | None:
                assert here is not None
                await ticks(here)
                return Answered(question_id, (Answer(text="here"),), "terminal")

            asking = Asking(run, approvals=None, questions=surface if here is not None else None, timeout_s=60)
            waiting = asyncio.create_task(asking.question(QuestionAsk("c", (NAME,))))
            await asyncio.sleep(0)
            (name,) = asking.pending("waiting_for_input")
            won: list[str] = []

            async def answer(after: int, words: str) -> None:
                await ticks(after)
                try:
                    await asking.answer(name, [words], words)
                except (NotFound, RunNotActive):
                    return
                assert len(run.of("question.answered")) == 1, "it is on record when its giver is told"
                won.append(words)

            others = [asyncio.create_task(answer(after, f"there {n}")) for n, after in enumerate(elsewhere)]
            if stop is not None:
                await ticks(stop)
                waiting.cancel()
            (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
            await asyncio.gather(*others)
            recorded_by = [entry["by"] for entry in run.of("question.answered")]
            assert len(recorded_by) <= 1
            assert len(won) <= 1
            if isinstance(outcome, Answered):
                assert recorded_by == [outcome.by]
                assert won == ([] if outcome.by == "terminal" else [outcome.by])
                assert run.status == "running"
            else:
                assert isinstance(outcome, asyncio.CancelledError)
                assert stop is not None
                assert set(won) <= set(recorded_by), "nobody is told that an answer counted that is not on record"

    asyncio.run(play())


@pytest.mark.clause("SES-18", "SES-19", "CON-3")
@settings(max_examples=30, deadline=None)
@given(st.permutations(["approval 1", "approval 2", "question 1", "question 2"]), st.permutations([0, 1, 2, 3]))
def test_the_status_is_right_whatever_waits_at_once(asks: list[str], order: list[int]) -> None:
    async def play() -> None:
        async with recorded() as run:
            asking = Asking(run, approvals=None, questions=None, timeout_s=60)
            waiting: list[asyncio.Task[Any]] = []
            for ask in asks:
                put = (
                    asking.approval(
                        ApprovalAsk(call_id="c", tool="bash", arguments={}, scope="workspace", reason="r", rule=None)
                    )
                    if ask.startswith("approval")
                    else asking.question(QuestionAsk("c", (NAME,)))
                )
                waiting.append(asyncio.create_task(put))
                await asyncio.sleep(0)
            for place in order:
                kinds = {"waiting_for_approval": asking.pending("waiting_for_approval"),
                         "waiting_for_input": asking.pending("waiting_for_input")}  # fmt: skip
                assert kinds[run.status], "its status names something that waits"
                requested = [*run.of("approval.requested"), *run.of("question.requested")]
                kind = asks[place].partition(" ")[0]
                nth = [n for n, ask in enumerate(asks) if ask.startswith(kind)].index(place)
                ids = [entry[f"{kind}_id"] for entry in requested if f"{kind}_id" in entry]
                if kind == "approval":
                    await asking.approve(Approval(approval_id=ids[nth], decision="once", by="test"))
                else:
                    await asking.answer(ids[nth], ["x"], "test")
                await waiting[place]
            assert run.status == "running"
            assert run.of("failed") == [], "every change went along an allowed edge"

    asyncio.run(play())


@pytest.mark.clause("RUN-35")
async def test_a_surface_that_fails_is_said_and_others_may_still_answer() -> None:
    async with recorded() as run:

        async def broken(ask: QuestionAsk, question_id: str) -> Answered | None:
            raise RuntimeError("no display")

        asking = Asking(run, approvals=None, questions=broken, timeout_s=60)
        waiting = asyncio.create_task(asking.question(QuestionAsk("c", (NAME,))))
        while not run.of("extension.notice"):
            await asyncio.sleep(0.01)
        assert "no display" in run.of("extension.notice")[0]["message"]
        await asking.answer(asking.pending("waiting_for_input")[0], ["x"], "test")
        assert (await waiting).answers == (Answer(text="x"),)


@pytest.mark.clause("CON-14", "QLT-6")
async def test_an_answer_that_cannot_be_recorded_counts_for_nobody() -> None:
    from drawbar.contracts.errors import StorageFailed

    class Full(Recorded):
        async def emit_durable(self, payload: Payload) -> None:
            await asyncio.sleep(0)
            raise StorageFailed("the disk is full")

    with tempfile.TemporaryDirectory() as folder:
        run = Full(Path(folder))
        asking = Asking(run, approvals=None, questions=None, timeout_s=60)
        waiting = asyncio.create_task(asking.question(QuestionAsk("c", (NAME,))))
        await asyncio.sleep(0)
        with pytest.raises(StorageFailed):
            await asking.answer(asking.pending("waiting_for_input")[0], ["x"], "test")
        with pytest.raises(StorageFailed):
            await waiting
        run.log.close()
