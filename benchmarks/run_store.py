"""What a root with 100,000 runs costs to open and to list (PRF-4).

usage: benchmarks/run_store.py [--json] [RUNS]

Wall time in a warm process, the best of several rounds. Making the runs takes a while on a busy disk; ``TMPDIR``
says where they are made.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from drawbar.contracts.capability import CapabilitySet
from drawbar.contracts.clock import SystemClock
from drawbar.contracts.events.lifecycle import Completed, StatusChanged
from drawbar.contracts.ids import new_id
from drawbar.contracts.methods import ListRuns
from drawbar.contracts.run import RunRecord
from drawbar.stores.layout import Layout
from drawbar.stores.records import file_of, raw_of
from drawbar.stores.redaction import SecretRedactor
from drawbar.stores.runs import RunStore

RUNS = 100_000
ROUNDS = 5
LIMITS = {"open_ms": 300.0, "list_newest_50_ms": 50.0}
"""PRF-4."""


def fill(layout: Layout, count: int) -> None:
    """Settled runs, as the store would leave them but for their logs."""
    template = raw_of(RunRecord(id="", session_id="s_1", status="completed", terminal_code="completed"))
    for number in range(count):
        run_id = new_id("run")
        folder = layout.run(run_id)
        folder.mkdir(mode=0o700)
        moment = f"2026-11-{number % 28 + 1:02d}T12:00:00.000Z"
        fields = {"id": run_id, "created_at": moment, "session_id": f"s_{number % 5000}", "account": f"a{number % 3}"}
        (folder / "run.json").write_bytes(file_of({**template, **fields}))


def best_ms(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def one_run(store: RunStore) -> str:
    """A run of three events, from its folder to its settlement; its id."""
    record = RunRecord(id=new_id("run"))
    log = store.create(record, CapabilitySet())
    log.append(StatusChanged(to="running"))
    log.append(Completed())
    store.patch(record.id, {"status": "completed", "log_head": log.head})
    store.settle_marker(record.id)
    log.close()
    return record.id


def measure(count: int) -> dict[str, float]:
    """Every figure by name."""
    with tempfile.TemporaryDirectory(prefix="drawbar-bench-") as name:
        layout = Layout.resolve({}, Path(name, "root"))
        layout.open()
        fill(layout, count)

        def opened() -> RunStore:
            layout.open()
            store = RunStore(layout, redactor=SecretRedactor(), clock=SystemClock())
            assert store.active() == []
            return store

        store = opened()
        reindex_s = best_ms(store.reindex, 1) / 1e3
        last = one_run(store)
        return {
            "runs": float(count),
            "open_ms": best_ms(opened),
            "reindex_s": reindex_s,
            "list_newest_50_ms": best_ms(lambda: store.list(ListRuns())),
            "list_a_session_ms": best_ms(lambda: store.list(ListRuns(session="s_42"))),
            "list_an_account_ms": best_ms(lambda: store.list(ListRuns(account="a1"))),
            "family_ms": best_ms(lambda: store.family(last)),
            "resolve_a_prefix_ms": best_ms(lambda: store.resolve(last[:-1])),
            "a_whole_run_ms": best_ms(lambda: one_run(store), 20),
        }


def main() -> int:
    """Print the figures; exit 1 when a limit is passed."""
    given = [argument for argument in sys.argv[1:] if argument.isdecimal()]
    figures = measure(int(given[0]) if given else RUNS)
    if "--json" not in sys.argv:
        for name, value in figures.items():
            bound = f"  (at most {LIMITS[name]:g})" if name in LIMITS else ""
            print(f"{name:22} {value:12.3f}{bound}")
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))
    return int(any(figures[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
