"""What ``drawbar doctor`` says of the kernel and of engines (CLI-4)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Place

from drawbar import __version__
from drawbar.boundary.landlock import landlock_version
from drawbar.boundary.unconfined import pid_namespace_available


def checks(place: Place, **env: str) -> dict[str, dict[str, Any]]:
    place.env |= env
    return {check["name"]: check for check in json.loads(place.drawbar("doctor", "--json").stdout)["checks"]}


def program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return folder


@pytest.mark.clause("CLI-4")
def test_it_says_what_the_kernel_gives(place: Place) -> None:
    found = checks(place)
    assert found["userns"]["ok"] is pid_namespace_available()
    version = landlock_version()
    assert f"version {version}" in found["landlock"]["message"] if version else found["landlock"]["cure"]
    assert os.uname().machine in found["seccomp"]["message"]


@pytest.mark.clause("CLI-4")
def test_it_names_the_engines_and_their_versions(place: Place, tmp_path: Path) -> None:
    place.env["PATH"] = "/usr/bin:/bin"
    found = checks(place)
    assert __version__ in found["native"]["message"]
    assert "not found" in found["pi"]["message"]
    folder = program(tmp_path / "programs", "pi", "echo 0.85.1; echo more")
    program(folder, "claude", "exit 3")
    found = checks(place, PATH=f"{folder}:/usr/bin:/bin")
    assert "0.85.1;" in found["pi"]["message"]
    assert "more" not in found["pi"]["message"]
    assert "doesn't say" in found["claude-code"]["message"]
    assert all(found[name]["ok"] for name in ("native", "pi", "claude-code"))


@pytest.mark.clause("CLI-4", "QLT-3")
@pytest.mark.parametrize("how", ["absolute", "relative", "link"])
def test_no_program_of_the_repository_is_asked(place: Place, tmp_path: Path, how: str) -> None:
    inside = program(place.repo / "bin", "pi", f"touch {tmp_path}/ran; echo 1")
    elsewhere = tmp_path / "links"
    elsewhere.mkdir()
    (elsewhere / "pi").symlink_to(inside / "pi")
    first = {"absolute": str(inside), "relative": "bin", "link": str(elsewhere)}[how]
    found = checks(place, PATH=f"{first}:/usr/bin:/bin")
    assert found["pi"]["ok"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.clause("CLI-4", "QLT-12")
@pytest.mark.slow
def test_an_engine_that_hangs_holds_nothing_up(place: Place, tmp_path: Path) -> None:
    folder = program(tmp_path / "programs", "pi", "sleep 1000 & sleep 1000")
    assert "doesn't say" in checks(place, PATH=f"{folder}:/usr/bin:/bin")["pi"]["message"]
