"""Every call is judged at its start, carried out as judged, and recorded once (BND-3, QLT-2, QLT-12, SES-21)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tools.kit import SECRET, Anything, Bench, MadeUp, Person, ScriptedGate, Workshop, allow, says

from drawbar.contracts.boundary import Approval, Grant, StandingRule, Verdict
from drawbar.contracts.errors import StorageFailed
from drawbar.contracts.tool import FileChange, ToolCall, ToolContext, ToolResult


def calls(*names: str) -> list[ToolCall]:
    return [ToolCall(f"c{number}", name, {}, "e_model") for number, name in enumerate(names)]


def ends_of(bench: Bench) -> dict[str, list[str]]:
    """The last events of each call: exactly one is what QLT-12 asks for."""
    found: dict[str, list[str]] = {}
    for event in bench.events("tool.completed", "tool.refused"):
        found.setdefault(event.call_id, []).append(getattr(event, "cause", ""))
    return found


# -- order and batches ------------------------------------------------------------------------------------


@pytest.mark.clause("SES-21", "CON-34")
async def test_start_is_on_disk_before_the_call_and_the_result_before_its_event(workshop: Workshop) -> None:
    seen: list[list[str]] = []
    bench: Bench

    async def look(_verdict: Verdict, _context: ToolContext) -> ToolResult:
        seen.append(bench.types())
        return ToolResult.text("looked")

    bench = workshop.bench(tools=[MadeUp("look", look)], gate=ScriptedGate(lambda call, _grant: allow(call)))
    await bench.execute(*calls("look"))
    assert seen == [["started", "tool.started"]]
    assert bench.order == ["tool.started c0", "result c0", "tool.completed c0"]
    started, completed = bench.events("tool.started", "tool.completed")
    assert started.entry_id == "e_model"
    assert completed.entry_id == "e_1"
    assert completed.sha256 == hashlib.sha256(b"looked").hexdigest()
    assert started.decision.outcome == "allow"
    assert started.decision.rule == "test"


@pytest.mark.clause("BND-3")
async def test_parallel_calls_run_together_and_any_other_waits_for_all_before_it(workshop: Workshop) -> None:
    log: list[str] = []
    tools = [
        MadeUp("look", says("seen", log, wait=0.05), parallel=True),
        MadeUp("change", says("done", log, wait=0.01)),
    ]
    gate = ScriptedGate(lambda call, _grant: allow(call))
    bench = workshop.bench(tools=tools, gate=gate)
    done = await bench.execute(*calls("look", "look", "change", "look", "change"))
    assert log[:2] == ["begin c0", "begin c1"]
    assert set(log[2:4]) == {"end c0", "end c1"}
    assert log[4:] == ["begin c2", "end c2", "begin c3", "end c3", "begin c4", "end c4"]
    assert [one.call.id for one in done] == ["c0", "c1", "c2", "c3", "c4"]


@pytest.mark.clause("BND-3")
async def test_each_call_is_judged_when_it_starts_not_when_the_batch_does(workshop: Workshop) -> None:
    log: list[str] = []

    def judge(call: ToolCall, _grant: Grant | None) -> Verdict:
        log.append(f"judge {call.id}")
        return allow(call)

    bench = workshop.bench(tools=[MadeUp("change", says("done", log))], gate=ScriptedGate(judge))
    await bench.execute(*calls("change", "change"))
    assert log == ["judge c0", "begin c0", "end c0", "judge c1", "begin c1", "end c1"]


@pytest.mark.clause("BND-3", "QLT-11")
async def test_a_link_made_by_the_first_call_is_seen_when_the_second_is_judged(workshop: Workshop) -> None:
    """Judging the whole batch first would let the read through (the hole of a gate that sees a batch at once)."""
    bench = workshop.bench(approval="never")
    done = await bench.execute(
        ToolCall("c0", "bash", {"command": "ln -s /etc outside"}),
        ToolCall("c1", "read", {"path": "outside/hostname"}),
    )
    assert not done[0].refused
    assert done[1].refused
    (refused,) = bench.events("tool.refused")
    assert (refused.call_id, refused.code, refused.cause) == ("c1", "outside_workspace", "policy")


@pytest.mark.clause("BND-3", "SES-18")
async def test_a_question_holds_up_the_calls_after_it(workshop: Workshop) -> None:
    log: list[str] = []

    async def slowly(ask: Any) -> Approval:
        log.append(f"asked {ask.call_id}")
        await asyncio.sleep(0.05)
        log.append("answered")
        return Approval("a_1", "once", by="person")

    def judge(call: ToolCall, grant: Grant | None) -> Verdict:
        if call.id == "c1" and grant is None:
            return Verdict(outcome="ask", message="look twice", arguments_sha256="d1")
        return allow(call, arguments_sha256="d1")

    tools = [MadeUp("look", says("seen", log), parallel=True)]
    bench = workshop.bench(tools=tools, gate=ScriptedGate(judge), person=Person(slowly))
    await bench.execute(*calls("look", "look", "look"))
    assert log.index("end c0") < log.index("answered")
    assert log.index("answered") < log.index("begin c1")
    assert log.index("answered") < log.index("begin c2")


# -- what runs is what was allowed --------------------------------------------------------------------------


async def hanging(_call: ToolCall, _grant: Grant | None) -> Verdict:
    await asyncio.sleep(60)
    raise AssertionError


def raising(_call: ToolCall, _grant: Grant | None) -> Verdict:
    raise RuntimeError("boom")


FAULTY_GATES: dict[str, Any] = {
    "missing": None,
    "raising": ScriptedGate(raising),
    "hanging": ScriptedGate(hanging),
    "garbled": ScriptedGate(lambda _call, _grant: {"outcome": "allow"}),
    "nothing": ScriptedGate(lambda _call, _grant: None),
    "unknown word": ScriptedGate(lambda _call, _grant: Verdict(outcome="yes")),  # pyright: ignore[reportArgumentType]
    "truthy": ScriptedGate(lambda _call, _grant: True),
    "allow without input": ScriptedGate(lambda _call, _grant: Verdict(outcome="allow")),
    "allow with another input": ScriptedGate(lambda _call, _grant: Verdict(outcome="allow", input=object())),
}


@pytest.mark.clause("QLT-2")
@pytest.mark.bug("HKS-01", "HKS-03", "HKS-04")
@pytest.mark.parametrize("fault", FAULTY_GATES)
@pytest.mark.parametrize("kind", ["read", "write", "execute", "internal"])
async def test_a_faulty_gate_blocks_every_kind_of_tool(workshop: Workshop, fault: str, kind: str) -> None:
    async def leave_a_sentinel(_verdict: Verdict, context: ToolContext) -> ToolResult:
        (context.root.path / "sentinel").touch()
        return ToolResult.text("ran")

    for parallel in (False, True):
        tool = MadeUp("act", leave_a_sentinel, kind=kind, parallel=parallel)
        bench = workshop.bench(tools=[tool], gate=FAULTY_GATES[fault], gate_limit_s=0.05)
        (done,) = await bench.execute(*calls("act"))
        assert done.refused
        assert not (bench.root / "sentinel").exists()
        assert bench.types() == ["started", "tool.refused"]
        (refused,) = bench.events("tool.refused")
        assert refused.cause == "fault"
        assert refused.code.startswith("gate_")


@pytest.mark.clause("QLT-2")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("bash", {"command": "touch sentinel"}),
        ("write", {"path": "sentinel", "content": "x"}),
        ("edit", {"path": "there.txt", "edits": [{"oldText": "old", "newText": "new"}]}),
    ],
)
@pytest.mark.parametrize("fault", ["missing", "raising", "garbled"])
async def test_a_faulty_gate_blocks_the_real_tools(
    workshop: Workshop, fault: str, name: str, arguments: dict[str, Any]
) -> None:
    bench = workshop.bench(gate=FAULTY_GATES[fault], files={"there.txt": "old\n"})
    (done,) = await bench.execute(ToolCall("c0", name, arguments))
    assert done.refused
    assert sorted(path.name for path in bench.root.iterdir()) == ["there.txt"]
    assert (bench.root / "there.txt").read_text() == "old\n"


@pytest.mark.clause("QLT-2", "BND-3")
async def test_an_allow_for_a_tool_that_the_run_lacks_runs_nothing(workshop: Workshop) -> None:
    bench = workshop.bench(tools=[], gate=ScriptedGate(lambda call, _grant: allow(call)))
    (done,) = await bench.execute(*calls("act"))
    assert done.refused
    assert bench.events("tool.refused")[0].code == "gate_unreadable"


@pytest.mark.clause("BND-3")
async def test_a_refused_call_has_a_result_that_names_its_reason_and_its_event_has_the_entry(
    workshop: Workshop,
) -> None:
    bench = workshop.bench(approval="read-only")
    (done,) = await bench.execute(ToolCall("c0", "write", {"path": "a", "content": "b"}))
    assert done.result.is_error
    (refused,) = bench.events("tool.refused")
    assert refused.code == "read_only"
    assert refused.message == done.result.joined
    assert refused.entry_id == "e_1"
    assert not (bench.root / "a").exists()


@pytest.mark.clause("BND-3")
async def test_descriptors_are_given_back_whatever_comes_of_the_call(workshop: Workshop) -> None:
    bench = workshop.bench(approval="ask", files={"a.txt": "a"}, person=Person("deny", "once"))
    await bench.call("ls")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await bench.call("read", path="a.txt")
        await bench.call("read", path="missing")
        await bench.call("write", path="b.txt", content="b")
        await bench.call("read", path="../outside")
    assert len(os.listdir("/proc/self/fd")) <= before


# -- asking a person --------------------------------------------------------------------------------------


@pytest.mark.clause("SES-18")
async def test_once_runs_exactly_this_call_and_the_next_is_asked_again(workshop: Workshop) -> None:
    person = Person("once")
    bench = workshop.bench(approval="ask", person=person)
    assert not (await bench.call("write", path="a.txt", content="1\n")).is_error
    assert (await bench.call("write", path="b.txt", content="2\n")).is_error
    assert [ask.arguments["path"] for ask in person.asked] == ["a.txt", "b.txt"]
    assert bench.saved == []
    assert bench.unanswered == [True]
    assert not (bench.root / "b.txt").exists()
    (refused,) = bench.events("tool.refused")
    assert (refused.code, refused.cause) == ("needs_approval", "policy")


@pytest.mark.clause("SES-18")
async def test_session_holds_for_the_session_and_always_is_saved_as_it_was_shown(workshop: Workshop) -> None:
    person = Person("session")
    bench = workshop.bench(approval="ask", person=person)
    for _ in range(2):
        assert not (await bench.call("bash", command="true")).is_error
    assert len(person.asked) == 1
    assert bench.saved == []
    person = Person("always")
    bench = workshop.bench(approval="ask", person=person)
    for _ in range(2):
        assert not (await bench.call("bash", command="true")).is_error
    assert len(person.asked) == 1
    assert bench.saved == [person.asked[0].rule]


@pytest.mark.clause("SES-18")
async def test_a_no_reaches_the_model_in_the_persons_words(workshop: Workshop) -> None:
    bench = workshop.bench(approval="ask", person=Person(Approval("a_1", "deny", by="p", message="use make instead")))
    result = await bench.call("bash", command="touch x")
    assert "use make instead" in result.joined
    assert not (bench.root / "x").exists()
    (refused,) = bench.events("tool.refused")
    assert (refused.code, refused.cause) == ("denied", "person")


@pytest.mark.clause("SES-18")
async def test_after_a_yes_the_gate_judges_again_and_has_the_last_word(workshop: Workshop) -> None:
    """The file is swapped for a link to the outside while the person reads the question."""
    bench: Bench

    async def swap(_ask: Any) -> Approval:
        (bench.root / "a.txt").symlink_to("/etc/hostname")
        return Approval("a_1", "once", by="person")

    bench = workshop.bench(approval="ask", person=Person(swap))
    (done,) = await bench.execute(ToolCall("c0", "write", {"path": "a.txt", "content": "x"}))
    assert done.refused
    assert (bench.root / "a.txt").is_symlink()


@pytest.mark.clause("SES-18", "QLT-2")
@pytest.mark.parametrize("answer", ["maybe", "yes", ""])
async def test_an_unknown_answer_is_no_yes(workshop: Workshop, answer: str) -> None:
    bench = workshop.bench(approval="ask", person=Person(answer))
    result = await bench.call("bash", command="touch x")
    assert result.is_error
    assert not (bench.root / "x").exists()


@pytest.mark.clause("SES-18", "QLT-2")
async def test_an_approver_or_a_rule_store_that_fails(workshop: Workshop) -> None:
    async def fails(_ask: Any) -> Approval:
        raise RuntimeError("the terminal is gone")

    bench = workshop.bench(approval="ask", person=Person(fails))
    assert (await bench.call("bash", command="touch x")).is_error
    assert bench.events("tool.refused")[0].cause == "fault"

    def full(_rule: StandingRule) -> None:
        raise StorageFailed("no space left")

    bench = workshop.bench(approval="ask", person=Person("always"))
    bench.executor._save_rule = full  # pyright: ignore[reportPrivateUsage]
    assert not (await bench.call("bash", command="touch x")).is_error
    assert bench.events("extension.notice")[0].code == "approval_not_saved"


@pytest.mark.clause("SES-18")
async def test_the_grant_is_for_the_bytes_that_were_asked_about(workshop: Workshop) -> None:
    gate = ScriptedGate(
        lambda call, grant: allow(call) if grant else Verdict(outcome="ask", arguments_sha256="abc", scope="workspace")
    )
    bench = workshop.bench(tools=[MadeUp("act", says("done"))], gate=gate, person=Person("once"))
    await bench.execute(*calls("act"))
    grant = gate.judged[1][1]
    assert grant is not None
    assert (grant.arguments_sha256, grant.scope, grant.by) == ("abc", "workspace", "person")


# -- exactly one end, whatever happens ----------------------------------------------------------------------


@pytest.mark.clause("QLT-12")
async def test_a_tool_that_raises_gives_an_error_result_and_the_batch_goes_on(workshop: Workshop) -> None:
    async def raises(_verdict: Verdict, _context: ToolContext) -> ToolResult:
        raise KeyError("what")

    async def lies(_verdict: Verdict, _context: ToolContext) -> ToolResult:
        return "a string"  # pyright: ignore[reportReturnType]

    tools = [MadeUp("raise", raises), MadeUp("lie", lies), MadeUp("fine", says("fine"))]
    bench = workshop.bench(tools=tools, gate=ScriptedGate(lambda call, _grant: allow(call)))
    done = await bench.execute(*calls("raise", "lie", "fine"))
    assert [one.result.is_error for one in done] == [True, True, False]
    assert "KeyError" in done[0].result.joined
    assert ends_of(bench) == {"c0": ["error"], "c1": ["error"], "c2": ["ok"]}


@pytest.mark.clause("QLT-12", "BND-18")
async def test_a_tool_that_outlives_its_limit_is_ended_and_the_reply_goes_on(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drawbar.tools.executor.WATCH_S", 0.05)
    tools = [MadeUp("slow", says("never", wait=60), limit_s=0.05), MadeUp("next", says("next"))]
    bench = workshop.bench(tools=tools, gate=ScriptedGate(lambda call, _grant: allow(call)))
    began = time.monotonic()
    done = await bench.execute(*calls("slow", "next"))
    assert time.monotonic() - began < 5
    assert done[0].result.cause == "timeout"
    assert done[1].result.joined == "next"
    assert ends_of(bench) == {"c0": ["timeout"], "c1": ["ok"]}


@pytest.mark.clause("QLT-12")
async def test_a_tool_that_will_not_stop_is_left_behind_and_reported(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drawbar.tools.executor.WATCH_S", 0.01)
    monkeypatch.setattr("drawbar.tools.executor.UNWIND_S", 0.1)
    free = asyncio.Event()

    async def stubborn(_verdict: Verdict, _context: ToolContext) -> ToolResult:
        while not free.is_set():
            try:
                await asyncio.wait_for(free.wait(), 10)
            except asyncio.CancelledError:
                continue
        return ToolResult.text("too late")

    tools = [MadeUp("stubborn", stubborn, limit_s=0.01)]
    bench = workshop.bench(tools=tools, gate=ScriptedGate(lambda call, _grant: allow(call)))
    (done,) = await bench.execute(*calls("stubborn"))
    assert done.result.cause == "timeout"
    assert bench.events("extension.notice")[0].code == "tool_left_behind"
    free.set()


async def stopped(bench: Bench, batch: list[ToolCall], after: float) -> None:
    task = asyncio.create_task(bench.execute(*batch))
    await asyncio.sleep(after)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.clause("QLT-12", "RUN-10")
async def test_a_stop_gives_every_call_of_the_batch_an_aborted_result(workshop: Workshop) -> None:
    tools = [
        MadeUp("quick", says("done")),
        MadeUp("slow", says("never", wait=60)),
        MadeUp("look", says("never"), parallel=True),
    ]
    bench = workshop.bench(tools=tools, gate=ScriptedGate(lambda call, _grant: allow(call)))
    await stopped(bench, calls("quick", "slow", "look", "look", "quick"), 0.1)
    assert ends_of(bench) == {"c0": ["ok"], **{f"c{n}": ["aborted"] for n in range(1, 5)}}
    assert [call.id for call, _result in bench.history] == ["c0", "c1", "c2", "c3", "c4"]
    assert all(result.is_error for _call, result in bench.history[1:])
    started = [event.call_id for event in bench.events("tool.started")]
    assert started == ["c0", "c1"]


@pytest.mark.clause("QLT-12", "RUN-10")
async def test_a_stop_while_parallel_calls_run_and_while_a_person_is_asked(workshop: Workshop) -> None:
    async def forever(_ask: Any) -> Approval:
        await asyncio.sleep(60)
        raise AssertionError

    def judge(call: ToolCall, _grant: Grant | None) -> Verdict:
        return Verdict(outcome="ask") if call.id == "c2" else allow(call)

    tools = [MadeUp("look", says("never", wait=60), parallel=True)]
    bench = workshop.bench(tools=tools, gate=ScriptedGate(judge), person=Person(forever))
    await stopped(bench, calls("look", "look", "look", "look"), 0.1)
    assert ends_of(bench) == {f"c{n}": ["aborted"] for n in range(4)}
    assert sorted(call.id for call, _result in bench.history) == ["c0", "c1", "c2", "c3"]


@pytest.mark.clause("QLT-8", "QLT-12")
async def test_a_tool_that_finishes_in_spite_of_a_stop_says_what_it_did(workshop: Workshop) -> None:
    """A write under way is finished, never cut; its record must not say less than the disk."""

    async def finishes(_verdict: Verdict, _context: ToolContext) -> ToolResult:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return ToolResult.text("written", changes=[FileChange("a", "created", None, "ab")])
        raise AssertionError

    bench = workshop.bench(tools=[MadeUp("act", finishes)], gate=ScriptedGate(lambda call, _grant: allow(call)))
    await stopped(bench, calls("act", "act"), 0.05)
    assert ends_of(bench) == {"c0": ["ok"], "c1": ["aborted"]}
    assert [event.path for event in bench.events("file.changed")] == ["a"]


class Disk:
    """An event writer on a disk that refuses from the ``after``-th event on, as the live run's: it keeps them."""

    def __init__(self, after: int) -> None:
        self.left = after
        self.written: list[Any] = []
        self.kept: list[Any] = []

    def __call__(self, payload: Any) -> None:
        if self.left > 0:
            self.left -= 1
            self.written.append(payload)
        else:
            self.kept.append(payload)
            raise StorageFailed("no space left on device")

    def all(self) -> list[str]:
        return [f"{event.event} {event.call_id}" for event in (*self.written, *self.kept) if event.event != "started"]


