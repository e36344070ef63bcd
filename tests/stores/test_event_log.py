"""The writer of a run's log: the envelope, what is refused, what comes too late, what is relayed when."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stores.support import (
    NOON,
    RUN,
    HeldClock,
    chain_holds,
    delta,
    lines_of,
    new_log,
    taken_over,
    unsettled,
    write_run,
)

from drawbar.contracts.errors import IncompatibleRoot, InvalidInput, SessionBusy
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.human import ApprovalResolved, QuestionAnswered
from drawbar.contracts.events.lifecycle import Completed, ExtensionNotice, Failed, Started, StatusChanged
from drawbar.contracts.events.message import MessageDelta
from drawbar.contracts.events.progress import TodoItem, TodoUpdated
from drawbar.contracts.events.tool import FileChanged, ToolStarted
from drawbar.contracts.status import EDGES, SETTLED
from drawbar.stores.event_reader import read_events
from drawbar.stores.verify import verify_run

# -- the envelope ---------------------------------------------------------------------------------------


@pytest.mark.clause("CON-11")
def test_a_line_is_seq_at_type_payload_and_a_chain_over_all_that_came_before(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    line = log.append(Started(run_id=RUN))
    log.append(StatusChanged(to="running"))
    log.append(delta("hello"))
    data = log.path.read_bytes()
    log.close()
    assert data.startswith(line)
    assert [list(found) for found in map(json.loads, data.splitlines())] == [
        ["seq", "at", "type", "payload", "chain"]
    ] * 3
    first = json.loads(line)
    assert first["seq"] == 0
    assert first["at"] == "2026-11-30T12:00:00.000Z"
    assert first["payload"]["schema_version"] == 1
    assert chain_holds(data)
    assert not chain_holds(data, "r_another")


@pytest.mark.clause("CON-11")
def test_the_head_names_the_last_line(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert log.head is None
    line = json.loads(log.append(Started(run_id=RUN)))
    assert log.head is not None
    assert (log.head.seq, log.head.chain) == (0, line["chain"])
    log.close()


@pytest.mark.clause("CON-11")
def test_time_never_runs_backwards_although_the_clock_does(tmp_path: Path) -> None:
    clock = HeldClock()
    log = new_log(tmp_path, clock=clock)
    for ms in (NOON, NOON + 1500, NOON - 3_600_000, NOON + 1499, NOON + 1501):
        clock.ms = ms
        log.append(delta("x"))
    log.close()
    times = [line["at"][11:] for line in lines_of(tmp_path)[1:]]
    assert times == ["12:00:00.000Z", "12:00:01.500Z", "12:00:01.500Z", "12:00:01.500Z", "12:00:01.501Z"]
    clock.ms = NOON - 86_400_000
    log = taken_over(tmp_path, clock=clock)
    log.append(delta("x"))
    log.close()
    assert lines_of(tmp_path)[-1]["at"] == "2026-11-30T12:00:01.501Z"


@pytest.mark.clause("CON-11")
def test_line_0_is_started_whoever_writes_first(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(StatusChanged(from_="queued", to="interrupted", code="harness_restart"))
    log.close()
    first, second = lines_of(tmp_path)
    assert first["type"] == "started"
    assert first["payload"]["schema_version"] == 1
    assert first["payload"]["run_id"] == RUN
    assert second["payload"]["code"] == "harness_restart"


@pytest.mark.clause("CON-11")
def test_started_is_written_once(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(Started(run_id=RUN))
    log.append(Started(run_id=RUN))
    log.close()
    assert [line["type"] for line in lines_of(tmp_path)] == ["started", "extension.notice"]


@pytest.mark.clause("CON-28")
def test_files_are_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        log = new_log(tmp_path / "run")
        log.append(Started(run_id=RUN))
        path = log.artifacts().path("out.txt")
        path.write_text("x")
        log.artifacts().added(path)
        log.append(StatusChanged(to="interrupted", code="user_abort"))
        log.append(delta("late"))
        log.close()
    finally:
        os.umask(old)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "run").rglob("*")}
    del modes["run.json"]
    assert modes == {"events.jsonl": 0o600, "late.jsonl": 0o600, "artifacts": 0o700, "out.txt": 0o600}


# -- what is refused ------------------------------------------------------------------------------------


@pytest.mark.clause("CON-10", "ARC-3")
@pytest.mark.parametrize(
    ("tag", "payload", "field"),
    [
        ("message.delta", {"message_id": "m_1", "block": "one", "kind": "text", "text": "x"}, "block"),
        ("message.delta", {"message_id": "m_1", "block": 0, "kind": "song", "text": "x"}, "kind"),
        ("message.delta", {"block": 0, "kind": "text", "text": "x"}, "message_id"),
        ("message.delta", {"message_id": "m_1", "block": 0, "kind": "text", "text": "x", "colour": "red"}, "colour"),
        ("todo.updated", {"items": [{"text": "a", "status": "pending", "owner": "me"}]}, "items[0].owner"),
        ("todo.updated", {"items": [{"text": "a", "status": "gone"}]}, "items[0].status"),
        ("todo.updated", {"items": [{"text": "a", "status": "pending"}] * 51}, "items"),
        ("checklist.updated", {"items": []}, ""),
        ("hologram.shown", {"x": 1}, ""),
        ("message.delta", {"message_id": "m_1", "block": 0, "kind": "text", "text": object()}, ""),
    ],
)
def test_an_event_that_does_not_fit_is_refused_with_the_field_named(
    tmp_path: Path, tag: str, payload: dict[str, Any], field: str
) -> None:
    log = new_log(tmp_path)
    line = json.loads(log.append_raw(tag, payload))
    after = json.loads(log.append(delta("the run goes on")))
    log.close()
    assert line["type"] == "extension.notice"
    assert line["payload"]["code"] == "event_refused"
    assert line["payload"]["details"]["type"] == tag
    assert line["payload"]["details"]["field"] == field
    assert tag in line["payload"]["message"]
    assert field in line["payload"]["message"]
    assert after["type"] == "message.delta"
    assert chain_holds(log.path.read_bytes())


@pytest.mark.clause("CON-10", "CON-22")
def test_a_typed_payload_is_decoded_strictly_too(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    wrong = MessageDelta(message_id="m_1", block=0, kind="text", text="x")
    wrong.block = "two"  # pyright: ignore[reportAttributeAccessIssue]
    assert json.loads(log.append(wrong))["payload"]["details"]["field"] == "block"
    sketch = {"questions": [{"text": "?", "choices": [{"label": "a", "sketch": "\t"}]}], "question_id": "q_1"}
    refused = json.loads(log.append_raw("question.requested", {**sketch, "ui_sketch": True}))
    assert refused["payload"]["details"]["field"] == "questions.choices.sketch"
    log.close()


@pytest.mark.clause("CON-10")
def test_a_class_outside_the_table_is_no_event(tmp_path: Path) -> None:
    class Other(Payload):
        event = "message.delta"
        text: str = ""

    log = new_log(tmp_path)
    assert json.loads(log.append(Other(text="x")))["type"] == "extension.notice"
    assert json.loads(log.append(Payload()))["type"] == "extension.notice"
    log.close()


@pytest.mark.clause("CON-10")
def test_raw_values_are_written_as_their_type_would_be(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    typed = json.loads(log.append(TodoUpdated(items=[TodoItem(text="a", status="pending")])))
    raw = json.loads(log.append_raw("todo.updated", {"items": [{"text": "a", "status": "pending"}]}))
    log.close()
    assert typed["payload"] == raw["payload"]


@pytest.mark.clause("CON-10", "QLT-1")
@pytest.mark.bug("SES-14")
def test_odd_file_names_and_halves_of_characters_are_recorded_not_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(FileChanged(path=os.fsdecode(b"caf\xe9.txt"), change="created"))
    log.append(delta("half an emoji: \ud83d"))
    log.append(
        ToolStarted(
            call_id="c", tool="write", arguments={"path\udcff": ["\ud83d"]}, arguments_sha256="0", entry_id="e",
            scope="workspace", decision={"outcome": "allow"},  # pyright: ignore[reportArgumentType]
        )
    )  # fmt: skip
    log.append_raw("message.delta", {"message_id": "m_1", "block": 0, "kind": "text", "text": "\udc80!"})
    log.close()
    lines = lines_of(tmp_path)
    assert [line["type"] for line in lines[1:]] == ["file.changed", "message.delta", "tool.started", "message.delta"]
    assert lines[1]["payload"]["path"] == "caf\ufffd.txt"
    assert lines[2]["payload"]["text"] == "half an emoji: \ufffd"
    assert lines[3]["payload"]["arguments"] == {"path\ufffd": ["\ufffd"]}
    log.path.read_bytes().decode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec=None)),  # pyright: ignore[reportArgumentType]
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@pytest.mark.clause("CON-10", "CON-11")
@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["message.delta", "tool.delta", "extension.notice", "todo.updated", "heartbeat", "no.such"]
            ),
            st.dictionaries(
                st.sampled_from(["text", "block", "message_id", "kind", "details", "steps", "odd"]), json_values
            ),
        ),
        max_size=8,
    )
)
def test_whatever_is_appended_the_log_stays_whole(tmp_path_factory: pytest.TempPathFactory, events: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = new_log(folder)
    for tag, payload in events:
        assert log.append_raw(tag, payload)
    log.append(ExtensionNotice(details=[payload for _, payload in events]))
    log.close()
    assert chain_holds(log.path.read_bytes())
    assert len(list(read_events(log.path))) == len(events) + 2
    assert verify_run(folder).ok


# -- status ---------------------------------------------------------------------------------------------


@pytest.mark.clause("CON-3")
@pytest.mark.parametrize("old", sorted(EDGES))
@pytest.mark.parametrize("new", sorted(EDGES))
def test_only_allowed_edges_are_recorded(tmp_path: Path, old: str, new: str) -> None:
    log = new_log(tmp_path)
    ways: dict[str, list[Payload]] = {
        "queued": [],
        "running": [StatusChanged(to="running")],
        "waiting_for_approval": [StatusChanged(to="running"), StatusChanged(to="waiting_for_approval")],
        "waiting_for_input": [StatusChanged(to="running"), StatusChanged(to="waiting_for_input")],
        "interrupted": [StatusChanged(to="interrupted", code="user_abort")],
        "completed": [StatusChanged(to="running"), Completed()],
        "failed": [Failed()],
    }
    for step in ways[old]:
        log.append(step)
    before = log.path.read_bytes()
    line = log.append(StatusChanged(from_=old, to=new, code="c"))
    log.close()
    if old in SETTLED:
        assert line == b""
        assert log.path.read_bytes() == before
        late = json.loads((tmp_path / "late.jsonl").read_text())
        assert (late["type"], late["payload"]["to"]) == ("status.changed", new)
    elif new in EDGES[old]:
        assert json.loads(line)["payload"] == {"from": old, "to": new, "code": "c", "reason": None}
        assert log.status == new
    else:
        fault = json.loads(line)
        assert fault["type"] == "failed"
        assert fault["payload"]["error"] == "status_edge"
        assert old in fault["payload"]["reason"]
        assert new in fault["payload"]["reason"]
        assert log.sealed
        assert log.status == "failed"


@pytest.mark.clause("CON-3")
def test_an_unknown_status_ends_the_run_as_failed(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(StatusChanged(to="running"))
    assert json.loads(log.append(StatusChanged(to="dreaming")))["type"] == "failed"
    log.close()


@pytest.mark.clause("CON-3")
def test_a_run_that_never_ran_can_not_have_completed(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert json.loads(log.append(Completed()))["type"] == "failed"
    log.close()


@pytest.mark.clause("CON-3")
def test_the_log_knows_the_status_best(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(StatusChanged(to="running"))
    log.append(StatusChanged(to="waiting_for_input"))
    line = json.loads(log.append(StatusChanged(from_="running", to="interrupted", code="user_abort", reason="why")))
    log.close()
    assert line["payload"] == {"from": "waiting_for_input", "to": "interrupted", "code": "user_abort", "reason": "why"}


@pytest.mark.clause("CON-3", "CON-13")
@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(sorted(EDGES)).map(lambda to: StatusChanged(to=to)),
            st.just(Completed()),
            st.just(Failed()),
            st.just(delta("x")),
        ),
        max_size=12,
    )
)
def test_any_history_keeps_the_edges_and_ends_once(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[Payload]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = new_log(folder)
    for payload in payloads:
        log.append(payload)
    log.close()
    status, ended = "queued", 0
    for event in read_events(log.path):
        fields = json.loads(bytes(event.payload))
        if event.type == "status.changed":
            assert fields["from"] == status
            assert fields["to"] in EDGES[status]
            status = fields["to"]
        assert not ended, "nothing follows the terminal line"
        ended += event.type in ("completed", "failed") or fields.get("to") == "interrupted"
        status = event.type if event.type in ("completed", "failed") else status
    again = taken_over(folder)
    assert (again.status, again.sealed) == (log.status, log.sealed) == (status, bool(ended))
    again.close()


# -- the end --------------------------------------------------------------------------------------------


@pytest.mark.clause("CON-13")
@pytest.mark.parametrize(
    "end",
    [Completed(outcome="done"), Failed(error="provider_error"), StatusChanged(to="interrupted", code="user_abort")],
)
def test_the_terminal_line_seals_the_log(tmp_path: Path, end: Payload) -> None:
    relayed: list[bytes] = []
    log = new_log(tmp_path, relay=relayed.extend)
    log.append(StatusChanged(to="running"))
    log.append(end)
    sealed = log.path.read_bytes()
    assert log.append(delta("too late")) == b""
    assert log.append(end) == b""
    assert log.append_raw("no.such", {}) == b""
    log.close()
    assert log.append(delta("after close")) == b""
    assert log.path.read_bytes() == sealed == b"".join(relayed)
    late = [json.loads(line) for line in (tmp_path / "late.jsonl").read_text().splitlines()]
    assert [line["type"] for line in late] == ["message.delta", end.event, "extension.notice", "message.delta"]
    assert all({"at", "type", "payload", "why"} == set(line) for line in late)


@pytest.mark.clause("CON-13", "CON-27")
def test_a_sealed_log_stays_sealed_for_the_next_owner(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(StatusChanged(to="running"))
    log.append(Completed(outcome="done"))
    log.close()
    before = log.path.read_bytes()
    again = taken_over(tmp_path)
    assert again.sealed
    assert again.end is not None
    assert (again.end.status, again.end.code, again.end.outcome) == ("completed", "completed", "done")
    assert again.append(StatusChanged(to="interrupted", code="harness_restart")) == b""
    again.close()
    assert log.path.read_bytes() == before


@pytest.mark.clause("CON-39", "CON-4")
def test_an_end_without_a_code_reads_as_unknown(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(StatusChanged(to="interrupted", reason="user_abort, it seems"))
    log.close()
    again = taken_over(tmp_path)
    assert again.end is not None
    assert again.end.code is None
    again.close()


@pytest.mark.clause("CON-13")
def test_a_torn_late_log_keeps_its_lines_apart(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(Failed())
    (tmp_path / "late.jsonl").write_bytes(b'{"at":"2026')
    log.append(delta("x"))
    log.close()
    assert (tmp_path / "late.jsonl").read_bytes().split(b"\n")[0] == b'{"at":"2026'
    assert json.loads((tmp_path / "late.jsonl").read_bytes().split(b"\n")[1])["type"] == "message.delta"


# -- relaying -------------------------------------------------------------------------------------------


@pytest.mark.clause("CON-12")
async def test_listeners_get_the_written_bytes_in_order_and_in_batches(tmp_path: Path) -> None:
    batches: list[list[bytes]] = []
    log = new_log(tmp_path, relay=batches.append)

    def seen(batch: list[bytes]) -> None:
        assert b"".join(batch) in log.path.read_bytes(), "on disk before it is relayed"
        batches.append(batch)

    log._relay._deliver = seen  # pyright: ignore[reportPrivateUsage]
    for number in range(50):
        log.append(delta(str(number)))
    assert batches == []
    await asyncio.sleep(0)
    assert len(batches) == 1
    log.append(delta("more"))
    await asyncio.sleep(0)
    log.append(delta("last"))
    log.close()
    assert b"".join(b"".join(batch) for batch in batches) == log.path.read_bytes()
    assert len(batches) == 3


@pytest.mark.clause("CON-12")
def test_without_a_loop_each_line_goes_out_at_once(tmp_path: Path) -> None:
    batches: list[list[bytes]] = []
    log = new_log(tmp_path, relay=batches.append)
    lines = [log.append(Started(run_id=RUN)), log.append(delta("x"))]
    assert batches == [[line] for line in lines]
    log.close()


@pytest.mark.clause("CON-12")
async def test_a_failing_listener_does_not_touch_the_run(tmp_path: Path) -> None:
    got: list[bytes] = []

    def listener(batch: list[bytes]) -> None:
        if not got:
            got.append(b"")
            raise RuntimeError("listener")
        got.extend(batch)

    log = new_log(tmp_path, relay=listener)
    log.append(delta("1"))
    await asyncio.sleep(0)
    line = log.append(delta("2"))
    await asyncio.sleep(0)
    assert got[1:] == [line]
    assert log._relay.missed == 2  # pyright: ignore[reportPrivateUsage]
    log.close()
    assert len(lines_of(tmp_path)) == 3


@pytest.mark.clause("CON-12")
async def test_a_listener_may_append(tmp_path: Path) -> None:
    got: list[bytes] = []
    log = new_log(tmp_path)

    def listener(batch: list[bytes]) -> None:
        got.extend(batch)
        if len(got) < 6:
            log.append(delta(f"echo {len(got)}"))

    log._relay._deliver = listener  # pyright: ignore[reportPrivateUsage]
    log.append(delta("x"))
    for _ in range(12):
        await asyncio.sleep(0)
    log.close()
    assert b"".join(got) == log.path.read_bytes()


@pytest.mark.clause("CON-12", "RUN-17")
async def test_threads_may_append_and_nothing_is_lost_or_reordered(tmp_path: Path) -> None:
    got: list[bytes] = []
    threads_of: set[int] = set()

    def listener(batch: list[bytes]) -> None:
        threads_of.add(threading.get_ident())
        got.extend(batch)

    log = new_log(tmp_path, relay=listener)
    log.append(Started(run_id=RUN))

    def work(name: str) -> None:
        for number in range(200):
            log.append(delta(str(number), message_id=name))

    await asyncio.gather(*(asyncio.to_thread(work, f"m_{n}") for n in range(4)))
    await asyncio.sleep(0.01)
    log.close()
    assert threads_of == {threading.get_ident()}, "listeners run in the loop's own thread"
    assert b"".join(got) == log.path.read_bytes()
    assert chain_holds(log.path.read_bytes())
    for name in ("m_0", "m_1", "m_2", "m_3"):
        texts = [line["payload"]["text"] for line in lines_of(tmp_path) if line["payload"].get("message_id") == name]
        assert texts == [str(n) for n in range(200)]


# -- durability -----------------------------------------------------------------------------------------

DURABLE: list[Payload] = [
    Completed(),
    Failed(),
    StatusChanged(to="interrupted", code="user_abort"),
    ApprovalResolved(approval_id="a", decision="once", by="p"),
    QuestionAnswered(question_id="q", answers=[], by="p"),
]


@pytest.mark.clause("CON-14")
@pytest.mark.parametrize("payload", DURABLE, ids=lambda payload: payload.event)
def test_ends_and_answers_reach_the_disk_before_they_are_relayed(
    tmp_path: Path, payload: Payload, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        real(fd)
        order.append("synced")

    log = new_log(tmp_path, relay=lambda batch: order.extend(json.loads(line)["type"] for line in batch))
    log.append(StatusChanged(to="running"))
    log.append(delta("others only reach the operating system"))
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    log.append(payload)
    log.close()
    assert order == ["started", "status.changed", "message.delta", "synced", payload.event]


@pytest.mark.clause("CON-14", "CON-12")
@pytest.mark.parametrize("payload", DURABLE, ids=lambda payload: payload.event)
async def test_a_durable_append_holds_later_lines_back_until_it_is_on_the_disk(
    tmp_path: Path, payload: Payload, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    go = threading.Event()
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        assert threading.current_thread() is not threading.main_thread()
        go.wait(10)
        real(fd)
        order.append("synced")

    log = new_log(tmp_path, relay=lambda batch: order.extend(json.loads(line)["type"] for line in batch))
    log.append(StatusChanged(to="running"))
    await asyncio.sleep(0)
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    task = asyncio.create_task(log.append_durable(payload))
    await asyncio.sleep(0.02)
    later = log.append(delta("meanwhile"))
    await asyncio.sleep(0.02)
    assert order == ["started", "status.changed"], "neither it nor what follows is relayed yet"
    go.set()
    line = await task
    await asyncio.sleep(0)
    expected = ["started", "status.changed", "synced", payload.event] + ["message.delta"] * bool(later)
    assert order == expected
    assert bool(later) == (payload.event in ("approval.resolved", "question.answered"))
    assert line in log.path.read_bytes()
    log.close()


@pytest.mark.clause("CON-14", "ARC-5")
async def test_a_cancelled_durable_append_still_finishes_and_relays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[bytes] = []
    go = threading.Event()
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (go.wait(10), real(fd))[1])
    log = new_log(tmp_path, relay=got.extend)
    log.append(StatusChanged(to="running"))
    task = asyncio.create_task(log.append_durable(DURABLE[3]))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    for _ in range(100):
        await asyncio.sleep(0.01)
        if len(got) == 3:
            break
    assert b"".join(got) == log.path.read_bytes()
    log.close()


# -- big payloads ---------------------------------------------------------------------------------------


@pytest.mark.clause("CON-15")
def test_a_payload_too_long_for_a_line_goes_to_an_artifact(tmp_path: Path) -> None:
    log = new_log(tmp_path, max_line=4096)
    line = log.append(delta("x" * 10_000))
    log.append(delta("small"))
    log.close()
    assert len(line) < 4096
    reference = json.loads(line)["payload"]
    assert set(reference) == {"payload_artifact", "sha256", "bytes"}
    kept = tmp_path / reference["payload_artifact"]
    assert json.loads(kept.read_bytes())["text"] == "x" * 10_000
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    events = list(read_events(log.path))
    assert json.loads(bytes(events[1].payload))["text"] == "x" * 10_000
    assert verify_run(tmp_path).ok
    kept.write_bytes(kept.read_bytes().replace(b"x", b"y", 1))
    assert json.loads(bytes(list(read_events(log.path))[1].payload)) == reference
    assert verify_run(tmp_path).first_bad is not None


@pytest.mark.clause("CON-15")
@pytest.mark.slow
def test_lines_up_to_64_mib_are_read_and_nothing_longer_is_written(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    limit = 64 * 1024 * 1024
    inline = log.append(delta("x" * (limit - 1000)))
    spilled = log.append(delta("y" * limit))
    log.append(delta("small"))
    log.close()
    assert limit - 1000 < len(inline) <= limit
    assert len(spilled) < 1000
    texts = [json.loads(bytes(event.payload)).get("text", "") for event in read_events(log.path)]
    assert [(text[:1], len(text)) for text in texts[1:]] == [("x", limit - 1000), ("y", limit), ("s", 5)]
    assert verify_run(tmp_path).ok


# -- artifacts ------------------------------------------------------------------------------------------


@pytest.mark.clause("CON-25", "CON-39")
def test_artifacts_get_plain_names_of_their_own_and_an_event(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    kept = log.artifacts()
    names = ["out.txt", "out.txt", "../../etc/passwd", "", ".hidden", "a b\nc.log", "é" * 300 + ".txt", "out.txt"]
    paths = [kept.path(name) for name in names]
    assert len(set(paths)) == len(paths)
    assert all(path.parent == tmp_path / "artifacts" for path in paths)
    assert all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,110}", path.name) for path in paths)
    paths[1].write_text("hello")
    assert kept.added(paths[1], call_id="c_1", media_type="text/plain", reason="output") == "artifacts/out-2.txt"
    log.close()
    assert lines_of(tmp_path)[-1]["payload"] == {
        "path": "artifacts/out-2.txt",
        "sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        "bytes": 5,
        "media_type": "text/plain",
        "call_id": "c_1",
        "reason": "output",
    }


@pytest.mark.clause("CON-25", "CON-26")
def test_only_files_of_the_artifact_folder_are_artifacts(tmp_path: Path) -> None:
    log = new_log(tmp_path / "run")
    kept = log.artifacts()
    outside = tmp_path / "outside"
    outside.write_text("x")
    link = kept.path("link")
    link.symlink_to(outside)
    for path in (outside, link, kept.path("missing"), tmp_path / "run" / "artifacts" / ".." / "events.jsonl"):
        with pytest.raises(InvalidInput):
            kept.added(path)
    log.close()


# -- taking over ----------------------------------------------------------------------------------------


@pytest.mark.clause("CON-27", "QLT-6")
def test_a_log_has_one_writer(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(Started(run_id=RUN))
    with pytest.raises(InvalidInput):
        new_log(tmp_path)
    with pytest.raises(SessionBusy):
        taken_over(tmp_path)
    log.close()
    log.close()
    taken_over(tmp_path).close()


@pytest.mark.clause("CON-15", "QLT-5", "QLT-6")
@pytest.mark.bug("SES-01")
def test_every_torn_end_is_kept_cut_and_told(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "whole", deltas=3)
    start = whole[:-1].rindex(b"\n") + 1
    for cut in range(start, len(whole) + 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        unsettled(folder)
        (folder / "events.jsonl").write_bytes(whole[:cut])
        fragment = whole[start:cut] if cut < len(whole) else b""
        assert len(list(read_events(folder / "events.jsonl"))) == (5 if cut == len(whole) else 4)
        assert verify_run(folder).ok
        assert verify_run(folder).torn == bool(fragment)
        log = taken_over(folder)
        log.append(delta("after"))
        log.close()
        data = (folder / "events.jsonl").read_bytes()
        assert chain_holds(data)
        assert data.startswith(whole[:start])
        assert verify_run(folder).ok
        assert not verify_run(folder).torn
        kept = folder / "artifacts" / f"torn-{start}.bin"
        if fragment:
            assert kept.read_bytes() == fragment
            notice = lines_of(folder)[-2]
            assert notice["type"] == "extension.notice"
            assert notice["payload"]["code"] == "torn_tail"
            assert notice["payload"]["details"] == {
                "offset": start, "bytes": len(fragment), "artifact": f"artifacts/torn-{start}.bin"
            }  # fmt: skip
        else:
            assert not kept.exists()


@pytest.mark.clause("CON-15")
@pytest.mark.bug("SES-04")
def test_a_zero_tail_after_a_power_cut_is_torn_not_the_end_of_the_log(tmp_path: Path) -> None:
    whole = write_run(tmp_path, deltas=2)
    (tmp_path / "events.jsonl").write_bytes(whole + b"\0" * 100_000)
    log = taken_over(tmp_path)
    log.append(delta("on"))
    log.close()
    assert (tmp_path / "artifacts" / f"torn-{len(whole)}.bin").read_bytes() == b"\0" * 100_000
    assert chain_holds(log.path.read_bytes())


@pytest.mark.clause("CON-11", "QLT-5")
@pytest.mark.bug("SES-13")
def test_a_gap_does_not_stop_the_next_writer_and_no_number_is_given_twice(tmp_path: Path) -> None:
    whole = write_run(tmp_path, deltas=4).splitlines(keepends=True)
    (tmp_path / "events.jsonl").write_bytes(b"".join(whole[:3] + whole[4:]))
    assert [event.seq for event in read_events(tmp_path / "events.jsonl")] == [0, 1, 2, 4, 5]
    bad = verify_run(tmp_path).first_bad
    assert bad is not None
    assert (bad.seq, bad.line, bad.cause) == (3, 4, "dropped")
    log = taken_over(tmp_path)
    assert json.loads(log.append(delta("next")))["seq"] == 6
    log.close()


@pytest.mark.clause("QLT-5")
def test_a_line_that_can_not_be_read_keeps_its_number(tmp_path: Path) -> None:
    whole = write_run(tmp_path, deltas=2).splitlines(keepends=True)
    (tmp_path / "events.jsonl").write_bytes(b"".join(whole[:3]) + b"garbage\n")
    log = taken_over(tmp_path)
    assert json.loads(log.append(delta("next")))["seq"] == 4
    log.close()


@pytest.mark.clause("CON-8")
def test_a_newer_log_is_readable_never_writable(tmp_path: Path) -> None:
    whole = write_run(tmp_path, deltas=1).replace(b'"schema_version":1', b'"schema_version":2')
    (tmp_path / "events.jsonl").write_bytes(whole + b'{"torn')
    with pytest.raises(IncompatibleRoot):
        taken_over(tmp_path)
    assert (tmp_path / "events.jsonl").read_bytes() == whole + b'{"torn'
    assert len(list(read_events(tmp_path / "events.jsonl"))) == 3
    with pytest.raises(IncompatibleRoot):
        taken_over(tmp_path)  # and the lock was let go


@pytest.mark.clause("CON-21", "CON-9")
def test_the_todo_list_is_the_latest_one(tmp_path: Path) -> None:
    from drawbar.contracts.events.progress import todo_of

    log = new_log(tmp_path)
    for items in (["a"], ["a", "b"]):
        log.append(TodoUpdated(items=[TodoItem(text=text, status="pending") for text in items]))
    log.close()
    assert [item.text for item in todo_of(read_events(log.path))] == ["a", "b"]
