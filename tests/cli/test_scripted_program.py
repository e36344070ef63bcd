"""The scripted model as a program: what is wrong is one line that says what (MDL-11)."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-m", "drawbar.testing.scripted_model"]
SCENARIO = '{"turns": [{"reply": [{"text": "Hi."}]}]}'


@pytest.mark.clause("MDL-11")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (SCENARIO.replace("reply", "replyy"), "unknown field `replyy`"),
        ('{"turns": [', "truncated"),
    ],
)
def test_a_scenario_that_cannot_be_played_is_refused_in_one_line(
    tmp_path: Path, content: str | None, said: str
) -> None:
    path = tmp_path / "scenario.json"
    if content is not None:
        path.write_text(content)
    done = subprocess.run([*PROGRAM, path], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"scripted model: {path}: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.clause("MDL-11")
def test_a_port_in_use_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(SCENARIO)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run([*PROGRAM, path, "--port", port], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert done.stderr.startswith(f"scripted model: port {port}: ")
    assert "in use" in done.stderr
    assert done.stderr.count("\n") == 1
    assert (
        "0 to 65535"
        in subprocess.run([*PROGRAM, path, "--port", "99999"], capture_output=True, text=True, timeout=30).stderr
    )
