"""Ids and stamps: monotonic, unique, of one form."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from drawbar.contracts.clock import stamp
from drawbar.contracts.ids import KINDS, is_id, new_id


@pytest.mark.clause("CON-2")
def test_ids_are_monotonic_and_unique_over_threads() -> None:
    drawn: list[list[str]] = [[] for _ in range(8)]

    def draw(into: list[str]) -> None:
        into.extend(new_id("run") for _ in range(2000))

    threads = [threading.Thread(target=draw, args=(into,)) for into in drawn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = [one for into in drawn for one in into]
    assert len(set(everything)) == 16_000
    for into in drawn:
        assert into == sorted(into)


@pytest.mark.clause("CON-2")
def test_ids_stay_monotonic_when_the_wall_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    first = new_id("run")
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)
    second = new_id("run")
    assert second > first


@pytest.mark.clause("CON-2")
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_id_has_its_kind_and_a_lower_case_ulid(kind: str) -> None:
    one = new_id(kind)
    assert is_id(one, kind)
    assert one[:2] == f"{KINDS[kind]}_"
    assert one == one.lower()
    assert not is_id(one.upper(), kind)
    assert not is_id(one + "0", kind)
    assert not is_id(one[:-1] + "u", kind)


@pytest.mark.clause("CON-2")
def test_processes_need_no_coordination_to_differ() -> None:
    code = "from drawbar.contracts.ids import new_id; print(*(new_id('run') for _ in range(500)))"
    both = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    ids = " ".join(one.stdout for one in both).split()
    assert len(set(ids)) == 1000


@pytest.mark.clause("CON-11")
def test_stamps_are_utc_with_milliseconds() -> None:
    assert stamp(0) == "1970-01-01T00:00:00.000Z"
    assert stamp(1_796_040_000_007) == "2026-11-30T12:00:00.007Z"
