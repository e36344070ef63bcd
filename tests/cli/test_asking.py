"""Approvals at the terminal: everything to the letter, deny by default, one question at a time (SES-18, QLT-4)."""

from __future__ import annotations

import asyncio
import os
import pty
import termios
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.kit import PLAIN

from drawbar.contracts.boundary import Approval, ApprovalAsk, StandingRule
from drawbar.surfaces.cli.asking import (
    FOLDED_LINES,
    Answer,
    Asker,
    TypedLines,
    ask_lines,
    offers,
    parse_answer,
    rule_text,
)
from drawbar.surfaces.cli.output import Look
from drawbar.surfaces.cli.screen import Screen
from drawbar.surfaces.cli.text import visible_exact

RULE = StandingRule(id="a_1", tool="bash", scope="workspace", pattern="make *", root="/home/ann/work")


def ask(tool: str = "bash", rule: StandingRule | None = RULE, **arguments: Any) -> ApprovalAsk:
    return ApprovalAsk(
        call_id="c", tool=tool, arguments=arguments or {"command": "make test"}, scope="workspace",
        reason="commands are asked about in this mode", rule=rule,
    )  # fmt: skip


class Typist:
    """A terminal at which lines are typed when the test says so."""

    def __init__(self) -> None:
        self.printed: list[str] = []
        self.discarded = 0
        self.waiting: asyncio.Future[str | None] | None = None
        self.screen = Screen(self.printed.append, PLAIN)

    def discard(self) -> None:
        self.discarded += 1

    def next(self) -> asyncio.Future[str | None]:
        self.waiting = asyncio.get_running_loop().create_future()
        return self.waiting

    async def type(self, line: str | None) -> None:
        while self.waiting is None or self.waiting.done():
            await asyncio.sleep(0)
        self.waiting.set_result(line)
        await asyncio.sleep(0)

    @property
    def text(self) -> str:
        return "".join(self.printed)


@pytest.mark.clause("SES-18", "QLT-4")
@pytest.mark.bug("APR-06")
def test_a_question_shows_tool_arguments_scope_reason_and_the_very_rule() -> None:
    lines = ask_lines(ask(command="make test\nmake lint"), PLAIN, home="/home/ann")
    assert lines == [
        "? bash wants to run (scope workspace)",
        "  command",
        "  │ make test",
        "  │ make lint",
        "  why commands are asked about in this mode",
        "  always would save bash (workspace): make * in ~/work",
    ]


@pytest.mark.clause("SES-18")
def test_a_command_is_never_folded_and_a_long_file_is_until_asked_for() -> None:
    many = "\n".join(map(str, range(200)))
    assert sum("│" in line for line in ask_lines(ask(command=many), PLAIN)) == 200
    write = ask("write", path="a", content=many)
    folded = ask_lines(write, PLAIN)
    assert sum("│" in line for line in folded) == FOLDED_LINES + 1
    assert "… 160 more lines: v shows them" in "\n".join(folded)
    assert sum("│" in line for line in ask_lines(write, PLAIN, full=True)) == 201


@pytest.mark.clause("SES-18")
def test_an_edit_is_shown_as_what_goes_and_what_comes() -> None:
    edits = [{"oldText": "a", "newText": "b"}, {"oldText": "c\nd", "newText": "", "extra": 1}]
    assert ask_lines(ask("edit", rule=None, path="x", edits=edits), PLAIN)[1:-1] == [
        "  path",
        "  │ x",
        "  edit 1",
        "  │ - a",
        "  │ + b",
        "  edit 2",
        '  │ {"oldText":"c\\nd","newText":"","extra":1}',
    ]


SEEN = st.characters(exclude_categories=["C", "Z"]).filter(lambda c: visible_exact(c) == c)


@given(st.text(SEEN, min_size=1, max_size=400))
def test_every_character_of_a_command_is_there(command: str) -> None:
    shown = "".join(line.partition("│ ")[2] for line in ask_lines(ask(command=command), PLAIN) if "│ " in line)
    assert shown == command


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("", Answer("deny")),
        ("n", Answer("deny")),
        ("No, use npm", Answer("deny", "use npm")),
        ("n use npm  ", Answer("deny", "use npm")),
        ("y", Answer("once")),
        (" YES ", Answer("once")),
        ("s", Answer("session")),
        ("always", Answer("always")),
        ("v", Answer(None, show=True)),
        ("yes but only once", None),
        ("always ls", None),
        ("yy", None),
        ("maybe", None),
        ("\x1b[A", None),
    ],
)
@pytest.mark.clause("SES-18")
def test_what_a_typed_line_means(typed: str, answer: Answer | None) -> None:
    assert parse_answer(typed, rule=True) == answer


@pytest.mark.clause("QLT-4")
@pytest.mark.parametrize("typed", ["s", "session", "a", "always"])
def test_without_a_rule_nothing_is_remembered(typed: str) -> None:
    assert parse_answer(typed, rule=False) is None
    assert "always" not in "\n".join(ask_lines(ask(rule=None), PLAIN))


@given(st.text(max_size=20))
def test_a_yes_is_never_guessed(typed: str) -> None:
    answer = parse_answer(typed, rule=True)
    if answer is not None and answer.decision not in (None, "deny"):
        assert typed.strip().lower().rstrip(":,") in ("y", "yes", "once", "s", "session", "a", "always")


