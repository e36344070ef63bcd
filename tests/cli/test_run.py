"""``drawbar run`` as a person and a program meet it: real client, gate, sandbox and record (CLI-1)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.cli.conftest import DRAWBAR, Place
from tests.cli.terminal import terminal

from drawbar.testing.scenario import Block, Fault, Pace, Scenario, Turn, reply, say, use


def wait_for(path_text: object, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not path_text():  # type: ignore[operator]
        assert time.monotonic() < deadline, "never happened"
        time.sleep(0.02)


def running(command: str) -> bool:
    """Whether a process of exactly that command line lives."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().replace(b"\0", b" ").strip() == command.encode():
                return True
    return False


@pytest.mark.clause("CLI-1")
def test_a_run_shows_reply_calls_and_account(place: Place) -> None:
    place.play([use("bash", {"command": "cat a.txt"}), say("There is one line.")])
    done = place.drawbar("run", "what is in a.txt?", "--approval", "auto-workspace")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("• bash   cat a.txt  … exit 0 in ")
    assert lines[1:3] == ["There is one line.", ""]
    assert lines[3].startswith("✓ completed in ")
    assert [line.split()[0] for line in lines[4:]] == ["files", "checks", "tokens", "cost", "run"]
    assert lines[-1].split()[1] == place.logs[0].parent.name
    assert b"\x1b" not in done.stdout


