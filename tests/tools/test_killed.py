"""Killed at any instant: nothing happened on disk whose intent isn't in the log (ACC-8, CON-34, QLT-8)."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[2]


def logged(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of the log."""
    raw = (folder / "run0" / "events.jsonl").read_bytes()
    return [json.loads(line) for line in raw.split(b"\n")[:-1]]


@pytest.mark.slow
@pytest.mark.clause("ACC-8", "CON-34", "QLT-8", "SES-21")
@pytest.mark.parametrize("seed", range(6))
def test_a_kill_leaves_no_change_without_its_intent(tmp_path: Path, seed: int) -> None:
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.tools.endless", str(tmp_path)], stdout=subprocess.PIPE, cwd=CHECKOUT
    )
    assert run.stdout is not None
    assert run.stdout.readline() == b"ready\n"
    time.sleep(random.Random(seed).uniform(0.05, 1.2))
    run.kill()
    run.wait()
    run.stdout.close()
    time.sleep(0.5)
    events = logged(tmp_path)
    started = {event["payload"]["call_id"] for event in events if event["type"] == "tool.started"}
    done = {event["payload"]["call_id"] for event in events if event["type"] == "tool.completed"}
    present = {path.name for path in (tmp_path / "work0").iterdir() if path.name[0] in "wb"}
    assert present <= started
    assert done <= present
    assert len(started - done) <= 1
    for event in events:
        if event["type"] == "file.changed":
            data = (tmp_path / "work0" / event["payload"]["path"]).read_bytes()
            assert hashlib.sha256(data).hexdigest() == event["payload"]["after"]
    for name in present:
        if name.startswith("w"):
            assert (tmp_path / "work0" / name).read_text() == f"{name[1:]}\n" * 2000
