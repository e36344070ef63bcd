"""``drawbar sandbox``: the very sandbox of a run, its streams, signals and exit codes, typed by hand (CLI-6)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.cli.terminal import Terminal, terminal
from tests.conftest import MakeRepo

from drawbar.runs.peers import MARKER

CHECKOUT = Path(__file__).parents[2]
NOBODY = 65534
RUN = ["-m", "drawbar.surfaces.cli.main"]


@dataclass
class Typist:
    """Somebody who types ``drawbar sandbox`` in a folder of theirs."""

    argv: list[str]
    repo: Path
    home: Path
    env: dict[str, str]
    begun: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(
        self, *argv: str, stdin: bytes = b"", cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self.argv, "sandbox", *argv], cwd=cwd or self.repo, env=self.env | env, input=stdin, capture_output=True,
            timeout=60, check=False, start_new_session=True,
        )  # fmt: skip

    def begin(self, *argv: str, **options: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen(
            [*self.argv, "sandbox", *argv], cwd=self.repo, env=self.env, start_new_session=True, **pipes
        )
        self.begun.append(process)
        return process

    def at_terminal(self, *argv: str, **env: str) -> contextlib.AbstractContextManager[Terminal]:
        return terminal([*self.argv, "sandbox", *argv], cwd=self.repo, env=self.env | env)

    def bash(self, script: str, *options: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        return self.run(*options, "--", "bash", "-c", script, **more)


def as_nobody() -> list[str]:
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]
    return [*become, "sh", "-c", 'exec "$@"', "sh"]


@pytest.fixture(params=["me", "nobody"])
def typist(request: pytest.FixtureRequest, git_repo: MakeRepo) -> Iterator[Typist]:
    """Whoever runs the tests, and an ordinary user where root can become one."""
    with tempfile.TemporaryDirectory(prefix="drawbar-typist-") as folder:
        base = Path(folder)
        repo = base / "a folder\nof two lines"
        shutil.move(git_repo({"a.txt": "one\n", "sub/b.txt": "two\n", "secret.key": "hush\n"}), repo)
        home = base / "person"
        home.mkdir()
        python = [sys.executable]
        env = {
            **os.environ,
            "HOME": str(home),
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "DRAWBAR_HOME": str(base / "root"),
        }
        if request.param == "nobody":
            env |= {"PYTHONPATH": f"{CHECKOUT / 'src'}:{next(p for p in sys.path if p.endswith('site-packages'))}"}
            python = [*as_nobody(), _interpreter(env)]
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", folder], check=True)
        found = Typist([*python, *RUN], repo, home, env)
        yield found
        for process in found.begun:
            if process.poll() is None:
                process.kill()
            process.communicate()


def _interpreter(env: dict[str, str]) -> str:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user, with setpriv")
    for candidate in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        probe = [*as_nobody(), candidate, "-c", "import drawbar.surfaces.cli.main, msgspec, click"]
        if subprocess.run(probe, env=env, capture_output=True, check=False).returncode == 0:
            return candidate
    pytest.skip("no interpreter here can be used by another user")


def until(wanted: Callable[[], bool], what: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not wanted():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def alive(word: str) -> bool:
    """Whether a process with this word in its command line lives."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if word.encode() in Path(entry.path, "cmdline").read_bytes():
                    return True
    return False


# -- the streams and the exit code ------------------------------------------------------------------------


@pytest.mark.clause("CLI-6", "BND-10")
def test_bytes_pass_as_they_are_both_ways(typist: Typist) -> None:
    data = bytes(range(256)) * 8192
    done = typist.run("--", "cat", stdin=data)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")
    done = typist.bash("printf 'o\\377\\r\\n'; printf 'e\\376' >&2")
    assert (done.stdout, done.stderr) == (b"o\xff\r\n", b"e\xfe")


