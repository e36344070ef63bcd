"""Runs the tests in tiers and closes with one summary line over all of them, in pytest's own form (ARC-8).

usage: scripts/tests.py TIER…        tiers: quick (under 6 minutes), slow (kills, faults, large files)
       PYTEST_ARGS="-k gate"          is passed on to pytest
A tier that fails ends the rest, so that a broken basic shows within minutes.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIERS = {"quick": "not slow", "slow": "slow"}
SUMMARY = re.compile(r"^=*\s*((?:\d+ [a-z ]+(?:, )?)+) in [\d.]+s\b")
NO_TESTS = 5


def run_tier(tier: str, counts: Counter[str]) -> int:
    """One pytest call; adds what its summary line counts to ``counts``."""
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", TIERS[tier], "--color=no"]
    argv += shlex.split(os.environ.get("PYTEST_ARGS", ""))
    # One hash seed for all workers, so that they collect the same tests; another one each run, so that none is special.
    seed = os.environ.get("PYTHONHASHSEED") or str(time.time_ns() % 2**32)
    print(f"tier {tier}, PYTHONHASHSEED={seed}", flush=True)
    process = subprocess.Popen(
        argv,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        last = line if SUMMARY.match(line) else last
    if match := SUMMARY.match(last):
        for part in match[1].split(", "):
            number, _, word = part.partition(" ")
            counts[{"error": "errors", "warning": "warnings"}.get(word, word)] += int(number)
    return process.wait()


def main(tiers: list[str]) -> int:
    """The worst exit code of the tiers; a run in which no test ran at all has failed."""
    unknown = [tier for tier in tiers if tier not in TIERS]
    if unknown or not tiers:
        print(f"tests.py: name tiers out of {', '.join(TIERS)}", file=sys.stderr)
        return 2
    counts: Counter[str] = Counter()
    began = time.monotonic()
    code = 0
    for tier in tiers:
        code = run_tier(tier, counts)
        if code == NO_TESTS:  # a tier may be empty (PYTEST_ARGS); all of them may not
            code = 0
        if code:
            break
    ran = sum(counts[word] for word in ("passed", "failed", "errors", "xfailed", "xpassed"))
    words = ", ".join(
        f"{counts[word]} {word}"
        for word in ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warnings", "errors")
        if counts[word]
    )
    summary = f" {words or 'no tests ran'} in {time.monotonic() - began:.2f}s "
    print(f"{summary:=^100}", flush=True)
    return code or (0 if ran else NO_TESTS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