@pytest.mark.clause("ACC-8", "QLT-6", "CON-34")
@pytest.mark.parametrize("after", range(6))
async def test_what_can_not_be_recorded_is_not_carried_out_and_each_record_is_handed_over_once(
    workshop: Workshop, after: int
) -> None:
    log: list[str] = []
    disk = Disk(after)
    tools = [MadeUp("act", says("done", log))]
    bench = workshop.bench(tools=tools, gate=ScriptedGate(lambda call, _grant: allow(call)), emit=disk)
    with pytest.raises(StorageFailed):
        await bench.execute(*calls("act", "act", "act"))
    started_on_disk = [event.call_id for event in disk.written if event.event == "tool.started"]
    assert [entry for entry in log if entry.startswith("begin")] == [f"begin {call}" for call in started_on_disk]
    records = disk.all()
    assert len(records) == len(set(records))
    assert {record for record in records if "completed" in record} == {f"tool.completed c{n}" for n in range(3)}
    assert len(bench.history) == 3


@pytest.mark.clause("QLT-6", "QLT-12")
async def test_a_history_that_refuses_ends_the_batch_and_loses_no_event(workshop: Workshop) -> None:
    log: list[str] = []
    tools = [MadeUp("act", says("done", log))]
    bench = workshop.bench(tools=tools, gate=ScriptedGate(lambda call, _grant: allow(call)))

    def refuses(_call: ToolCall, _result: ToolResult) -> str:
        raise StorageFailed("no space left on device")

    with pytest.raises(StorageFailed):
        await bench.executor.execute(calls("act", "act"), refuses)
    assert log == ["begin c0", "end c0"]
    assert ends_of(bench) == {"c0": ["ok"], "c1": ["aborted"]}


