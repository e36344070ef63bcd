"""``kill -9`` at any instant of a run leaves a root that opens, lists, verifies and settles (RUN-13, CON-36)."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest
from tests.stores.support import HeldClock, PlainRedactor, answer_of, python

from drawbar.contracts.errors import SessionBusy
from drawbar.contracts.events.lifecycle import StatusChanged
from drawbar.contracts.methods import ListRuns
from drawbar.contracts.status import SETTLED
from drawbar.stores.event_reader import read_report
from drawbar.stores.layout import Layout
from drawbar.stores.runs import RunStore
from drawbar.stores.verify import verify_run

WORKER = """
    import pathlib, sys
    from drawbar.contracts.capability import CapabilitySet
    from drawbar.contracts.clock import SystemClock
    from drawbar.contracts.events.lifecycle import Completed, Started, StatusChanged
    from drawbar.contracts.ids import new_id
    from drawbar.contracts.methods import ListRuns
    from drawbar.contracts.run import RunRecord
    from drawbar.stores.layout import Layout
    from drawbar.stores.redaction import SecretRedactor
    from drawbar.stores.runs import RunStore
    from tests.stores.support import delta
    layout = Layout.resolve({}, pathlib.Path(sys.argv[1]))
    layout.open()
    store = RunStore(layout, redactor=SecretRedactor(), clock=SystemClock())
    number = 0
    while True:
        record = RunRecord(id=new_id("run"), session_id="s_1")
        log = store.create(record, CapabilitySet(tools=("bash",)))
        log.append(Started(run_id=record.id, session_id="s_1"))
        log.append(StatusChanged(to="running"))
        store.patch(record.id, {"status": "running"})
        for piece in range(3):
            log.append(delta("x" * piece * 500))
        log.append(Completed(outcome="done"))
        store.patch(record.id, {"status": "completed", "terminal_code": "completed", "log_head": log.head})
        store.settle_marker(record.id)
        log.close()
        print(record.id, flush=True)
        number += 1
        if number % 7 == 0:
            store.list(ListRuns())
"""


@pytest.mark.clause("RUN-13", "CON-36", "CON-37", "CON-29", "QLT-21")
@pytest.mark.bug("STL-01")
@pytest.mark.slow
def test_kill_9_at_random_instants_leaves_no_zombie_and_loses_no_settled_run(tmp_path: Path) -> None:
    rng = random.Random(1130)
    root = tmp_path / "root"
    layout = Layout.resolve({}, root)
    told: list[str] = []
    for _ in range(25):
        worker = python(WORKER, str(root))
        assert worker.stdout is not None
        first = worker.stdout.readline().strip()
        time.sleep(rng.uniform(0, 0.03))
        worker.kill()
        out, _ = worker.communicate()
        told += [first, *(name for name in out.split("\n")[1:-1] if len(name) == 28)]

        layout.open()
        store = RunStore(layout, redactor=PlainRedactor(), clock=HeldClock())
        for run_id in store.active():
            assert not store.owner_alive(run_id)
            log = store.take_over(run_id)
            if not log.sealed:
                log.append(StatusChanged(to="interrupted", code="owner_gone"))
            log.close()
            store.settle_from_log(run_id)
            store.settle_marker(run_id)
        for folder in layout.building.iterdir():
            os.utime(folder, (0, 0))  # what is left aside goes once it is old
        store.sweep()
        assert os.listdir(layout.active) == os.listdir(layout.building) == []

    folders = [folder for folder in layout.runs.iterdir() if not folder.name.startswith(".")]
    listed: dict[str, str] = {}
    page = store.list(ListRuns(limit=200))
    listed |= {record.id: record.status for record in page.runs}
    while page.cursor is not None:
        page = store.list(ListRuns(limit=200, cursor=page.cursor))
        listed |= {record.id: record.status for record in page.runs}
    assert set(listed) == {folder.name for folder in folders}
    assert set(told) <= {folder.name for folder in folders}
    assert len(folders) > 25
    for folder in folders:
        record = json.loads((folder / "run.json").read_bytes())
        assert record["status"] in SETTLED
        assert record["log_head"] is not None
        assert verify_run(folder).ok
        assert read_report(folder).skipped == []
        assert listed[folder.name] == record["status"]


@pytest.mark.clause("CON-27", "CON-28", "QLT-21")
def test_two_processes_share_a_root_and_neither_takes_the_others_run(tmp_path: Path) -> None:
    root = tmp_path / "root"
    layout = Layout.resolve({}, root)
    layout.open()
    workers = [python(WORKER, str(root)) for _ in range(2)]
    try:
        for worker in workers:
            assert worker.stdout is not None
            worker.stdout.readline()
        store = RunStore(layout, redactor=PlainRedactor(), clock=HeldClock())
        tried = 0
        until = time.monotonic() + 20
        while tried < 30 and time.monotonic() < until:
            time.sleep(0.001)
            for run_id in store.active():
                tried += 1
                try:
                    log = store.take_over(run_id)
                except SessionBusy:
                    continue
                assert log.sealed, "its owner let it go, settled, while we asked"
                log.close()
        assert tried >= 30
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    for run_id in store.active():
        store.take_over(run_id).close()
    settled = [record for record in store.list(ListRuns(limit=1000)).runs if record.status == "completed"]
    assert settled
    assert all(verify_run(store.folder(record.id)).ok for record in settled)


@pytest.mark.slow
@pytest.mark.clause("SCL-4", "CON-37", "RUN-5")
def test_of_many_that_start_one_run_id_exactly_one_does(tmp_path: Path) -> None:
    root = tmp_path / "root"
    Layout.resolve({}, root).open()
    code = """
        import pathlib, sys, time
        from drawbar.contracts.capability import CapabilitySet
        from drawbar.contracts.clock import SystemClock
        from drawbar.contracts.errors import DrawbarError
        from drawbar.contracts.run import RunRecord
        from drawbar.stores.layout import Layout
        from drawbar.stores.redaction import SecretRedactor
        from drawbar.stores.runs import RunStore
        store = RunStore(Layout.resolve({}, pathlib.Path(sys.argv[1])), redactor=SecretRedactor(), clock=SystemClock())
        time.sleep(max(0, float(sys.argv[2]) - time.time()))
        for number in range(30):
            try:
                log = store.create(RunRecord(id=f"r_01jd00000000000000000000{number:02d}"), CapabilitySet())
                print(number, "mine", flush=True)
                log.close()
            except DrawbarError as error:
                print(number, error.code, flush=True)
    """
    start = str(time.time() + 1.5)
    answers = [answer_of(worker).split("\n") for worker in [python(code, str(root), start) for _ in range(4)]]
    for number in range(30):
        said = sorted(line.split()[1] for answer in answers for line in answer if line.startswith(f"{number} "))
        assert said == ["invalid_request"] * 3 + ["mine"]
    store = RunStore(Layout.resolve({}, root), redactor=PlainRedactor(), clock=HeldClock())
    assert len(store.active()) == 30
    assert os.listdir(root / "runs" / ".building") == []
