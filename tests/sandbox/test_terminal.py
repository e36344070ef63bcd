"""Streams passed through raw, and a pseudo-terminal of the harness's own (BND-10, BND-11, CLI-6)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import BASE_PYTHON, Box, alive, tag

from drawbar.boundary.unconfined import Adopting
from drawbar.contracts.boundary import CommandResult, RunningCommand, Streams

MODES: dict[str, dict[str, Any]] = {
    "on": {},
    "off": {"sandbox": "off"},
    "no namespaces": {"sandbox": "off", "unconfined": Adopting()},
}


@pytest.fixture(params=MODES)
def either(request: pytest.FixtureRequest, make: BoxMaker, git_repo: Callable[..., Path]) -> Box:
    return make(git_repo(), **MODES[request.param])


class Both:
    """Gathers what comes, and writes what is told."""

    def __init__(self, *, terminal: tuple[int, int] | None = None, stdin: int | None = None, piped: bool = False):
        self.out, self.err = bytearray(), bytearray()
        self.running: list[RunningCommand] = []
        self._write_end = -1
        if piped or (terminal is not None and stdin is None):
            stdin, self._write_end = os.pipe()
        self.streams = Streams(self.out.extend, self.err.extend, stdin, terminal, self.running.append)

    def type(self, text: str) -> None:
        os.write(self._write_end, text.encode())

    def end(self) -> None:
        os.close(self._write_end)

    async def shows(self, text: str, seconds: float = 8) -> None:
        until = time.monotonic() + seconds
        while text.encode() not in self.out:
            assert time.monotonic() < until, (text, bytes(self.out))
            await asyncio.sleep(0.02)


async def run(box: Box, command: str, both: Both, limit_s: float = 20) -> CommandResult:
    return await box.sh(command, streams=both.streams, limit_s=limit_s)


@pytest.mark.clause("BND-10", "CLI-6")
async def test_bytes_pass_as_they_are(either: Box) -> None:
    given = bytes(range(256)) * 4096
    (either.root / "given").write_bytes(given)
    both = Both(stdin=os.open(either.root / "given", os.O_RDONLY))
    result = await run(either, "tee >(sha256sum >&2); ls /proc/self/fd | tr '\\n' ' ' >&2; exit 9", both)
    assert result.exit_code == 9
    assert bytes(both.out) == given
    assert hashlib.sha256(given).hexdigest().encode() in both.err
    assert b"0 1 2 3 " in both.err, "no descriptor but the three, and the listing's own"


@pytest.mark.clause("BND-10", "CLI-6")
@pytest.mark.parametrize("source", ["nothing", "closed", "null", "empty pipe", "endless"])
async def test_input_of_every_kind(either: Box, source: str) -> None:
    stdin: int | None = None
    if source == "closed":
        stdin = 9999
    elif source == "null":
        stdin = os.open(os.devnull, os.O_RDONLY)
    elif source == "empty pipe":
        stdin, write_end = os.pipe()
        os.close(write_end)
    elif source == "endless":
        stdin = os.open("/dev/zero", os.O_RDONLY)
    both = Both(stdin=stdin)
    result = await run(either, "head -c 5 | wc -c", both)
    assert result.cause == "ok"
    assert bytes(both.out).strip() == (b"5" if source == "endless" else b"0")


@pytest.mark.clause("BND-10", "CLI-6")
async def test_input_that_ends_half_way_and_input_that_nobody_reads(either: Box) -> None:
    both = Both(piped=True)
    call = asyncio.create_task(run(either, "cat; echo end", both))
    both.type("half")
    await both.shows("half")
    both.end()
    assert (await call).cause == "ok"
    assert bytes(both.out) == b"halfend\n"
    idle = Both(piped=True)
    started = time.monotonic()
    assert (await run(either, "exit 3", idle)).exit_code == 3, "a terminal where nobody types holds nothing up"
    assert time.monotonic() - started < 3
    idle.end()


@pytest.mark.clause("QLT-12", "CLI-6")
async def test_a_slow_reader_holds_the_command_up_and_costs_no_memory(either: Box) -> None:
    gate = threading.Event()
    taken = 0

    def slow(chunk: bytes) -> None:
        nonlocal taken
        gate.wait(5)
        taken += len(chunk)

    size = 8 << 20
    command = f"head -c {size} /dev/zero; touch written"
    call = asyncio.create_task(either.sh(command, streams=Streams(slow, slow), limit_s=20))
    await asyncio.sleep(0.7)
    assert not (either.root / "written").exists(), "the command waits for whoever reads"
    gate.set()
    assert (await call).cause == "ok"
    assert taken == size


@pytest.mark.slow
@pytest.mark.clause("QLT-12", "CLI-6")
async def test_a_reader_that_hangs_does_not_outlast_the_limit(either: Box) -> None:
    forever = threading.Event()

    def hang(_chunk: bytes) -> None:
        forever.wait(30)

    started = time.monotonic()
    result = await either.sh("yes", streams=Streams(hang, hang), limit_s=0.5)
    forever.set()
    assert result.cause == "timeout"
    assert time.monotonic() - started < 5.5


@pytest.mark.clause("QLT-12", "CLI-6")
async def test_a_reader_that_is_gone_ends_the_writer_as_a_pipe_does(either: Box) -> None:
    def gone(_chunk: bytes) -> None:
        raise BrokenPipeError

    result = await either.run(("yes",), streams=Streams(gone, gone), limit_s=10)
    assert result.exit_code == 128 + signal.SIGPIPE


@pytest.mark.clause("BND-10", "BND-11")
async def test_the_terminal_is_the_commands_own(either: Box) -> None:
    both = Both(terminal=(31, 97))
    command = (
        "tty; stty size; ps -o tty= -p $$; echo direct >/dev/tty; ls /proc/self/fd | tr '\\n' ' '; "
        f"{BASE_PYTHON} -c 'import os; a, b = os.openpty(); print(os.ttyname(b)); print(os.ttyname(0))'; exit 5"
    )
    result = await run(either, command, both)
    shown = both.out.decode().replace("\r", "").splitlines()
    both.end()
    assert result.exit_code == 5
    assert shown[0].startswith("/dev/pts/")
    assert shown[1] == "31 97"
    assert f"/dev/{shown[2].strip()}" == shown[0]
    assert shown[3] == "direct"
    assert shown[4].split()[:4] == ["0", "1", "2", "3"]
    assert shown[4].split()[4].startswith("/dev/pts/"), "a further terminal can be made inside"
    assert shown[5] == shown[0]


@pytest.mark.clause("BND-11", "CLI-6")
async def test_job_control_and_keys(either: Box) -> None:
    both = Both(terminal=(24, 80))
    call = asyncio.create_task(either.run(("/bin/bash", "--norc", "-i"), streams=both.streams, limit_s=30))
    sleeper = tag()
    both.type(f"echo up-$((40+2)); sleep {sleeper}\n")
    await both.shows("up-42")
    await asyncio.sleep(0.2)
    both.type("\x03")
    both.type("echo interrupted-$?\n")
    await both.shows("interrupted-130")
    both.type(f"sleep {sleeper}\n")
    while not alive(f"sleep\0{sleeper}"):
        await asyncio.sleep(0.02)
    both.type("\x1a")
    await both.shows("Stopped")
    both.type("bg; kill %1; wait; echo over-$((1+1)); exit 7\n")
    await both.shows("over-2")
    assert (await call).exit_code == 7
    both.end()
    assert alive(sleeper) == []


@pytest.mark.clause("CLI-6", "BND-11")
async def test_size_and_signals_come_through(either: Box) -> None:
    both = Both(terminal=(24, 80))
    command = "trap 'stty size' WINCH; trap 'echo got-int' INT; trap 'echo got-term; exit 4' TERM; echo up; "
    call = asyncio.create_task(run(either, command + "while :; do sleep 0.05; done", both))
    await both.shows("up")
    both.running[0].resize(50, 111)
    await both.shows("50 111")
    both.running[0].signal(signal.SIGINT)
    await both.shows("got-int")
    both.running[0].signal(signal.SIGTERM)
    await both.shows("got-term")
    await call
    both.end()
    both.running[0].signal(signal.SIGTERM)
    both.running[0].resize(1, 1)


@pytest.mark.clause("CLI-6")
async def test_end_of_input_reaches_the_terminal(either: Box) -> None:
    both = Both(terminal=(24, 80))
    both.type("one\nhalf")
    both.end()
    assert (await run(either, "cat >got", both)).cause == "ok"
    assert (either.root / "got").read_text() == "one\nhalf"


@pytest.mark.clause("BND-10")
async def test_nothing_can_be_typed_into_it_by_the_command(box: Box) -> None:
    both = Both(terminal=(24, 80))
    program = "import fcntl; fcntl.ioctl(0, 0x5412, b'x')"
    assert (await run(box, f'{BASE_PYTHON} -c "{program}"', both)).exit_code == 1
    both.end()
    assert b"PermissionError" in both.out


@pytest.mark.clause("BND-11")
async def test_programs_that_take_the_terminal_over(either: Box) -> None:
    if shutil.which("script") is None:
        pytest.skip("script is not installed")
    both = Both(terminal=(24, 80))
    result = await run(either, "script -qec 'echo within' /dev/null; stty raw; stty sane; echo after", both)
    both.end()
    assert result.cause == "ok"
    assert b"within" in both.out
    assert b"after" in both.out


@pytest.mark.slow
@pytest.mark.clause("QLT-12", "BND-18")
async def test_a_terminal_ends_whole_at_its_limit(either: Box) -> None:
    sleeper = tag()
    both = Both(terminal=(24, 80))
    started = time.monotonic()
    result = await run(either, f"trap '' TERM HUP INT; setsid sleep {sleeper} & sleep {sleeper}", both, limit_s=0.6)
    both.end()
    assert result.cause == "timeout"
    assert time.monotonic() - started < 5.6
    assert alive(sleeper) == []


@pytest.mark.clause("QLT-12")
async def test_no_descriptor_is_left(either: Box) -> None:
    async def once() -> None:
        both = Both(terminal=(24, 80))
        await run(either, "true", both)
        both.end()
        os.close(both.streams.stdin_fd or -1)

    await once()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await once()
    assert len(os.listdir("/proc/self/fd")) <= before + 1