@pytest.mark.clause("QLT-12", "BND-3")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batch=st.lists(
        st.tuples(
            st.sampled_from(["ok", "raise", "refuse", "ask", "fault", "slow"]),
            st.booleans(),
        ),
        max_size=7,
    ),
    answers=st.lists(st.sampled_from(["once", "deny", None, "what"]), max_size=7),
    stop_after=st.none() | st.integers(0, 12),
)
async def test_any_batch_ends_with_one_result_and_one_event_a_call(
    tmp_path_factory: pytest.TempPathFactory,
    batch: list[tuple[str, bool]],
    answers: list[str | None],
    stop_after: int | None,
) -> None:
    async def work(verdict: Verdict, context: ToolContext) -> ToolResult:
        what = batch[int(context.call_id[1:])][0]
        if what == "raise":
            raise ValueError("no")
        await asyncio.sleep(0.005 if what == "slow" else 0)
        return ToolResult.text("done")

    def judge(call: ToolCall, grant: Grant | None) -> Verdict:
        what = batch[int(call.id[1:])][0]
        if what == "fault":
            raise RuntimeError("gate")
        if what == "refuse":
            return Verdict(outcome="refuse", code="no", cause="policy", message="no")
        return Verdict(outcome="ask") if what == "ask" and grant is None else allow(call)

    class Counting(Person):
        async def request_approval(self, ask: Any) -> Approval:
            await asyncio.sleep(0)
            answer = answers.pop() if answers else None
            return Approval("a", answer, by="p")  # pyright: ignore[reportArgumentType]

    shop = Workshop(tmp_path_factory.mktemp("batch"))
    tools = [MadeUp("look", work, parallel=True), MadeUp("act", work)]
    bench = shop.bench(tools=tools, gate=ScriptedGate(judge), person=Counting())
    given_calls = [
        ToolCall(f"c{number}", "look" if parallel else "act", {}) for number, (_what, parallel) in enumerate(batch)
    ]
    task = asyncio.create_task(bench.execute(*given_calls))
    if stop_after is not None:
        for _ in range(stop_after):
            await asyncio.sleep(0)
        task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        assert stop_after is not None
    begun = task.done() and (bench.history or not given_calls or not task.cancelled())
    if begun:
        assert {name: len(ends) for name, ends in ends_of(bench).items()} == {call.id: 1 for call in given_calls}
        assert sorted(call.id for call, _result in bench.history) == sorted(call.id for call in given_calls)
        completed_without_start = {
            event.call_id for event in bench.events("tool.completed") if event.cause != "aborted"
        } - {event.call_id for event in bench.events("tool.started")}
        assert not completed_without_start
    await shop.close()


