"""Every call ends with one result, whatever the child does, and nothing that it started survives (QLT-12, BND-18)."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import BASE_PYTHON, FIXTURES, Box, alive, children, make_box, tag

from drawbar.boundary.unconfined import Adopting
from drawbar.contracts.boundary import CommandResult

MODES: dict[str, dict[str, Any]] = {
    "on": {},
    "on, one each": {"keep": False},
    "off": {"sandbox": "off"},
    "off, one each": {"sandbox": "off", "keep": False},
    "no namespaces": {"sandbox": "off", "unconfined": Adopting()},
}
"""With the file sandbox and without it, in a kept sandbox and in one a call, and without any namespace."""


@pytest.fixture(params=MODES)
def either(request: pytest.FixtureRequest, make: BoxMaker, git_repo: Callable[..., Path]) -> Box:
    """Boxes with and without the file sandbox: processes are ended alike (BND-18)."""
    return make(git_repo(), **MODES[request.param])


async def until(condition: Callable[[], bool], seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        await asyncio.sleep(0.02)


@pytest.mark.clause("QLT-12")
async def test_a_plain_command(either: Box) -> None:
    result = await either.sh("echo out; echo err >&2; exit 3")
    assert (result.cause, result.exit_code, result.output) == ("error", 3, "out\nerr\n")
    assert (result.total, result.dropped, result.left_behind, result.artifact) == (8, 0, 0, None)
    assert (await either.sh("true")).cause == "ok"


@pytest.mark.clause("QLT-12")
async def test_standard_error_apart(either: Box) -> None:
    result = await either.sh("echo out; echo err >&2", separate=True)
    assert (result.output, result.stderr) == ("out\n", "err\n")


@pytest.mark.clause("QLT-12")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGPIPE])
async def test_death_by_signal_is_128_and_its_number(either: Box, number: int) -> None:
    result = await either.run(("/bin/bash", "-c", f"exec sh -c 'kill -{number} $$'"))
    assert result.exit_code == 128 + number
    assert result.cause == "error"
    assert result.output == "", "the supervisor adds no words of its own"


@pytest.mark.clause("QLT-12")
async def test_a_missing_program_is_127_and_never_a_shell_builtin(either: Box) -> None:
    missing = await either.run(("no-such-program",))
    assert missing.exit_code == 127
    assert "no-such-program" in missing.output
    assert (await either.run(("exit", "0"))).exit_code == 127
    echoed = await either.run(("echo", "-n", "$HOME", "a b"))
    assert echoed.output == "$HOME a b"


@pytest.mark.clause("QLT-12", "BND-10")
async def test_standard_input(either: Box) -> None:
    assert (await either.sh("cat; readlink /proc/self/fd/0")).output.strip() == "/dev/null"
    given = bytes(range(256)) * 4000
    result = await either.sh("cat | sha256sum; test -p /dev/stdin && echo pipe", stdin=given)
    import hashlib

    assert result.output.split()[0] == hashlib.sha256(given).hexdigest()
    assert (await either.sh("head -c 3", stdin=given)).total == 3, "a command need not read it all"
    assert (await either.sh("cat", stdin=b"")).output == ""
    assert (await either.sh("cat; exit 5", stdin=b"x")).exit_code == 5


@pytest.mark.clause("BND-10")
async def test_no_descriptor_but_three_is_handed_on(either: Box) -> None:
    leaky = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(leaky, True)
    try:
        shown = await either.text("ls /proc/self/fd; for fd in 0 1 2; do readlink /proc/self/fd/$fd; done")
    finally:
        os.close(leaky)
    lines = shown.split("\n")
    assert lines[:4] == ["0", "1", "2", "3"], "the fourth is the listing's own"
    assert lines[4] == "/dev/null"
    assert lines[5].startswith("pipe:")
    assert lines[6].startswith("pipe:")


@pytest.mark.clause("BND-18", "BND-10")
async def test_a_session_of_its_own_without_a_terminal(either: Box) -> None:
    shown = await either.text("ps -o sid= -p $$; (: </dev/tty) 2>/dev/null && echo terminal || echo none")
    session, terminal = shown.split()
    assert int(session) != os.getsid(0)
    assert terminal == "none"


@pytest.mark.bug("PRC-01")
@pytest.mark.clause("QLT-12")
@pytest.mark.parametrize("which", ["1", "2", "3"])
async def test_a_background_child_does_not_hold_the_call(either: Box, which: str) -> None:
    shutil.copy(FIXTURES / "PRC-01" / "cmds.sh", either.root)
    started = time.monotonic()
    result = await either.sh(f"bash cmds.sh {which}", limit_s=40)
    assert time.monotonic() - started < 3
    assert "done" in result.output
    assert result.cause == "ok"
    assert result.left_behind >= 1, "the child is noted"


@pytest.mark.clause("QLT-12")
async def test_what_finishes_within_the_grace_is_not_cut_off(either: Box) -> None:
    result = await either.sh("exec > >(sleep 0.05; cat; echo end)\necho start")
    assert result.output == "start\nend\n"
    assert result.left_behind == 0


ESCAPES = {
    "background": "sleep {tag} &",
    "nohup": "nohup sleep {tag} >/dev/null 2>&1 &",
    "setsid": "setsid sleep {tag} >/dev/null 2>&1 </dev/null &",
    "double fork": "( ( setsid sleep {tag} & ) & )",
    "clean environment": "env -i setsid sh -c 'sleep {tag} & sleep {tag}' >/dev/null 2>&1 &",
    "ignores TERM": "trap '' TERM INT HUP; (sleep {tag}; sleep {tag}) & ",
    "stopped": "sleep {tag} & kill -STOP $!",
    "daemon": (
        'python3 -c "import os,sys\nif os.fork(): sys.exit()\nos.setsid()\nif os.fork(): sys.exit()\n'
        "os.execvp('sleep',['sleep','{tag}'])\""
    ),
}


@pytest.mark.clause("QLT-12", "BND-18")
@pytest.mark.parametrize("how", ESCAPES)
async def test_nothing_left_survives_the_call(either: Box, how: str) -> None:
    sleeper = tag()
    result = await either.sh(ESCAPES[how].replace("{tag}", sleeper) + "\necho done", limit_s=20)
    assert "done" in result.output
    assert alive(sleeper) == []


@pytest.mark.clause("QLT-12", "BND-18")
async def test_killing_the_supervisor_frees_nobody(either: Box) -> None:
    sleeper = tag()
    await either.sh(f"setsid sleep {sleeper} & kill -9 $PPID; sleep 0.1", limit_s=5)
    assert alive(sleeper) == []


@pytest.mark.slow
@pytest.mark.bug("PRC-03")
@pytest.mark.clause("QLT-12", "RUN-10")
async def test_a_tree_that_ignores_signals_ends_at_its_limit(either: Box) -> None:
    shutil.copy(FIXTURES / "PRC-03" / "ignore_term.py", either.root)
    marker = f"pids-{uuid.uuid4()}"
    started = time.monotonic()
    result = await either.sh(f"python3 ignore_term.py {marker}", limit_s=1)
    took = time.monotonic() - started
    assert result.cause == "timeout"
    assert result.exit_code == 137
    assert 1 <= took < 6
    assert "running" in result.output
    assert alive(marker) == []


@pytest.mark.clause("QLT-12")
async def test_a_tree_that_heeds_term_gets_to_clean_up(either: Box) -> None:
    result = await either.sh("trap 'echo cleaned up; exit 9' TERM; while :; do sleep 0.05; done", limit_s=0.5)
    assert (result.cause, result.exit_code) == ("timeout", 9)
    assert "cleaned up" in result.output
    assert result.duration_ms < 1400, "no wait for the kill"


@pytest.mark.bug("PRC-04")
@pytest.mark.clause("QLT-12")
async def test_the_whole_tree_is_gone_at_the_limit(either: Box) -> None:
    sleeper = tag()
    program = f"x = bytearray(64 << 20)\nimport os\nos.execvp('sleep', ['sleep', '{sleeper}'])"
    result = await either.run((BASE_PYTHON, "-c", program), limit_s=1)
    assert result.cause == "timeout"
    assert alive(sleeper) == []


@pytest.mark.bug("PRC-05")
@pytest.mark.clause("QLT-12", "RUN-10")
async def test_stopping_a_wrapper_stops_its_worker(either: Box) -> None:
    shutil.copy(FIXTURES / "PRC-05" / "wrapper.sh", either.root)
    name = f"worker-{uuid.uuid4()}.pid"
    call = asyncio.create_task(either.sh(f"bash wrapper.sh {name}"))
    await until(lambda: (either.root / name).exists())
    started = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert time.monotonic() - started < 2.5
    assert alive(name) == []


@pytest.mark.clause("RUN-10", "QLT-12")
@pytest.mark.parametrize("delay", [0, 0.001, 0.003, 0.006, 0.01, 0.02, 0.1])
async def test_cancellation_at_any_moment_leaves_nothing(either: Box, delay: float) -> None:
    sleeper = tag()
    await either.text("true")
    before = set(children())
    call = asyncio.create_task(either.sh(f"trap '' TERM; sleep {sleeper}; sleep {sleeper}"))
    await asyncio.sleep(delay)
    started = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert time.monotonic() - started < 2
    assert alive(sleeper) == []
    assert set(children()) <= before


@pytest.mark.clause("RUN-10")
async def test_a_second_cancellation_does_not_leave_the_tree(either: Box) -> None:
    sleeper = tag()
    call = asyncio.create_task(either.sh(f"trap '' TERM; echo up >started; sleep {sleeper}; sleep {sleeper}"))
    await until(lambda: (either.root / "started").exists())
    for _ in range(5):
        call.cancel()
        await asyncio.sleep(0.05)
    with pytest.raises(asyncio.CancelledError):
        await call
    assert alive(sleeper) == []


@pytest.mark.clause("QLT-12")
async def test_closing_the_runner_ends_what_runs(either: Box) -> None:
    sleeper = tag()
    calls = [asyncio.create_task(either.sh(f"echo up >started{n}; exec sleep {sleeper}")) for n in range(3)]
    await until(lambda: all((either.root / f"started{n}").exists() for n in range(3)))
    await either.runner.close()
    results = await asyncio.gather(*calls)
    assert {result.cause for result in results} == {"aborted"}
    assert alive(sleeper) == []
    assert (await either.sh("true")).cause == "aborted", "a closed runner starts nothing"


@pytest.mark.bug("PRC-08")
@pytest.mark.clause("QLT-12")
async def test_bytes_that_are_no_text(either: Box) -> None:
    shutil.copy(FIXTURES / "PRC-08" / "bytes.bin", either.root)
    pieces: list[str] = []
    result = await either.sh("cat bytes.bin", on_output=pieces.append)
    assert "ok start" in result.output
    assert "end" in result.output
    assert "\ufffd" in result.output
    assert "".join(pieces) == result.output
    result.output.encode()


@pytest.mark.clause("QLT-12")
async def test_both_ends_are_kept_and_the_rest_is_a_file(either: Box, tmp_path: Path) -> None:
    artifact = tmp_path / "whole.txt"
    result = await either.sh("seq 1 20000", head_bytes=100, tail_bytes=200, artifact=artifact)
    whole = subprocess.run(["seq", "1", "20000"], capture_output=True, check=True).stdout
    assert result.head.encode() == whole[:100]
    assert result.tail.encode() == whole[-200:]
    assert result.dropped == len(whole) - 300
    assert f"[… {result.dropped} bytes dropped …]" in result.output
    assert result.artifact == artifact
    assert artifact.read_bytes() == whole
    assert artifact.stat().st_mode & 0o777 == 0o600


@pytest.mark.clause("QLT-12")
async def test_one_huge_line_and_closed_output(either: Box) -> None:
    line = await either.sh("head -c 3000000 /dev/zero | tr '\\0' x", head_bytes=1000, tail_bytes=1000)
    assert (line.total, len(line.head), len(line.tail)) == (3_000_000, 1000, 1000)
    closed = await either.sh("exec >&- 2>&-; sleep 0.2; exit 4")
    assert (closed.exit_code, closed.output) == (4, "")


@pytest.mark.bug("PRC-06")
@pytest.mark.clause("QLT-12")
@pytest.mark.slow
def test_a_flood_costs_no_memory(sandbox: None, git_repo: Callable[..., Path], tmp_path: Path) -> None:
    root = git_repo()
    shutil.copy(FIXTURES / "PRC-06" / "spew.py", root)
    program = textwrap.dedent(
        f"""
        import asyncio, json, resource
        from pathlib import Path
        from tests.sandbox.kit import make_box

        async def main():
            box = make_box(Path({str(root)!r}), Path({str(tmp_path)!r}))
            await box.sh("true")
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            artifact = Path({str(tmp_path / "flood.txt")!r})
            result = await box.sh("python3 spew.py 1024", limit_s=100, artifact=artifact)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            await box.runner.close()
            print(json.dumps({{"grown": after - before, "tail": result.tail[-200:], "dropped": result.dropped,
                               "cause": result.cause, "kept": artifact.stat().st_size}}))

        asyncio.run(main())
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    import json

    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["cause"] == "ok"
    assert facts["grown"] < 64 * 1024, "kibibytes"
    assert facts["tail"].endswith("LAST-LINE\n")
    assert facts["dropped"] > 900 * 2**20
    assert facts["kept"] == 64 * 2**20


