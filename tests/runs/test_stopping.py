"""A person's stop is quick, complete and final, whatever the run is doing."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.runs.kit import Bench, bench, gone_within, marked_processes, of, payload, types

from drawbar.contracts.errors import RunNotActive
from drawbar.contracts.events.base import Event
from drawbar.testing.scenario import Block, Fault, Pace, Turn
from drawbar.testing.scripted_model import reply, say, use

SLOW = Turn(reply=[Block(text="word " * 2000)], pace=Pace(chunk_chars=5, each_ms=20))
SILENT = Turn(reply=[Block(text="x")], fault=Fault(kind="hang"))


async def interrupt_at(b: Bench, run_id: str, kind: str) -> float:
    """Stop the run at its first event of ``kind``; the seconds that the stop took."""
    await b.until(run_id, lambda event: event.type == kind)
    began = time.monotonic()
    answer = await b.harness.runs.interrupt(run_id)
    assert answer.settled
    return time.monotonic() - began


def settled_as_stopped(b: Bench, run_id: str, events: list[Event]) -> None:
    record = b.harness.runs.get(run_id)
    assert (record.status, record.terminal_code) == ("interrupted", "user_abort")
    assert events[-1].type == "status.changed"
    assert payload(events[-1])["code"] == "user_abort"
    assert b.harness.runs.verify(run_id).ok


@pytest.mark.clause("RUN-10", "MDL-6")
async def test_a_stop_while_the_model_talks_closes_its_connection_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path, [SLOW]) as b:
        run_id = await b.start()
        took = await interrupt_at(b, run_id, "message.delta")
        stopped = time.monotonic()
        assert took < 1
        events = await b.finish(run_id)
        settled_as_stopped(b, run_id, events)
        await asyncio.sleep(0.05)
        left = b.server.requests[0].disconnected_at
        assert left is not None
        assert left - (stopped - took) < 0.1
        # What was said stays readable, and is not sent again as if it were an answer.
        last = b.messages(b.harness.runs.get(run_id))[-1]
        assert (last["role"], last["stopReason"]) == ("assistant", "aborted")
        assert of(events, "usage.updated")[-1]["request"]["ok"] is False


@pytest.mark.clause("RUN-10", "MDL-6")
async def test_a_stop_before_the_model_answers(tmp_path: Path) -> None:
    async with bench(tmp_path, [SILENT]) as b:
        run_id = await b.start()
        assert await interrupt_at(b, run_id, "context.snapshot") < 1
        settled_as_stopped(b, run_id, await b.finish(run_id))


@pytest.mark.clause("RUN-10")
async def test_a_stop_in_the_moment_of_starting(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _received: say("Done.")) as b:
        for _ in range(5):
            run_id = await b.start()
            await b.harness.runs.interrupt(run_id)
            settled_as_stopped(b, run_id, await b.finish(run_id))


STUBBORN = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 60' &) ; sleep 60 & sleep 60; touch late"


@pytest.mark.clause("RUN-10", "QLT-12", "ENG-3")
@pytest.mark.bug("PRC-03", "PRC-05")
@pytest.mark.parametrize("sandbox", ["on", "off"])
async def test_a_stop_ends_running_tools_with_their_whole_trees(tmp_path: Path, sandbox: str) -> None:
    turns = [
        reply(
            Block(tool="bash", id="toolu_one", arguments={"command": STUBBORN}),
            Block(tool="bash", id="toolu_two", arguments={"command": "touch second"}),
        )
    ]
    async with bench(tmp_path, turns) as b:
        run_id = await b.start(sandbox=sandbox)
        await b.until(run_id, lambda event: event.type == "tool.started")
        await asyncio.sleep(0.5)
        assert marked_processes(run_id)
        took = await interrupt_at(b, run_id, "tool.started")
        assert took < 2.5
        assert gone_within(lambda: not marked_processes(run_id), 0.5)
        events = await b.finish(run_id)
        settled_as_stopped(b, run_id, events)
        # Every open call is paired, in the history and in the log.
        results = {m["toolCallId"]: m for m in b.messages(b.harness.runs.get(run_id)) if m["role"] == "toolResult"}
        assert set(results) == {"toolu_one", "toolu_two"}
        assert all(result["isError"] for result in results.values())
        assert of(events, "tool.completed")[0]["cause"] == "aborted"
        assert not (b.project / "late").exists()
        assert not (b.project / "second").exists()


@pytest.mark.clause("RUN-10", "SES-18")
async def test_a_stop_while_a_person_is_asked(tmp_path: Path) -> None:
    async with bench(tmp_path, [use("bash", {"command": "touch sentinel"})]) as b:
        run_id = await b.start(approval="ask", ask_timeout_s=60)
        assert await interrupt_at(b, run_id, "approval.requested") < 1
        events = await b.finish(run_id)
        settled_as_stopped(b, run_id, events)
        assert "approval.resolved" not in types(events)
        assert not (b.project / "sentinel").exists()


@pytest.mark.clause("RUN-9", "RUN-10")
async def test_a_settled_run_cannot_be_stopped_again(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("Done.")]) as b:
        record, _ = await b.run()
        with pytest.raises(RunNotActive, match="settled as completed"):
            await b.harness.runs.interrupt(record.id)


@pytest.mark.clause("CON-4", "RUN-10", "ARC-5")
async def test_closing_the_harness_settles_what_lives(tmp_path: Path) -> None:
    async with bench(tmp_path, [use("bash", {"command": "sleep 60"})]) as b:
        run_id = await b.start()
        await b.until(run_id, lambda event: event.type == "tool.started")
        store = b.harness.runs
    record = store.get(run_id)
    assert (record.status, record.terminal_code) == ("interrupted", "terminal_closed")
    assert not marked_processes(run_id)


@pytest.mark.clause("QLT-8", "RUN-13")
async def test_a_finished_call_never_runs_again_after_a_stop(tmp_path: Path) -> None:
    turns = [
        use("bash", {"command": "echo ran >> log"}),
        SLOW,
        say("Continued."),
    ]
    async with bench(tmp_path, turns) as b:
        run_id = await b.start(session_id="talk")
        await interrupt_at(b, run_id, "tool.completed")
        record, _ = await b.run("Continue.", session_id="talk", resume=True)
        assert record.status == "completed"
        assert (b.project / "log").read_text() == "ran\n"
        assert b.server.errors == []