@pytest.mark.clause("CLI-6")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["sh", "-c", "kill -TERM $$"], 143),
        (["no-such-program"], 127),
        (["./a.txt"], 126),
        (["printf", "%s|", "a b", "*", "$HOME", "--", "--json", "-h"], 0),
    ],
)
def test_the_exit_code_is_the_commands_own(typist: Typist, command: list[str], code: int) -> None:
    done = typist.run("--", *command, PATH="/usr/bin:/bin")
    assert done.returncode == code, done
    assert bool(done.stderr) is (code in (126, 127))
    if command[0] == "printf":
        assert done.stdout == b"a b|*|$HOME|--|--json|-h|"


@pytest.mark.clause("CLI-6", "BND-1")
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "--"),
        (["--"], "--"),
        (["ls"], "drawbar sandbox -- make test"),
        (["ls", "--", "-l"], "--"),
        (["--scope", "everything", "--", "ls"], "everything"),
        (["--root", "/", "--", "ls"], "root of the file system"),
        (["--root", "nowhere", "--", "ls"], "nowhere"),
        (["--root", "a.txt", "--", "ls"], "no folder"),
        (["--net", "--", "ls"], "--net"),
        (["--net", "http://x", "--", "ls"], "--net"),
        (["--scope", "read-only", "--net", "example.com", "--", "ls"], "--net"),
        (["--scope", "outside", "--net", "example.com", "--", "ls"], "--net"),
        (["--session", "../x", "--", "ls"], "../x"),
        (["--session", "", "--", "ls"], "''"),
    ],
)
def test_bad_usage_and_a_folder_that_cannot_be_a_root_are_2(typist: Typist, argv: list[str], said: str) -> None:
    done = typist.run(*argv)
    assert (done.returncode, done.stdout) == (2, b""), done
    assert said in done.stderr.decode()
    assert not (typist.home.parent / "root").exists()


@pytest.mark.clause("CLI-6", "QLT-1")
def test_a_sandbox_that_cannot_work_is_125_with_cause_and_cure(git_repo: MakeRepo) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can hide bubblewrap")
    repo = git_repo()
    hide = 'mount --bind /dev/null "$(readlink -f /usr/bin/bwrap)" && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", hide, "sh", sys.executable, *RUN, "sandbox", "--", "touch", "ran"],
        cwd=repo, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 125, done
    assert b"can't work here" in done.stderr
    assert not (repo / "ran").exists()


@pytest.mark.clause("CLI-6")
def test_much_output_waits_for_its_reader(typist: Typist) -> None:
    process = typist.begin("--", "sh", "-c", "head -c 50000000 /dev/zero; touch written")
    time.sleep(1)
    assert not (typist.repo / "written").exists(), "50 MB went somewhere although nobody read them"
    out, err = process.communicate(timeout=60)
    assert (len(out), err, process.returncode) == (50_000_000, b"", 0)


@pytest.mark.clause("CLI-6")
@pytest.mark.parametrize("scope", ["workspace", "outside"])
def test_the_command_inherits_no_ignored_signal(typist: Typist, scope: str) -> None:
    done = typist.run("--scope", scope, "--", "grep", "SigIgn", "/proc/self/status", stdin=b"x")
    # Of the signals that have a name; the C library keeps those from 32 on for itself.
    assert int(done.stdout.split()[1], 16) & 0x7FFFFFFF == 0
    done = typist.bash("yes | head -n 1; echo ${PIPESTATUS[0]}", "--scope", scope, stdin=b"x")
    assert done.stdout == b"y\n141\n"


@pytest.mark.clause("CLI-6")
@pytest.mark.parametrize("trap", ["exit 5", "echo caught; exit 5", ""])
def test_an_interrupt_is_the_commands_to_answer_also_at_a_terminal(typist: Typist, trap: str) -> None:
    with typist.at_terminal("--", "bash", "-c", f"trap '{trap}' INT; echo up; sleep 1; exit 5") as at:
        at.expect("up")
        at.press(signal.SIGINT)
        assert at.wait() == 5


@pytest.mark.clause("CLI-6", "QLT-12")
def test_a_reader_that_leaves_ends_the_command(typist: Typist) -> None:
    word = uuid.uuid4().hex
    process = typist.begin("--", "bash", "-c", f"while echo {word}; do :; done; exit 33")
    assert process.stdout is not None
    assert process.stdout.readline().decode().strip() == word
    process.stdout.close()
    assert process.wait(timeout=30) != 0
    until(lambda: not alive(word), "the command goes on")


