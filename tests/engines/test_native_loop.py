"""The native loop where replies are odd: cut calls, repeated ids, empty and refused replies, limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.runs.kit import bench, of

from drawbar.testing.scenario import Block, Turn
from drawbar.testing.scripted_model import reply, say, use


@pytest.mark.clause("QLT-14", "ENG-5")
@pytest.mark.bug("PRV-04")
async def test_a_call_that_the_output_limit_cut_never_runs(tmp_path: Path) -> None:
    cut = Turn(
        reply=[
            Block(text="Cleaning."),
            Block(tool="bash", arguments_text='{"command": "touch sentinel; rm -rf x'),
        ],
        stop_reason="max_tokens",
    )
    async with bench(tmp_path, [cut, say("I'll do it in steps.")]) as b:
        record, events = await b.run()
        assert record.status == "completed"
        assert not (b.project / "sentinel").exists()
        refused = of(events, "tool.refused")[0]
        assert (refused["code"], refused["cause"]) == ("incomplete_call", "fault")
        assert of(events, "tool.started") == []
        result = next(m for m in b.messages(record) if m["role"] == "toolResult")
        assert result["isError"]
        assert b.server.errors == []


@pytest.mark.clause("QLT-14", "RUN-25")
async def test_replies_that_are_cut_again_and_again_end_the_run_with_a_cause(tmp_path: Path) -> None:
    cut = Turn(reply=[Block(tool="bash", arguments_text='{"command": "touch sen')], stop_reason="max_tokens")
    async with bench(tmp_path, [cut] * 10) as b:
        record, _ = await b.run()
        assert record.status == "failed"
        assert "cut off" in (record.terminal_reason or "")
        assert len(b.server.requests) == 3


@pytest.mark.clause("QLT-7", "QLT-14", "SES-21")
@pytest.mark.bug("SES-16")
async def test_a_repeated_call_id_is_made_distinct_on_arrival(tmp_path: Path) -> None:
    turns = [
        reply(Block(tool="bash", id="toolu_same", arguments={"command": "echo 1 >> log"})),
        reply(Block(tool="bash", id="toolu_same", arguments={"command": "echo 2 >> log"})),
        say("Done."),
    ]
    async with bench(tmp_path, turns) as b:
        record, events = await b.run()
        assert record.status == "completed"
        assert (b.project / "log").read_text() == "1\n2\n"
        started = [s["call_id"] for s in of(events, "tool.started")]
        assert len(set(started)) == 2
        assert [c["call_id"] for c in of(events, "tool.completed")] == started
        results = [m["toolCallId"] for m in b.messages(record) if m["role"] == "toolResult"]
        assert results == started
        assert b.server.errors == []


@pytest.mark.clause("RUN-25")
@pytest.mark.bug("PRV-11")
async def test_an_empty_reply_ends_visibly_and_is_not_sent_back(tmp_path: Path) -> None:
    async with bench(tmp_path, [*[Turn(reply=[], stop_reason="end_turn")] * 3, say("Second.")]) as b:
        record, events = await b.run(session_id="talk")
        assert record.status == "completed"
        assert "empty_reply" in [n["code"] for n in of(events, "extension.notice")]
        assert [r["cause"] for r in of(events, "retry.started")] == ["empty_reply"] * 2
        assert len(b.server.requests) == 3
        assert [m["role"] for m in b.messages(record)] == ["user", "assistant"]
        again, _ = await b.run(session_id="talk", resume=True)
        assert again.status == "completed"
        assert b.server.errors == []


@pytest.mark.clause("CON-39", "CON-4")
async def test_a_refusal_of_the_provider_fails_the_run_by_name(tmp_path: Path) -> None:
    async with bench(tmp_path, [Turn(reply=[Block(text="No.")], stop_reason="refusal")]) as b:
        record, _ = await b.run()
        assert (record.status, record.terminal_code) == ("failed", "provider_error")
        assert "refused" in (record.terminal_reason or "")


@pytest.mark.clause("RUN-25", "CON-21")
async def test_an_open_todo_list_does_not_keep_a_reply_going(tmp_path: Path) -> None:
    todo = use("todo_write", {"items": [{"text": "fix it", "status": "in_progress"}]})
    async with bench(tmp_path, [todo, say("That's all for now.")]) as b:
        record, events = await b.run()
        assert record.status == "completed"
        assert of(events, "todo.updated")[0]["items"][0]["text"] == "fix it"
        assert len(b.server.requests) == 2
        assert b.harness.runs.inspect(record.id).todo[0].status == "in_progress"


@pytest.mark.clause("RUN-25")
@pytest.mark.bug("PRV-13")
async def test_repeating_a_call_is_never_refused(tmp_path: Path) -> None:
    turns = [use("bash", {"command": "echo x >> log"})] * 12
    async with bench(tmp_path, [*turns, say("Done.")]) as b:
        record, events = await b.run()
        assert record.status == "completed"
        assert len((b.project / "log").read_text().split()) == 12
        assert of(events, "tool.refused") == []


@pytest.mark.clause("RUN-25", "ENG-5")
async def test_a_cut_answer_is_said_to_be_cut(tmp_path: Path) -> None:
    async with bench(tmp_path, [Turn(reply=[Block(text="The answer is")], stop_reason="max_tokens")]) as b:
        record, events = await b.run()
        assert record.status == "completed"
        assert "output_limit" in [n["code"] for n in of(events, "extension.notice")]


@pytest.mark.clause("CON-38", "MDL-2")
async def test_thinking_is_sent_back_verbatim_and_a_secret_in_it_is_not_stored(tmp_path: Path) -> None:
    secret = "wholly-secret-value-55182"
    turns = [
        reply(
            Block(thinking=f"The password is {secret}.", signature="c2lnbmVk"),
            Block(tool="bash", arguments={"command": "true"}),
        ),
        reply(Block(thinking="Nothing secret.", signature="b3RoZXI="), Block(text="Done.")),
        say("Again."),
    ]
    async with bench(tmp_path, turns, environ={"DB_PASSWORD": secret}) as b:
        record, _ = await b.run(session_id="talk", effort="high")
        assert record.status == "completed"
        second = b.server.requests[1].body
        assert b"c2lnbmVk" in second
        assert secret.encode() in second
        for path in (p for p in b.data.rglob("*") if p.is_file()):
            assert secret.encode() not in path.read_bytes(), path
        again, _ = await b.run("more", session_id="talk", resume=True, effort="high")
        assert again.status == "completed"
        third = b.server.requests[2].body
        assert b"b3RoZXI=" in third
        assert b"c2lnbmVk" not in third
        assert secret.encode() not in third
        assert b.server.errors == []


@pytest.mark.clause("SES-1", "SES-2", "CON-8")
async def test_a_history_of_an_older_format_goes_on_in_a_copy(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    old = folder / "2025-01-01T00-00-00-000Z_old.jsonl"
    lines = [
        {
            "type": "session",
            "id": "old",
            "timestamp": "2025-01-01T00:00:00.000Z",
            "cwd": "/work",
            "provider": "anthropic",
        },
        {"type": "message", "timestamp": "2025-01-01T00:00:01.000Z", "message": {"role": "user", "content": "Blue?"}},
        {
            "type": "message",
            "timestamp": "2025-01-01T00:00:02.000Z",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "Green."}], "stopReason": "stop"},
        },
    ]
    old.write_text("".join(json.dumps(line) + "\n" for line in lines))
    before = old.read_bytes()
    async with bench(tmp_path, [say("Go on.")]) as b:
        record, _ = await b.run("And now?", session_dir=str(folder), resume=True)
        assert record.status == "completed"
        assert old.read_bytes() == before
        assert record.native_history is not None
        assert Path(record.native_history) != old
        assert "Blue?" in str(b.server.requests[0].parsed)
        assert "Green." in str(b.server.requests[0].parsed)


@pytest.mark.clause("QLT-20", "QLT-7", "CON-31")
async def test_ids_and_names_that_hold_a_secret_are_replaced_and_pairs_stay_whole(tmp_path: Path) -> None:
    secret = "wholly-secret-value-55182"
    turns = [
        reply(Block(tool="bash", id=f"toolu_{secret}", arguments={"command": "echo hi"})),
        reply(Block(tool=f"tool_{secret}", id="toolu_2", arguments={})),
        say("Done."),
    ]
    async with bench(tmp_path, turns, environ={"DB_PASSWORD": secret}) as b:
        record, events = await b.run()
        assert record.status == "completed"
        started = of(events, "tool.started")[0]["call_id"]
        results = [m["toolCallId"] for m in b.messages(record) if m["role"] == "toolResult"]
        calls = [c["id"] for m in b.messages(record) if m["role"] == "assistant" for c in m["content"]
                 if c["type"] == "toolCall"]  # fmt: skip
        assert calls == results
        assert calls[0] == started
        for path in (p for p in b.data.rglob("*") if p.is_file()):
            assert secret.encode() not in path.read_bytes(), path
        assert b.server.errors == []


@pytest.mark.clause("SES-2", "QLT-5")
@pytest.mark.bug("SES-01", "SES-05")
async def test_damage_in_a_resumed_history_is_said_once(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _r: say("Yes.")) as b:
        first, _ = await b.run("one", session_id="talk")
        assert first.native_history is not None
        with Path(first.native_history).open("ab") as file:
            file.write(b'{"type":"message","id":"zz')
        _, events = await b.run("two", session_id="talk", resume=True)
        told = [n for n in of(events, "extension.notice") if n["code"] == "history_damaged"]
        assert len(told) == 1
        assert "line" in told[0]["message"]
