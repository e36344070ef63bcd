"""Foreign text on a terminal: shown, never obeyed."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.kit import PLAIN, Shown, call

from drawbar.contracts.boundary import ApprovalAsk, StandingRule
from drawbar.contracts.events.message import MessageDelta
from drawbar.surfaces.cli.asking import ask_lines
from drawbar.surfaces.cli.text import (
    cells,
    clip,
    duration,
    first_line,
    folder_short,
    label,
    size,
    visible,
    visible_exact,
    wrapped,
)

FIXTURE = Path(__file__).parent.parent / "fixtures" / "bugs" / "APR-13"
ANY = st.text(st.characters(), max_size=200)


@pytest.mark.bug("APR-13")
@given(ANY)
def test_no_control_reaches_the_terminal(text: str) -> None:
    for char in visible(text):
        assert char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs")
        assert char not in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff"


@pytest.mark.bug("APR-13")
@given(ANY)
def test_what_is_judged_hides_nothing(text: str) -> None:
    shown = visible_exact(text)
    for char in shown:
        assert char in "\n " or unicodedata.category(char)[0] not in ("C", "Z"), hex(ord(char))
    assert "\n" not in label(text)


@given(ANY)
def test_plain_text_is_left_alone(text: str) -> None:
    plain = "".join(c for c in text if c.isprintable())
    assert visible(plain) == plain
    words = plain.encode("ascii", "ignore").decode()
    assert visible_exact(words) == words


@pytest.mark.parametrize("text", ["שלום\u200f, עולם", "👩\u200d💻 ❤\ufe0f", "नमस्\u200dते", "a\tb\nc", "wide 漢字"])
def test_scripts_and_emoji_stay_readable(text: str) -> None:
    assert visible(text) == text


def test_a_line_end_of_windows_is_a_line_end_and_a_lone_return_is_shown() -> None:
    assert visible("a\r\nb") == "a\nb"
    assert visible("100%\rdone") == "100%\\rdone"


@pytest.mark.clause("SES-18", "QLT-4")
@pytest.mark.bug("APR-13")
def test_an_approval_shows_the_whole_command_with_its_escapes() -> None:
    expect = json.loads((FIXTURE / "expect.json").read_text())
    assert expect["approval_shows_full_command_with_escapes_visible"]
    command = (FIXTURE / "command.txt").read_text()
    ask = ApprovalAsk(
        call_id="c", tool="bash", arguments={"command": command}, scope="workspace", reason="mode:ask", rule=None
    )
    shown = "\n".join(ask_lines(ask, PLAIN))
    assert "\x1b" not in shown
    assert "rm -rf build" in shown
    assert "ls -la   # harmless" in shown
    assert "\\x1b[1A\\x1b[2K" in shown


@pytest.mark.bug("APR-13")
def test_tool_output_and_replies_cannot_drive_the_terminal() -> None:
    output = (FIXTURE / "tool_output.bin").read_bytes().decode("utf-8", "replace")
    deltas = [MessageDelta(message_id="m", block=0, kind="text", text=piece) for piece in output]
    started, ended = call("c", "bash", {"command": f"echo {output}"}, cause="error", exit_code=1, preview=output)
    shown = Shown(*deltas, started, ended)
    assert "\x1b" not in shown.raw
    assert "\x9b" not in shown.raw
    assert "\u202e" not in shown.raw
    assert "\\x1b]52" in shown.text


@pytest.mark.bug("APR-13")
@given(ANY, ANY, ANY)
def test_a_question_is_made_of_shown_characters_alone(tool: str, name: str, value: str) -> None:
    rule = StandingRule(id="a", tool=tool, scope="workspace", pattern=value, root=name)
    ask = ApprovalAsk(call_id="c", tool=tool, arguments={name: value}, scope="workspace", reason=value, rule=rule)
    for line in ask_lines(ask, PLAIN):
        assert all(c == " " or unicodedata.category(c)[0] not in ("C", "Z") for c in line)


@given(st.text(max_size=80), st.integers(min_value=1, max_value=30))
def test_clipped_text_fits(text: str, columns: int) -> None:
    assert cells(clip(text, columns)) <= columns
    if cells(text) <= columns:
        assert clip(text, columns) == text


@given(st.text(st.characters(exclude_characters="\n"), max_size=200), st.integers(min_value=2, max_value=30))
def test_wrapping_loses_nothing(text: str, columns: int) -> None:
    pieces = wrapped(text, columns)
    assert "".join(pieces) == text
    assert all(cells(piece) <= columns for piece in pieces)


def test_small_words() -> None:
    assert [duration(s) for s in (0, 0.0124, 1.24, 59.94, 65, 3725)] == [
        "0 ms", "12 ms", "1.2 s", "59.9 s", "1 m 05 s", "1 h 02 m",
    ]  # fmt: skip
    assert [size(n) for n in (0, 999, 12_345, 999_960, 4_500_000)] == ["0", "999", "12.3k", "1.0M", "4.5M"]
    assert first_line("\n\n  one\ntwo\n\nthree") == "one (+2 lines)"
    assert first_line(" \n") == ""
    assert folder_short("/home/ann/work", "/home/ann") == "~/work"
    assert folder_short("/home/anna", "/home/ann") == "/home/anna"
    assert folder_short("/x", "/") == "/x"


@given(st.text(max_size=80), st.integers(1, 20), st.booleans())
def test_what_is_cut_into_pieces_is_all_there(text: str, columns: int, words: bool) -> None:
    pieces = wrapped(text, columns, words=words)
    assert "".join(pieces) == text
    assert all(cells(piece) <= max(columns, 2) for piece in pieces)


def test_prose_is_cut_behind_blanks() -> None:
    assert wrapped("one two three", 8, words=True) == ["one two ", "three"]
    assert wrapped("one twothreefour", 8, words=True) == ["one ", "twothree", "four"]
    assert wrapped("one two three", 8) == ["one two ", "three"]
    assert wrapped("one two three", 10) == ["one two th", "ree"]