# -- the same sandbox -------------------------------------------------------------------------------------


@pytest.mark.clause("CLI-6", "BND-9", "BND-16", "BND-17")
def test_it_is_the_sandbox_of_a_run_in_that_folder(typist: Typist) -> None:
    root = typist.home.parent / "root"
    (root / "config").mkdir(parents=True)
    (root / "config" / "config.toml").write_text('deny_read = ["*.key"]\n')
    if typist.argv[0] == "setpriv":
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", root], check=True)
    (typist.home / "private").write_text("mine")
    script = f"""
      cat secret.key && echo LEAK; ls "{root}/config" && echo LEAK; cat "{typist.home}/private" && echo LEAK
      touch /var/tmp/x /dev/shm/x && echo private; touch "{typist.home.parent}/x"
      echo "${{SOME_TOKEN-none}} ${{{MARKER}:+marked}}"; cat /proc/net/dev | grep -c :; touch here && echo made
    """
    done = typist.bash(script, SOME_TOKEN="zq7Not4Real0001")
    assert done.stdout.decode().split("\n") == ["private", "none marked", "1", "made", ""], done
    assert (typist.repo / "here").exists()
    assert not (typist.home.parent / "x").exists()


@pytest.mark.clause("CLI-6", "BND-9")
def test_read_only_writes_nothing(typist: Typist) -> None:
    done = typist.bash("touch x; echo kept > /tmp/y && cat /tmp/y", "--scope", "read-only")
    assert done.stdout == b"kept\n"
    assert not (typist.repo / "x").exists()


@pytest.mark.clause("CLI-6", "BND-1")
def test_it_starts_in_the_folder_that_is_named(typist: Typist) -> None:
    assert typist.bash("pwd; touch ../x").stdout.decode() == f"{typist.repo}\n"
    assert typist.bash("pwd; touch ../y", "--root", "sub").stdout.decode() == f"{typist.repo / 'sub'}\n"
    assert (typist.repo / "y").exists(), "the root is the repository, wherever in it the command starts"
    assert typist.bash("pwd", cwd=typist.repo / "sub").stdout.decode() == f"{typist.repo / 'sub'}\n"


@pytest.mark.clause("CLI-6")
def test_a_named_session_keeps_its_temporary_folder_and_no_other(typist: Typist) -> None:
    assert typist.bash("echo one > /tmp/x; cat /tmp/x", "--session", "first").stdout == b"one\n"
    assert b"x" not in typist.bash("cat /tmp/x", "--session", "second").stdout
    assert typist.bash("cat /tmp/x", "--session", "first").stdout == b"one\n"
    assert typist.bash("cat /tmp/x").stdout == b""
    kept = typist.home.parent / "root" / "state" / "tmp"
    assert sorted(path.name for path in kept.iterdir()) == ["@first", "@second"]
    assert kept.stat().st_mode & 0o77 == 0


@pytest.mark.clause("CLI-6")
def test_without_a_name_nothing_is_left_and_no_root_is_made(typist: Typist) -> None:
    place = typist.home.parent / "temporary"
    place.mkdir(mode=0o777)
    os.chmod(place, 0o1777)
    done = typist.bash("mkdir -p /tmp/a/b; touch /tmp/a/b/c; chmod 0 /tmp/a/b /tmp/a", TMPDIR=str(place))
    assert done.returncode == 0, done
    assert list(place.iterdir()) == []
    assert not (typist.home.parent / "root").exists()


