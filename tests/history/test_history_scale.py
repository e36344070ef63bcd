"""Long and heavy histories: bounded memory, no recursion, an opening that costs the file once (QLT-5, SES-4)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.history.kit import CLOCK, HEADER, called, chain, lines_of, said, write

from drawbar.contracts.codec import encode
from drawbar.stores.history import HistoryFile, fork_history, list_histories, read_history, repair_messages

MEASURE = """
import resource, sys, time
from pathlib import Path
from drawbar.contracts.clock import SystemClock
from drawbar.stores.history import HistoryFile, repair_messages
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before, began = peak(), time.perf_counter()
history = HistoryFile.open(Path(sys.argv[1]), clock=SystemClock())
messages, _ = repair_messages(history.messages())
taken = time.perf_counter() - began
history.append_message({"role": "user", "content": "go on"})
print((peak() - before) // 1024, taken, len(messages))
"""


def opened(path: Path) -> tuple[int, float, int]:
    """Peak memory in MiB above the start, seconds, and messages of opening a history in its own process."""
    run = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    memory, taken, messages = run.stdout.split()
    return int(memory), float(taken), int(messages)


@pytest.mark.slow
@pytest.mark.clause("QLT-5", "SES-4")
@pytest.mark.bug("SES-20")
def test_300_mib_of_mostly_noise_open_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    noise = {"type": "custom", "customType": "child-progress", "timestamp": "x", "data": {"text": "x" * 400}}
    number, parent = 0, None
    with path.open("wb") as file:
        file.write(encode(HEADER) + b"\n")
        while file.tell() < 300 * 2**20:
            for _ in range(2000):
                number += 1
                file.write(encode({**noise, "id": f"c{number}", "parentId": parent}) + b"\n")
            file.write(encode(said(f"u{number}", parent, "user", "turn")) + b"\n")
            parent = f"u{number}"
    memory, taken, messages = opened(path)
    assert memory < 200, f"{memory} MiB"
    assert taken < 20, f"{taken:.1f} s"
    assert messages > 200


@pytest.mark.slow
@pytest.mark.clause("QLT-5")
@pytest.mark.bug("SES-20")
def test_300_mib_in_one_branch_open_in_little_memory_behind_a_compaction(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    text = "x" * 3000
    with path.open("wb") as file:
        file.write(encode(HEADER) + b"\n")
        for number in range(100_000):
            parent = f"e{number - 1}" if number else None
            file.write(encode(said(f"e{number}", parent, "assistant" if number % 2 else "user", text)) + b"\n")
        cut = {"type": "compaction", "id": "cut", "parentId": "e99999", "timestamp": "x", "summary": "all of it"}
        file.write(encode({**cut, "firstKeptEntryId": "e99990", "tokensBefore": 1}) + b"\n")
    memory, taken, messages = opened(path)
    assert path.stat().st_size > 300 * 2**20
    assert (memory < 200, messages) == (True, 11), f"{memory} MiB"
    assert taken < 20, f"{taken:.1f} s"


@pytest.mark.clause("QLT-5", "SES-4")
@pytest.mark.bug("SES-19")
def test_a_record_of_12_mib_opens_at_once_and_is_cut_in_the_request(tmp_path: Path) -> None:
    big = "+line of a snapshot diff\n" * (12 * 2**20 // 25)
    result = said("r3", "a2", "toolResult", big, toolCallId="t1", toolName="bash", isError=False)
    records = [said("u1", None, "user", "git diff"), called("a2", "u1", ("t1", "bash")), result]
    path = write(tmp_path / "s.jsonl", [*records, said("a4", "r3", "assistant", "done", stopReason="stop")])
    began = time.perf_counter()
    with HistoryFile.open(path, clock=CLOCK) as history:
        messages, _ = repair_messages(history.messages())
    assert time.perf_counter() - began < 3
    assert len(encode(messages)) < 400_000
    began = time.perf_counter()
    assert len(list_histories(tmp_path)) == 1
    assert time.perf_counter() - began < 1


@pytest.mark.clause("QLT-5")
@pytest.mark.parametrize("depth", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_deep_branch_needs_no_recursion(tmp_path: Path, depth: int) -> None:
    path = write(tmp_path / "s.jsonl", chain(depth))
    with HistoryFile.open(path, clock=CLOCK) as history:
        assert len(history.branch()) == len(history.messages()) == depth
        history.move_to("m9")
        assert len(history.messages()) == 10
    with fork_history(path, tmp_path / "f", clock=CLOCK) as fork:
        assert fork.leaf == f"m{depth - 1}"


@pytest.mark.clause("QLT-5")
def test_a_line_over_the_limit_is_skipped_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drawbar.stores.history.lines.LINE_LIMIT", 5000)
    monkeypatch.setattr("drawbar.stores.history.lines._CHUNK", 1000)
    path = write(
        tmp_path / "s.jsonl", [*chain(2), said("big", "m1", "user", "x" * 9000), said("z", "big", "user", "end")]
    )
    view = read_history(path)
    size = len(lines_of([said("big", "m1", "user", "x" * 9000)], header=None)) - 1
    assert [(repair.kind, repair.line) for repair in view.repairs] == [("corrupt", 4), ("missing-parent", 5)]
    assert view.repairs[0].bytes == size
    assert view.branch == ["m0", "m1", "z"]


@pytest.mark.clause("SES-4")
def test_an_append_costs_the_same_in_a_long_history_as_in_a_short_one(tmp_path: Path) -> None:
    """Bytes read and written for an append, as the kernel counts them, don't grow with the history."""

    def moved() -> tuple[int, int]:
        counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(counts["rchar"]), int(counts["wchar"])

    costs: list[tuple[int, int]] = []
    for length in (2, 20_000):
        path = write(tmp_path / f"{length}.jsonl", chain(length))
        with HistoryFile.open(path, clock=CLOCK) as history:
            before = moved()
            for _ in range(20):
                history.append_message({"role": "user", "content": "x"})
            after = moved()
        costs.append((after[0] - before[0], after[1] - before[1]))
    assert abs(costs[0][0] - costs[1][0]) < 1000
    assert abs(costs[0][1] - costs[1][1]) < 50, "a longer parent id, once"
