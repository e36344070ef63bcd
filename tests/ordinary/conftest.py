"""Who works, and how: root or an ordinary user, in a kept sandbox or in one for each command."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ordinary.kit import CHECKOUT, Ground, HarnessProgram

NOBODY = 65534
WAYS = [("self", "kept"), ("other", "own"), ("self", "own"), ("other", "kept")]
"""Who runs the harness, and with which sandbox; the last two in the slow tier, since each half is in the first two."""

GITCONFIG = """\
[user]
	name = A Person
	email = person@example.invalid
[init]
	defaultBranch = main
[protocol "file"]
	allow = always
"""
_numbers = itertools.count()


def _packages() -> str:
    return next(path for path in sys.path if path.endswith("site-packages"))


def _as_nobody() -> list[str]:
    # A program in between: setpriv itself still has root's powers when it looks for what to run.
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]
    return [*become, "sh", "-c", 'exec "$@"', "sh"]


def _others_python() -> str:
    """An interpreter that another user may run, with what the harness imports."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; these tests run as an ordinary one already")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    probe = f"import sys; sys.path += [{_packages()!r}, {str(CHECKOUT / 'src')!r}]; import msgspec, drawbar.boundary"
    for candidate in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}", "/usr/bin/python3"):
        done = subprocess.run([*_as_nobody(), candidate, "-c", probe], capture_output=True, cwd="/", check=False)
        if done.returncode == 0:
            return candidate
    pytest.skip("no interpreter here can be used by another user")


def _program(become: list[str], python: str) -> Iterator[HarnessProgram]:
    with (
        tempfile.TemporaryDirectory(prefix="drawbar-home-") as home,
        tempfile.TemporaryDirectory(prefix="drawbar-far-") as far,
    ):
        Path(home, ".gitconfig").write_text(GITCONFIG)
        for path in (Path(home), Path(far), Path(home, ".gitconfig")):
            path.chmod(0o755 if path.is_dir() else 0o644)
            if become:
                os.chown(path, NOBODY, NOBODY)
        program = HarnessProgram(become, python, Path(home), Path(far), _packages())
        try:
            trial = program.ask("trial")
            if not trial["ok"]:
                pytest.skip(f"no sandbox here: {trial['cause']}")
            yield program
        finally:
            program.close()


@pytest.fixture(scope="session")
def as_self() -> Iterator[HarnessProgram]:
    yield from _program([], sys.executable)


@pytest.fixture(scope="session")
def as_other() -> Iterator[HarnessProgram]:
    yield from _program(_as_nobody(), _others_python())


@pytest.fixture(
    params=[pytest.param(way, id="-".join(way), marks=[pytest.mark.slow] if way in WAYS[1:] else []) for way in WAYS]
)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """A workspace below the home of whoever works; at the end nothing may lie in it that nobody made."""
    who, how = request.param
    program: HarnessProgram = request.getfixturevalue(f"as_{who}")
    folder = program.home / "projects" / f"p{next(_numbers)}"
    program.outside(f"mkdir -p {folder}", program.home)
    made = Ground(program, folder, keep=how == "kept")
    yield made
    made.close()
    made.check()
    program.outside(f"chmod -R u+w {folder}; rm -rf {folder}", program.home)
