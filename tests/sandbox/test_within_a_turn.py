"""Several commands in one turn, and a stop in the middle of one: what the first moved, the second can't use."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.runs.kit import bench, of

from drawbar.testing.scenario import Block
from drawbar.testing.scripted_model import reply, say, use


@pytest.mark.clause("BND-9", "BND-12")
@pytest.mark.bug("SBX-01")
@pytest.mark.parametrize("decoy", ["mkdir sub; echo decoy > sub/a", "true"])
async def test_a_hard_link_that_was_moved_is_not_written_through(tmp_path: Path, decoy: str) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("untouched\n")
    turns = [
        reply(
            Block(tool="bash", arguments={"command": f"mv sub sub2; {decoy}"}),
            Block(tool="bash", arguments={"command": "echo changed >> sub2/a"}),
        ),
        use("bash", {"command": "echo changed >> sub2/a"}),
        say("Done."),
    ]
    async with bench(tmp_path, turns) as b:
        (b.project / "sub").mkdir()
        os.link(outside, b.project / "sub" / "a")
        await b.run()
        assert outside.read_text() == "untouched\n"


@pytest.mark.clause("BND-17")
@pytest.mark.bug("APR-08")
async def test_what_deny_read_closes_stays_closed_when_its_folder_is_moved(tmp_path: Path) -> None:
    turns = [
        reply(
            Block(tool="bash", arguments={"command": "mv x y"}),
            Block(tool="bash", arguments={"command": "cat y/.env"}),
        ),
        say("Done."),
    ]
    async with bench(tmp_path, turns) as b:
        (b.project / ".drawbar").mkdir()
        (b.project / ".drawbar" / "config.toml").write_text('deny_read = [".env"]\n')
        (b.project / "x").mkdir()
        (b.project / "x" / ".env").write_text("closed-content-417\n")
        await b.run()
        assert "closed-content-417" not in str([received.parsed for received in b.server.requests])


@pytest.mark.clause("BND-11")
@pytest.mark.parametrize("how", ["stop", "limit"])
async def test_a_redirect_of_git_does_not_outlive_a_stopped_command(tmp_path: Path, git_repo, how: str) -> None:
    repo = git_repo({"a.txt": "a\n"}, name="project")
    command = (
        "mkdir -p evil; cp -r .git/objects .git/refs evil/; cp .git/HEAD evil/; echo ../evil > .git/commondir; sleep 30"
    )
    arguments = {"command": command} | ({"timeout": 1} if how == "limit" else {})
    async with bench(tmp_path, [use("bash", arguments), say("Done.")], project=repo) as b:
        run_id = await b.start()
        await b.until(run_id, lambda event: event.type == "tool.started")
        while not (repo / ".git" / "commondir").exists():
            await asyncio.sleep(0.02)
        if how == "stop":
            await b.harness.runs.interrupt(run_id)
        events = await b.finish(run_id)
        assert of(events, "tool.completed")[0]["cause"] in ("aborted", "timeout")
        assert not (repo / ".git" / "commondir").exists()