@pytest.mark.clause("QLT-12")
async def test_a_full_disk_costs_the_file_not_the_result(
    sandbox: None, git_repo: Callable[..., Path], tmp_path: Path
) -> None:
    box = make_box(git_repo(), tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    held = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        result = await box.sh("seq 1 200000 | cat", artifact=tmp_path / "cut.txt", head_bytes=10, tail_bytes=10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, held)
        await box.runner.close()
    assert (result.cause, result.tail) == ("ok", "99\n200000\n")
    assert result.artifact is None, "half a file is never called the whole"
    assert not (tmp_path / "cut.txt").exists()


@pytest.mark.clause("QLT-12")
async def test_many_at_once(box: Box) -> None:
    results = await asyncio.gather(*(box.sh(f"echo {n}; sleep 0.1; exit {n}") for n in range(20)))
    assert [(result.exit_code, result.output) for result in results] == [(n, f"{n}\n") for n in range(20)]


@pytest.mark.clause("QLT-12")
async def test_what_can_not_be_started_is_a_result_too(box: Box) -> None:
    too_long = await box.sh("true " + "x" * 200_000)
    assert too_long.exit_code is None
    assert "too long" in too_long.output
    zero = await box.sh("true \0")
    assert zero.exit_code is None
    assert "zero byte" in zero.output
    nowhere = await box.sh("true", cwd=box.root / "no-such-folder")
    assert nowhere.exit_code is None
    assert "no-such-folder" in nowhere.output


@pytest.mark.clause("RUN-10", "QLT-12", "RUN-13")
@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_killed_harness_leaves_no_process(
    sandbox: None, git_repo: Callable[..., Path], tmp_path: Path, mode: str
) -> None:
    root = git_repo()
    sleeper = tag()
    program = textwrap.dedent(
        f"""
        import asyncio
        from pathlib import Path
        from tests.sandbox.kit import make_box
        from tests.sandbox.test_processes import MODES

        async def main():
            box = make_box(Path({str(root)!r}), Path({str(tmp_path)!r}), **MODES[{mode!r}])
            await box.sh("true")
            print("ready", flush=True)
            await box.sh("trap '' TERM; sleep {sleeper} & sleep {sleeper}")

        asyncio.run(main())
        """
    )
    for delay in (0, 0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.1):
        harness = subprocess.Popen(
            [sys.executable, "-c", program], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True
        )
        assert harness.stdout is not None
        assert harness.stdout.readline() == "ready\n"
        time.sleep(delay)
        harness.kill()
        harness.wait()
        harness.stdout.close()
        end = time.monotonic() + 3
        while (left := alive(sleeper)) and time.monotonic() < end:
            time.sleep(0.05)
        assert left == [], f"killed after {delay} s"


@pytest.mark.clause("QLT-12")
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(code=st.integers(0, 255), out=st.binary(max_size=3000), background=st.booleans(), own=st.booleans())
async def test_one_result_whatever_a_child_writes(box: Box, code: int, out: bytes, background: bool, own: bool) -> None:
    (box.root / "bytes").write_bytes(out)
    script = "cat bytes\n" + ("sleep 100 &\n" if background else "") + f"exit {code}\n"
    result: CommandResult = await box.sh(("setsid -w bash -c '" + script + "'") if own else script)
    assert result.exit_code == code
    assert result.output == out.decode("utf-8", "replace")
    assert result.left_behind == (1 if background else 0)


# Signal 0 to everybody asks only whether it would be allowed: were the filter missing, the real one would meet the
# whole machine.
SUPERVISOR_ATTACKS = (
    "kill -9 {0}",
    "kill -9 -{0}",
    "kill -0 -1",
    "kill -STOP {0}",
    "python3 -c 'import resource; resource.prlimit({0}, resource.RLIMIT_CPU, (0, 0))'",
    "python3 -c 'import signal, os; signal.pidfd_send_signal(os.open(\"/proc/{0}\", 0), 9)'",
    "python3 -c 'import os; os.pidfd_open({0})'",
    'python3 -c \'open("/proc/{0}/mem", "rb+")\'',
    "python3 -c 'import fcntl; fcntl.fcntl(0, fcntl.F_SETOWN, {0})'",
    "python3 -c 'import fcntl; fcntl.fcntl(0, fcntl.F_SETOWN, -{0})'",
    "python3 -c 'import fcntl, struct; fcntl.fcntl(0, 15, struct.pack(\"ii\", 1, {0}))'",
    "python3 -c 'import ctypes; exit(ctypes.CDLL(None).ptrace(16, {0}, 0, 0) == -1)'",
    "python3 -c 'import ctypes; exit(ctypes.CDLL(None).syscall(200, {0}, 9) == -1)'",
    "python3 -c 'import ctypes; exit(ctypes.CDLL(None).syscall(234, {0}, {0}, 9) == -1)'",
)


@pytest.mark.clause("BND-18", "QLT-12")
@pytest.mark.parametrize("attack", SUPERVISOR_ATTACKS)
async def test_without_namespaces_the_supervisor_is_beyond_its_command(
    make: BoxMaker, git_repo: Callable[..., Path], attack: str
) -> None:
    """While it lives every orphan comes to it, so a process can shed its parents and its marker for nothing."""
    box = make(git_repo(), sandbox="off", unconfined=Adopting())
    sleeper = tag()
    forget = f"env -i setsid sleep {sleeper} >/dev/null 2>&1 </dev/null & sleep 0.1; P=$PPID; "
    result = await box.sh(forget + attack.format("$P").replace("'", '"').replace('\\"', "'") + " && echo done; true")
    assert "done" not in result.output
    assert result.exit_code == 0
    assert result.left_behind == 1
    assert alive(sleeper) == []


@pytest.mark.clause("BND-18")
async def test_without_namespaces_a_command_may_signal_its_own(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    box = make(git_repo(), sandbox="off", unconfined=Adopting())
    command = """sleep 60 & kill -9 $!; wait; bash -c 'trap "echo mine" USR1; kill -USR1 $$'; kill -0 $$ && echo ok"""
    assert (await box.text(command)).split()[-2:] == ["mine", "ok"]


@pytest.mark.slow
@pytest.mark.clause("QLT-12", "BND-18")
async def test_a_crowd_is_gone_at_the_limit(either: Box) -> None:
    sleeper = tag()
    started = time.monotonic()
    crowd = f"for n in $(seq 300); do setsid sh -c 'trap \"\" TERM; sleep {sleeper}; sleep {sleeper}' & done; wait"
    result = await either.sh(crowd, limit_s=2)
    assert result.cause == "timeout"
    assert time.monotonic() - started < 7
    assert alive(sleeper) == []


@pytest.mark.clause("QLT-12", "BND-18")
async def test_a_fork_bomb_under_a_limit_ends_with_its_call(either: Box) -> None:
    if os.geteuid() == 0:
        pytest.skip("a limit of processes doesn't hold root; the area's tests run as another user too")
    marker = f"bomb{uuid.uuid4().hex}"
    (either.root / marker).write_text("while :; do bash $0 & bash $0 & done 2>/dev/null\n")
    started = time.monotonic()
    result = await either.sh(f"ulimit -u 400; bash {marker}", limit_s=2)
    assert time.monotonic() - started < 7
    assert result.cause in ("timeout", "error")
    assert alive(marker) == []
    assert (await either.sh("echo after")).output == "after\n"
