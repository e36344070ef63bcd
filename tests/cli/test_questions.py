"""Questions at the terminal and from elsewhere: shown whole, answered by number, label or words (SES-19, CLI-1)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cli.conftest import Place
from tests.cli.kit import PLAIN

from drawbar.contracts.events.human import Choice, Question
from drawbar.contracts.question import QuestionAsk
from drawbar.surfaces.cli.output import GLYPHS, GLYPHS_ASCII, Look
from drawbar.surfaces.cli.questions import ask_lines, prompt_of, question_lines
from drawbar.surfaces.cli.text import cells
from drawbar.testing.scenario import Block, Scenario, reply, say, use

DATABASE = {
    "text": "Which database should the service use?",
    "header": "Database",
    "choices": [{"label": "Postgres", "description": "What production runs."}, {"label": "SQLite"}],
}
EXTRAS = {
    "text": "Which extras?",
    "choices": [{"label": "tests"}, {"label": "docs"}, {"label": "CI"}],
    "multiple": True,
}
NAME = {"text": "What is it called?", "free_text": True}


def asking(*questions: dict[str, Any], **more: Any) -> list[Any]:
    return [use("ask_user", {"questions": list(questions), **more}), say("Done.")]


def told(place: Place) -> str:
    """What the model was told after its question."""
    return place.model.requests[-1].body.decode()


def answered(place: Place) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in place.logs[0].read_bytes().splitlines()]
    return [line["payload"] for line in lines if line["type"] == "question.answered"]


def wait_for(place: Place, status: str = "waiting_for_input") -> str:
    """The id of the run, once it waits."""
    deadline = time.monotonic() + 30
    while not (place.logs and f'"to":"{status}"'.encode() in place.logs[0].read_bytes()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return place.logs[0].parent.name


# -- what is shown --------------------------------------------------------------------------------


@pytest.mark.clause("SES-19", "CLI-1")
def test_a_question_shows_header_text_and_numbered_choices_with_their_descriptions() -> None:
    question = Question(
        text="Which one?",
        header="Database",
        choices=[
            Choice(label="Postgres", description="What production runs.\nNeeds a server."),
            Choice(label="SQLite"),
        ],
    )
    assert question_lines(question, PLAIN, place=1, of=2) == [
        "? Database (1 of 2)",
        "  Which one?",
        "  1  Postgres",
        "     What production runs.",
        "     Needs a server.",
        "  2  SQLite",
    ]
    assert prompt_of(question) == "  a number or a label (Ctrl-D: no answer) > "


@pytest.mark.clause("SES-19", "QLT-4")
@pytest.mark.bug("APR-13")
def test_nothing_of_a_question_is_obeyed_by_the_terminal() -> None:
    evil = "\x1b[2J\x1b]52;c;aGk=\x07\u202e\r"
    question = Question(text=evil, header=evil, choices=[Choice(label=f"a{evil}", description=evil, sketch=evil)])
    plain = Question(text=evil, header=evil, choices=[Choice(label=f"a{evil}", description=evil)])
    for shown in (question_lines(question, PLAIN), question_lines(plain, PLAIN)):
        assert not {"\x1b", "\x07", "\u202e", "\r"} & set("".join(shown))
        assert "\\x1b[2J" in "".join(shown)


def sketch(width: int, height: int = 3) -> str:
    return "\n".join(f"{row}{'.' * (width - 2)}{row}" for row in range(height))


@pytest.mark.clause("CON-22", "CLI-1")
@pytest.mark.parametrize("glyphs", [GLYPHS, GLYPHS_ASCII])
@pytest.mark.parametrize(
    ("columns", "width", "beside"), [(80, 20, True), (80, 40, False), (200, 80, True), (80, 80, False), (40, 80, False)]
)
def test_sketches_stand_side_by_side_where_they_fit_and_are_whole_in_any_width(
    columns: int, width: int, beside: bool, glyphs: Any
) -> None:
    look = Look(tty=False, colour=False, glyphs=glyphs, columns=columns)
    choices = [Choice(label=f"Plan {n}", description="How it looks", sketch=sketch(width)) for n in (1, 2)]
    lines = question_lines(Question(text="Which?", choices=choices), look)
    assert max(map(cells, lines)) <= columns
    assert (sum("1  Plan 1" in line and "2  Plan 2" in line for line in lines) == 1) is beside
    assert "".join(lines).count("." * min(width - 2, columns - 1)) >= 6 or columns == 40
    assert sum(line.count(".") for line in lines) == 6 * (width - 2), "every character of a sketch is there"


@pytest.mark.clause("CON-22")
def test_white_space_of_a_sketch_is_kept_to_the_letter() -> None:
    drawn = "  a   b\n\n   c  "
    lines = question_lines(Question(text="Which?", choices=[Choice(label="x", sketch=drawn)]), PLAIN)
    inside = [line.partition("│ ")[2] for line in lines if "│" in line]
    assert [text.rpartition(" │")[0][:7].ljust(7) for text in inside] == ["  a   b", "       ", "   c   "]


def test_several_questions_are_numbered_and_each_is_whole() -> None:
    ask = QuestionAsk("c", (Question(text="One?", free_text=True), Question(text="Two?", free_text=True)))
    assert [line for line in ask_lines(ask, PLAIN) if line.startswith("?")] == [
        "? question (1 of 2)",
        "? question (2 of 2)",
    ]


# -- at the run's own terminal --------------------------------------------------------------------


@pytest.mark.clause("SES-19", "CLI-1", "CON-14")
def test_a_person_answers_by_number_label_and_in_their_own_words(place: Place) -> None:
    place.play(Scenario(turns=asking(DATABASE, EXTRAS, NAME)))
    with place.at_terminal("run", "begin") as at:
        at.expect("a number or a label (Ctrl-D: no answer) > ")
        assert "? Database (1 of 3)" in at.text
        assert "     What production runs." in at.text
        at.type("3")
        at.expect("none of the choices: one of 1 (Postgres), 2 (SQLite)")
        at.type("sqlite")
        at.expect("numbers or labels, with commas (Ctrl-D: no answer) > ")
        at.type("1, ci")
        at.expect("your own words (Ctrl-D: no answer) > ")
        at.type("  Blue  Whale ")
        assert at.wait() == 0, at.text
        assert "• tests; CI" in at.text
        assert "from another process" not in at.text
    (given,) = answered(place)
    assert [a["choices"] for a in given["answers"]] == [["SQLite"], ["tests", "CI"], []]
    assert given["answers"][2]["text"] == "Blue  Whale"
    assert given["by"] == "terminal"
    for words in ("Chosen: SQLite", "Chosen: tests; CI", "In their own words: Blue  Whale"):
        assert words in told(place)


@pytest.mark.clause("SES-19", "CLI-1")
def test_keys_pressed_before_a_question_answer_nothing(place: Place) -> None:
    place.play(Scenario(turns=[use("bash", {"command": "sleep 1"}), *asking(DATABASE, EXTRAS)]))
    with place.at_terminal("run", "begin", "--approval", "auto-workspace") as at:
        at.expect("bash")
        at.type("1")
        at.expect("a number or a label (Ctrl-D: no answer) > ")
        time.sleep(0.3)
        assert not answered(place)
        at.type("2")
        at.expect("with commas (Ctrl-D: no answer) > ")
        at.type("docs")
        assert at.wait() == 0, at.text
    assert [a["choices"] for a in answered(place)[0]["answers"]] == [["SQLite"], ["docs"]]


@pytest.mark.clause("RUN-35", "SES-19")
def test_a_question_that_a_person_leaves_open_is_told_to_the_model_and_the_run_goes_on(place: Place) -> None:
    place.play(Scenario(turns=asking(DATABASE)))
    with place.at_terminal("run", "begin") as at:
        at.expect("(Ctrl-D: no answer) > ")
        time.sleep(0.2)
        os.write(at.master, b"\x04")
        assert at.wait() == 3, at.text
        assert "went on without 1 answer" in at.text
    assert answered(place)[0]["by"] == "nobody"
    assert "Nobody answered" in told(place)


@pytest.mark.clause("RUN-10", "SES-19")
def test_ctrl_c_ends_a_question_cleanly_and_it_stays_unanswered(place: Place) -> None:
    place.play(Scenario(turns=asking(DATABASE)))
    with place.at_terminal("run", "begin") as at:
        at.expect("(Ctrl-D: no answer) > ")
        at.press(signal.SIGINT)
        assert at.wait() == 130, at.text
    assert answered(place) == []
    assert place.drawbar("runs", "verify", place.logs[0].parent.name).returncode == 0


@pytest.mark.clause("CLI-1", "CLI-5")
@pytest.mark.parametrize("setting", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_a_plain_terminal_asks_plainly(place: Place, setting: dict[str, str]) -> None:
    drawn = {"text": "Which?", "choices": [{"label": n, "sketch": "+--+\n|  |\n+--+"} for n in ("one", "two")]}
    place.play(Scenario(turns=asking(drawn, ui_sketch=True)))
    place.env |= setting
    with place.at_terminal("run", "begin", columns=80) as at:
        at.expect("(Ctrl-D: no answer) > ")
        at.type("two")
        assert at.wait() == 0, at.text
        assert b"\x1b[1" not in at.raw
        assert "1  one" in at.text
    assert answered(place)[0]["answers"][0]["choices"] == ["two"]


@pytest.mark.clause("SES-19", "CLI-1")
@pytest.mark.parametrize("form", [[], ["--json"], ["--quiet"]])
@pytest.mark.parametrize("kind", ["question", "approval"])
def test_an_answer_from_elsewhere_ends_the_question_here_and_says_so(place: Place, form: list[str], kind: str) -> None:
    turns = asking(DATABASE) if kind == "question" else [use("bash", {"command": "touch made"}), say("Done.")]
    place.play(Scenario(turns=turns))
    with place.at_terminal("run", "begin", *form) as at:
        at.expect(" > ")
        run = place.logs[0].parent.name
        words = ("answer", run, "postgres") if kind == "question" else ("approve", run, "once")
        done = place.drawbar("runs", *words)
        assert done.returncode == 0, done.stderr
        assert at.wait() == 0, at.text
        said = (
            "• answered from another process: Postgres"
            if kind == "question"
            else "• allowed (once) from another process"
        )
        assert said in at.text


# -- from elsewhere -------------------------------------------------------------------------------


@pytest.fixture
def waiting(place: Place) -> Iterator[subprocess.Popen[bytes]]:
    """A run that waits for two answers, without a terminal."""
    place.env["COLUMNS"] = "300"
    place.play(Scenario(turns=asking(DATABASE, NAME)))
    process = place.begin("run", "begin", "--ask-timeout", "60")
    wait_for(place)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.clause("SES-19", "CLI-2")
@pytest.mark.parametrize(
    "argv", [["runs", "show", "RUN"], ["runs", "list", "--status", "waiting_for_input"], ["runs", "answer", "RUN"]]
)
def test_whoever_looks_from_elsewhere_sees_the_whole_question_and_how_to_answer(
    place: Place, waiting: subprocess.Popen[bytes], argv: list[str]
) -> None:
    run = place.logs[0].parent.name
    done = place.drawbar(*[run if word == "RUN" else word for word in argv])
    text = done.stdout.decode()
    for part in ("? Database (1 of 2)", "1  Postgres", "What production runs.", "? question (2 of 2)"):
        assert part in text
    assert f"drawbar runs answer {run} q_" in text
    assert done.returncode == (2 if argv[1] == "answer" else 0)
    assert waiting.poll() is None, "looking answers nothing"


@pytest.mark.clause("SES-19", "CLI-2", "RUN-9")
def test_it_is_answered_from_another_process_and_the_run_goes_on(
    place: Place, waiting: subprocess.Popen[bytes]
) -> None:
    run = place.logs[0].parent.name
    assert b"waiting: drawbar runs list --status waiting_for_input" in place.drawbar("runs", "list").stderr
    for words, why in (
        (["2"], b"2 questions were asked and 1 answered"),
        (["3", "x"], b"answer 1: '3' is none of the choices: one of 1 (Postgres), 2 (SQLite)"),
        (["2", " "], b"answer 2: that is no answer: it takes words of your own"),
    ):
        refused = place.drawbar("runs", "answer", run, *words)
        assert (refused.returncode, why in refused.stderr) == (2, True), refused.stderr
    assert place.drawbar("runs", "answer", run, "q_01aaaaaaaaaaaaaaaaaaaaaaaa", "1", "x").returncode != 0
    mixed = place.drawbar("runs", "approve", run, "once")
    assert mixed.returncode == 2
    assert f"drawbar runs answer {run} q_".encode() in mixed.stderr
    shown = json.loads(place.drawbar("runs", "answer", run, "--json").stdout)
    name = shown["questions"][0]["question_id"]
    done = place.drawbar("runs", "answer", run, name[:12], "2", "Blue Whale", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["question_id"] == name
    assert answer["answers"][0]["choices"] == ["SQLite"]
    out, _ = waiting.communicate(timeout=30)
    assert waiting.returncode == 0
    assert "• answered from another process: SQLite / Blue Whale" in out.decode()
    late = place.drawbar("runs", "answer", run, "1", "x")
    assert late.returncode == 1
    assert b"has settled" in late.stderr
    assert len(answered(place)) == 1
    assert answered(place)[0]["by"].startswith("socket:")


@pytest.mark.clause("SES-19", "CLI-2")
def test_answer_on_an_approval_says_to_approve(place: Place) -> None:
    place.play([use("bash", {"command": "touch made"}), say("Done.")])
    process = place.begin("run", "look", "--ask-timeout", "60")
    run = wait_for(place, "waiting_for_approval")
    refused = place.drawbar("runs", "answer", run, "1")
    assert refused.returncode == 2
    assert f"drawbar runs approve {run} a_".encode() in refused.stderr
    assert place.drawbar("runs", "approve", run, "deny").returncode == 0
    process.communicate(timeout=30)


@pytest.mark.clause("RUN-35", "CLI-1")
@pytest.mark.parametrize("form", [[], ["--json"], ["--quiet"]])
def test_a_question_that_nobody_takes_ends_in_exit_code_3(place: Place, form: list[str]) -> None:
    place.play(Scenario(turns=asking(DATABASE)))
    done = place.drawbar("run", "begin", *form)
    assert done.returncode == 3, done.stderr
    assert b"went on without 1 answer" in (done.stderr if form else done.stdout)
    assert "Nobody answered" in told(place)


@pytest.mark.clause("SES-19", "RUN-6")
def test_an_unattended_run_is_not_offered_the_tool(place: Place) -> None:
    place.play(Scenario(turns=[say("Done."), say("Done.")]))
    assert place.drawbar("run", "begin", "--unattended").returncode == 0
    assert "ask_user" not in told(place)
    assert place.drawbar("run", "begin").returncode == 0
    assert "ask_user" in told(place)


@pytest.mark.clause("CLI-1", "SES-19")
def test_several_choices_of_one_question_may_be_words_of_the_command(place: Place) -> None:
    place.play(Scenario(turns=asking(EXTRAS)))
    process = place.begin("run", "begin", "--ask-timeout", "60")
    run = wait_for(place)
    done = place.drawbar("runs", "answer", run, "CI", "1")
    assert done.returncode == 0, done.stderr
    process.communicate(timeout=30)
    assert answered(place)[0]["answers"][0]["choices"] == ["CI", "tests"]


@pytest.mark.clause("SES-19")
def test_a_question_beside_other_calls_waits_alone(place: Place) -> None:
    """Never beside another call: what comes after it waits (BND-3)."""
    together = reply(
        Block(tool="ask_user", arguments={"questions": [DATABASE]}),
        Block(tool="bash", arguments={"command": "touch made"}),
    )
    place.play(Scenario(turns=[together, say("Done.")]))
    process = place.begin("run", "begin", "--ask-timeout", "60", "--approval", "auto-workspace")
    run = wait_for(place)
    time.sleep(0.3)
    assert not (place.repo / "made").exists()
    assert place.drawbar("runs", "answer", run, "1").returncode == 0
    process.communicate(timeout=30)
    assert (place.repo / "made").exists()
