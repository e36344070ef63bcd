"""A harness that died: its runs are settled, nothing ran again, nothing is left, and the conversation goes on."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from tests.runs.kit import bench, environment_for, gone_within, marked_processes, of

import drawbar
from drawbar.contracts.methods import ListRuns
from drawbar.stores.history import read_history
from drawbar.testing.scenario import Block
from drawbar.testing.scripted_model import ScriptedModel, reply, say, use

DRIVER = textwrap.dedent(
    """
    import asyncio, os, sys
    import drawbar
    from drawbar.contracts.run import RunInput

    async def main():
        async with drawbar.open() as harness:
            started = await harness.sessions.run(
                RunInput(text="Do it.", cwd=sys.argv[1], approval="auto-workspace", session_id=sys.argv[2],
                         sandbox=sys.argv[3] if len(sys.argv) > 3 else None))
            print(started.run_id, flush=True)
            async for event in harness.runs.follow(started.run_id):
                print(event.type, flush=True)

    asyncio.run(main())
    """
)

WORK = [
    reply(Block(text="Looking at it. " * 20), Block(tool="bash", arguments={"command": "echo one >> log; sleep 0.05"})),
    use("write", {"path": "made.txt", "content": "made\n"}),
    reply(
        Block(tool="read", arguments={"path": "made.txt"}),
        Block(tool="bash", arguments={"command": "(sleep 30 &) ; echo two >> log"}),
    ),
    say("All done. " * 20),
]


class Driver:
    """A harness in a process of its own."""

    def __init__(self, project: Path, session: str, environ: dict[str, str], *more: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(project), session, *more],
            env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def until(self, kind: str) -> None:
        while (line := self.line()) != kind:
            assert line, f"the run ended before {kind}"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.mark.clause("RUN-13", "CON-4", "QLT-21", "SES-21", "QLT-8")
@pytest.mark.bug("STL-01", "STL-10")
@pytest.mark.parametrize("sandbox", ["on", "off"])
async def test_a_killed_owner_leaves_a_run_that_is_settled_and_a_call_that_is_unknown(
    tmp_path: Path, sandbox: str
) -> None:
    project, root = tmp_path / "project", tmp_path / "data"
    project.mkdir()
    command = {"command": "echo ran >> log; sleep 60"}
    turns = [reply(Block(tool="bash", id="toolu_1", arguments=command)), say("Continued.")]
    async with ScriptedModel(turns) as server:
        environ = environment_for(server, root, tmp_path)
        driver = Driver(project, "talk", environ, sandbox)
        run_id = await asyncio.to_thread(driver.line)
        await asyncio.to_thread(driver.until, "tool.started")
        assert gone_within((project / "log").exists, 5)
        driver.kill()
        assert gone_within(lambda: not marked_processes(run_id), 3)
        requests = len(server.requests)
        async with drawbar.open(root, environ=environ) as harness:
            assert harness.recovery.interrupted_run_ids == [run_id]
            assert len(server.requests) == requests
            record = harness.runs.get(run_id)
            assert (record.status, record.terminal_code) == ("interrupted", "owner_gone")
            assert record.ended_at
            assert record.log_head
            assert harness.runs.verify(run_id).ok
            events = harness.runs.events(run_id)
            ended = of(events, "tool.completed")[0]
            assert ended["cause"] == "unknown"
            results = [
                entry["message"]
                for entry in read_history(Path(str(record.native_history))).entries
                if entry.get("type") == "message" and entry["message"]["role"] == "toolResult"
            ]
            assert [r["toolCallId"] for r in results] == ["toolu_1"]
            assert "unknown" in results[0]["content"][0]["text"]
            assert list((root / "active").iterdir()) == []
            # The conversation goes on, and what may have run is not run again.
            started = await harness.sessions.run(
                drawbar.RunInput(text="Go on.", cwd=str(project), approval="auto-workspace", session_id="talk",
                                 resume=True)
            )  # fmt: skip
            async for _ in harness.runs.follow(started.run_id):
                pass
            assert harness.runs.get(started.run_id).status == "completed"
        assert (project / "log").read_text() == "ran\n"
        assert server.errors == []
        async with drawbar.open(root, environ=environ) as harness:
            assert harness.recovery.interrupted_run_ids == []


@pytest.mark.clause("RUN-13", "QLT-21", "CON-27")
async def test_a_run_of_a_live_owner_is_left_alone(tmp_path: Path) -> None:
    async with bench(tmp_path, [use("bash", {"command": "sleep 1"}), say("Done.")]) as b:
        run_id = await b.start()
        code = (
            "import asyncio, drawbar, json\n"
            "async def main():\n"
            "    async with drawbar.open() as h:\n"
            "        print(json.dumps([h.recovery.interrupted_run_ids, h.runs.get('" + run_id + "').status]))\n"
            "asyncio.run(main())\n"
        )
        environ = {**os.environ, "DRAWBAR_HOME": str(b.data)}
        seen = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
        )
        assert json.loads(seen.stdout) == [[], "running"]
        await b.finish(run_id)
        assert b.harness.runs.get(run_id).status == "completed"


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.clause("RUN-13", "CON-13", "CON-15", "CON-37", "QLT-5", "QLT-6", "QLT-21")
@pytest.mark.bug("STL-01", "STL-03", "STL-04", "STL-10", "SES-01")
async def test_kill_at_two_hundred_random_instants(tmp_path: Path) -> None:
    """Whatever the instant, the root opens, verifies and lists, and no process is left."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    root = tmp_path / "data"
    runs: list[str] = []
    finished = 0
    longest = 1.5
    for number in range(200):
        project = tmp_path / f"project{number}"
        project.mkdir()
        async with ScriptedModel(WORK) as server:
            environ = environment_for(server, root, tmp_path)
            began = time.monotonic()
            driver = Driver(project, f"talk{number}", environ)
            await asyncio.sleep(rng.uniform(0.1, longest))
            ended_alone = driver.process.poll() is not None
            driver.kill()
            if ended_alone:
                finished += 1
                longest = max(0.8, (time.monotonic() - began) * 0.95)
            async with drawbar.open(root, environ=environ) as harness:
                listed = harness.runs.list(ListRuns(limit=1000)).runs
                fresh = [record for record in listed if record.id not in runs]
                assert len(fresh) <= 1, f"seed {seed}"
                for record in fresh:
                    runs.append(record.id)
                    assert record.status in ("interrupted", "completed"), f"seed {seed}: {record}"
                    assert harness.runs.verify(record.id).ok, f"seed {seed}: {harness.runs.verify(record.id)}"
                    assert harness.runs.inspect(record.id).skipped == [], f"seed {seed}"
                    assert gone_within(lambda run=record.id: not marked_processes(run), 3), f"seed {seed}"
                    if record.native_history and Path(record.native_history).exists():
                        calls, results = _calls(Path(record.native_history))
                        assert calls == results, f"seed {seed}: {record.id}"
                assert list((root / "active").iterdir()) == [], f"seed {seed}"
                assert len(listed) == len(runs), f"seed {seed}"
        log = project / "log"
        assert not log.exists() or sorted(set(log.read_text().split())) == sorted(log.read_text().split())
    assert len(runs) > 100
    assert finished < 190, "the kills came too late to show anything"


