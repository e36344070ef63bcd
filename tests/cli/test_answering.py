"""Answering from elsewhere: the whole question is seen before a yes, and what *always* saved afterwards (SES-18)."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import DRAWBAR, Place
from tests.cli.kit import call, events
from tests.cli.terminal import terminal

from drawbar.contracts.events.human import ApprovalRequested, ApprovalResolved
from drawbar.contracts.events.lifecycle import Completed, Started, StatusChanged
from drawbar.surfaces.cli.pending import read_asks
from drawbar.testing.scenario import Block, Scenario, reply, say, use

COMMAND = "git log --grep='a\u00a0b'"
RULE = "always would save bash (workspace): git log *"


@pytest.fixture
def waiting(place: Place) -> Iterator[subprocess.Popen[bytes]]:
    """A run that waits for an approval, without a terminal."""
    place.env["COLUMNS"] = "400"
    place.play(Scenario(turns=[use("bash", {"command": COMMAND}), say("Done.")]))
    process = place.begin("run", "look", "--ask-timeout", "60")
    deadline = time.monotonic() + 20
    while not (place.logs and b'"to":"waiting_for_approval"' in place.logs[0].read_bytes()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield process
    process.kill()
    process.communicate()


def whole(text: str, place: Place) -> bool:
    """Whether every part of the question stands there."""
    parts = (
        "bash wants to run (scope workspace)",
        "│ git log --grep='a\\xa0b'",
        "why approval mode `ask` asks before this",
        f"{RULE} in {place.repo}",
    )
    assert "\x1b" not in text
    return all(part in text for part in parts)


@pytest.mark.clause("SES-18", "QLT-4")
@pytest.mark.parametrize(
    "argv", [["runs", "show", "RUN"], ["runs", "list", "--status", "waiting_for_approval"], ["runs", "approve", "RUN"]]
)
def test_whoever_looks_from_elsewhere_sees_the_whole_question(
    place: Place, waiting: subprocess.Popen[bytes], argv: list[str]
) -> None:
    run = place.logs[0].parent.name
    done = place.drawbar(*[run if word == "RUN" else word for word in argv])
    text = done.stdout.decode()
    assert whole(text, place), text
    assert f"drawbar runs approve {run} a_" in text
    assert waiting.poll() is None, "looking answers nothing"
    if argv[1] == "approve":
        assert done.returncode == 2
        assert f"say what you decide: drawbar runs approve {run} a_" in done.stderr.decode()
    else:
        assert done.returncode == 0


@pytest.mark.clause("SES-18", "QLT-4")
def test_following_shows_it_while_it_waits_and_no_dead_command_afterwards(
    place: Place, waiting: subprocess.Popen[bytes]
) -> None:
    run = place.logs[0].parent.name
    follower = place.begin("runs", "follow", run)
    assert place.drawbar("runs", "list").stderr.decode().startswith("waiting: drawbar runs list --status")
    time.sleep(1)
    answered = place.drawbar("runs", "approve", run, "once")
    assert answered.returncode == 0, answered.stderr
    assert whole(answered.stdout.decode(), place), "what is answered is shown"
    out = waiting.communicate(timeout=30)[0].decode()
    followed = follower.communicate(timeout=30)[0].decode()
    for text in (out, followed):
        assert whole(text, place), text
        assert "• allowed (once) from another process" in text
    settled = place.drawbar("runs", "follow", run).stdout.decode()
    assert "asked for approval: bash" in settled
    assert "drawbar runs approve" not in settled
    late = place.drawbar("runs", "approve", run)
    assert late.returncode == 1
    assert b"has settled" in late.stderr


@pytest.mark.clause("QLT-4", "BND-6")
def test_always_from_elsewhere_names_the_rule_it_saved_and_it_can_be_taken_back(
    place: Place, waiting: subprocess.Popen[bytes]
) -> None:
    run = place.logs[0].parent.name
    text = place.drawbar("runs", "approve", run, "always").stdout.decode()
    saved = re.search(r"saved (\S+): (bash \(workspace\): git log \* in \S+)\n", text)
    assert saved is not None, text
    assert f"take it back with: drawbar approvals revoke {saved[1]}" in text
    assert waiting.wait(20) == 0
    assert place.drawbar("approvals", "list").stdout.decode() == f"{saved[1]}  {saved[2]}\n"
    (rule,) = json.loads(place.drawbar("approvals", "list", "--json").stdout)["approvals"]
    assert (rule["id"], rule["pattern"], rule["root"]) == (saved[1], "git log *", str(place.repo))
    gone = place.drawbar("approvals", "revoke", saved[1][:12])
    assert gone.stdout.decode() == f"revoked {saved[1]}: {saved[2]}\n"
    assert place.drawbar("approvals", "list").stderr == b"no rule is saved\n"
    assert place.drawbar("approvals", "revoke", saved[1]).returncode == 2
    place.play([use("bash", {"command": "git log"}), say("Done.")])
    assert place.drawbar("run", "look again").returncode == 3, "a rule that was taken back allows nothing"


@pytest.mark.clause("QLT-4")
def test_a_session_from_elsewhere_says_what_is_remembered(place: Place, waiting: subprocess.Popen[bytes]) -> None:
    text = place.drawbar("runs", "approve", place.logs[0].parent.name, "session").stdout.decode()
    assert "until the run ends: bash (workspace): git log * in " in text
    assert waiting.wait(20) == 0
    assert place.drawbar("approvals", "list").stdout == b""


@pytest.mark.clause("QLT-4")
def test_what_no_rule_covers_cannot_be_remembered_from_elsewhere(place: Place) -> None:
    place.play([use("bash", {"command": "eval ls"}), say("Done.")])
    process = place.begin("run", "look", "--ask-timeout", "60")
    deadline = time.monotonic() + 20
    while not (place.logs and b'"to":"waiting_for_approval"' in place.logs[0].read_bytes()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    run = place.logs[0].parent.name
    refused = place.drawbar("runs", "approve", run, "always")
    assert refused.returncode == 2
    assert "once|deny" in refused.stderr.decode()
    assert place.drawbar("runs", "approve", run, "deny").returncode == 0
    process.communicate(timeout=20)


def asked(name: str) -> ApprovalRequested:
    return ApprovalRequested(
        approval_id=name, call_id=name, tool="bash", arguments={"command": "ls"}, scope="workspace", reason="asks"
    )


def test_what_waits_is_what_nobody_answered_in_a_run_that_goes_on() -> None:
    answered = ApprovalResolved(approval_id="a_1", decision="once", by="terminal")
    begun = [Started(run_id="r"), asked("a_1"), *call("c", "ls", {}), answered, asked("a_2"), asked("a_3")]
    asks = read_asks(events(*begun))
    assert (list(asks.waiting), asks.answered, asks.settled) == (["a_2", "a_3"], {"a_1"}, False)
    for end in (Completed(), StatusChanged(from_="waiting_for_approval", to="interrupted")):
        assert (read_asks(events(*begun, end)).waiting, read_asks(events(*begun, end)).settled) == ({}, True)


@pytest.mark.clause("CLI-1")
def test_an_answer_given_elsewhere_is_said_at_the_runs_own_terminal(place: Place) -> None:
    place.play([use("bash", {"command": "touch made"}), say("Done.")])
    with place.at_terminal("run", "make a file") as at:
        at.expect("default: deny > ")
        assert place.drawbar("runs", "approve", place.logs[0].parent.name, "once").returncode == 0
        assert at.wait() == 0, at.text
        assert "• allowed (once) from another process" in at.text


@pytest.mark.clause("CLI-1", "CLI-5")
def test_a_dumb_terminal_is_a_persons_and_asks_plainly(place: Place) -> None:
    place.play([use("bash", {"command": "touch made"}), say("Done.")])
    place.env["TERM"] = "dumb"
    with place.at_terminal("run", "make a file") as at:
        at.expect("default: deny > ")
        at.type("y")
        assert at.wait() == 0, at.text
        assert b"\x1b" not in at.raw
        assert not set("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏") & set(at.text)
    assert (place.repo / "made").exists()


@pytest.mark.clause("CLI-1", "SES-18")
def test_what_was_said_is_out_before_a_question_beside_a_pipe(place: Place, tmp_path: Path) -> None:
    """Standard output is a file, the question stands on the terminal: what led to it is in the file by then."""
    place.play(
        [reply(Block(text="I need a file."), Block(tool="bash", arguments={"command": "touch made"})), say("So.")]
    )
    out = tmp_path / "out"
    shell = ["bash", "-c", f"{' '.join(DRAWBAR)} run 'make a file' >{out}"]
    with terminal(shell, cwd=place.repo, env=place.env) as at:
        at.expect("default: deny > ")
        assert "I need a file." in out.read_text()
        at.type("y")
        assert at.wait() == 0, at.text


@pytest.mark.clause("CLI-1")
def test_quiet_says_that_nobody_was_there(place: Place) -> None:
    place.play([use("bash", {"command": "touch made"}), say("I was refused.")])
    done = place.drawbar("run", "make a file", "--quiet")
    assert (done.returncode, done.stdout) == (3, b"I was refused.\n")
    assert b"asks found nobody" in done.stderr


@pytest.mark.clause("CLI-1")
@pytest.mark.parametrize(("words", "told"), [("use tox", "use tox. Don't"), ("use tox!", "use tox! Don't")])
def test_a_persons_words_end_before_the_harness_goes_on(place: Place, words: str, told: str) -> None:
    model = place.play([use("bash", {"command": "touch made"}), say("Done.")])
    with place.at_terminal("run", "make a file") as at:
        at.expect("default: deny > ")
        at.type(f"n {words}")
        assert at.wait() == 0, at.text
    assert told in model.requests[1].body.decode()
