"""Background jobs as the runner has them: beside the calls, in sandboxes of their own, gone with the run (BND-14)."""

from __future__ import annotations

import asyncio
import math
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import Box, alive, git, tag

from drawbar.boundary.jobs import MOST
from drawbar.boundary.unconfined import Adopting
from drawbar.contracts.boundary import BackgroundJob, CommandRequest, CommandResult
from drawbar.contracts.capability import Scope
from drawbar.contracts.errors import InvalidInput

MODES: dict[str, dict[str, Any]] = {
    "on": {},
    "off": {"sandbox": "off"},
    "no namespaces": {"sandbox": "off", "unconfined": Adopting()},
}


@pytest.fixture(params=MODES)
def either(request: pytest.FixtureRequest, make: BoxMaker, git_repo: Callable[..., Path]) -> Box:
    return make(git_repo({"file.txt": "a\n"}), **MODES[request.param])


class Ends(list[CommandResult]):
    """How jobs ended, in order."""


async def start(
    box: Box, command: str, ends: Ends | None = None, *, scope: Scope = "workspace", limit_s: float = math.inf
) -> BackgroundJob:
    request = CommandRequest(argv=("/bin/bash", "-c", command), scope=scope, limit_s=limit_s)
    return await box.runner.start(request, (Ends() if ends is None else ends).append)


