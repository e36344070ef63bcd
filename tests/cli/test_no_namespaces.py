"""The command line where no sandbox can be had, as in a plain container: one message, and nothing runs (QLT-1)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import DRAWBAR, Place
from tests.sandbox.conftest import why_no_sandbox

from drawbar.testing.scenario import say, use

BWRAP = ("bwrap", "--dev-bind", "/", "/", "--unshare-user", "--unshare-pid", "--proc", "/proc")
HERE: dict[str, tuple[tuple[str, ...], dict[str, str], str, str]] = {
    "namespaces used up": ((*BWRAP, "--disable-userns", "--"), {}, "namespace", "turn the sandbox off"),
    "a container": (
        (*BWRAP, "--disable-userns", "--"),
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
        "this is a container",
        "take the container as the boundary",
    ),
    "a limit of none": (
        ("unshare", "-Ur", "sh", "-c", 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', "sh"),
        {},
        "user.max_user_namespaces is 0",
        "sudo sysctl user.max_user_namespaces=15000",
    ),
    "no bubblewrap": (
        (*BWRAP, "--ro-bind", "/dev/null", "/usr/bin/bwrap", "--"),
        {},
        "not installed",
        "apt install bubblewrap",
    ),
}
"""How to get there, what the environment says there, and pieces of cause and cure."""

Typed = Callable[..., subprocess.CompletedProcess[str]]
pytestmark = [pytest.mark.clause("QLT-1"), pytest.mark.bug("SBX-07"), pytest.mark.slow]


@pytest.fixture(params=HERE)
def there(request: pytest.FixtureRequest, place: Place) -> tuple[Typed, str, str]:
    """Types a command where no sandbox can be had; cause and cure that are to be named."""
    reason = why_no_sandbox()
    if reason is not None:
        pytest.skip(reason)
    argv, environ, cause, cure = HERE[request.param]
    probe = subprocess.run([*argv, sys.executable, "-c", "pass"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"such a place can't be made here: {probe.stderr.strip()}")

    def typed(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*argv, *DRAWBAR, *words], cwd=place.repo, env={**place.env, **environ}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    return typed, cause, cure


def test_doctor_names_cause_and_cure(place: Place, there: tuple[Typed, str, str]) -> None:
    typed, cause, cure = there
    place.play([])
    done = typed("doctor", "--json")
    assert done.returncode == 1, done
    check = next(check for check in json.loads(done.stdout)["checks"] if check["name"] == "sandbox")
    assert check["ok"] is False
    assert cause in check["message"]
    assert cure in check["cure"]
    told = typed("doctor").stdout
    assert told.count(cause) == 1
    assert told.count(cure) == 1


@pytest.mark.parametrize("mode", ["auto-workspace", "never", "read-only"])
def test_a_run_carries_out_no_command(place: Place, there: tuple[Typed, str, str], tmp_path: Path, mode: str) -> None:
    typed, _, _ = there
    place.play([])
    check = next(
        check for check in json.loads(typed("doctor", "--json").stdout)["checks"] if check["name"] == "sandbox"
    )
    cause, cure = check["message"], check["cure"]
    sentinel = tmp_path / "ran"
    place.play([use("bash", {"command": f"touch {sentinel} ran; echo ran"}), say("It could not be done.")])
    done = typed("run", "touch it", "--approval", mode)
    assert not sentinel.exists()
    assert not (place.repo / "ran").exists()
    assert "exit 0" not in done.stdout
    said = " ".join((done.stdout + done.stderr).split())
    assert said.count(cause) == 1, said
    results = [
        block
        for message in json.loads(place.model.requests[-1].body)["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    ]
    assert len(results) == 1
    told = json.dumps(results[0])
    assert cause in told, told
    assert cure in told, told
    assert "Nothing was run" in told


def test_a_demo_starts_nothing(place: Place, there: tuple[Typed, str, str]) -> None:
    typed, cause, cure = there
    done = typed("demo")
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert said.count(cause) == 1, said
    assert cure in said
    assert place.logs == []


def test_the_person_may_choose_to_go_without(place: Place, there: tuple[Typed, str, str]) -> None:
    """For that one run, with both flags typed, and recorded."""
    typed, _cause, _cure = there
    place.play([use("bash", {"command": "touch ran"}), say("Done.")])
    done = typed("run", "touch it", "--sandbox", "off", "--approval", "auto-workspace")
    assert done.returncode == 0, done
    assert (place.repo / "ran").exists()
    assert "sandbox off" in done.stdout
    assert "sandbox.changed" in place.logs[0].read_text()
