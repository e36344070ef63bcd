"""Where log and record disagree about a run's end, every reader sees the log's word (CON-13)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.stores.support import NOON, HeldClock, PlainRedactor, answer_of, delta, fill, python, small_disk

from drawbar.contracts.capability import CapabilitySet
from drawbar.contracts.errors import StorageFailed
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.lifecycle import Completed, Failed, StatusChanged
from drawbar.contracts.ids import new_id
from drawbar.contracts.methods import ListRuns
from drawbar.contracts.run import RunRecord
from drawbar.stores.event_log import EventLog
from drawbar.stores.event_reader import read_report
from drawbar.stores.layout import Layout
from drawbar.stores.runs import RunStore
from drawbar.stores.verify import verify_run

ENDS: list[tuple[Payload, tuple[str, str | None]]] = [
    (Completed(outcome="done"), ("completed", "completed")),
    (Failed(code="provider_error", reason="no answer"), ("failed", "provider_error")),
    (StatusChanged(to="interrupted", code="user_abort"), ("interrupted", "user_abort")),
]


def opened(root: Path, clock: HeldClock | None = None) -> RunStore:
    layout = Layout.resolve({}, root)
    layout.open()
    return RunStore(layout, redactor=PlainRedactor(), clock=clock or HeldClock())


def started(store: RunStore, **fields: Any) -> tuple[str, EventLog]:
    record = RunRecord(id=new_id("run"), **fields)
    log = store.create(record, CapabilitySet())
    log.append(StatusChanged(to="running"))
    store.patch(record.id, {"status": "running"})
    return record.id, log


def shown(store: RunStore, run_id: str) -> set[tuple[str, str | None]]:
    """What each reader says of the run's end."""
    listed = next(record for record in store.list(ListRuns()).runs if record.id == run_id)
    inspected = read_report(store.folder(run_id)).record
    assert inspected is not None
    return {
        *((record.status, record.terminal_code) for record in (store.load(run_id), listed, store.family(run_id).run)),
        (inspected["status"], inspected.get("terminal_code")),
    }


@pytest.mark.clause("CON-13")
@pytest.mark.parametrize(("end", "said"), ENDS, ids=lambda value: value[0] if isinstance(value, tuple) else "")
def test_a_record_left_behind_its_sealed_log_shows_what_the_log_says(
    tmp_path: Path, end: Payload, said: tuple[str, str]
) -> None:
    store = opened(tmp_path)
    run_id, log = started(store)
    store.list(ListRuns())
    log.append(delta("x" * 50_000))
    log.append(end)
    log.close()
    before = (store.folder(run_id) / "run.json").read_bytes()
    assert json.loads(before)["status"] == "running"
    assert shown(store, run_id) == {said}
    assert [record.id for record in store.list(ListRuns(status=said[0])).runs] == [run_id]
    assert not store.list(ListRuns(status="active")).runs
    assert store.load(run_id).ended_at == "2026-11-30T12:00:00.000Z"
    assert (store.folder(run_id) / "run.json").read_bytes() == before, "reading changes nothing"


@pytest.mark.clause("CON-13", "QLT-6")
def test_a_disk_that_filled_between_the_seal_and_the_record_hides_no_end(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 2048) as disk:
        store = opened(disk / "root")
        run_id, log = started(store)
        log.append(Completed(outcome="done"))
        make_room = fill(disk)
        with pytest.raises(StorageFailed):
            store.patch(run_id, {"status": "completed", "title": "x" * 8192})
        log.close()
        assert {(store.load(run_id).status, record.status) for record in store.list(ListRuns()).runs} == {
            ("completed", "completed")
        }
        make_room()


@pytest.mark.clause("CON-13")
def test_a_child_shows_in_its_family_as_its_log_says(tmp_path: Path) -> None:
    store = opened(tmp_path)
    parent, first = started(store)
    child, second = started(store, parent_run_id=parent)
    second.append(Failed(reason="x"))
    second.close()
    assert [node.run.status for node in store.family(parent).children] == ["failed"]
    assert store.load(parent).status == "running"
    first.close()
    assert store.load(child).terminal_reason == "x"