@pytest.mark.clause("CLI-6", "QLT-12")
def test_what_a_killed_one_left_is_removed_by_the_next(typist: Typist) -> None:
    place = typist.home.parent / "temporary"
    place.mkdir()
    os.chmod(place, 0o1777)
    typist.env["TMPDIR"] = str(place)
    process = typist.begin("--", "sh", "-c", "echo up; sleep 1000")
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    (left,) = place.iterdir()
    assert typist.run("--", "true").returncode == 0
    assert left.exists(), "a folder in use was taken away"
    process.kill()
    process.wait()
    # It is old enough only a minute later; the clock is the other thing to turn.
    from drawbar.stores import scratch

    found, scratch._JUST_MADE_S = scratch._JUST_MADE_S, -1.0
    try:
        until(lambda: not _locked(left), "nobody holds it any more")
        if typist.argv[0] != "setpriv":
            scratch._sweep(place)
            assert not left.exists()
    finally:
        scratch._JUST_MADE_S = found


def _locked(folder: Path) -> bool:
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


@pytest.mark.clause("CLI-6", "BND-13")
def test_hosts_are_named_several_at_a_time(typist: Typist) -> None:
    script = "curl -sS -m 10 http://no.test/ || echo failed; echo $http_proxy"
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    done = typist.bash(script, "--net", "one.test", "two.test", "--net", "three.test:8080", "--root", ".")
    assert b"no.test:80 is not on the list" in done.stdout + done.stderr, done
    assert b"http://127.0.0.1" in done.stdout
    assert b"http" not in typist.bash("echo $http_proxy").stdout


# -- outside ------------------------------------------------------------------------------------------------


@pytest.mark.clause("CLI-6", "BND-9", "BND-16")
def test_outside_is_typed_by_a_person_and_has_no_secret(typist: Typist) -> None:
    place = typist.home.parent / "beside"
    done = typist.bash(
        f"echo ${{SOME_TOKEN-none}} > '{place}'; exit 5", "--scope", "outside", SOME_TOKEN="zq7Not4Real0001"
    )
    assert (done.returncode, done.stderr) == (5, b"")
    assert place.read_text() == "none\n"


@pytest.mark.clause("CLI-6", "BND-16")
@pytest.mark.parametrize("way", ["marker", "dropped", "orphan"])
def test_nothing_that_a_run_started_can_go_outside(typist: Typist, way: str) -> None:
    place = typist.home.parent / "beside"
    inner = [*typist.argv, "sandbox", "--scope", "outside", "--", "touch", str(place)]
    marked = typist.env | {MARKER: "r_01"}
    bare = [f"{name}={value}" for name, value in typist.env.items()]
    become, run = typist.argv[: -len(RUN)][:-1], inner[len(typist.argv) - len(RUN) - 1 :]
    if way == "marker":
        argv = inner
    elif way == "dropped":
        # Its own environment is clean; the shell that started it was given the marker.
        argv = [*become, "bash", "-c", '"$@"; exit $?', "bash", "env", "-i", *bare, *run]
    else:
        argv = [*become, "bash", "-c", 'setsid --wait "$@"; exit $?', "bash", "env", "-i", *bare, *run]
    done = subprocess.run(argv, cwd=typist.repo, env=marked, capture_output=True, timeout=60, check=False)
    assert done.returncode == 3, done
    assert b"only a person" in done.stderr
    assert not place.exists()


@pytest.mark.clause("CLI-6", "BND-16")
def test_a_child_of_a_runs_owner_cannot_go_outside(typist: Typist, tmp_path: Path) -> None:
    """The owner is this very process: it owns a live run of the root that the command looks at."""
    if typist.argv[0] == "setpriv":
        pytest.skip("the same for every user")
    from drawbar.contracts.capability import CapabilitySet
    from drawbar.contracts.clock import SystemClock
    from drawbar.contracts.ids import new_id
    from drawbar.contracts.run import RunRecord
    from drawbar.stores.layout import Layout
    from drawbar.stores.redaction import SecretRedactor
    from drawbar.stores.runs import RunStore

    layout = Layout.resolve(typist.env)
    layout.open()
    store = RunStore(layout, redactor=SecretRedactor(), clock=SystemClock())
    record = RunRecord(
        id=new_id("run"), session_id=new_id("session"), status="queued", created_at="2026-01-01T00:00:00Z"
    )
    log = store.create(record, CapabilitySet())
    done = typist.run("--scope", "outside", "--", "touch", str(tmp_path / "beside"))
    assert (done.returncode, (tmp_path / "beside").exists()) == (3, False), done
    assert b"process of a run" in done.stderr
    log.close()


