"""A disk that refuses: seen at once, nothing acted on unrecorded, nothing settled as saved, nothing lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.runs.kit import bench, environment_for
from tests.stores.support import fill, small_disk

import drawbar
from drawbar.contracts.boundary import Approval, ApprovalAsk
from drawbar.contracts.errors import StorageFailed
from drawbar.runs import live as live_module
from drawbar.testing.scenario import Block
from drawbar.testing.scripted_model import ScriptedModel, reply, say, use


@pytest.mark.clause("QLT-6", "CON-34", "ACC-8", "RUN-13")
@pytest.mark.bug("SES-22")
async def test_a_full_disk_stops_the_run_and_the_next_one_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "FLUSH_FOR_S", 0.5)
    turns = [
        use("bash", {"command": "echo first >> log"}),
        use("bash", {"command": "echo second >> log"}),
        say("Third time."),
    ]
    with small_disk(tmp_path / "disk", 4096) as disk:
        root = disk / "data"
        async with bench(tmp_path, turns, data=root) as b:
            free = None

            async def fill_then_allow(ask: ApprovalAsk, approval_id: str) -> Approval:
                nonlocal free
                if "second" in ask.arguments["command"]:
                    free = fill(disk)
                return Approval(approval_id=approval_id, decision="once", by="test")

            run_id = await b.start(approval="ask", ask_handler=fill_then_allow, session_id="talk")
            live = b.harness.runs.live[run_id]
            await live.settled.wait()
            # What couldn't be recorded was not carried out, and whoever watches is told.
            assert (b.project / "log").read_text() == "first\n"
            assert live.fault is not None
            assert "space" in live.fault.lower() or "full" in live.fault.lower()
            with pytest.raises(StorageFailed):
                await b.start(session_id="talk", resume=True)
            assert (b.project / "log").read_text() == "first\n"
            assert free is not None
            free()
        async with ScriptedModel([say("Third time.")]) as server:
            environ = environment_for(server, root, tmp_path)
            async with drawbar.open(root, environ=environ) as harness:
                record = harness.runs.get(run_id)
                assert record.status in ("failed", "interrupted")
                assert harness.runs.verify(run_id).ok
                started = await harness.sessions.run(
                    drawbar.RunInput(text="Go on.", cwd=str(b.project), session_id="talk", resume=True)
                )
                async for _ in harness.runs.follow(started.run_id):
                    pass
                assert harness.runs.get(started.run_id).status == "completed"
            assert server.errors == []
            assert "first" in str(server.requests[0].parsed)


@pytest.mark.clause("QLT-6")
async def test_a_disk_that_recovers_in_time_lets_the_run_settle(tmp_path: Path) -> None:
    turns = [reply(Block(tool="bash", arguments={"command": "true"})), say("Done.")]
    with small_disk(tmp_path / "disk", 4096) as disk:
        async with bench(tmp_path, turns, data=disk / "data") as b:

            async def full_for_a_moment(ask: ApprovalAsk, approval_id: str) -> Approval:
                free = fill(disk)
                asyncio.get_running_loop().call_later(1.0, free)
                return Approval(approval_id=approval_id, decision="once", by="test")

            run_id = await b.start(approval="ask", ask_handler=full_for_a_moment)
            await b.harness.runs.live[run_id].settled.wait()
            record = b.harness.runs.get(run_id)
            assert record.status == "failed"
            assert record.terminal_code == "failed"
            assert b.harness.runs.verify(run_id).ok
            assert b.harness.runs.events(run_id)[-1].type == "failed"


@pytest.mark.clause("QLT-11")
async def test_a_root_that_was_replaced_carries_nothing_out(tmp_path: Path) -> None:
    turns = [use("bash", {"command": "touch sentinel"}), use("write", {"path": "b.txt", "content": "x"}), say("Done.")]
    async with bench(tmp_path, turns) as b:

        async def swap(ask: ApprovalAsk, approval_id: str) -> Approval:
            if b.project.exists() and not (tmp_path / "moved").exists():
                b.project.rename(tmp_path / "moved")
                b.project.mkdir()
            return Approval(approval_id=approval_id, decision="once", by="test")

        await b.run(approval="ask", ask_handler=swap)
        assert list(b.project.iterdir()) == []
        assert list((tmp_path / "moved").iterdir()) == []