# -- what a result may hold ---------------------------------------------------------------------------------


@pytest.mark.clause("CON-38", "QLT-20")
async def test_a_result_is_redacted_once_and_history_and_event_hold_the_same(workshop: Workshop) -> None:
    async def leak(_verdict: Verdict, _context: ToolContext) -> ToolResult:
        return ToolResult.text(f"key={SECRET}", details={"diff": f"+{SECRET}", SECRET: 1})

    bench = workshop.bench(tools=[MadeUp("leak", leak)], gate=ScriptedGate(lambda call, _grant: allow(call)))
    await bench.execute(*calls("leak"))
    ((_call, result),) = bench.history
    assert SECRET not in str(result)
    assert "[redacted:planted]" in result.joined
    (completed,) = bench.events("tool.completed")
    assert completed.preview == result.joined
    assert completed.sha256 == hashlib.sha256(result.joined.encode()).hexdigest()


@pytest.mark.clause("CON-32", "QLT-20")
async def test_live_output_is_coalesced_and_a_secret_split_over_pieces_is_hidden(workshop: Workshop) -> None:
    async def talk(_verdict: Verdict, context: ToolContext) -> ToolResult:
        context.on_output("one ")
        context.on_output("two ")
        for piece in (SECRET[:7], SECRET[7:12], SECRET[12:], " three"):
            context.on_output(piece)
            await asyncio.sleep(0.08)
        for _ in range(5000):
            context.on_output("0123456789")
        return ToolResult.text("done")

    bench = workshop.bench(tools=[MadeUp("talk", talk)], gate=ScriptedGate(lambda call, _grant: allow(call)))
    await bench.execute(*calls("talk"))
    deltas = bench.events("tool.delta")
    text = "".join(delta.text for delta in deltas)
    assert text == "one two [redacted:planted] three" + "0123456789" * 5000
    assert len(deltas) <= 5 + 50_000 // 512 + 1
    assert SECRET[:7] not in text
    assert bench.types().index("tool.delta") > bench.types().index("tool.started")
    assert bench.types()[-1] == "tool.completed"


