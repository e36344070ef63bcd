"""Output that can't be written is said and is no success, whatever was to be written (CLI-1, QLT-6)."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.cli.conftest import Place

from drawbar.testing.scenario import say

DRAWBAR = [sys.executable, "-m", "drawbar.surfaces.cli.main"]


@pytest.mark.clause("CLI-1", "QLT-6")
@pytest.mark.parametrize(
    "argv", [["--version"], ["--version", "runs"], ["--help"], ["run", "--help"], ["completion", "bash"]]
)
def test_it_is_said_of_every_kind_of_output(argv: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*DRAWBAR, *argv], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 1
    assert b"No space left" in done.stderr
    assert done.stderr.count(b"\n") == 1
    done = subprocess.run(
        ["bash", "-c", '"$@" | true; exit ${PIPESTATUS[0]}', "bash", *DRAWBAR, *argv],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == b"", "that nobody reads is no fault"


@pytest.mark.clause("CLI-1", "QLT-6")
@pytest.mark.parametrize("form", [[], ["--json"], ["--quiet"]])
def test_a_run_says_it_too(place: Place, form: list[str]) -> None:
    place.play([say("Done, at some length. " * 50)])
    with open("/dev/full", "wb") as full:
        done = place.begin("run", "hello", *form, stdout=full)
        _out, err = done.communicate(timeout=60)
    assert done.returncode == 1
    assert err.count(b"No space left") == 1
    assert b"Traceback" not in err
