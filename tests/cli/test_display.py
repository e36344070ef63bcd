"""Events as a person reads them: streamed once, one line a call, nothing redrawn (CLI-1, CLI-5)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.kit import PLAIN, TERMINAL, Shown, call, replay

from drawbar.contracts.clock import stamp
from drawbar.contracts.codec import Raw
from drawbar.contracts.events.base import Event, Payload
from drawbar.contracts.events.human import ApprovalRequested, ApprovalResolved
from drawbar.contracts.events.lifecycle import (
    CompactionEnded,
    Completed,
    ExtensionNotice,
    Failed,
    NetworkDecided,
    RetryStarted,
    SandboxChanged,
    Started,
)
from drawbar.contracts.events.message import MessageCompleted, MessageDelta
from drawbar.contracts.events.progress import Heartbeat, TodoItem, TodoUpdated
from drawbar.contracts.events.tool import ToolCompleted, ToolDelta, ToolRefused
from drawbar.contracts.events.usage import RequestUsage, Usage, UsageUpdated
from drawbar.surfaces.cli.output import GLYPHS_ASCII, Look


def text(message: str, *pieces: str) -> list[Payload]:
    return [
        *(MessageDelta(message_id=message, block=0, kind="text", text=piece) for piece in pieces),
        MessageCompleted(message_id=message, entry_id="e", role="assistant", text="".join(pieces)),
    ]


@pytest.mark.clause("CLI-1")
def test_a_reply_streams_once_and_calls_are_lines() -> None:
    shown = Shown(
        Started(run_id="r_1", sandbox="on"),
        *text("m1", "I look", " first."),
        *call("c1", "read", {"path": "a.py"}, duration_ms=3),
        *call("c2", "bash", {"command": "pytest -q"}, exit_code=0),
        *text("m2", "Done.\nAll well."),
        Completed(),
    )
    assert shown.lines == [
        "I look first.",
        "• read   a.py  … done in 3 ms",
        "• bash   pytest -q  … exit 0 in 1.2 s",
        "Done.",
        "All well.",
    ]


@pytest.mark.clause("CLI-1")
def test_a_reply_that_was_not_streamed_is_shown_whole() -> None:
    completed = text("m1", "From the record.")[-1]
    assert Shown(completed).lines == ["From the record."]


@pytest.mark.clause("CLI-1")
def test_a_call_that_takes_its_time_is_there_while_it_runs() -> None:
    started, ended = call("c1", "bash", {"command": "sleep 600"}, exit_code=0)
    running = Shown(started, pace_s=0.5, finish=False)
    assert running.raw == "• bash   sleep 600"
    assert Shown(started, pace_s=0.1, finish=False).raw == ""
    assert Shown(started, ended, pace_s=0.5).lines == ["• bash   sleep 600  … exit 0 in 1.2 s"]


@pytest.mark.clause("CLI-1")
def test_quick_calls_side_by_side_are_a_line_each() -> None:
    (s1, e1), (s2, e2) = call("c1", "read", {"path": "a"}), call("c2", "read", {"path": "b"})
    assert Shown(s1, s2, e2, e1).lines == ["• read   b  … done in 1.2 s", "• read   a  … done in 1.2 s"]


@pytest.mark.clause("CLI-1")
def test_slow_calls_side_by_side_end_in_lines_of_their_own() -> None:
    (s1, e1), (s2, e2) = call("c1", "read", {"path": "a"}), call("c2", "read", {"path": "b"})
    assert Shown(s1, s2, e1, e2, pace_s=0.5).lines == [
        "• read   a",
        "• read   b",
        "• read   a  … done in 1.2 s",
        "• read   b  … done in 1.2 s",
    ]


@pytest.mark.clause("CLI-1")
def test_text_that_was_held_back_stays_in_its_line() -> None:
    late = MessageDelta(message_id="m", block=0, kind="text", text="tests.")
    arguments = MessageDelta(message_id="m", block=1, kind="tool_input", text="{}")
    first, whole = text("m", "I run the ")
    assert Shown(first, arguments, late, whole).lines == ["I run the tests."]


@pytest.mark.clause("CLI-1")
def test_a_failed_command_shows_its_last_lines() -> None:
    output = "\n".join(f"line {n}" for n in range(50))
    shown = Shown(*call("c", "bash", {"command": "make"}, cause="error", exit_code=2, preview=output))
    assert shown.lines[0] == "• bash   make  … exit 2 in 1.2 s"
    assert [line.strip() for line in shown.lines[1:]] == [f"line {n}" for n in range(44, 50)]


@pytest.mark.clause("CLI-1")
@pytest.mark.parametrize(("cause", "word"), [("timeout", "timed out"), ("aborted", "aborted"), ("unknown", "unknown")])
def test_a_call_that_was_cut_short_says_so(cause: str, word: str) -> None:
    assert Shown(*call("c", "bash", {"command": "x"}, cause=cause)).lines[0].endswith(f"… {word} in 1.2 s")


@pytest.mark.clause("CLI-1")
def test_an_edit_shows_its_diff() -> None:
    edits = [{"oldText": "one\ntwo\nthree", "newText": "one\n2\nthree"}]
    shown = Shown(*call("c", "edit", {"path": "a.py", "edits": edits}), look=TERMINAL)
    assert [line.strip() for line in replay(shown.raw)] == [
        "• edit   a.py (1 edit)  … done in 1.2 s",
        "one",
        "- two",
        "+ 2",
        "three",
        "",
    ]
    assert "\x1b[31m- two" in shown.raw
    assert "\x1b[32m+ 2" in shown.raw


@pytest.mark.clause("CLI-1")
def test_a_long_diff_is_counted_and_a_failed_edit_shows_none() -> None:
    content = "\n".join(map(str, range(100)))
    shown = Shown(*call("c", "write", {"path": "a", "content": content}))
    assert len(shown.lines) == 26
    assert shown.lines[-1].strip() == "… 76 more lines"
    failed = Shown(*call("c", "write", {"path": "a", "content": content}, cause="error", preview="disk full"))
    assert failed.lines == ["• write  a (100 lines)  … failed in 1.2 s", "    disk full"]


@pytest.mark.clause("CLI-1")
@pytest.mark.parametrize(
    ("cause", "word"), [("policy", "refused"), ("person", "denied"), ("fault", "blocked by a fault")]
)
def test_a_refused_call_says_who_refused_and_why(cause: str, word: str) -> None:
    shown = Shown(
        ToolRefused(
            call_id="c", tool="write", arguments={"path": "/etc/x"}, code="x", cause=cause, message="outside the root"
        )
    )
    assert shown.lines == [f"✗ write  /etc/x (0 lines)  … {word}", "    outside the root"]


@pytest.mark.clause("CLI-1", "SES-18", "QLT-4")
def test_an_approval_elsewhere_is_shown_whole_with_how_to_answer_it() -> None:
    def asked(rule: str | None) -> ApprovalRequested:
        command = "ls\t-la\n" + "x" * 200
        return ApprovalRequested(
            approval_id="a_1", call_id="c", tool="bash", arguments={"command": command}, scope="workspace",
            reason="mode:ask", rule=rule,
        )  # fmt: skip

    ask = asked("ls *")
    started = Started(run_id="r_1", workspace_root="/work/p")
    assert Shown(started, ask).lines == [
        "? bash wants to run (scope workspace)",
        "  command",
        "  │ ls\\t-la",
        "  │ " + "x" * 76,
        "  │ " + "x" * 76,
        "  │ " + "x" * 48,
        "  why mode:ask",
        "  always would save bash (workspace): ls * in /work/p",
        "  answer with drawbar runs approve r_1 a_1 once|session|always|deny",
    ]
    assert Shown(started, asked(None)).lines[-1] == "  answer with drawbar runs approve r_1 a_1 once|deny"
    answered = ApprovalResolved(approval_id="a_1", decision="once", by="socket:7")
    assert "• allowed (once) from another process" in Shown(ask, answered).lines
    assert Shown(ask, answered, asks_here=True).lines == ["• allowed (once) from another process"]
    here = ApprovalResolved(approval_id="a_1", decision="once", by="terminal")
    assert Shown(ask, here, asks_here=True).lines == []
    nobody = ApprovalResolved(approval_id="a_1", decision="deny", by="nobody")
    assert "! nobody was there to approve it" in Shown(ask, nobody).lines


@pytest.mark.clause("CLI-1", "SES-18")
@pytest.mark.parametrize("options", [{"answerable": False}, {"answered": {"a_1"}}])
def test_a_question_that_nobody_can_answer_comes_without_a_command(options: dict[str, Any]) -> None:
    ask = ApprovalRequested(
        approval_id="a_1", call_id="c", tool="bash", arguments={"command": "ls"}, scope="workspace", reason="mode:ask"
    )
    assert Shown(Started(run_id="r_1"), ask, **options).lines == ["? asked for approval: bash  ls"]


@pytest.mark.clause("CLI-1", "BND-6")
def test_sandbox_off_is_said_in_red() -> None:
    shown = Shown(Started(run_id="r", sandbox="off"), SandboxChanged(state="off", by="caller"), look=TERMINAL)
    assert shown.raw.count("sandbox off") == 1
    assert "\x1b[31;1m! sandbox off" in shown.raw


@pytest.mark.clause("CLI-1")
def test_what_a_person_should_know_is_said() -> None:
    shown = Shown(
        ExtensionNotice(message="two lines\nof notice"),
        RetryStarted(attempt=2, cause="overloaded", wait_ms=1500),
        TodoUpdated(items=[TodoItem(text="a", status="completed"), TodoItem(text="b", status="in_progress")]),
        CompactionEnded(ok=True),
        NetworkDecided(host="example.org", port=443, allowed=False),
        NetworkDecided(host="example.com", port=443, allowed=True),
    )
    assert shown.lines == [
        "! two lines",
        "of notice",
        "↻ trying again in 1.5 s (attempt 2): overloaded",
        "• todo  1 of 2 done: b",
        "• conversation summarised",
        "✗ network: example.org:443 refused",
    ]


@pytest.mark.clause("CON-8")
def test_what_this_release_does_not_know_is_passed_over() -> None:
    shown = Shown()
    shown.display.show(Event(seq=0, at=stamp(0), type="from.the.future", payload=Raw(b'{"a":1}')))
    shown.display.show(Event(seq=1, at=stamp(0), type="tool.started", payload=Raw(b'{"tool":5}')))
    assert shown.raw == ""


@pytest.mark.clause("CLI-5")
def test_a_spinner_is_on_terminals_alone_and_leaves_nothing() -> None:
    payloads = [
        Started(run_id="r"),
        MessageDelta(message_id="m", block=0, kind="reasoning", text="hm"),
        *text("m", "Hello."),
        *call("c", "bash", {"command": "sleep 9"}, exit_code=0),
        Heartbeat(running_tools=["bash"], oldest_tool_s=61.0),
        Completed(),
    ]
    assert not set("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏") & set(Shown(*payloads).raw)
    drawn = Shown(*payloads, look=TERMINAL, pace_s=0.5)
    assert set("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏") & set(drawn.raw)
    assert "bash running for 1 m 01 s" in drawn.text
    assert replay(drawn.raw) == ["Hello.", "• bash   sleep 9  … exit 0 in 1.2 s", ""]


@pytest.mark.clause("CLI-5")
def test_nothing_is_drawn_into_a_streamed_line() -> None:
    shown = Shown(MessageDelta(message_id="m", block=0, kind="text", text="half a line"), look=TERMINAL)
    shown.screen.status("thinking")
    before = shown.raw
    # display.finish() ended the line; a new one is open now
    shown.display.show(Event(seq=9, at=stamp(0), type="message.delta",
                             payload=Raw(b'{"message_id":"m","block":0,"kind":"text","text":"more"}')))  # fmt: skip
    shown.screen.status("thinking")
    shown.screen.tick()
    assert shown.raw == f"{before}more"


@pytest.mark.clause("CLI-5")
@pytest.mark.parametrize("columns", [20, 30, 40, 79])
def test_narrow_terminals_get_lines_that_fit(columns: int) -> None:
    look = Look(tty=True, colour=True, glyphs=PLAIN.glyphs, columns=columns)
    shown = Shown(
        *call("c", "bash", {"command": "x" * 500}, exit_code=0),
        *call("d", "edit", {"path": "p" * 90, "edits": [{"oldText": "o" * 300, "newText": "漢" * 300}]}),
        *call("e", "bash", {"command": "y"}, cause="error", exit_code=1, preview="z" * 400),
        look=look,
    )
    for line in shown.lines:
        assert len(line.replace("漢", "xx")) <= columns or "in 1.2 s" in line


@pytest.mark.clause("CLI-5")
def test_no_color_and_plain_encodings_send_plain_text() -> None:
    look = Look(tty=True, colour=False, glyphs=GLYPHS_ASCII, columns=80)
    payloads = [*call("c", "bash", {"command": "ls"}, exit_code=0), Failed(code="failed", error="x", reason="y")]
    shown = Shown(*payloads, look=look)
    assert "\x1b[3" not in shown.raw
    shown.raw.encode("ascii")


@settings(max_examples=60)
@given(st.lists(st.sampled_from("ab\n\rç漢\x1b"), max_size=40), st.lists(st.integers(1, 5), max_size=20))
def test_how_a_reply_is_cut_into_deltas_does_not_matter(chars: list[str], cuts: list[int]) -> None:
    reply = "".join(chars)
    pieces: list[str] = []
    rest = reply
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    whole = Shown(*text("m", reply)).text
    parted = Shown(*text("m", *[p for p in [*pieces, rest] if p])).text
    # A lone return at the very end waits for a line end that never comes.
    assert parted.rstrip("\n") in (whole.rstrip("\n"), whole.rstrip("\n").removesuffix("\\r"))


@pytest.mark.clause("CLI-1")
def test_live_output_and_usage_make_no_lines() -> None:
    usage = UsageUpdated(totals=Usage(input_tokens=1), requests=1, request=RequestUsage(request=1))
    assert Shown(ToolDelta(call_id="c", stream="stdout", text="noise\n"), usage).lines == []


@pytest.mark.clause("CLI-1", "QLT-12")
def test_a_call_that_was_stopped_before_it_began_has_its_name() -> None:
    never = ToolCompleted(call_id="c", cause="aborted", preview="[write was not run: the run was stopped before it]")
    assert Shown(never).lines[0] == "• write  … aborted"
    ask = ApprovalRequested(
        approval_id="a", call_id="c", tool="bash", arguments={"command": "ls"}, scope="workspace", reason="asks"
    )
    assert Shown(ask, never, asks_here=True).lines[0] == "• bash   ls  … aborted"


@pytest.mark.clause("BND-16")
def test_without_sandbox_a_question_points_to_the_runs_own_terminal() -> None:
    ask = ApprovalRequested(
        approval_id="a", call_id="c", tool="bash", arguments={"command": "ls"}, scope="workspace", reason="asks"
    )
    lines = Shown(Started(run_id="r", sandbox="off"), ask).lines
    assert lines[-1] == "  answer it in the terminal of the run: without sandbox no other is heard"
    assert "drawbar runs approve" not in "".join(lines)