@pytest.mark.clause("QLT-12")
@pytest.mark.bug("PRC-06")
async def test_a_flood_is_shown_live_only_up_to_a_bound(workshop: Workshop) -> None:
    async def flood(_verdict: Verdict, context: ToolContext) -> ToolResult:
        for _ in range(2000):
            context.on_output("x" * 1024)
        return ToolResult.text("done")

    bench = workshop.bench(tools=[MadeUp("flood", flood)], gate=ScriptedGate(lambda call, _grant: allow(call)))
    await bench.execute(*calls("flood"))
    text = "".join(delta.text for delta in bench.events("tool.delta"))
    assert 128 * 1024 <= len(text) < 129 * 1024
    assert "live output ends here" in text


@pytest.mark.clause("ENG-6")
async def test_a_result_of_any_tool_is_bounded(workshop: Workshop) -> None:
    tools = [MadeUp("much", says("line of text\n" * 100_000)), MadeUp("wide", says("é" * 100_000))]
    bench = workshop.bench(tools=tools, gate=ScriptedGate(lambda call, _grant: allow(call)))
    for done in await bench.execute(*calls("much", "wide")):
        assert len(done.result.joined.encode()) < 53 * 1024
        assert "left out" in done.result.joined


@pytest.mark.clause("QLT-7")
@pytest.mark.bug("SES-14")
async def test_half_a_character_never_reaches_history_or_log(workshop: Workshop) -> None:
    async def halves(_verdict: Verdict, context: ToolContext) -> ToolResult:
        context.on_output("live \ud83d")
        return ToolResult.text("progress \ud83d… \ud83d\ude00", details={"a\udc00": ["\udfff"]})

    bench = workshop.bench(tools=[MadeUp("half", halves)], gate=ScriptedGate(lambda call, _grant: allow(call)))
    await bench.execute(*calls("half"))
    ((_call, result),) = bench.history
    assert result.joined == "progress \ufffd… \U0001f600"
    assert result.details == {"a\ufffd": ["\ufffd"]}
    (bench.folder / "events.jsonl").read_bytes().decode("utf-8")