# -- signals ------------------------------------------------------------------------------------------------


@pytest.mark.clause("CLI-6")
def test_ctrl_c_goes_to_the_command(typist: Typist) -> None:
    process = typist.begin("--", "bash", "-c", "trap 'echo caught; exit 9' INT; echo up; while :; do sleep 0.05; done")
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (9, b"caught\n", b"")
    process = typist.begin("--", "sh", "-c", "echo up; exec sleep 1000")
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130


@pytest.mark.clause("CLI-6", "QLT-12")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("scope", ["workspace", "outside"])
def test_the_end_of_drawbar_is_the_end_of_the_tree(typist: Typist, number: signal.Signals, scope: str) -> None:
    word = uuid.uuid4().hex
    script = f"trap '' HUP TERM; (setsid bash -c 'exec -a {word} sleep 1000' &) ; echo up; exec -a {word} sleep 1000"
    process = typist.begin("--scope", scope, "--", "bash", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    until(lambda: alive(word), "it never started")
    _signal(process, number)
    code = process.wait(timeout=30)
    assert code == (-9 if number == signal.SIGKILL else 128 + number)
    until(lambda: not alive(word), "something of the command is alive")


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal drawbar itself, which became the process that was started (exec all the way)."""
    os.kill(process.pid, number)


# -- a terminal -----------------------------------------------------------------------------------------------


@pytest.mark.clause("CLI-6", "BND-10")
@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_at_a_terminal_the_command_has_one_of_its_own(typist: Typist, term: str) -> None:
    with typist.at_terminal(
        "--",
        "bash",
        "-c",
        "tty; stty size; test -t 2 && echo all; echo $TERM; read -r x; echo got $x; exit 4",
        TERM=term,
    ) as at:
        found = termios.tcgetattr(at.master)
        at.expect("all")
        assert "/dev/pts/" in at.text
        assert "30 100" in at.text
        at.expect(f"\n{term}\n")
        assert termios.tcgetattr(at.master) != found, "ours is not raw"
        at.type("ünd\r")
        at.expect("got ünd")
        assert at.wait() == 4
        assert termios.tcgetattr(at.master) == found


@pytest.mark.clause("CLI-6")
def test_a_terminal_that_changes_its_size_is_followed(typist: Typist) -> None:
    script = "trap 'stty size' WINCH; trap 'exit 5' INT; echo up; while :; do sleep 0.05; done"
    with typist.at_terminal("--", "bash", "-c", script) as at:
        at.expect("up")
        fcntl.ioctl(at.master, termios.TIOCSWINSZ, struct.pack("HHHH", 41, 77, 0, 0))
        at.expect("41 77")
        at.press(signal.SIGINT)
        assert at.wait() == 5


@pytest.mark.clause("CLI-6")
def test_keys_go_to_the_command(typist: Typist) -> None:
    """Ctrl-C, Ctrl-Z and the jobs of a shell are the command's; drawbar sees bytes."""
    with typist.at_terminal("--", "bash", "--norc", "--noprofile", "-i") as at:
        at.type("echo sta''rted; sleep 1000")
        at.expect("started")
        time.sleep(0.3)
        os.write(at.master, b"\x1a")
        at.expect("Stopped")
        at.type("kill %1; echo sec''ond")
        at.expect("second")
        at.type("cat")
        time.sleep(0.3)
        at.press(signal.SIGINT)
        at.expect("Terminated")
        time.sleep(0.3)  # an interrupt discards what was typed ahead
        at.type("exit 6")
        assert at.wait() == 6


@pytest.mark.clause("CLI-6")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_given_back_whatever_ends_it(typist: Typist, number: signal.Signals) -> None:
    with typist.at_terminal("--", "sh", "-c", "echo up; sleep 1000") as at:
        found = termios.tcgetattr(at.master)
        at.expect("up")
        os.kill(at.process.pid, number)
        assert at.wait() == 128 + number
        assert termios.tcgetattr(at.master) == found


@pytest.mark.clause("CLI-6")
def test_a_stop_gives_the_terminal_back_and_going_on_takes_it_again(typist: Typist) -> None:
    """Under a shell with jobs, as everybody's terminal has one."""
    word = uuid.uuid4().hex
    line = " ".join(
        f"'{word_}'"
        for word_ in [*typist.argv, "sandbox", "--", "sh", "-c", f": {word}; echo u''p; read -r x; echo got $x"]
    )
    with terminal(["bash", "--norc", "--noprofile", "-i"], cwd=typist.repo, env=typist.env | {"PS1": "$ "}) as at:
        at.type(line)
        at.expect("\nup")
        raw = termios.tcgetattr(at.master)
        assert not raw[3] & termios.ICANON
        os.kill(os.tcgetpgrp(at.master), signal.SIGTSTP)
        at.expect("Stopped")
        until(lambda: bool(termios.tcgetattr(at.master)[1] & termios.OPOST), "it is raw still")
        at.type("echo i''n between; fg")
        at.expect("in between")
        until(lambda: termios.tcgetattr(at.master) == raw, "it is not raw again")
        os.write(at.master, b"x\r")
        at.expect("got x\n$ ")
        at.type("exit")
        assert at.wait() == 0


# -- where things are missing ---------------------------------------------------------------------------------


@pytest.mark.clause("CLI-6")
def test_a_folder_whose_name_is_no_text(typist: Typist) -> None:
    work = os.fsencode(typist.home.parent) + b"/w\xff \n"
    os.mkdir(work)
    os.chmod(work, 0o777)
    done = typist.run("--root", os.fsdecode(work), "--", "sh", "-c", "pwd; touch made")
    assert (done.returncode, done.stdout) == (0, work + b"\n"), done
    assert os.path.exists(work + b"/made")


@pytest.mark.clause("CLI-6")
def test_without_a_home_and_with_closed_streams(typist: Typist) -> None:
    del typist.env["HOME"]
    assert typist.bash("echo up").stdout == b"up\n"
    line = " ".join(["exec", '"$@"', "sandbox", "--", "sh", "-c", "'cat; echo up; echo err >&2'"])
    for redirect, out in (("<&-", b"up\n"), (">&-", b""), ("2>&-", b"up\n")):
        done = subprocess.run(
            ["sh", "-c", f"{line} {redirect}", "sh", *typist.argv], cwd=typist.repo, env=typist.env, input=b"",
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.stdout == out, (redirect, done)
        assert b"Traceback" not in done.stderr


@pytest.mark.clause("CLI-6", "QLT-6")
def test_a_full_disk_for_output_is_said(typist: Typist) -> None:
    with open("/dev/full", "wb") as full:
        process = typist.begin("--", "sh", "-c", "echo x; echo y", stdout=full)
        _out, err = process.communicate(timeout=30)
    assert b"standard output can't be written: No space left" in err
    assert b"Traceback" not in err


@pytest.mark.clause("CLI-6", "QLT-6")
def test_a_data_root_that_cannot_be_written(typist: Typist) -> None:
    typist.env["DRAWBAR_HOME"] = "/proc/drawbar/root"
    assert typist.run("--", "echo", "up").stdout == b"up\n", "without a name no data root is needed"
    done = typist.run("--session", "x", "--", "echo", "up")
    assert (done.returncode, done.stdout) == (125, b""), done
    assert b"/proc/drawbar/root could not be written" in done.stderr


@pytest.mark.clause("CLI-2")
def test_its_options_are_completed() -> None:
    env = {**os.environ, "_DRAWBAR_COMPLETE": "bash_complete", "COMP_WORDS": "drawbar sandbox --s", "COMP_CWORD": "2"}
    done = subprocess.run([sys.executable, *RUN], env=env, capture_output=True, timeout=60, check=False)
    assert {line.partition(",")[2] for line in done.stdout.decode().split()} == {"--scope", "--session"}
    assert done.stderr == b""
