"""What a command left is looked at before the harness itself writes, and before a person answers (QLT-3, BND-11)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.tools.kit import Person, Workshop

from drawbar.boundary import git_session
from drawbar.boundary.git_watch import GitWatch
from drawbar.contracts.boundary import Approval, ApprovalAsk
from drawbar.contracts.tool import ToolCall

PLANT = "git init -q n && printf '[core]\\n\\tfsmonitor = evil\\n' >>n/.git/config"


@pytest.fixture
def unhurried(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Looks take a while and results don't wait for them, as in a large tree."""
    whole = GitWatch.after

    async def slow(self: GitWatch, *rest: object) -> list[str]:
        await asyncio.sleep(0.3)
        return await whole(self)

    monkeypatch.setattr(git_session, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(GitWatch, "after", slow)
    return workshop


def planted(root: Path) -> bool:
    return "fsmonitor" in (root / "n/.git/config").read_text()


@pytest.mark.clause("QLT-3", "BND-11", "BND-7")
async def test_a_native_write_waits_for_it(unhurried: Workshop) -> None:
    bench = unhurried.bench()
    seen: list[bool] = []
    judge = bench.executor._gate.judge  # pyright: ignore[reportPrivateUsage]

    async def watched(call: ToolCall, **rest: object) -> object:
        if call.name == "write":
            seen.append(planted(bench.root))
        return await judge(call, **rest)  # pyright: ignore[reportArgumentType]

    bench.executor._gate.judge = watched  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    await bench.call("bash", command=PLANT)
    assert planted(bench.root), "the result didn't wait"
    assert not (await bench.call("write", path="new.txt", content="x\n")).is_error
    assert seen == [False]


@pytest.mark.clause("QLT-3", "BND-11", "SES-18")
async def test_a_persons_answer_waits_for_it(unhurried: Workshop) -> None:
    seen: list[bool] = []

    async def look(_ask: ApprovalAsk) -> Approval:
        seen.append(planted(bench.root))
        return Approval("a_1", "once", by="person")

    bench = unhurried.bench(approval="ask", person=Person("once", look))
    await bench.call("bash", command=PLANT)
    await bench.call("bash", command="true")
    assert seen == [False]