def test_a_rule_says_where_it_holds() -> None:
    assert rule_text(RULE) == "bash (workspace): make * in /home/ann/work"
    assert rule_text(StandingRule(id="a", tool="write", scope="workspace", pattern="src/")) == "write (workspace): src/"


@pytest.mark.clause("SES-18")
async def test_the_answer_goes_back_with_its_words() -> None:
    at = Typist()
    asked = asyncio.create_task(Asker(at.screen, at, ordered=False)(ask(), "a_9"))
    await at.type("what?")
    await at.type("n use tox")
    assert await asked == Approval(approval_id="a_9", decision="deny", by="terminal", message="use tox")
    assert at.text.count("wants to run") == 1
    assert at.discarded == 1, "what was typed before the question must be thrown away, and nothing after it"
    assert "please answer with one of the letters" in at.text


@pytest.mark.clause("SES-18")
async def test_v_shows_everything_and_asks_again() -> None:
    at = Typist()
    asked = asyncio.create_task(
        Asker(at.screen, at, ordered=False)(ask("write", path="a", content="x\n" * 99 + "the end"), "a_9")
    )
    await at.type("v")
    assert "the end" in at.text
    await at.type("y")
    answer = await asked
    assert answer is not None
    assert answer.decision == "once"


@pytest.mark.clause("RUN-35")
async def test_a_terminal_that_is_gone_answers_nothing() -> None:
    at = Typist()
    asked = asyncio.create_task(Asker(at.screen, at, ordered=False)(ask(), "a_9"))
    await at.type(None)
    assert await asked is None


@pytest.mark.clause("SES-18")
async def test_a_question_waits_for_what_came_before_it_and_holds_what_comes_after() -> None:
    at = Typist()
    asker = Asker(at.screen, at)
    asked = asyncio.create_task(asker(ask(), "a_9"))
    await asyncio.sleep(0.02)
    assert at.text == ""
    at.screen.line("the reply before it")
    asker.shown("a_9")
    await asyncio.sleep(0.02)
    assert at.text.startswith("the reply before it\n? bash wants to run")
    idle = asyncio.create_task(asker.idle())
    await asyncio.sleep(0.02)
    assert not idle.done()
    await at.type("y")
    await asked
    await asyncio.wait_for(idle, 1)


@pytest.mark.clause("SES-18", "SES-19")
async def test_an_answer_from_elsewhere_ends_the_question() -> None:
    at = Typist()
    asker = Asker(at.screen, at, ordered=False)
    asked = asyncio.create_task(asker(ask(), "a_9"))
    await asyncio.sleep(0.02)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    await asyncio.wait_for(asker.idle(), 1)
    assert at.text.endswith("\n")


@pytest.mark.clause("SES-18")
async def test_a_key_pressed_before_the_question_answers_nothing() -> None:
    """On a real terminal: what was typed ahead is thrown away, what is typed afterwards counts."""
    master, slave = pty.openpty()
    try:
        settings = termios.tcgetattr(slave)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, settings)
        os.write(master, b"y\ny")
        await asyncio.sleep(0.05)
        lines = TypedLines(slave)
        lines.discard()
        typed = lines.next()
        await asyncio.sleep(0.1)
        assert not typed.done()
        os.write(master, b"nein, lieber nicht\n")
        assert await asyncio.wait_for(typed, 2) == "nein, lieber nicht"
        again = lines.next()
        os.write(master, b"\x04")
        assert await asyncio.wait_for(again, 2) is None
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.clause("SES-18")
def test_blanks_at_the_end_of_a_line_are_seen() -> None:
    edits = [{"oldText": "a", "newText": "a  \nb"}]
    assert ask_lines(ask("edit", rule=None, path="x", edits=edits), PLAIN)[4:7] == [
        "  │ - a",
        "  │ + a\\x20\\x20",
        "  │ + b",
    ]


@pytest.mark.clause("SES-18")
@pytest.mark.parametrize("columns", [20, 40, 60])
def test_a_question_fits_a_narrow_terminal_with_its_margin(columns: int) -> None:
    narrow = Look(tty=True, colour=False, glyphs=PLAIN.glyphs, columns=columns)
    wide = ask(rule=StandingRule(id="a", tool="bash", scope="workspace", pattern="make " + "x" * 90, root="/r"))
    lines = [*ask_lines(wide, narrow)[1:], *offers(wide, narrow).split("\n")]
    assert all(line.startswith("  ") for line in lines)
    assert all(len(line) <= columns for line in lines if "tells the model" not in line)
    assert wide.rule is not None
    assert wide.rule.pattern in "".join(line[2:] for line in lines)
    assert offers(wide, narrow).endswith("default: deny > ")


@pytest.mark.clause("SES-18")
async def test_what_was_said_is_made_visible_before_a_question_stands_elsewhere() -> None:
    at = Typist()
    at_flush: list[str] = []
    asker = Asker(at.screen, at, ordered=False, flush=lambda: at_flush.append(at.text))
    asked = asyncio.create_task(asker(ask(), "a_9"))
    await at.type("y")
    await asked
    assert at_flush == [""], "once, before the first line of the question"