@pytest.mark.clause("CON-25")
async def test_a_change_of_a_file_is_recorded_relative_to_the_root(workshop: Workshop) -> None:
    bench = workshop.bench()
    await bench.call("write", path="new/a.txt", content="one\n")
    (changed,) = bench.events("file.changed")
    assert (changed.path, changed.change, changed.before) == ("new/a.txt", "created", None)
    assert changed.after == hashlib.sha256(b"one\n").hexdigest()
    assert changed.call_id == "c0"
    types = bench.types()
    assert types.index("file.changed") < types.index("tool.completed")


@pytest.mark.clause("BND-3")
async def test_what_is_recorded_is_what_was_judged_not_what_the_model_sent(workshop: Workshop) -> None:
    """A hook may rewrite a call; the person is asked about, and the log shows, what will run."""
    rewritten = {"note": "safe"}

    def judge(call: ToolCall, grant: Grant | None) -> Verdict:
        verdict = allow(call) if grant else Verdict(outcome="ask")
        verdict.arguments, verdict.arguments_sha256 = rewritten, "d"
        return verdict

    person = Person("once")
    bench = workshop.bench(tools=[MadeUp("act", says("done"))], gate=ScriptedGate(judge), person=person)
    await bench.execute(ToolCall("c0", "act", {"note": "rm -rf /"}))
    assert person.asked[0].arguments == rewritten
    (started,) = bench.events("tool.started")
    assert (started.arguments, started.arguments_sha256) == (rewritten, "d")


@pytest.mark.bug("USE-07")
def test_two_tools_of_one_name_are_refused(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    with pytest.raises(ValueError, match="same name"):
        shop.bench(tools=[MadeUp("a", says("")), MadeUp("a", says(""))])


assert Anything
