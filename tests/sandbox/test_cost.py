"""What a sandboxed command costs, as ratios within one run (BND-15)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "sandbox.py"


@pytest.mark.slow
@pytest.mark.clause("BND-15", "PRF-2")
def test_a_command_costs_little_more_than_its_sandbox(sandbox: None, tmp_path: Path) -> None:
    """The fastest of many interleaved calls, which a busy machine slows alike; a noisy run gets a second chance.

    The bounds are those of a defect; `benchmarks/sandbox.py` measures against the figures that are held to.
    """
    for attempt in range(3):
        report = tmp_path / f"{attempt}.json"
        argv = [sys.executable, BENCHMARK, "--rounds", "40", "--json", report]
        subprocess.run(argv, check=False, capture_output=True)
        facts = json.loads(report.read_text())
        variants = facts["variants"]
        own = facts["ratio_to_bubblewrap"]["min"]
        entered = variants["entered"]["min_ms"] / variants["bubblewrap"]["min_ms"]
        if own <= 3 and entered <= 1:
            return
    pytest.fail(f"a sandbox of its own costs {own} times bubblewrap, entering a kept one {entered:.2f} times")


@pytest.mark.clause("BND-15")
def test_no_python_runs_between_fork_and_exec() -> None:
    """A ``preexec_fn`` copies the whole interpreter, and isn't safe beside threads."""
    sources = Path(__file__).parents[2] / "src" / "drawbar"
    for path in sources.rglob("*.py"):
        text = path.read_text("utf-8")
        assert "preexec_fn=" not in text, path
        # These two are programs of their own, of one thread, and never part of the harness.
        if path.name not in ("subreaper.py", "git_attach.py"):
            assert "os.fork(" not in text, path