def _calls(path: Path) -> tuple[set[str], set[str]]:
    calls: set[str] = set()
    results: set[str] = set()
    for entry in read_history(path).entries:
        message = entry.get("message") or {}
        if message.get("role") == "toolResult":
            results.add(message["toolCallId"])
        for block in message.get("content") or ():
            if isinstance(block, dict) and block.get("type") == "toolCall":
                calls.add(block["id"])
    return calls, results


@pytest.mark.clause("RUN-13", "CON-27")
@pytest.mark.bug("STL-04")
async def test_a_lock_that_outlives_its_dead_owner_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """A child between fork and exec holds its parent's locks; the run must not stay active for that."""
    project, root = tmp_path / "project", tmp_path / "data"
    project.mkdir()
    async with ScriptedModel([use("bash", {"command": "sleep 60"})]) as server:
        environ = environment_for(server, root, tmp_path)
        driver = Driver(project, "talk", environ)
        run_id = await asyncio.to_thread(driver.line)
        await asyncio.to_thread(driver.until, "tool.started")
        log = root / "runs" / run_id / "events.jsonl"
        keeper = (
            "import fcntl, os, sys, time\n"
            "fd = os.open(sys.argv[1], os.O_RDWR)\n"
            "print('ready', flush=True)\n"
            "fcntl.flock(fd, fcntl.LOCK_EX)\n"
            "print('held', flush=True)\n"
            "time.sleep(0.4)\n"
        )
        held = subprocess.Popen([sys.executable, "-c", keeper, str(log)], stdout=subprocess.PIPE, text=True)
        assert held.stdout is not None
        assert held.stdout.readline() == "ready\n"
        driver.kill()
        assert held.stdout.readline() == "held\n"
        async with drawbar.open(root, environ=environ) as harness:
            assert harness.recovery.interrupted_run_ids == [run_id]
        held.communicate()


@pytest.mark.clause("BND-7", "RUN-13")
async def test_the_temporary_file_of_a_write_that_died_is_swept(tmp_path: Path) -> None:
    from drawbar.boundary.temporaries import temporary_name

    project, root = tmp_path / "project", tmp_path / "data"
    (project / "sub").mkdir(parents=True)
    turns = [
        reply(
            Block(tool="write", arguments={"path": "sub/made.txt", "content": "made\n"}),
            Block(tool="bash", arguments={"command": "sleep 60"}),
        )
    ]
    async with ScriptedModel(turns) as server:
        environ = environment_for(server, root, tmp_path)
        driver = Driver(project, "talk", environ)
        await asyncio.to_thread(driver.until, "tool.completed")
        left = project / "sub" / os.fsdecode(temporary_name(None, hashlib.sha256(b"half").hexdigest()))
        left.write_text("half")
        other = project / "sub" / "mine.tmp"
        other.write_text("a person's own")
        driver.kill()
        async with drawbar.open(root, environ=environ):
            assert not left.exists()
            assert other.exists()
            assert (project / "sub" / "made.txt").read_text() == "made\n"
