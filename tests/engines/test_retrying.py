"""Retries of whole requests: seen, bounded, left at once when a person stops, and nothing of a failed attempt kept."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.runs.kit import bench, of

from drawbar.testing.scenario import Block, Fault, Turn
from drawbar.testing.scripted_model import say, use

pytestmark = pytest.mark.clause("MDL-5")

QUICK = {"retry-after-ms": "1"}


def fails(kind: str, **rest: Any) -> Turn:
    return Turn(reply=[Block(text="Half a sent")], fault=Fault(kind=kind, **rest), headers=QUICK)  # pyright: ignore[reportArgumentType]


@pytest.mark.clause("QLT-14", "QLT-15", "QLT-17")
@pytest.mark.bug("PRV-01", "PRV-03", "USE-06")
@pytest.mark.parametrize("kind", ["rate_limit", "overloaded"])
async def test_a_busy_provider_is_tried_again_and_the_events_say_so(tmp_path: Path, kind: str) -> None:
    async with bench(tmp_path, [fails(kind), fails(kind), say("Done.")]) as b:
        record, events = await b.run()
        assert record.status == "completed"
        assert [(r["attempt"], r["cause"]) for r in of(events, "retry.started")] == [(1, kind), (2, kind)]
        assert [(r["attempt"], r["ok"]) for r in of(events, "retry.ended")] == [(1, False), (2, True)]
        assert [u["request"].get("ok", True) for u in of(events, "usage.updated")] == [False, False, True]
        assert [m["role"] for m in b.messages(record)] == ["user", "assistant"]


@pytest.mark.clause("QLT-14", "QLT-15", "QLT-17", "MDL-4")
@pytest.mark.bug("PRV-01", "PRV-03", "PRV-10")
@pytest.mark.parametrize("kind", ["overloaded_stream", "cut", "malformed"])
async def test_nothing_of_an_attempt_that_broke_off_is_kept(tmp_path: Path, kind: str) -> None:
    async with bench(tmp_path, [fails(kind), say("The whole answer.")]) as b:
        record, events = await b.run()
        assert record.status == "completed"
        said = [m["content"][0]["text"] for m in b.messages(record) if m["role"] == "assistant"]
        assert said == ["The whole answer."]
        first = {d["message_id"] for d in of(events, "message.delta") if "Half" in d["text"]}
        done = {m["message_id"] for m in of(events, "message.completed")}
        assert first
        assert not first & done


@pytest.mark.clause("QLT-15")
@pytest.mark.bug("PRV-02")
async def test_a_wait_that_is_too_long_settles_the_run_with_the_time(tmp_path: Path) -> None:
    async with bench(tmp_path, [Turn(fault=Fault(kind="rate_limit", retry_after_s=7200))]) as b:
        record, events = await b.run()
        assert (record.status, record.terminal_code) == ("failed", "provider_error")
        assert "answers again at 20" in (record.terminal_reason or "")
        assert of(events, "retry.started") == []


@pytest.mark.clause("QLT-15", "RUN-10")
@pytest.mark.bug("PRV-02")
async def test_a_stop_leaves_a_wait_within_a_second(tmp_path: Path) -> None:
    async with bench(tmp_path, [Turn(fault=Fault(kind="rate_limit", retry_after_s=60))]) as b:
        run_id = await b.start()
        await b.until(run_id, lambda event: event.type == "retry.started")
        await asyncio.sleep(0.05)
        began = time.monotonic()
        await b.harness.runs.interrupt(run_id)
        assert time.monotonic() - began < 1.0
        events = await b.finish(run_id)
        assert b.harness.runs.get(run_id).terminal_code == "user_abort"
        assert [(r["ok"], r["cause"]) for r in of(events, "retry.ended")] == [(False, "aborted")]


@pytest.mark.parametrize("kind", ["quota", "auth"])
async def test_what_no_wait_mends_is_not_tried_again(tmp_path: Path, kind: str) -> None:
    status, error_type, message = {
        "quota": (429, "insufficient_quota", "You exceeded your current quota."),
        "auth": (401, "authentication_error", "invalid key"),
    }[kind]
    fault = Fault(kind="status", status=status, error_type=error_type, message=message)
    async with bench(tmp_path, [Turn(fault=fault)]) as b:
        record, events = await b.run()
        assert record.status == "failed"
        assert of(events, "retry.started") == []
        assert len(b.server.requests) == 1


@pytest.mark.clause("QLT-7")
async def test_refused_content_is_left_out_and_the_request_tried_once_more(tmp_path: Path) -> None:
    refused = Fault(kind="status", status=400, error_type="invalid_request_error", message="messages.1: bad signature")
    thinks = Turn(
        reply=[
            Block(thinking="Let me look.", signature="c2ln"),
            Block(tool="bash", arguments={"command": "true"}),
        ]
    )
    async with bench(tmp_path, [thinks, Turn(fault=refused), say("Done.")]) as b:
        record, events = await b.run()
        assert record.status == "completed"
        assert [r["cause"] for r in of(events, "retry.started")] == ["bad_request"]
        kinds = [
            block["type"]
            for message in (b.server.requests[-1].parsed or {})["messages"]
            for block in message["content"]
        ]
        assert "thinking" not in kinds
        assert "tool_use" in kinds
        assert any("left out" in n["message"] for n in of(events, "extension.notice"))


@pytest.mark.clause("QLT-7")
async def test_a_refusal_with_nothing_to_leave_out_is_final_and_so_is_a_second_one(tmp_path: Path) -> None:
    refused = Turn(fault=Fault(kind="status", status=400, error_type="invalid_request_error", message="messages.0: no"))
    async with bench(tmp_path, [refused]) as b:
        record, _ = await b.run()
        assert record.status == "failed"
        assert len(b.server.requests) == 1
    thinks = Turn(reply=[Block(thinking="Hm.", signature="c2ln"), Block(tool="bash", arguments={"command": "true"})])
    (tmp_path / "second").mkdir()
    async with bench(tmp_path / "second", [thinks, refused, refused, use("bash")]) as b:
        record, _ = await b.run()
        assert record.status == "failed"
        assert len(b.server.requests) == 3