@pytest.mark.clause("CLI-1")
def test_with_json_the_events_are_printed_exactly_as_persisted(place: Place) -> None:
    place.play([use("read", {"path": "a.txt"}), say("Done.")])
    done = place.drawbar("run", "read a.txt", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout == place.logs[0].read_bytes()


@pytest.mark.clause("CLI-1")
def test_quiet_prints_the_last_reply_alone(place: Place) -> None:
    place.play([reply(Block(text="First I look."), Block(tool="ls", arguments={})), say("One file.")])
    done = place.drawbar("run", "how many files?", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"One file.\n", b"")


@pytest.mark.clause("CLI-1")
def test_the_request_may_come_from_standard_input_and_be_large(place: Place) -> None:
    text = "Zeile mit Umlauten: äöü 漢字\n" * 60_000
    assert len(text.encode()) > 2_000_000
    model = place.play([say("Read.")])
    done = place.drawbar("run", "--quiet", stdin=text.encode())
    assert done.returncode == 0, done.stderr
    sent = model.requests[0].parsed
    assert sent is not None
    assert text in [block["text"] for block in sent["messages"][0]["content"]]


@pytest.mark.clause("CLI-1", "RUN-4")
def test_without_an_account_nothing_is_left_and_the_message_helps(place: Place) -> None:
    done = place.drawbar("run", "work")
    assert done.returncode == 2
    assert b"ANTHROPIC_API_KEY" in done.stderr
    assert b"drawbar demo" in done.stderr
    assert place.logs == []


@pytest.mark.clause("CLI-1")
def test_a_failed_run_is_exit_1_and_says_why(place: Place) -> None:
    place.play([Turn(fault=Fault(kind="status", status=401, message="bad key"))])
    done = place.drawbar("run", "work")
    assert done.returncode == 1
    text = done.stdout.decode()
    assert "✗ failed (provider_error)" in text
    assert "bad key" in text
    quiet = place.drawbar("run", "work", "--quiet")
    assert (quiet.returncode, quiet.stdout) == (1, b"")
    assert b"provider_error" in quiet.stderr


@pytest.mark.clause("RUN-35", "CLI-1")
def test_an_ask_that_nobody_takes_is_refused_and_the_run_exits_3(place: Place) -> None:
    place.play([use("bash", {"command": "touch made"}), say("I was refused.")])
    done = place.drawbar("run", "make a file")
    assert done.returncode == 3
    text = done.stdout.decode()
    assert "asked for approval: bash" in text
    assert "drawbar runs approve" not in text, "a command that would answer nothing"
    assert "asks found nobody: run it in a terminal, with --ask-timeout SECONDS" in text
    assert "it went on without 1 approval that nobody was there to give" in text
    assert not (place.repo / "made").exists()


@pytest.mark.clause("CLI-1", "SES-18")
@pytest.mark.parametrize(("typed", "made", "code"), [("y", True, 0), ("n not now", False, 0), ("", False, 0)])
def test_an_approval_is_asked_at_the_terminal(place: Place, typed: str, made: bool, code: int) -> None:
    model = place.play([use("bash", {"command": "touch made"}), say("So be it.")])
    with place.at_terminal("run", "make a file") as at:
        at.expect("default: deny > ")
        assert "bash wants to run (scope workspace)" in at.text
        assert "│ touch made" in at.text
        assert not (place.repo / "made").exists(), "it ran before the answer"
        at.type(typed)
        assert at.wait() == code, at.text
        assert "So be it." in at.text
    assert (place.repo / "made").exists() is made
    if "not now" in typed:
        assert "not now" in model.requests[1].body.decode()


@pytest.mark.clause("QLT-4", "SES-18")
def test_always_saves_the_rule_that_was_shown_and_asks_no_more(place: Place) -> None:
    place.play([use("bash", {"command": "git log --oneline"}), say("Done.")])
    with place.at_terminal("run", "look", "--approval", "ask") as at:
        at.expect("default: deny > ")
        assert "always would save bash (workspace): git log *" in at.text
        at.type("a")
        assert at.wait() == 0, at.text
    place.play([use("bash", {"command": "git log --stat"}), say("Done.")])
    assert place.drawbar("run", "look again").returncode == 0
    place.play([use("bash", {"command": "git log --stat; touch made"}), say("Done.")])
    assert place.drawbar("run", "look again").returncode == 3
    assert not (place.repo / "made").exists()


@pytest.mark.clause("CLI-1")
def test_a_piped_request_is_asked_about_at_the_terminal_behind_it(place: Place) -> None:
    place.play([use("bash", {"command": "touch made"}), say("Done.")])
    shell = ["bash", "-c", f"echo 'make a file' | {' '.join(DRAWBAR)} run"]
    with terminal(shell, cwd=place.repo, env=place.env) as at:
        at.expect("default: deny > ")
        at.type("y")
        assert at.wait() == 0, at.text
    assert (place.repo / "made").exists()


@pytest.mark.clause("CLI-1")
def test_unattended_is_never_asked(place: Place) -> None:
    place.play([use("read", {"path": "/etc/hostname"}), say("No.")])
    with place.at_terminal("run", "read it", "--unattended") as at:
        assert at.wait() == 0, at.text
        assert "wants to run" not in at.text
        assert "refused" in at.text


@pytest.mark.clause("CLI-1", "RUN-10")
def test_ctrl_c_interrupts_once_cleanly(place: Place) -> None:
    place.play([use("bash", {"command": f"sleep 60.0{os.getpid()}; true"}), say("never")])
    with place.at_terminal("run", "wait", "--approval", "auto-workspace") as at:
        wait_for(lambda: running(f"sleep 60.0{os.getpid()}"))
        began = time.monotonic()
        at.press(signal.SIGINT)
        assert at.wait() == 130, at.text
        assert time.monotonic() - began < 5
        assert "stopping; once more ends it by force" in at.text
        assert "interrupted (user_abort)" in at.text
    record = json.loads((place.logs[0].parent / "run.json").read_text())
    assert (record["status"], record["terminal_code"]) == ("interrupted", "user_abort")
    assert place.drawbar("runs", "verify", place.logs[0].parent.name).returncode == 0
    assert not running(f"sleep 60.0{os.getpid()}")


@pytest.mark.clause("CLI-1")
def test_ctrl_c_while_a_question_is_open(place: Place) -> None:
    place.play([use("bash", {"command": "touch made"}), say("never")])
    with place.at_terminal("run", "make a file") as at:
        at.expect("default: deny > ")
        at.press(signal.SIGINT)
        assert at.wait() == 130, at.text
    assert not (place.repo / "made").exists()


@pytest.mark.clause("CLI-1", "RUN-13")
def test_a_second_ctrl_c_forces_and_the_next_command_settles_the_run(place: Place) -> None:
    # The command ignores the polite signal, so that stopping in good order takes its time.
    place.play([use("bash", {"command": "trap '' TERM INT; touch began; sleep 60"}), say("never")])
    with place.at_terminal("run", "wait", "--approval", "auto-workspace") as at:
        wait_for((place.repo / "began").exists)
        at.press(signal.SIGINT)
        at.expect("once more ends it by force")
        at.press(signal.SIGINT)
        assert at.wait(5) == 130, at.text
        assert "ended by force" in at.text
    (run,) = json.loads(place.drawbar("runs", "list", "--json").stdout)["runs"]
    assert (run["status"], run["terminal_code"]) == ("interrupted", "owner_gone")


@pytest.mark.clause("CLI-1", "RUN-13")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_told_to_end_closes_the_run(place: Place, number: signal.Signals) -> None:
    place.play([use("bash", {"command": "touch began; sleep 60"}), say("never")])
    process = place.begin("run", "wait", "--unattended")
    wait_for((place.repo / "began").exists)
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == 128 + number
    record = json.loads((place.logs[0].parent / "run.json").read_text())
    assert (record["status"], record["terminal_code"]) == ("interrupted", "terminal_closed")


@pytest.mark.clause("CLI-1")
def test_a_closed_terminal_window_closes_the_run(place: Place) -> None:
    place.play([use("bash", {"command": "touch began; sleep 60"}), say("never")])
    with place.at_terminal("run", "wait", "--approval", "auto-workspace") as at:
        wait_for((place.repo / "began").exists)
        at.hang_up()
        at.process.wait(20)
    record = json.loads((place.logs[0].parent / "run.json").read_text())
    assert record["status"] == "interrupted"


@pytest.mark.clause("CLI-1", "SES-1")
def test_a_conversation_goes_on_by_any_beginning_of_its_id(place: Place) -> None:
    place.play([say("My name is Ann.")])
    assert place.drawbar("run", "what is your name?").returncode == 0
    (session,) = [path.name for path in (place.home / "sessions").iterdir()]
    model = place.play([say("Ann, as I said.")])
    done = place.drawbar("run", "say it again", "--session", session[:12], "--quiet")
    assert (done.returncode, done.stdout) == (0, b"Ann, as I said.\n")
    sent = model.requests[0].body.decode()
    assert "My name is Ann." in sent
    assert [path.name for path in (place.home / "sessions").iterdir()] == [session]
    missing = place.drawbar("run", "x", "--session", "s_nothing")
    assert missing.returncode == 2
    assert b"no session begins with 's_nothing'" in missing.stderr


@pytest.mark.clause("CLI-1", "BND-6")
def test_the_sandbox_switched_off_is_said_in_red_and_recorded(place: Place) -> None:
    place.play([say("Careful.")])
    with place.at_terminal("run", "look", "--sandbox", "off") as at:
        assert at.wait() == 0, at.text
        assert b"\x1b[31;1m! sandbox off" in at.raw
    assert b'"sandbox.changed"' in place.logs[0].read_bytes()
    assert json.loads((place.logs[0].parent / "run.json").read_text())["sandbox"] == "off"


@pytest.mark.clause("CLI-5")
def test_no_color_a_narrow_terminal_and_an_old_locale(place: Place) -> None:
    place.play([use("bash", {"command": "echo " + "x" * 300}), say("Fertig: ä 漢")])
    place.env |= {"NO_COLOR": "1", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with place.at_terminal("run", "go", "--approval", "auto-workspace", columns=40) as at:
        assert at.wait() == 0, at.text
    assert b"\x1b[3" not in at.raw
    assert "* bash   ec...  ... exit 0 in" in at.text
    assert "Fertig: \\xe4 \\u6f22" in at.text


@pytest.mark.clause("CLI-1", "CON-12")
def test_a_reader_that_stops_reading_does_not_hold_up_the_run(place: Place) -> None:
    long = "word " * 40_000
    place.play([say(long), say("never")])
    process = place.begin("run", "talk", "--json")
    wait_for(lambda: place.logs and b'"type":"completed"' in place.logs[0].read_bytes())
    out, _ = process.communicate(timeout=20)
    assert out == place.logs[0].read_bytes()
    assert process.returncode == 0


@pytest.mark.clause("CLI-1")
def test_a_reader_that_leaves_ends_the_run(place: Place) -> None:
    place.play(Scenario(turns=[say("word " * 2000)], pace=Pace(each_ms=20)))
    process = place.begin("run", "talk")
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(20) == 1
    record = json.loads((place.logs[0].parent / "run.json").read_text())
    assert (record["status"], record["terminal_code"]) == ("interrupted", "terminal_closed")


@pytest.mark.clause("CLI-1", "RUN-9", "RUN-35")
def test_an_approval_is_answered_from_elsewhere(place: Place) -> None:
    place.play([use("bash", {"command": "touch made"}), say("Done.")])
    process = place.begin("run", "make a file", "--ask-timeout", "30")
    wait_for(lambda: place.logs and b'"approval.requested"' in place.logs[0].read_bytes())
    run = place.logs[0].parent.name
    answered = place.drawbar("runs", "approve", run[:10], "once", "--json")
    assert answered.returncode == 0, answered.stderr
    assert json.loads(answered.stdout)["decision"] == "once"
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "allowed (once) from another process" in out.decode()
    assert (place.repo / "made").exists()
    late = place.drawbar("runs", "approve", run, "once", "--json")
    assert late.returncode == 1
    assert json.loads(late.stderr)["error"]["code"] == "run_not_active"


@pytest.mark.clause("RUN-9", "RUN-10", "API-2")
def test_a_run_is_followed_and_stopped_from_elsewhere(place: Place) -> None:
    place.play([use("bash", {"command": "touch began; sleep 60"}), say("never")])
    process = place.begin("run", "wait", "--unattended", stdout=subprocess.DEVNULL)
    wait_for((place.repo / "began").exists)
    run = place.logs[0].parent.name
    follower = place.begin("runs", "follow", run, "--json")
    stopped = place.drawbar("runs", "interrupt", run)
    assert stopped.returncode == 0, stopped.stderr
    assert stopped.stdout.decode().split() == [run, "interrupted"]
    assert process.wait(20) == 130
    out, err = follower.communicate(timeout=20)
    assert (follower.returncode, out) == (0, place.logs[0].read_bytes()), err
    assert place.drawbar("runs", "interrupt", run).returncode == 1


@pytest.mark.clause("RUN-13")
def test_a_run_whose_process_was_killed_is_settled_by_the_next_command(place: Place) -> None:
    place.play([use("bash", {"command": "touch began; sleep 60"}), say("never")])
    process = place.begin("run", "wait", "--unattended")
    wait_for((place.repo / "began").exists)
    process.kill()
    process.communicate()
    done = place.drawbar("runs", "list")
    assert f"settled {place.logs[0].parent.name}" in done.stderr.decode()
    assert "interrupted (owner_gone)" in done.stdout.decode()


@pytest.mark.clause("CLI-3")
def test_the_demo_does_real_work_and_is_recorded(place: Place, tmp_path: Path) -> None:
    place.env |= {"TMPDIR": str(tmp_path)}
    done = place.drawbar("demo")
    text = done.stdout.decode()
    assert done.returncode == 0, text + done.stderr.decode()
    assert "the model is scripted" in text
    assert "+ return round(full * (100 - discount_percent) / 100)" in text
    assert "checks python3 -B -m unittest -q passed" in text
    listed = place.drawbar("runs", "list").stdout.decode()
    assert "Demo with a scripted model" in listed
    assert place.drawbar("runs", "verify", place.logs[0].parent.name).returncode == 0
    assert re.search(r"^/\S+/drawbar-demo-\S+ stays until you remove it\.$", text, re.MULTILINE)
    shown = re.findall(r"^  (\S*drawbar)( runs .*)$", text, re.MULTILINE)
    assert len(shown) == 4
    for program, words in shown:
        # By name, or where it isn't on the path, by its own: what is shown can be typed.
        typed = subprocess.run(f"{program}{words}", shell=True, cwd=place.repo, env=place.env, capture_output=True)
        assert typed.returncode == 0, typed.stderr


@pytest.mark.slow
@pytest.mark.clause("QLT-6", "CLI-1")
@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can only be mounted as root")
def test_a_disk_that_fills_up_is_no_success(place: Place) -> None:
    place.home.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place.home], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        place.play(Scenario(turns=[use("bash", {"command": "seq 2000"})], at_end="repeat"))
        done = place.drawbar("run", "count", "--unattended")
        text = done.stdout.decode()
        assert done.returncode == 1, text
        # Whether the last line still fits is the disk's affair; what happened is said either way.
        assert "no end recorded" in text or "failed (storage_failed)" in text
        assert "No space left" in text
    finally:
        subprocess.run(["umount", "-l", place.home], check=True)


@pytest.mark.clause("CON-34")
def test_what_runs_is_what_is_recorded_in_any_locale(place: Place) -> None:
    place.env |= {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    place.play(
        [use("bash", {"command": "printf ü > mäh.txt"}), use("write", {"path": "é.txt", "content": "ö"}), say("Ä.")]
    )
    done = place.drawbar("run", "mach ä", "--approval", "auto-workspace")
    assert done.returncode == 0, done.stdout
    assert (place.repo / "mäh.txt").read_bytes() == "ü".encode()
    assert (place.repo / "é.txt").read_bytes() == "ö".encode()
    log = place.logs[0].read_bytes()
    assert "printf ü > mäh.txt".encode() in log
    assert b"\\udc" not in log
    assert done.stdout.isascii(), "the terminal is written to in its own encoding"
    assert "mach ä" in json.loads(place.drawbar("runs", "list", "--json").stdout)["runs"][0]["request_preview"]


@pytest.mark.clause("CLI-1")
def test_a_relative_root_is_said_once(place: Place) -> None:
    place.env["DRAWBAR_HOME"] = "../records"
    for said in (True, False):
        place.play([say("Done.")])
        done = place.drawbar("run", "go")
        assert done.returncode == 0, done.stderr
        assert (b"DRAWBAR_HOME is relative" in done.stderr) is said


@pytest.mark.clause("CLI-3", "QLT-1")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take away the loopback or the sandbox")
@pytest.mark.parametrize(
    ("without", "cause", "cure"),
    [
        (["unshare", "-n"], "127.0.0.1 can't be reached", "ip link set lo up"),
        (["unshare", "-m", "sh", "-c", 'mount --bind /bin/false /usr/bin/bwrap && exec "$@"', "-"], "✗ sandbox", ""),
    ],
)
def test_the_demo_says_what_it_lacks_and_starts_nothing(
    place: Place, tmp_path: Path, without: list[str], cause: str, cure: str
) -> None:
    if subprocess.run([*without[:2], "true"], capture_output=True).returncode:
        pytest.skip("no namespaces can be made here")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = {**place.env, "TMPDIR": str(scratch)}
    done = subprocess.run([*without, *DRAWBAR, "demo"], cwd=place.repo, env=env, capture_output=True, timeout=60)
    text = done.stdout.decode()
    assert done.returncode == 1, text
    assert cause in text
    assert cure in text
    assert list(scratch.iterdir()) == []
    assert place.logs == []
