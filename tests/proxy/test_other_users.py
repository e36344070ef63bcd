"""The way out for an ordinary user, whose helper must enter a user namespace first: the area's tests run as one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.sandbox.test_other_users import (
    CHECKOUT,
    _as_nobody,  # pyright: ignore[reportPrivateUsage]
    _environment,  # pyright: ignore[reportPrivateUsage]
    folders,
    python,
)

__all__ = ["folders", "python"]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.clause("BND-10", "BND-13")
def test_an_ordinary_user(python: str, folders: tuple[Path, Path]) -> None:
    home, far = folders
    tests = str(CHECKOUT / "tests" / "proxy" / "test_inside.py")
    done = subprocess.run(
        [*_as_nobody(), python, "-m", "pytest", tests, "-q", "-p", "no:cacheprovider", f"--basetemp={far / 'pytest'}"],
        cwd=CHECKOUT,
        env=_environment(home, far),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