@pytest.mark.clause("CON-13")
def test_what_an_owner_is_just_saving_is_left_to_it_and_seen_by_others(tmp_path: Path) -> None:
    store = opened(tmp_path)
    run_id, log = started(store)
    log.append(Completed(outcome="done"))
    assert store.load(run_id).status == "running", "this process holds the run, and is about to patch the record"
    elsewhere = """
        import sys
        from pathlib import Path
        from drawbar.contracts.clock import SystemClock
        from drawbar.stores.layout import Layout
        from drawbar.stores.redaction import SecretRedactor
        from drawbar.stores.runs import RunStore

        store = RunStore(Layout.resolve({}, Path(sys.argv[1])), redactor=SecretRedactor(), clock=SystemClock())
        print(store.load(sys.argv[2]).status)
    """
    assert answer_of(python(elsewhere, str(tmp_path), run_id)).strip() == "completed"
    log.close()
    assert store.load(run_id).status == "completed"


@pytest.mark.clause("CON-13", "CON-11")
def test_an_edited_record_does_not_outvote_the_log(tmp_path: Path) -> None:
    store = opened(tmp_path)
    run_id, log = started(store)
    log.append(Failed(code="provider_error", reason="no answer"))
    log.close()
    store.settle_from_log(run_id)
    store.settle_marker(run_id)
    store.list(ListRuns())
    assert verify_run(store.folder(run_id)).ok
    path = store.folder(run_id) / "run.json"
    edited = {**json.loads(path.read_bytes()), "status": "completed", "terminal_code": "completed", "outcome": "done"}
    path.write_text(json.dumps(edited))
    assert shown(store, run_id) == {("failed", "provider_error")}
    assert store.load(run_id).outcome is None
    found = verify_run(store.folder(run_id))
    assert not found.ok
    assert found.first_bad is not None
    assert (found.first_bad.line, found.first_bad.cause) == (found.events, "altered")


@pytest.mark.clause("CON-13", "CON-15", "PRF-4")
def test_the_end_is_found_in_the_last_bytes_alone(tmp_path: Path) -> None:
    """Before it lies what no reader could pass over in time; behind it a fragment; and it may itself be long."""
    store = opened(tmp_path)
    for reason, behind in (("short", b""), ("short", b'{"seq":9'), ("long " * 30_000, b""), ("x", b"\0" * 40_000)):
        run_id, log = started(store)
        path = log.path
        log.append(delta('"completed" {"type":"completed"}'))
        log.append(Failed(reason=reason))
        log.close()
        data = path.read_bytes()
        with path.open("wb") as file:
            file.truncate(1 << 40)
            file.seek(0, os.SEEK_END)
            file.write(b"\n" + data + behind)
        record = store.load(run_id)
        assert (record.status, record.terminal_reason) == ("failed", reason)


@pytest.mark.clause("CON-13")
def test_no_terminal_line_no_end(tmp_path: Path) -> None:
    store = opened(tmp_path)
    run_id, log = started(store)
    log.append(delta('{"type":"completed"}'))
    log.close()
    with log.path.open("ab") as file:
        file.write(b'{"seq":9,"at":"","type":"completed","payload":{}')
    assert store.load(run_id).status == "running"


@pytest.mark.clause("CON-1", "CON-13")
def test_a_run_never_ends_before_it_starts_though_the_clock_was_set_back(tmp_path: Path) -> None:
    clock = HeldClock()
    store = opened(tmp_path, clock)
    run_id, log = started(store)
    log.append(Completed())
    log.close()
    store.patch(run_id, {"started_at": "2026-11-30T12:00:05.000Z"})
    assert store.load(run_id).ended_at == "2026-11-30T12:00:05.000Z", "seen through the log"
    clock.ms = NOON - 3_600_000
    record = store.patch(run_id, {"status": "completed", "ended_at": "2026-11-30T11:00:00.000Z"})
    assert record.ended_at == record.started_at == "2026-11-30T12:00:05.000Z"
    assert json.loads((store.folder(run_id) / "run.json").read_bytes())["ended_at"] == record.started_at
    never_started, other = started(store, created_at="2026-11-30T12:00:00.000Z")
    other.close()
    assert store.patch(never_started, {"ended_at": "2026-11-30T11:00:00.000Z"}).ended_at == "2026-11-30T12:00:00.000Z"
    assert store.patch(never_started, {"ended_at": "2026-11-30T13:00:00.000Z"}).ended_at == "2026-11-30T13:00:00.000Z"
