"""The closing line that a CI reads must survive every form of pytest's own."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SUMMARY = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "tests.py"))["SUMMARY"]


@pytest.mark.clause("ARC-8")
@pytest.mark.parametrize(
    ("line", "counted"),
    [
        ("1 failed, 4100 passed, 1 skipped, 76 subtests passed in 179.07s (0:02:59)", "4100 passed"),
        ("==== 3 passed in 1.20s ====", "3 passed"),
        ("5 passed, 1 deselected, 2 warnings in 2.00s", "5 passed"),
        ("1 error in 0.10s", "1 error"),
    ],
)
def test_what_pytest_counted_is_read(line: str, counted: str) -> None:
    match = SUMMARY.match(line)
    assert match is not None
    assert counted in match[1].split(", ")


@pytest.mark.clause("ARC-8")
@pytest.mark.parametrize("line", ["no tests ran in 0.10s", "tests/a.py 3 passed in 1s", ""])
def test_other_lines_are_not_taken_for_it(line: str) -> None:
    assert SUMMARY.match(line) is None
