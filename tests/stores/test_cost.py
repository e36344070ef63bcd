"""What opening, listing and recording may cost (PRF-3, PRF-4): by what is touched, and by the benchmark's figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.stores.support import answer_of, python

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.clause("PRF-4", "CON-36", "CON-29")
def test_opening_never_looks_at_the_runs_and_listing_reads_a_page(tmp_path: Path) -> None:
    """However many runs there are: which folders are scanned and which records are read is what counts."""
    code = """
        import json, os, sys
        from pathlib import Path
        from drawbar.contracts.capability import CapabilitySet
        from drawbar.contracts.clock import SystemClock
        from drawbar.contracts.events.lifecycle import Completed, StatusChanged
        from drawbar.contracts.ids import new_id
        from drawbar.contracts.methods import ListRuns
        from drawbar.contracts.run import RunRecord
        from drawbar.stores.layout import Layout
        from drawbar.stores.redaction import SecretRedactor
        from drawbar.stores.runs import RunStore

        layout = Layout.resolve({}, Path(sys.argv[1]))

        def opened():
            layout.open()
            store = RunStore(layout, redactor=SecretRedactor(), clock=SystemClock())
            return store, store.active()

        store, _ = opened()
        for number in range(120):
            record = RunRecord(id=new_id("run"))
            log = store.create(record, CapabilitySet())
            if number:
                log.append(StatusChanged(to="running"))
                log.append(Completed())
                store.patch(record.id, {"status": "completed"})
                store.settle_marker(record.id)
            log.close()
        store.list(ListRuns())
        touched = []

        def hook(event, args):
            if event in ("open", "os.listdir", "os.scandir", "sqlite3.connect") and args and args[0] is not None:
                touched.append((event, str(args[0])))

        def opens(event, path, name):
            return event == "open" and Path(path).stem == name

        def counted(work):
            touched.clear()
            work()
            runs = str(layout.runs)
            return {
                "scans of runs": sum(path == runs for event, path in touched if event != "open"),
                "records": sum(path.startswith(runs + "/r_") for event, path in touched if opens(event, path, "run")),
                "logs": sum(path.startswith(runs + "/r_") for event, path in touched if opens(event, path, "events")),
                "files of runs": sum(path.startswith(runs + "/r_") for event, path in touched if event == "open"),
                "index": sum(event == "sqlite3.connect" for event, _ in touched),
            }

        sys.addaudithook(hook)
        print(json.dumps([counted(opened), counted(lambda: store.list(ListRuns(limit=10)))]))
    """
    opening, listing = json.loads(answer_of(python(code, str(tmp_path / "root"))))
    assert set(opening.values()) == {0}
    assert listing["scans of runs"] == 0
    assert listing["records"] == 1 + 11, "the one active run, and the page with the first of the next"
    assert listing["logs"] == listing["records"], "of each, the log's last bytes, which have the last word (CON-13)"
    assert listing["files of runs"] == listing["records"] + listing["logs"]


@pytest.mark.clause("PRF-3", "PRF-4")
@pytest.mark.slow
def test_events_are_recorded_and_read_as_fast_as_promised() -> None:
    """The limits are for a quiet machine; here they are taken twofold."""
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "events.py", "--json"], stdout=subprocess.PIPE, text=True, check=False
    )
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["events_per_s"] > 35_000 / 2
    assert figures["coalesced_delta_us"] < 20 * 2
    assert figures["read_100000_s"] < 0.5 * 2


@pytest.mark.clause("PRF-4", "PRF-9")
@pytest.mark.slow
def test_a_root_with_many_runs_opens_and_lists_as_fast_as_promised() -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "run_store.py", "--json", "3000"], stdout=subprocess.PIPE, text=True, check=False
    )
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["open_ms"] < 300
    assert figures["list_newest_50_ms"] < 50 * 2
