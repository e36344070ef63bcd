"""The run store: folders, records, owners, the list (CON-26, CON-29, CON-36, CON-37, RUN-34)."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stores.support import NOON, HeldClock, PlainRedactor, delta, fill, small_disk

from drawbar.contracts.capability import CapabilitySet
from drawbar.contracts.codec import UNSET
from drawbar.contracts.errors import (
    CapabilitiesFrozen,
    IncompatibleRoot,
    InvalidInput,
    NotFound,
    SessionBusy,
    StorageFailed,
)
from drawbar.contracts.events.lifecycle import Completed, Started, StatusChanged
from drawbar.contracts.events.usage import Usage
from drawbar.contracts.ids import new_id
from drawbar.contracts.methods import Family, ListRuns
from drawbar.contracts.run import LogHead, RunRecord, VariantPin
from drawbar.stores.event_log import EventLog
from drawbar.stores.layout import Layout
from drawbar.stores.redaction import SecretRedactor
from drawbar.stores.runs import RunStore
from drawbar.stores.verify import verify_run

BUGS = Path(__file__).parents[1] / "fixtures" / "bugs"
TOOLS = CapabilitySet(tools=("bash", "read"), scopes=("workspace",))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout.resolve({}, tmp_path / "root")
    made.open()
    return made


@pytest.fixture
def store(layout: Layout) -> RunStore:
    return store_of(layout)


def store_of(layout: Layout, **rest: Any) -> RunStore:
    rest.setdefault("redactor", PlainRedactor())
    rest.setdefault("clock", HeldClock())
    return RunStore(layout, **rest)


def started(store: RunStore, **fields: Any) -> tuple[str, EventLog]:
    record = RunRecord(id=new_id("run"), **fields)
    return record.id, store.create(record, TOOLS)


def settled(store: RunStore, **fields: Any) -> str:
    run_id, log = started(store, **fields)
    log.append(StatusChanged(to="running"))
    log.append(Completed(outcome="done"))
    store.patch(run_id, {"status": "completed", "terminal_code": "completed", "log_head": log.head})
    store.settle_marker(run_id)
    log.close()
    return run_id


def raw(store: RunStore, run_id: str) -> dict[str, Any]:
    return json.loads((store.folder(run_id) / "run.json").read_bytes())


# -- making a run -----------------------------------------------------------------------------------------


@pytest.mark.clause("CON-37", "CON-26", "CON-28", "CON-1")
def test_a_run_appears_whole_private_and_owned(store: RunStore, layout: Layout) -> None:
    record = RunRecord(id=new_id("run"), session_id="s_1", title="A title ✓")
    log = store.create(record, TOOLS, socket="/run/x.sock")
    folder = layout.runs / record.id
    assert sorted(os.listdir(folder)) == ["capabilities.json", "events.jsonl", "owner.json", "run.json"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert log.path == folder / "events.jsonl"
    assert log.artifacts().path("x").parent == folder / "artifacts"
    assert store.active() == [record.id]
    assert store.owner_alive(record.id)
    owner = store.owner(record.id)
    assert owner is not None
    assert (owner.pid, owner.socket) == (os.getpid(), "/run/x.sock")
    assert store.load(record.id) == record
    assert record.created_at == "2026-11-30T12:00:00.000Z"
    assert record.capabilities_digest == TOOLS.digest()
    assert store.capabilities(record.id) == TOOLS.normalised()
    assert os.listdir(layout.building) == []
    log.close()


@pytest.mark.clause("CON-1", "CON-7")
def test_the_record_on_disk_says_every_field_but_the_unknown_ones(store: RunStore) -> None:
    run_id, log = started(store)
    log.close()
    on_disk = raw(store, run_id)
    every = set(RunRecord.__struct_fields__)
    assert every - set(on_disk) == {"loaded_skills", "activated_plugins"}
    assert (store.folder(run_id) / "run.json").read_text().count("\n") > len(on_disk), "one field a line"
    store.patch(run_id, {"loaded_skills": []})
    assert raw(store, run_id)["loaded_skills"] == []
    assert store.load(run_id).activated_plugins is UNSET


@pytest.mark.clause("RUN-5", "CON-37", "SCL-4")
def test_a_run_id_starts_once_and_its_capabilities_are_frozen(store: RunStore, layout: Layout) -> None:
    run_id, log = started(store)
    before = (store.folder(run_id) / "run.json").read_bytes()
    with pytest.raises(InvalidInput, match="already"):
        store.create(RunRecord(id=run_id), TOOLS)
    with pytest.raises(CapabilitiesFrozen):
        store.create(RunRecord(id=run_id), CapabilitySet(tools=("bash",)))
    with pytest.raises(InvalidInput, match="already"):
        store.create(RunRecord(id=run_id), CapabilitySet(tools=("read", "bash", "bash"), scopes=("workspace",)))
    assert (store.folder(run_id) / "run.json").read_bytes() == before
    assert store.active() == [run_id]
    assert os.listdir(layout.building) == []
    log.close()


@pytest.mark.clause("CON-2", "RUN-1")
@pytest.mark.parametrize("bad", ["", "x", "../x", "s_01jd00000000000000000000aa", "r_01JD00000000000000000000AA"])
def test_a_run_id_has_the_form_of_one(store: RunStore, layout: Layout, bad: str) -> None:
    with pytest.raises(InvalidInput):
        store.create(RunRecord(id=bad), TOOLS)
    assert os.listdir(layout.runs) == os.listdir(layout.active) == []


@pytest.mark.clause("QLT-6", "CON-37")
def test_a_full_disk_leaves_no_half_of_a_run(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256) as disk:
        layout = Layout.resolve({}, disk / "root")
        layout.open()
        store = store_of(layout)
        free = fill(disk)
        with pytest.raises(StorageFailed, match="No space left"):
            started(store)
        assert store.active() == []
        assert [name for name in os.listdir(layout.runs) if not name.startswith(".")] == []
        free()
        _, log = started(store)
        log.close()


@pytest.mark.clause("CON-37", "CON-36")
def test_what_was_being_built_when_a_process_died_is_swept(store: RunStore, layout: Layout) -> None:
    run_id = new_id("run")
    layout.building.mkdir(mode=0o700)
    left = layout.building / f"{run_id}.abcd"
    left.mkdir()
    (left / "events.jsonl").touch()
    layout.marker(run_id).touch()
    fresh = layout.building / f"{new_id('run')}.abcd"
    fresh.mkdir()
    assert store.active() == []
    assert not layout.marker(run_id).exists()
    assert store.sweep() == 0, "either may be somebody's who is just about to take the lock"
    os.utime(left, (time.time() - 120,) * 2)
    _, log = started(store)
    assert os.listdir(layout.building) == [fresh.name], "whoever builds next tidies up"
    os.utime(fresh, (time.time() - 120,) * 2)
    assert store.sweep() == 1
    log.close()


@pytest.mark.clause("CON-36", "CON-37")
def test_the_marker_of_a_run_that_is_just_being_built_stays(store: RunStore, layout: Layout) -> None:
    run_id = new_id("run")
    aside = layout.building / f"{run_id}.abcd"
    aside.mkdir(parents=True)
    log = EventLog.create(aside, run_id, redactor=PlainRedactor(), clock=HeldClock())
    layout.marker(run_id).touch()
    assert store.active() == []
    store.settle_marker(run_id)
    assert layout.marker(run_id).exists()
    assert store.sweep() == 0
    log.close()


# -- changing a record ------------------------------------------------------------------------------------


@pytest.mark.clause("CON-37", "CON-8")
def test_unknown_fields_survive_a_patch(store: RunStore) -> None:
    run_id, log = started(store, title="old")
    path = store.folder(run_id) / "run.json"
    path.write_text(json.dumps({**raw(store, run_id), "from_the_future": {"a": [1, "ü"]}, "title": None}))
    record = store.patch(run_id, {"title": "new", "variant": VariantPin(scope="p", version="7"), "usage": None})
    assert record.title == "new"
    assert raw(store, run_id)["from_the_future"] == {"a": [1, "ü"]}
    assert raw(store, run_id)["variant"] == {"scope": "p", "version": "7"}
    store.patch(run_id, {"usage": Usage(input_tokens=3), "log_head": LogHead(seq=1, chain="c")})
    assert store.load(run_id).usage == Usage(input_tokens=3)
    log.close()


@pytest.mark.clause("CON-8", "CON-3", "CON-1")
def test_what_can_not_be_patched_is_refused_and_changes_nothing(store: RunStore) -> None:
    run_id = settled(store)
    before = (store.folder(run_id) / "run.json").read_bytes()
    refused: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"colour": "red"}, InvalidInput),
        ({"id": "r_x"}, InvalidInput),
        ({"title": 5}, InvalidInput),
        ({"status": "running"}, InvalidInput),
        ({"status": "asleep"}, InvalidInput),
    ]
    for changes, error in refused:
        with pytest.raises(error):
            store.patch(run_id, changes)
    with pytest.raises(NotFound):
        store.patch(new_id("run"), {"title": "x"})
    assert (store.folder(run_id) / "run.json").read_bytes() == before
    newer = {**raw(store, run_id), "schema_version": 2, "status": "resting", "title": "t"}
    (store.folder(run_id) / "run.json").write_text(json.dumps(newer))
    with pytest.raises(IncompatibleRoot):
        store.patch(run_id, {"title": "x"})
    assert store.load(run_id).title == "t", "readable, with the status that isn't known left out"


@pytest.mark.clause("CON-8", "CON-4")
def test_an_older_record_takes_defaults_and_an_unknown_code_stays(store: RunStore) -> None:
    run_id, log = started(store)
    log.close()
    path = store.folder(run_id) / "run.json"
    path.write_text(json.dumps({"id": run_id, "status": "failed", "terminal_code": "sunspots"}))
    record = store.load(run_id)
    assert (record.terminal_code, record.engine, record.trigger, record.plan) == ("sunspots", "native", "user", False)
    path.write_text(json.dumps({"id": run_id, "status": "interrupted"}))
    assert store.load(run_id).terminal_code is None


@pytest.mark.clause("CON-13", "QLT-5")
@pytest.mark.parametrize("damage", [b"", b"\0" * 500, b'{"id": "r_', b"[]"])
def test_a_damaged_record_is_made_anew_from_the_log(store: RunStore, damage: bytes) -> None:
    run_id, log = started(store, session_id="s_1")
    log.append(Started(run_id=run_id, session_id="s_1", model="m-1"))
    log.append(StatusChanged(to="running"))
    log.append(Completed(outcome="done"))
    log.close()
    (store.folder(run_id) / "run.json").write_bytes(damage)
    record = store.load(run_id)
    assert (record.session_id, record.model, record.status, record.outcome) == ("s_1", "m-1", "completed", "done")
    assert store.patch(run_id, {"title": "mended"}).title == "mended"
    assert raw(store, run_id)["status"] == "completed"


@pytest.mark.clause("CON-13")
@pytest.mark.bug("STL-01")
def test_where_log_and_record_disagree_the_log_wins(store: RunStore) -> None:
    run_id, log = started(store)
    log.append(StatusChanged(to="running"))
    assert store.settle_from_log(run_id) is None
    log.append(StatusChanged(to="interrupted", code="user_abort", reason="stopped"))
    head = log.head
    log.close()
    assert raw(store, run_id)["status"] == "queued", "the process died before the record was patched"
    assert store.load(run_id).status == "interrupted"
    record = store.settle_from_log(run_id)
    assert record is not None
    assert (record.status, record.terminal_code, record.terminal_reason) == ("interrupted", "user_abort", "stopped")
    assert record.log_head == head
    assert record.ended_at == "2026-11-30T12:00:00.000Z"
    assert verify_run(store.folder(run_id)).ok


@pytest.mark.clause("CON-31", "QLT-20")
def test_records_are_redacted_and_identifiers_left_alone(layout: Layout) -> None:
    secret = "hunter2-hunter2-hunter2"
    redactor = SecretRedactor([(secret, "password")])
    store = store_of(layout, redactor=redactor)
    run_id, log = started(store, title=f"use {secret}", harness={secret: [secret]}, request_preview=secret)
    store.patch(run_id, {"terminal_reason": f"failed with {secret}", "goal_mode": {"text": secret}})
    log.append(delta(f"the key is {secret}"))
    log.append_raw("extension.notice", {"message": secret, "details": {secret: secret}})
    log.append_raw("no.such.event", {"x": secret})
    log.append_raw("message.delta", {"message_id": "m_1", "block": 0, "kind": secret, "text": ""})
    log.append(Completed())
    log.append(delta(f"late {secret}"))
    log.close()
    files = [path for path in layout.data.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    record = store.load(run_id)
    assert record.id == run_id
    assert record.title is not None
    assert record.title.startswith("use ")
    assert record.title != f"use {secret}"
    assert verify_run(store.folder(run_id)).first_bad is None


@pytest.mark.clause("CON-28")
@pytest.mark.bug("SES-24")
def test_patches_of_several_stores_lose_nothing(layout: Layout) -> None:
    run_id, log = started(store_of(layout))
    log.close()
    names = ["title", "profile", "relation", "mode", "effort", "model"]

    def work(name: str) -> None:
        mine = store_of(layout)
        for number in range(15):
            mine.patch(run_id, {name: f"{name} {number}"})

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    on_disk = raw(store_of(layout), run_id)
    assert {name: on_disk[name] for name in names} == {name: f"{name} 14" for name in names}


# -- finding ----------------------------------------------------------------------------------------------


@pytest.mark.clause("CON-2", "CON-39")
def test_a_unique_beginning_names_a_run(store: RunStore, layout: Layout) -> None:
    for run_id in ("r_01jd0000000000000000000001", "r_01jd0000000000000000000002", "r_01je0000000000000000000001"):
        store.create(RunRecord(id=run_id), TOOLS).close()
    (layout.runs / "r_01jf0000000000000000000001").mkdir()
    assert store.resolve("r_01je") == "r_01je0000000000000000000001"
    assert store.resolve(" 01je ") == "r_01je0000000000000000000001"
    assert store.resolve("r_01jd0000000000000000000001") == "r_01jd0000000000000000000001"
    with pytest.raises(NotFound, match=r"2 runs: r_01jd0000000000000000000001, r_01jd0000000000000000000002") as error:
        store.resolve("r_01jd")
    assert error.value.facts["candidates"] == ["r_01jd0000000000000000000001", "r_01jd0000000000000000000002"]
    for nothing in ("r_02", "", "../runs", "%", "r_01jf0000000000000000000001x"):
        with pytest.raises(NotFound):
            store.resolve(nothing)
    with pytest.raises(NotFound):
        store.load("r_01jf0000000000000000000001")


@pytest.mark.clause("RUN-34")
def test_the_list_is_newest_first_and_paged(layout: Layout) -> None:
    clock = HeldClock()
    store = store_of(layout, clock=clock)
    made: list[str] = []
    for number in range(23):
        clock.ms = NOON + (number // 3) * 1000
        made.append(settled(store) if number % 5 else started(store)[0])
    seen: list[str] = []
    cursor, pages = None, 0
    while True:
        page = store.list(ListRuns(limit=5, cursor=cursor))
        seen += [record.id for record in page.runs]
        pages += 1
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == made[::-1]
    assert pages == 5
    assert store.list(ListRuns(limit=23)).cursor is None
    with pytest.raises(InvalidInput):
        store.list(ListRuns(cursor="nonsense"))


@pytest.mark.clause("RUN-34")
def test_the_list_filters(layout: Layout) -> None:
    clock = HeldClock()
    store = store_of(layout, clock=clock)

    def made(hours: int, **fields: Any) -> str:
        clock.ms = NOON + hours * 3_600_000
        return settled(store, **fields)

    a = made(0, session_id="s_a", trigger="user", account="work", workspace_root="/home/p/one")
    b = made(1, session_id="s_b", trigger="probe", account="work", workspace_root="/home/p/one/sub")
    c = made(2, session_id="s_a", variant=VariantPin(scope="proj", version="v3"), workspace_root="/home/p/one2")
    d, log = started(store, session_id="s_d", working_directory="/srv/one")

    def ids(**query: Any) -> list[str]:
        return [record.id for record in store.list(ListRuns(**query)).runs]

    assert ids() == [d, c, b, a]
    assert ids(session="s_a") == [c, a]
    assert ids(status="completed") == ids(status="settled") == [c, b, a]
    assert ids(status="queued") == ids(status="active") == [d]
    assert ids(trigger="probe") == [b]
    assert ids(account="work") == [b, a]
    assert ids(project="/home/p/one") == ids(project="/home/p/one/") == [b, a]
    assert ids(project="one") == [d, a]
    assert ids(project="%") == ids(project="/")[:0] == []
    assert ids(project="/") == [d, c, b, a]
    assert ids(variant="v3") == ids(variant="proj") == ids(variant="proj@v3") == [c]
    assert ids(since="2026-11-30T13:00:00Z") == [d, c, b]
    assert ids(until="2026-11-30T14:00:00+01:00") == [b, a]
    assert ids(since="2026-11-30T13:00:00", until="2026-11-30T13:30:00Z") == [b]
    assert ids(since="2026-12-01") == []
    assert ids(session="s_a", variant="v3", limit=1) == [c]
    for bad in ({"since": "yesterday"}, {"until": "?"}, {"status": "asleep"}):
        with pytest.raises(InvalidInput):
            ids(**bad)
    log.append(StatusChanged(to="running"))
    store.patch(d, {"status": "running"})
    assert ids(status="queued") == []
    assert ids(status="running") == [d]
    log.close()


@pytest.mark.clause("RUN-34")
def test_a_family_is_one_tree(store: RunStore) -> None:
    top = settled(store)
    child = settled(store, parent_run_id=top)
    side = settled(store, parent_run_id=top, relation="side-question")
    again = settled(store, resumed_from_run_id=top)
    third = settled(store, resumed_from_run_id=again)
    child_again = settled(store, resumed_from_run_id=child, parent_run_id=top)
    follow_up, log = started(store, parent_run_id=third, relation="follow-up")
    other = settled(store)

    def tree(node: Family) -> Any:
        return (node.run.id, node.relation, [tree(below) for below in node.children])

    expected = (
        top,
        None,
        [
            (child, "child", [(child_again, "continuation", [])]),
            (side, "side-question", []),
            (again, "continuation", [(third, "continuation", [(follow_up, "follow-up", [])])]),
        ],
    )
    for member in (top, child, side, again, third, child_again, follow_up):
        assert tree(store.family(member)) == expected
    assert tree(store.family(other)) == (other, None, [])
    with pytest.raises(NotFound):
        store.family(new_id("run"))
    log.close()


@pytest.mark.clause("RUN-34", "QLT-5")
def test_a_family_with_a_cycle_or_a_hole_is_still_a_tree(store: RunStore) -> None:
    a, b = new_id("run"), new_id("run")
    store.create(RunRecord(id=a, parent_run_id=b), TOOLS).close()
    store.create(RunRecord(id=b, parent_run_id=a), TOOLS).close()
    orphan = settled(store, resumed_from_run_id=new_id("run"), parent_run_id=a)
    assert {store.family(a).run.id, store.family(b).run.id} <= {a, b}
    assert store.family(orphan).run.id in (a, b)


# -- the index --------------------------------------------------------------------------------------------


@pytest.mark.clause("CON-29")
@pytest.mark.bug("SES-26")
def test_the_index_is_never_a_source_of_truth(store: RunStore, layout: Layout) -> None:
    runs = [settled(store) for _ in range(6)]
    assert not layout.index_file.exists(), "nobody asked yet"

    def listed() -> list[str]:
        return [record.id for record in store.list(ListRuns()).runs][::-1]

    assert listed() == runs
    assert stat.S_IMODE(layout.index_file.stat().st_mode) == 0o600
    sound = layout.index_file.read_bytes()
    # Damage of any kind is mended by making it anew from the runs.
    for damage in (b"", b"not a database at all" * 100, sound[:2048], sound[:4096] + b"\xff" * (len(sound) - 4096)):
        layout.index_file.write_bytes(damage)
        assert listed() == runs
    shutil.copy(BUGS / "SES-26" / "index.jsonl", layout.index_file)
    assert listed() == runs
    runs.append(settled(store))
    layout.index_file.unlink()
    layout.index_file.symlink_to("/nonexistent/index.sqlite")
    runs.append(settled(store))
    assert listed() == runs


@pytest.mark.clause("CON-29")
def test_an_index_of_another_release_or_half_made_is_made_anew(store: RunStore, layout: Layout) -> None:
    runs = {settled(store) for _ in range(3)}
    store.list(ListRuns())
    for version in (0, 99):
        with sqlite3.connect(layout.index_file) as db:
            db.execute("DELETE FROM runs")
            db.execute(f"PRAGMA user_version = {version}")
        db.close()
        assert {record.id for record in store.list(ListRuns()).runs} == runs


@pytest.mark.clause("CON-29")
def test_runs_that_settle_after_the_index_was_made_are_in_it(store: RunStore, layout: Layout) -> None:
    runs = [settled(store)]
    store.list(ListRuns())
    runs += [settled(store_of(layout)) for _ in range(3)]
    with sqlite3.connect(layout.index_file) as db:
        assert {row[0] for row in db.execute("SELECT id FROM runs")} == set(runs)
    db.close()


@pytest.mark.clause("CON-29", "CON-39")
def test_reindex_follows_the_folders(store: RunStore, layout: Layout) -> None:
    runs = [settled(store) for _ in range(4)]
    store.list(ListRuns())
    shutil.rmtree(layout.runs / runs[0])
    assert [record.id for record in store.list(ListRuns(limit=2)).runs] == runs[:1:-1]
    assert {record.id for record in store.list(ListRuns()).runs} == set(runs[1:]), "a removed run is gone at once"
    (layout.runs / "r_00000000000000000000000000").mkdir()
    shutil.copytree(layout.runs / runs[1], layout.runs / runs[0])
    told: list[int] = []
    done = store.reindex(progress=told.append)
    assert (done.runs, done.skipped) == (4, 1)
    assert told[-1] == 5
    assert {record.id for record in store.list(ListRuns()).runs} == set(runs)


@pytest.mark.clause("CON-29", "QLT-5")
def test_a_root_that_can_not_be_written_still_lists(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4096) as disk:
        layout = Layout.resolve({}, disk / "root")
        layout.open()
        store = store_of(layout)
        left, log = started(store)
        log.close()
        runs = {left} | {settled(store) for _ in range(3)}
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert {record.id for record in store.list(ListRuns()).runs} == runs
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        store.list(ListRuns())
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert {record.id for record in store.list(ListRuns()).runs} == runs
        with pytest.raises(StorageFailed):
            store.reindex()


@pytest.mark.clause("CON-29")
@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(["settle", "start", "list", "lose index", "remove", "reindex"]), max_size=14))
def test_the_list_is_what_is_there_whatever_happened_to_the_index(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    layout = Layout.resolve({}, tmp_path_factory.mktemp("root"))
    layout.open()
    store = store_of(layout)
    there: list[str] = []
    logs: list[EventLog] = []
    for step in steps:
        if step == "settle":
            there.append(settled(store))
        elif step == "start":
            run_id, log = started(store)
            there.append(run_id)
            logs.append(log)
        elif step == "list":
            store.list(ListRuns())
        elif step == "lose index":
            layout.index_file.unlink(missing_ok=True)
        elif step == "reindex":
            store.reindex()
        elif there:
            shutil.rmtree(layout.runs / there.pop(0))
    assert [record.id for record in store.list(ListRuns()).runs] == there[::-1]
    for log in logs:
        log.close()


# -- active runs and their owners -------------------------------------------------------------------------


@pytest.mark.clause("CON-36", "CON-27", "RUN-13")
@pytest.mark.bug("STL-01")
def test_a_run_that_was_left_is_found_taken_over_and_let_go(store: RunStore, layout: Layout) -> None:
    run_id, log = started(store)
    log.append(StatusChanged(to="running"))
    with pytest.raises(SessionBusy):
        store.take_over(run_id)
    log.close()
    assert not store.owner_alive(run_id)
    assert store.active() == [run_id]
    mine = store.take_over(run_id, socket="/run/new.sock")
    owner = store.owner(run_id)
    assert owner is not None
    assert owner.socket == "/run/new.sock"
    assert store.owner_alive(run_id)
    mine.append(StatusChanged(to="interrupted", code="harness_restart"))
    mine.close()
    record = store.settle_from_log(run_id)
    assert record is not None
    store.settle_marker(run_id)
    assert store.active() == []
    store.settle_marker(run_id)
    with pytest.raises(NotFound):
        store.take_over(new_id("run"))


@pytest.mark.clause("RUN-13", "QLT-5")
@pytest.mark.bug("STL-01")
def test_the_runs_of_a_dead_owner_can_all_be_taken_over(store: RunStore, layout: Layout) -> None:
    """Reported: active when the process died, running for ever. Also one with a final event, one without an owner."""
    shutil.copytree(BUGS / "STL-01" / "runs", layout.runs, dirs_exist_ok=True)
    for folder in layout.runs.glob("r-*"):
        layout.marker(folder.name).touch()
    assert store.active() == ["r-dead", "r-done", "r-noowner", "r-queued"]
    after: dict[str, str] = {}
    for run_id in store.active():
        assert not store.owner_alive(run_id)
        log = store.take_over(run_id)
        if not log.sealed:
            log.append(StatusChanged(to="interrupted", code="owner_gone"))
        log.close()
        record = store.settle_from_log(run_id)
        assert record is not None
        after[run_id] = record.status
        store.settle_marker(run_id)
    assert after == json.loads((BUGS / "STL-01" / "expect.json").read_text())["after_open"]
    assert store.active() == []


@pytest.mark.clause("CON-36")
def test_odd_names_among_the_markers_do_no_harm(store: RunStore, layout: Layout) -> None:
    run_id, log = started(store)
    for name in ("r_nothing", "..x", "a b", "r_\n"):
        (layout.active / name).touch()
    assert store.active() == [run_id]
    assert "r_nothing" not in os.listdir(layout.active)
    log.close()


@pytest.mark.clause("RUN-5")
def test_lost_capabilities_are_an_error_not_an_empty_set(store: RunStore) -> None:
    run_id, log = started(store)
    log.close()
    path = store.folder(run_id) / "capabilities.json"
    path.write_text('{"tools": 5}')
    with pytest.raises(StorageFailed):
        store.capabilities(run_id)
    path.unlink()
    with pytest.raises(StorageFailed):
        store.capabilities(run_id)
    with pytest.raises(NotFound):
        store.capabilities(new_id("run"))
