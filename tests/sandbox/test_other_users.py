"""The same guarantees for an ordinary user, whose kernel rules differ from root's: the area's tests run as one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sandbox.conftest import FAR_FOLDER

CHECKOUT = Path(__file__).parents[2]
NOBODY = 65534
AREAS = ["test_escapes.py", "test_hidden.py", "test_git_work.py", "test_processes.py", "test_ordinary_work.py"]
AREAS += [
    "test_kept.py",
    "test_trial.py",
    "test_aliases.py",
    "test_roots.py",
    "test_git_settings.py",
    "test_git_planted.py",
    "test_enter.py",
    "test_host.py",
    *("test_outside.py", "test_terminal.py", "test_jobs.py", "test_hosts_in_sandbox.py"),
]


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter that another user may run, with what the tests import."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; run the tests as that user instead")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    for candidate in dict.fromkeys((sys.executable, f"/usr/bin/python3.{sys.version_info.minor}", "/usr/bin/python3")):
        probe = "import sys, pytest, pytest_asyncio, msgspec, pathspec; sys.exit(sys.version_info[:2] != %r)"
        argv = [*_as_nobody(), candidate, "-c", probe % (sys.version_info[:2],)]
        if (
            subprocess.run(
                argv, env=_environment(Path("/nonexistent"), Path("/")), capture_output=True, check=False
            ).returncode
            == 0
        ):
            return candidate
    pytest.skip("no interpreter here can be used by another user")


@pytest.fixture
def folders() -> Iterator[tuple[Path, Path]]:
    """A home below /tmp that the other user owns, and a folder of theirs elsewhere."""
    with (
        tempfile.TemporaryDirectory(prefix="drawbar-home-") as home,
        tempfile.TemporaryDirectory(dir="/opt") as far,
    ):
        for folder in (home, far):
            os.chmod(folder, 0o755)
            os.chown(folder, NOBODY, NOBODY)
        yield Path(home), Path(far)


def _as_nobody() -> list[str]:
    # A program in between: setpriv itself still has root's powers when it looks for what to run.
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]
    return [*become, "sh", "-c", 'exec "$@"', "sh"]


def _environment(home: Path, far: Path) -> dict[str, str]:
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}:{packages}",
        FAR_FOLDER: str(far),
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.clause("BND-9", "BND-10", "BND-11", "BND-16", "BND-17", "QLT-1", "QLT-12")
@pytest.mark.parametrize("area", AREAS)
def test_an_ordinary_user(python: str, folders: tuple[Path, Path], area: str) -> None:
    home, far = folders
    done = subprocess.run(
        [
            *_as_nobody(),
            *(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"),
            *(f"--basetemp={home}/tests", "-m", "not slow", f"tests/sandbox/{area}"),
        ],
        cwd=CHECKOUT,
        env=_environment(home, far),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout.splitlines()[-1]
