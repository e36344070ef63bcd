"""What a judgement costs: the same cases as the benchmark, fewer rounds, the same limits (PRF-8)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "gate.py"


@pytest.mark.clause("PRF-8", "PRF-9")
def test_a_judgement_keeps_within_its_microseconds() -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--rounds", "40", "--json"], capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["read_us"] < 100
    assert figures["bash_asked_us"] < 1000