async def until(condition: Callable[[], Any], seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        await asyncio.sleep(0.02)


@pytest.mark.clause("BND-14")
async def test_a_job_goes_on_beside_calls(either: Box) -> None:
    ends = Ends()
    job = await start(either, "while [ ! -e stop ]; do sleep 0.05; done; exit 3", ends)
    for _ in range(3):
        assert await either.text("cat file.txt") == "a\n"
    assert job.result is None
    await either.text("touch stop")
    assert await job.wait(5)
    assert [result.exit_code for result in ends] == [3]
    assert job.result is ends[0]


@pytest.mark.clause("BND-14", "PRF-2")
async def test_a_job_keeps_no_call_from_the_kept_sandbox(box: Box) -> None:
    await box.text("true")
    job = await start(box, "sleep 60")
    await box.text("true")
    kept = box.runner._carrier.kept  # pyright: ignore[reportPrivateUsage]
    await box.text("true")
    assert box.runner._carrier.kept is kept  # pyright: ignore[reportPrivateUsage]
    await job.stop()


@pytest.mark.clause("BND-14", "BND-9")
async def test_a_job_shares_the_private_temporary_folder(box: Box) -> None:
    job = await start(box, "echo from-job >/tmp/left; sleep 60")
    await until(lambda: any(box.private.rglob("left")))
    assert await box.text("cat /tmp/left") == "from-job\n"
    await job.stop()
    reader = Ends()
    look = "! cat /tmp/left && touch /tmp/x && ! touch file.txt"
    await (await start(box, look, reader, scope="read-only")).wait(5)
    assert reader[0].cause == "ok", "a discarded folder shows nothing of the session's"


@pytest.mark.clause("BND-14", "QLT-12", "BND-18")
@pytest.mark.parametrize(
    "command",
    [
        "sleep {0}",
        "trap '' TERM HUP INT; sleep {0}; sleep {0}",
        "setsid sleep {0} & ( ( setsid sleep {0} & ) & ); wait; sleep {0}",
        "exec >&- 2>&- <&-; sleep {0}",
        "yes | tee >(sleep {0}) >/dev/null",
        "head -c 100000 /dev/urandom; exec -a other sleep {0}",
        "sleep {0} & kill -STOP $!; kill -STOP $$",
        "env -i setsid sleep {0} & kill -9 $PPID; sleep {0}",
    ],
)
async def test_stopping_ends_the_whole_of_it(either: Box, command: str) -> None:
    sleeper = tag()
    ends = Ends()
    job = await start(either, command.format(sleeper), ends)
    await until(lambda: alive(sleeper))
    started = time.monotonic()
    await job.stop()
    await job.stop()
    assert time.monotonic() - started < 5
    assert len(ends) == 1
    assert alive(sleeper) == []


@pytest.mark.clause("BND-14", "RUN-10")
async def test_the_end_of_the_run_ends_them_all_at_once(either: Box) -> None:
    sleeper = tag()
    ends = Ends()
    for _ in range(4):
        await start(either, f"trap '' TERM; sleep {sleeper}; sleep {sleeper}", ends)
    started = time.monotonic()
    await either.runner.close()
    assert time.monotonic() - started < 4
    assert [result.cause for result in ends] == ["aborted"] * 4
    assert alive(sleeper) == []
    with pytest.raises(InvalidInput, match="ending"):
        await start(either, "true")


@pytest.mark.clause("BND-14")
async def test_there_is_a_limit_and_it_is_said(box: Box) -> None:
    jobs = [await start(box, "sleep 60") for _ in range(MOST)]
    with pytest.raises(InvalidInput, match=f"{MOST} background jobs"):
        await start(box, "true")
    await jobs[0].stop()
    await (await start(box, "sleep 60")).stop()


@pytest.mark.clause("BND-14", "BND-9")
async def test_none_is_started_outside(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    box = make(git_repo(), scopes=("read-only", "workspace", "outside"))
    with pytest.raises(InvalidInput, match="outside"):
        await start(box, "touch x", scope="outside")


@pytest.mark.clause("BND-18")
async def test_a_limit_of_its_own_ends_it(either: Box) -> None:
    ends = Ends()
    job = await start(either, "sleep 60", ends, limit_s=0.4)
    assert await job.wait(5)
    assert ends[0].cause == "timeout"


@pytest.mark.clause("BND-11", "BND-14")
async def test_a_job_ends_when_what_protects_git_is_gone(box: Box) -> None:
    """A mount goes with the file that it lies over; from then on the job could have written git's configuration."""
    ends = Ends()
    job = await start(
        box, "while :; do echo '[core] fsmonitor = evil' >>.git/config; sleep 0.05; done 2>/dev/null", ends
    )
    (box.root / ".git" / "hooks").rename(box.root / "hooks-elsewhere")
    (box.root / ".git" / "hooks").mkdir()
    if not await job.wait(3):
        await job.stop()
        pytest.skip("this kernel keeps the mount where it was")
    assert "start it again" in (ends[0].denial or "")


@pytest.mark.clause("BND-12", "BND-14")
async def test_a_job_ends_when_a_hard_link_appears(box: Box, far: Path) -> None:
    if os.stat(far).st_dev != os.stat(box.root).st_dev:
        pytest.skip("the two folders are on different file systems, so no hard link can be made")
    ends = Ends()
    (far / "outside.txt").write_text("mine\n")
    job = await start(box, "sleep 60", ends)
    os.link(far / "outside.txt", box.root / "alias.txt")
    box.runner.begin_turn()
    await box.text("true")
    assert await job.wait(5)
    assert "hard link" in (ends[0].denial or "")


@pytest.mark.clause("BND-11", "BND-14")
async def test_ordinary_git_work_leaves_a_job_alone(box: Box) -> None:
    job = await start(box, "sleep 60")
    await box.text("echo b >file.txt; git add file.txt; git -c user.name=a -c user.email=a@b commit -qm x")
    git(box.root, "status")
    await asyncio.sleep(1.2)
    assert job.result is None
    await job.stop()


@pytest.mark.clause("BND-14", "QLT-12")
@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_harness_that_is_killed_takes_its_jobs_along(
    sandbox: None, git_repo: Callable[..., Path], tmp_path: Path, mode: str
) -> None:
    rest = {"on": "", "off": ", sandbox='off'", "no namespaces": ", sandbox='off', unconfined=Adopting()"}[mode]
    root = git_repo()
    for attempt in range(4):
        sleeper = tag()
        folder = tmp_path / str(attempt)
        folder.mkdir()
        program = textwrap.dedent(
            f"""
            import asyncio, math
            from pathlib import Path
            from tests.sandbox.kit import make_box
            from drawbar.boundary.unconfined import Adopting
            from drawbar.contracts.boundary import CommandRequest

            async def main():
                box = make_box(Path({str(root)!r}), Path({str(folder)!r}){rest})
                for n in range(3):
                    command = f"trap '' TERM HUP; setsid sleep {sleeper} & sleep {sleeper}; sleep {sleeper}"
                    await box.runner.start(CommandRequest(("/bin/bash", "-c", command), "workspace", math.inf), print)
                print("up", flush=True)
                while True:
                    await box.sh("true")

            asyncio.run(main())
            """
        )
        harness = subprocess.Popen(
            [sys.executable, "-c", program], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True
        )
        try:
            if attempt:
                assert harness.stdout is not None
                assert harness.stdout.readline() == "up\n"
                time.sleep(random.random() / 2)
            else:
                time.sleep(0.2 + random.random())  # in the middle of the starts
        finally:
            harness.send_signal(signal.SIGKILL)
            harness.communicate()
        end = time.monotonic() + 5
        while alive(f"sleep\0{sleeper}") and time.monotonic() < end:
            time.sleep(0.05)
        assert alive(f"sleep\0{sleeper}") == []
