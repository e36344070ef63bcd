"""Asking a person: what they see, who may answer, and what becomes of an ask that nobody takes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.runs.kit import Bench, bench, of, types

from drawbar.contracts.boundary import Approval, ApprovalAsk
from drawbar.contracts.errors import InvalidInput, NotFound
from drawbar.contracts.methods import ApproveInput
from drawbar.testing.scripted_model import say, use

TOUCH = [use("bash", {"command": "touch sentinel"}), say("Done.")]


class Person:
    """Answers asks as told, and remembers what they were shown."""

    def __init__(self, *answers: tuple[str, str | None] | None) -> None:
        self.answers = list(answers)
        self.asked: list[ApprovalAsk] = []

    async def __call__(self, ask: ApprovalAsk, approval_id: str) -> Approval | None:
        self.asked.append(ask)
        answer = self.answers.pop(0)
        if answer is None:
            return None
        decision: Any = answer[0]
        return Approval(approval_id=approval_id, decision=decision, by="test", message=answer[1])


async def ask_run(b: Bench, person: Person | None, **fields: Any) -> tuple[Any, Any]:
    return await b.run(approval="ask", ask_handler=person, **fields)


@pytest.mark.clause("SES-18", "BND-6", "CON-14")
async def test_an_allowed_call_runs_and_both_sides_are_recorded(tmp_path: Path) -> None:
    async with bench(tmp_path, TOUCH) as b:
        person = Person(("once", None))
        record, events = await ask_run(b, person)
        assert (b.project / "sentinel").exists()
        assert record.status == "completed"
        asked = of(events, "approval.requested")[0]
        assert asked["tool"] == "bash"
        assert asked["arguments"] == {"command": "touch sentinel"}
        assert asked["scope"] == "workspace"
        assert asked["reason"]
        resolved = of(events, "approval.resolved")[0]
        assert (resolved["decision"], resolved["by"]) == ("once", "test")
        assert [s["to"] for s in of(events, "status.changed")] == ["running", "waiting_for_approval", "running"]
        order = types(events)
        assert order.index("approval.resolved") < order.index("tool.started")
        assert person.asked[0].arguments == {"command": "touch sentinel"}
        assert person.asked[0].rule is not None
        assert asked["rule"] == person.asked[0].rule.pattern


@pytest.mark.clause("SES-18")
async def test_a_denied_call_does_not_run_and_the_model_is_told_why(tmp_path: Path) -> None:
    async with bench(tmp_path, TOUCH) as b:
        record, events = await ask_run(b, Person(("deny", "use git instead")))
        assert not (b.project / "sentinel").exists()
        refused = of(events, "tool.refused")[0]
        assert refused["cause"] == "person"
        last = b.server.requests[-1].parsed
        assert "use git instead" in str(last)
        assert record.status == "completed"


@pytest.mark.clause("SES-18", "QLT-4")
async def test_for_the_session_covers_the_same_command_again_and_no_other(tmp_path: Path) -> None:
    turns = [
        use("bash", {"command": "touch sentinel"}),
        use("bash", {"command": "touch sentinel"}),
        use("bash", {"command": "touch sentinel; touch other"}),
        say("Done."),
    ]
    async with bench(tmp_path, turns) as b:
        person = Person(("session", None), ("deny", None))
        await ask_run(b, person)
        assert [ask.arguments["command"] for ask in person.asked] == [
            "touch sentinel",
            "touch sentinel; touch other",
        ]
        assert not (b.project / "other").exists()


@pytest.mark.clause("SES-18", "BND-16")
async def test_always_is_kept_for_later_runs_of_the_same_project_alone(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda r: TOUCH[0] if "toolResult" not in str(r.parsed) and "tool_result" not in str(
        r.parsed) else TOUCH[1]) as b:  # fmt: skip
        first = Person(("always", None))
        await ask_run(b, first)
        again = Person()
        record, events = await ask_run(b, again)
        assert again.asked == []
        assert of(events, "tool.started")[0]["decision"]["rule"]
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        other = Person(("deny", None))
        await ask_run(b, other, cwd=str(elsewhere))
        assert len(other.asked) == 1
        assert not (elsewhere / "sentinel").exists()
        assert record.status == "completed"


@pytest.mark.clause("RUN-35")
async def test_an_ask_that_nobody_takes_is_refused_and_the_run_goes_on(tmp_path: Path) -> None:
    async with bench(tmp_path, TOUCH) as b:
        began = time.monotonic()
        record, events = await ask_run(b, None)
        assert time.monotonic() - began < 5
        assert record.status == "completed"
        assert record.automatic is False
        assert of(events, "tool.refused")[0]["code"] == "needs_approval"
        assert not (b.project / "sentinel").exists()
        assert "approval.requested" in types(events)


@pytest.mark.clause("RUN-35", "QLT-21")
async def test_an_ask_waits_for_other_surfaces_as_long_as_it_was_told(tmp_path: Path) -> None:
    async with bench(tmp_path, TOUCH) as b:
        began = time.monotonic()
        record, events = await ask_run(b, None, ask_timeout_s=0.5)
        assert 0.5 <= time.monotonic() - began < 5
        assert of(events, "tool.refused")[0]["code"] == "needs_approval"
        assert record.status == "completed"


@pytest.mark.clause("SES-18", "RUN-9")
async def test_the_first_answer_of_several_surfaces_wins(tmp_path: Path) -> None:
    async with bench(tmp_path, TOUCH) as b:
        shown = asyncio.Event()

        async def never(ask: ApprovalAsk, approval_id: str) -> Approval | None:
            shown.set()
            await asyncio.sleep(60)
            return None

        run_id = await b.start(approval="ask", ask_handler=never)
        await shown.wait()
        with pytest.raises(NotFound):
            await b.harness.runs.approve(ApproveInput(run=run_id, decision="once", approval="a_nonsense"))
        answer = await b.harness.runs.approve(ApproveInput(run=run_id, decision="once"))
        assert answer.decision == "once"
        events = await b.finish(run_id)
        assert (b.project / "sentinel").exists()
        assert len(of(events, "approval.resolved")) == 1
        with pytest.raises(Exception, match="settled"):
            await b.harness.runs.approve(ApproveInput(run=run_id, decision="once"))


@pytest.mark.clause("RUN-6", "BND-6", "CON-6")
@pytest.mark.parametrize("trigger", ["user", "probe", "improver", "reflection", "role"])
async def test_an_automatic_run_is_never_asked_about(tmp_path: Path, trigger: str) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("zanzibar-7")
    async with bench(tmp_path, [use("read", {"path": str(outside)}), say("Done.")]) as b:
        person = Person(("once", None))
        record, events = await ask_run(b, person, trigger=trigger, automatic=trigger == "user")
        assert person.asked == []
        assert record.automatic
        assert "approval.requested" not in types(events)
        assert of(events, "tool.refused")[0]["cause"] == "policy"
        assert "zanzibar-7" not in str(b.server.requests[-1].parsed)


@pytest.mark.clause("BND-3", "SES-18")
async def test_what_runs_is_what_was_judged_even_when_the_disk_changed_meanwhile(tmp_path: Path) -> None:
    turns = [use("write", {"path": "folder/a.txt", "content": "x"}), say("Done.")]
    async with bench(tmp_path, turns) as b:
        (b.project / "folder").mkdir()
        outside = tmp_path / "outside"
        outside.mkdir()

        async def swap(ask: ApprovalAsk, approval_id: str) -> Approval | None:
            (b.project / "folder").rename(b.project / "moved")
            (b.project / "folder").symlink_to(outside)
            return Approval(approval_id=approval_id, decision="once", by="test")

        _, events = await b.run(approval="ask", ask_handler=swap)
        assert list(outside.iterdir()) == []
        assert of(events, "tool.refused")[0]["cause"] == "policy"


@pytest.mark.clause("SES-18", "RUN-9")
async def test_several_pending_asks_must_be_named(tmp_path: Path) -> None:
    from drawbar.testing.scenario import Block
    from drawbar.testing.scripted_model import reply

    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text(name)
    turns = [
        reply(
            Block(tool="read", arguments={"path": str(tmp_path / "one.txt")}),
            Block(tool="read", arguments={"path": str(tmp_path / "two.txt")}),
        ),
        say("Done."),
    ]
    async with bench(tmp_path, turns) as b:
        run_id = await b.start(approval="ask", ask_timeout_s=30)
        await b.until(run_id, lambda event: event.type == "approval.requested")
        pending = b.harness.runs.live[run_id].pending
        # A question holds up the calls after it (BND-3), so one waits at a time.
        assert len(pending) == 1
        await b.harness.runs.approve(ApproveInput(run=run_id, decision="once", approval=pending[0][:20]))
        while b.harness.runs.live[run_id].pending in ((), pending):
            await asyncio.sleep(0.01)
        await b.harness.runs.approve(ApproveInput(run=run_id, decision="deny"))
        events = await b.finish(run_id)
        assert "one.txt" in str(b.server.requests[-1].parsed)
        assert [r["decision"] for r in of(events, "approval.resolved")] == ["once", "deny"]
        with pytest.raises((NotFound, InvalidInput, Exception)):
            await b.harness.runs.approve(ApproveInput(run=run_id, decision="once", approval="a_"))


@pytest.mark.clause("SES-18", "QLT-2")
async def test_an_answer_to_another_question_is_no_answer(tmp_path: Path) -> None:
    async with bench(tmp_path, TOUCH) as b:

        async def confused(ask: ApprovalAsk, approval_id: str) -> Approval | None:
            return Approval(approval_id="a_wrong", decision="once", by="test")

        _, events = await b.run(approval="ask", ask_handler=confused)
        assert not (b.project / "sentinel").exists()
        assert of(events, "tool.refused")[0]["code"] == "needs_approval"


@pytest.mark.clause("BND-16")
async def test_without_the_sandbox_no_answer_is_taken_from_elsewhere(tmp_path: Path) -> None:
    """A command could have any program of the machine answer for it, and no sign of the call would show."""
    import sys

    from tests.runs.kit import environment_for

    code = (
        "import asyncio, sys, drawbar\n"
        "from drawbar.contracts.methods import ApproveInput\n"
        "async def main():\n"
        "    async with drawbar.open() as h:\n"
        "        try:\n"
        "            await h.runs.approve(ApproveInput(run=sys.argv[1], decision='once'))\n"
        "        except drawbar.DrawbarError as error:\n"
        "            print(error.code, error.message)\n"
        "asyncio.run(main())\n"
    )
    async with bench(tmp_path, TOUCH) as b:
        run_id = await b.start(approval="ask", sandbox="off", ask_timeout_s=30)
        await b.until(run_id, lambda event: event.type == "approval.requested")
        environ = environment_for(b.server, b.data, tmp_path)
        answer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, run_id, env=environ, stdout=asyncio.subprocess.PIPE
        )
        said = (await answer.communicate())[0].decode()
        assert said.startswith("not_permitted")
        assert "own terminal" in said
        assert b.harness.runs.live[run_id].pending
        await b.harness.runs.interrupt(run_id)
        assert not (b.project / "sentinel").exists()


@pytest.mark.clause("SES-18")
async def test_for_the_session_reaches_its_next_run_and_no_other_session(tmp_path: Path) -> None:
    def answer(received: Any) -> Any:
        return TOUCH[1] if received.parsed["messages"][-1]["content"][0]["type"] == "tool_result" else TOUCH[0]

    async with bench(tmp_path, answer) as b:
        await ask_run(b, Person(("session", None)), session_id="talk")
        again = Person()
        record, _ = await ask_run(b, again, session_id="talk", resume=True)
        assert again.asked == []
        assert record.status == "completed"
        other = Person(("deny", None))
        await ask_run(b, other, session_id="other")
        assert len(other.asked) == 1
