"""One run from request to outcome: what is pinned, in which order it is recorded, and what it leaves."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path

import pytest
from tests.runs.kit import KEY, bench, of, types

from drawbar.contracts.errors import (
    AccountUnavailable,
    CapabilitiesFrozen,
    InvalidInput,
    NotFound,
    SessionBusy,
    WorkspaceRefused,
)
from drawbar.contracts.ids import new_id
from drawbar.contracts.methods import ListRuns
from drawbar.contracts.run import RunInput
from drawbar.testing.scenario import Block, Fault, Turn
from drawbar.testing.scripted_model import reply, say, use

FIX = [
    reply(Block(text="Looking."), Block(tool="read", arguments={"path": "a.txt"})),
    use("edit", {"path": "a.txt", "edits": [{"oldText": "wrong", "newText": "right"}]}),
    use("bash", {"command": "cat a.txt; exit 3"}),
    say("Fixed a.txt."),
]


@pytest.mark.clause("RUN-2", "RUN-25", "RUN-29", "CON-1", "CON-4", "CON-5", "BND-9", "ENG-5")
async def test_a_request_becomes_an_outcome_and_a_record(tmp_path: Path) -> None:
    async with bench(tmp_path, FIX) as b:
        (b.project / "a.txt").write_text("this is wrong\n")
        record, events = await b.run("Fix a.txt.")
        assert (b.project / "a.txt").read_text() == "this is right\n"
        assert (record.status, record.terminal_code, record.outcome) == ("completed", "completed", "done")
        assert record.account == "anthropic"
        assert record.engine == "native"
        assert record.workspace_root == str(b.project)
        assert record.working_directory == str(b.project)
        assert record.sandbox == "on"
        assert record.approval == "auto-workspace"
        assert record.request_preview == "Fix a.txt."
        assert record.created_at
        assert record.started_at
        assert record.ended_at
        assert record.created_at <= record.started_at <= record.ended_at
        assert record.native_session_id
        assert record.native_history
        assert Path(record.native_history).is_file()
        assert record.usage is not None
        assert record.usage.output_tokens
        assert record.log_head is not None
        assert record.log_head.seq == events[-1].seq
        assert b.server.errors == []
        assert b.harness.runs.verify(record.id).ok
        assert not b.harness.runs.live


@pytest.mark.clause("SES-21", "CON-34", "CON-25", "QLT-12")
async def test_the_order_of_writes_is_kept_for_every_call(tmp_path: Path) -> None:
    async with bench(tmp_path, FIX) as b:
        (b.project / "a.txt").write_text("this is wrong\n")
        record, events = await b.run()
        entries = [e for e in _entries(record.native_history) if e["type"] == "message"]
        place = {entry["id"]: number for number, entry in enumerate(entries)}
        started = of(events, "tool.started")
        completed = {c["call_id"]: c for c in of(events, "tool.completed")}
        assert [s["tool"] for s in started] == ["read", "edit", "bash"]
        for call in started:
            end = completed[call["call_id"]]
            assert place[call["entry_id"]] < place[end["entry_id"]]
            assert entries[place[end["entry_id"]]]["message"]["toolCallId"] == call["call_id"]
            canonical = json.dumps(call["arguments"], separators=(",", ":"), sort_keys=True)
            assert call["arguments_sha256"] == hashlib.sha256(canonical.encode()).hexdigest()
            assert call["decision"]["outcome"] == "allow"
        order = types(events)
        for kind in ("tool.started", "tool.completed"):
            assert order.count(kind) == 3
        assert order.index("tool.started") < order.index("tool.completed")
        assert completed[started[2]["call_id"]]["exit_code"] == 3
        change = of(events, "file.changed")[0]
        assert change["path"] == "a.txt"
        assert change["before"] == hashlib.sha256(b"this is wrong\n").hexdigest()
        assert change["after"] == hashlib.sha256(b"this is right\n").hexdigest()


def _entries(path: str | None) -> list[dict]:
    assert path is not None
    return [json.loads(line) for line in Path(path).read_text().splitlines()[1:]]


@pytest.mark.clause("CON-11", "CON-12", "CON-13")
async def test_the_log_begins_with_started_and_is_sealed_by_its_end(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("Done.")]) as b:
        record, events = await b.run()
        assert [event.seq for event in events] == list(range(len(events)))
        assert events[0].type == "started"
        assert of(events, "started")[0]["schema_version"] == 1
        assert events[-1].type == "completed"
        log = b.data / "runs" / record.id / "events.jsonl"
        assert json.loads(log.read_text().splitlines()[-1])["type"] == "completed"
        assert [e.seq for e in b.harness.runs.events(record.id, 2)] == [e.seq for e in events[2:]]


@pytest.mark.clause("PRM-3", "MDL-13", "CON-34")
async def test_each_request_is_the_previous_one_plus_new_items(tmp_path: Path) -> None:
    async with bench(tmp_path, FIX) as b:
        (b.project / "a.txt").write_text("this is wrong\n")
        _, events = await b.run()
        requests = [received.parsed for received in b.server.requests]
        assert len(requests) == 4
        for earlier, later in itertools.pairwise(requests):
            assert earlier is not None
            assert later is not None
            for part in ("system", "tools", "model"):
                assert _plain(earlier[part]) == _plain(later[part])
            kept = [_plain(m) for m in earlier["messages"]]
            assert [_plain(m) for m in later["messages"]][: len(kept)] == kept
        snapshots = of(events, "context.snapshot")
        assert [s["request"] for s in snapshots] == [1, 2, 3, 4]
        assert len({s["system_sha256"] for s in snapshots}) == 1
        assert len({s["tools_sha256"] for s in snapshots}) == 1
        for snapshot, received in zip(snapshots, b.server.requests, strict=True):
            assert snapshot["body_sha256"] == hashlib.sha256(received.body).hexdigest()
        # The cache accounting of the server says the same in numbers: nothing cached is ever paid again.
        assert b.server.requests[-1].cache is not None
        assert b.server.requests[-1].cache.read > 0


def _plain(value: object) -> str:
    """Without cache markers, which move (PRM-3)."""
    if isinstance(value, dict):
        value = {k: _plain(v) for k, v in value.items() if k != "cache_control"}
    elif isinstance(value, list):
        value = [_plain(v) for v in value]
    return json.dumps(value)


@pytest.mark.clause("CON-17", "QLT-17")
async def test_usage_adds_up_to_what_the_server_billed(tmp_path: Path) -> None:
    async with bench(tmp_path, FIX) as b:
        (b.project / "a.txt").write_text("this is wrong\n")
        record, events = await b.run()
        updates = of(events, "usage.updated")
        assert len(updates) == 4
        billed = b.server.totals
        totals = updates[-1]["totals"]
        assert totals["input_tokens"] == billed.uncached
        assert totals["cache_read_tokens"] == billed.read
        assert totals["cache_write_tokens"] == billed.written
        assert record.usage is not None
        assert record.usage.input_tokens == billed.uncached
        last = b.server.requests[-1]
        assert last.cache is not None
        assert last.usage is not None
        size = last.cache.uncached + last.cache.read + last.cache.written
        assert updates[-1]["context_tokens"] in (size, size + last.usage["output_tokens"])


@pytest.mark.clause("QLT-17", "MDL-4", "QLT-14", "CON-39")
async def test_a_failed_request_is_counted_once_and_fails_the_run(tmp_path: Path) -> None:
    no_key = Turn(fault=Fault(kind="status", status=401, error_type="authentication_error"))
    async with bench(tmp_path, [no_key]) as b:
        record, events = await b.run()
        assert (record.status, record.terminal_code) == ("failed", "provider_error")
        updates = of(events, "usage.updated")
        assert len(updates) == 1
        assert updates[0]["request"]["ok"] is False
        assert [m["role"] for m in b.messages(record)] == ["user"]
        assert len(b.server.requests) == 1


@pytest.mark.clause("RUN-1")
@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"text": "  \n"}, "text"),
        ({"text": "a\0b"}, "text"),
        ({"text": "x", "run_id": "r_nonsense"}, "run.id"),
        ({"text": "x", "session_id": "../up"}, "session_id"),
        ({"text": "x", "session_dir": "relative"}, "session_dir"),
        ({"text": "x", "resume": True}, "resume"),
        ({"text": "x", "trigger": "moon"}, "trigger"),
        ({"text": "x", "cwd": "relative"}, "cwd"),
        ({"text": "x", "narrow_tools": ["rm"]}, "narrow_tools"),
    ],
)
async def test_a_bad_input_is_refused_by_field_and_leaves_nothing(tmp_path: Path, fields: dict, names: str) -> None:
    async with bench(tmp_path, [say("never")]) as b:
        before = sorted(b.data.rglob("*"))
        fields.setdefault("cwd", str(b.project))
        with pytest.raises(InvalidInput) as caught:
            await b.harness.sessions.run(RunInput(**fields))
        assert caught.value.facts["field"] == names
        assert sorted(b.data.rglob("*")) == before
        assert b.server.requests == []


@pytest.mark.clause("RUN-4")
async def test_no_account_refuses_the_input_and_leaves_no_run(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("never")]) as b:
        with pytest.raises(AccountUnavailable, match="no account is called 'work'"):
            await b.start(account="work")
        assert b.harness.runs.list().runs == []
        assert list((b.data / "runs").iterdir()) == []


@pytest.mark.clause("BND-1", "RUN-4")
async def test_a_folder_that_cannot_be_a_workspace_refuses_the_input(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("never")]) as b:
        for folder in ("/", "/etc", str(b.data), str(b.data / "runs"), str(tmp_path / "missing")):
            with pytest.raises(WorkspaceRefused):
                await b.start(cwd=folder)
        assert b.harness.runs.list().runs == []


@pytest.mark.clause("RUN-4")
async def test_pins_hold_although_settings_change_while_the_run_lives(tmp_path: Path) -> None:
    async with bench(tmp_path, [use("bash", {"command": "sleep 0.3"}), say("Done.")]) as b:
        (b.data / "config").mkdir(exist_ok=True)
        (b.data / "config" / "config.toml").write_text('model = "first"\n')
        run_id = await b.start(approval="auto-workspace")
        (b.data / "config" / "config.toml").write_text('model = "second"\napproval = "read-only"\n')
        await b.finish(run_id)
        assert {received.parsed["model"] for received in b.server.requests if received.parsed} == {"first"}
        assert b.harness.runs.get(run_id).model == "first"
        other = await b.start()
        assert b.harness.runs.get(other).model == "second"


@pytest.mark.clause("RUN-5")
async def test_a_second_launch_of_one_run_id(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("Done.")]) as b:
        run_id = new_id("run")
        record, _ = await b.run(run_id=run_id)
        kept = (b.data / "runs" / run_id / "capabilities.json").read_bytes()
        with pytest.raises(CapabilitiesFrozen):
            await b.start(run_id=run_id, narrow_tools=["read"])
        with pytest.raises(InvalidInput, match="exists already"):
            await b.start(run_id=run_id)
        assert (b.data / "runs" / run_id / "capabilities.json").read_bytes() == kept
        assert b.harness.runs.get(run_id).ended_at == record.ended_at


@pytest.mark.clause("RUN-5", "BND-2", "BND-3")
async def test_a_narrowed_run_offers_and_allows_only_what_is_left(tmp_path: Path) -> None:
    async with bench(tmp_path, [use("bash", {"command": "touch sentinel"}), say("I can't.")]) as b:
        record, events = await b.run(narrow_tools=["read", "get_capabilities"])
        offered = [tool["name"] for tool in b.server.requests[0].parsed["tools"]]  # pyright: ignore[reportOptionalSubscript]
        assert sorted(offered) == ["get_capabilities", "read"]
        refused = of(events, "tool.refused")[0]
        assert refused["cause"] == "policy"
        assert not (b.project / "sentinel").exists()
        assert record.status == "completed"


@pytest.mark.clause("RUN-3")
async def test_a_session_that_cannot_open_fails_its_run_and_says_so(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("One."), say("never")]) as b:
        first, _ = await b.run(session_id="talk")
        held = _hold(b.data / "sessions" / "talk" / "history")
        try:
            started = await b.harness.sessions.run(
                RunInput(text="again", session_id="talk", resume=True, cwd=str(b.project))
            )
        finally:
            held.close()
        assert started.native_session_id is None
        record = b.harness.runs.get(started.run_id)
        assert record.status == "failed"
        assert "another" in (record.terminal_reason or "") or "writ" in (record.terminal_reason or "")
        assert b.harness.runs.get(first.id).status == "completed"


def _hold(folder: Path):
    import subprocess
    import sys

    path = next(folder.glob("*.jsonl"))
    code = (
        "import sys\nfrom pathlib import Path\nfrom drawbar.contracts.clock import SystemClock\n"
        "from drawbar.stores.history import HistoryFile\n"
        "held = HistoryFile.open(Path(sys.argv[1]), clock=SystemClock())\nprint('held', flush=True)\nsys.stdin.read()\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"

    class Held:
        def close(self) -> None:
            holder.communicate(b"")

    return Held()


@pytest.mark.clause("SES-3", "RUN-2")
async def test_one_session_has_one_active_run_and_resumes_its_history(tmp_path: Path) -> None:
    turns = [use("bash", {"command": "sleep 1"}), say("First."), say("Second.")]
    async with bench(tmp_path, turns) as b:
        run_id = await b.start("one", session_id="talk")
        with pytest.raises(SessionBusy, match=run_id):
            await b.start("two", session_id="talk", resume=True)
        await b.finish(run_id)
        record, _ = await b.run("two", session_id="talk", resume=True)
        assert record.native_history == b.harness.runs.get(run_id).native_history
        said = [m["content"][0]["text"] for m in b.messages(record) if m["role"] != "toolResult" and m["content"]
                and m["content"][0]["type"] == "text"]  # fmt: skip
        assert said == ["one", "First.", "two", "Second."]
        last = b.server.requests[-1].parsed
        assert last is not None
        earlier = b.server.requests[-2].parsed
        assert earlier is not None
        kept = [_plain(m) for m in earlier["messages"]]
        assert [_plain(m) for m in last["messages"]][: len(kept)] == kept
        with pytest.raises(NotFound, match="no history"):
            await b.start("x", session_id="nobody", resume=True)


@pytest.mark.clause("PRM-1", "PRM-5", "PRM-7")
async def test_the_prompt_is_kept_as_the_model_saw_it(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("Done.")]) as b:
        record, _ = await b.run()
        prompt = b.harness.runs.prompt(record.id)
        system = "".join(block["text"] for block in b.server.requests[0].parsed["system"])  # pyright: ignore[reportOptionalSubscript]
        for section in prompt.sections:
            if not section.dynamic:
                assert section.text.strip() in system
            assert section.sha256 == hashlib.sha256(section.text.encode()).hexdigest()
        notes = [section.text for section in prompt.sections if section.name == "drawbar-context"]
        assert len(notes) == 1
        first = json.dumps(b.server.requests[0].parsed["messages"][0])  # pyright: ignore[reportOptionalSubscript]
        assert "context-update" in first
        assert "date" not in system.lower() or record.created_at is None or record.created_at[:10] not in system


@pytest.mark.clause("RUN-34")
async def test_runs_are_listed_newest_first_by_filter_and_page(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _received: say("Done.")) as b:
        ids = [(await b.run(session_id=f"s{i % 2}"))[0].id for i in range(5)]
        runs = b.harness.runs
        assert [r.id for r in runs.list().runs] == ids[::-1]
        assert [r.id for r in runs.list(ListRuns(session="s1")).runs] == [ids[3], ids[1]]
        assert runs.list(ListRuns(status="failed")).runs == []
        assert [r.id for r in runs.list(ListRuns(project=str(b.project), account="anthropic")).runs] == ids[::-1]
        page = runs.list(ListRuns(limit=2))
        assert [r.id for r in page.runs] == ids[:2:-1]
        rest = runs.list(ListRuns(limit=10, cursor=page.cursor))
        assert [r.id for r in rest.runs] == ids[2::-1]
        assert rest.cursor is None
        assert runs.family(ids[0]).run.id == ids[0]
        (b.data / "index.sqlite").unlink()
        assert b.harness.reindex().runs == 5
        assert [r.id for r in runs.list().runs] == ids[::-1]


@pytest.mark.clause("CON-31", "CON-38", "QLT-20")
async def test_a_planted_secret_is_nowhere_on_disk_and_in_no_request(tmp_path: Path) -> None:
    token = "ghp_" + "Z4hT9qLm2VxWc8RbN5kEJ7sPdFaY1uGo3iX0"
    turns = [
        reply(
            Block(text=f"I see {token} here"), Block(tool="bash", arguments={"command": f"echo {token}; env; cat .env"})
        ),
        use("write", {"path": "note.txt", "content": f"token={token}\n"}),
        say(f"The key is {KEY} and {token}."),
    ]
    async with bench(tmp_path, turns, environ={"MY_SERVICE_PASSWORD": "hunter2-but-much-longer-8842"}) as b:
        (b.project / ".env").write_text("PASSWORD=hunter2-but-much-longer-8842\n")
        record, events = await b.run(f"use {token} please")
        assert record.status == "completed"
        # The tool got what the model wrote; the record did not.
        assert (b.project / "note.txt").read_text() == f"token={token}\n"
        secrets = [token, KEY, "hunter2-but-much-longer-8842"]
        for path in (p for p in b.data.rglob("*") if p.is_file()):
            content = path.read_bytes()
            for secret in secrets:
                assert secret.encode() not in content, path
        for received in b.server.requests:
            for secret in secrets:
                assert secret.encode() not in received.body
        deltas = "".join(d["text"] for d in of(events, "message.delta") if d["kind"] == "text")
        completed = "".join(m["text"] for m in of(events, "message.completed") if m["role"] == "assistant")
        assert deltas == completed
        assert "[redacted:" in completed
        assert b.server.errors == []


@pytest.mark.clause("RUN-1", "API-1", "ARC-3")
@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"approval": "yolo"}, "approval"),
        ({"approval": ""}, "approval"),
        ({"sandbox": "OFF"}, "sandbox"),
        ({"text": 5}, "text"),
        ({"text": None}, "text"),
        ({"automatic": "yes"}, "automatic"),
        ({"ask_timeout_s": float("nan")}, "ask_timeout_s"),
        ({"ask_timeout_s": -1.0}, "ask_timeout_s"),
        ({"model": ""}, "model"),
        ({"narrow_tools": "read"}, "narrow_tools"),
    ],
)
async def test_a_value_of_the_wrong_type_from_python_is_refused_by_field(
    tmp_path: Path, fields: dict, names: str
) -> None:
    async with bench(tmp_path, [say("never")]) as b:
        with pytest.raises(InvalidInput) as caught:
            await b.harness.sessions.run(RunInput(**{"text": "hi", "cwd": str(b.project), **fields}))
        assert caught.value.facts["field"] == names
        assert b.harness.runs.list().runs == []


@pytest.mark.clause("RUN-4")
@pytest.mark.parametrize("broken", [{"ANTHROPIC_BASE_URL": "nonsense"}, {"ANTHROPIC_API_KEY": "two\nlines"}])
async def test_an_account_that_no_client_can_use_leaves_no_run(tmp_path: Path, broken: dict[str, str]) -> None:
    async with bench(tmp_path, [say("never")], environ=broken) as b:
        with pytest.raises((InvalidInput, AccountUnavailable)):
            await b.start()
        assert b.harness.runs.list().runs == []


@pytest.mark.clause("API-1")
async def test_a_closed_harness_starts_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("never")]) as b:
        harness = b.harness
    with pytest.raises(InvalidInput, match="closed"):
        await harness.sessions.run(RunInput(text="hi", cwd=str(tmp_path / "project")))


@pytest.mark.clause("RUN-4", "QLT-11")
@pytest.mark.bug("NAV-04")
async def test_a_resumed_session_goes_on_in_its_own_folder_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path, lambda _r: say("Done.")) as b:
        await b.run(session_id="talk")
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(elsewhere)
        started = await b.harness.sessions.run(RunInput(text="more", session_id="talk", resume=True))
        await b.finish(started.run_id)
        assert b.harness.runs.get(started.run_id).workspace_root == str(b.project)
        b.project.rename(tmp_path / "gone")
        with pytest.raises(WorkspaceRefused, match="is gone"):
            await b.harness.sessions.run(RunInput(text="more", session_id="talk", resume=True))


@pytest.mark.slow
@pytest.mark.clause("SES-3")
async def test_of_several_processes_that_start_one_session_exactly_one_does(tmp_path: Path) -> None:
    import asyncio
    import sys

    code = (
        "import asyncio, sys, drawbar\n"
        "async def main():\n"
        "    async with drawbar.open() as h:\n"
        "        sys.stdin.readline()\n"
        "        try:\n"
        "            s = await h.sessions.run(drawbar.RunInput(text='x', cwd=sys.argv[1], session_id='talk'))\n"
        "        except drawbar.DrawbarError as error:\n"
        "            print(error.code)\n"
        "            return\n"
        "        print('started', flush=True)\n"
        "        async for _ in h.runs.follow(s.run_id): pass\n"
        "asyncio.run(main())\n"
    )
    slow = Turn(reply=[Block(text="x")], fault=Fault(kind="hang", seconds=3))
    async with bench(tmp_path, lambda _r: slow) as b:
        from tests.runs.kit import environment_for

        environ = environment_for(b.server, b.data, tmp_path)
        starters = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", code, str(b.project), env=environ,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )
            for _ in range(4)
        ]  # fmt: skip
        await asyncio.sleep(1.5)
        answers = await asyncio.gather(*(starter.communicate(b"go\n") for starter in starters))
        said = sorted(answer[0].decode().split()[0] for answer in answers)
        assert said == ["session_busy"] * 3 + ["started"]
        assert len(b.harness.runs.list().runs) == 1


@pytest.mark.clause("BND-1", "RUN-1")
async def test_a_root_whose_name_is_no_text_is_refused_in_words(tmp_path: Path) -> None:
    import os

    odd = os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff\xfe")
    os.mkdir(odd)
    async with bench(tmp_path, [say("never")]) as b:
        with pytest.raises(WorkspaceRefused, match="isn't UTF-8"):
            await b.start(cwd=odd)
        assert b.harness.runs.list().runs == []


@pytest.mark.clause("QLT-20", "CON-31", "CLI-4")
async def test_doctor_prints_no_secret(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5f6G7h8"
    odd = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:1/{KEY}/{token}", "MY_TOKEN": "zebra-token-5512-and-more"}
    async with bench(tmp_path, [say("never")], environ=odd) as b:
        shown = str([(check.message, check.cure) for check in await b.harness.doctor()])
        assert KEY not in shown
        assert token not in shown


@pytest.mark.clause("RUN-13", "SES-2")
@pytest.mark.parametrize("left", ["nothing", "an empty file"])
async def test_a_session_that_died_before_it_wrote_anything_can_be_gone_on_with(tmp_path: Path, left: str) -> None:
    async with bench(tmp_path, [say("Here we are.")]) as b:
        folder = b.data / "sessions" / "talk" / "history"
        folder.mkdir(parents=True)
        if left == "an empty file":
            (folder / "2026-11-30T00-00-00-000Z_x.jsonl").touch()
        record, _ = await b.run(session_id="talk", resume=True)
        assert record.status == "completed"
