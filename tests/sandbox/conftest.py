"""Fixtures of the sandbox tests; where no sandbox can be had they are skipped, and say why."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.kit import Box, make_box

from drawbar.boundary import git_session
from drawbar.boundary.bubblewrap import Bubblewrap

BoxMaker = Callable[..., Box]


@functools.cache
def why_no_sandbox() -> str | None:
    argv = [str(Bubblewrap().path), "--ro-bind", "/", "/", "--unshare-user", "--unshare-pid", "--", "/bin/true"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"bubblewrap can't be started: {error}"
    return None if done.returncode == 0 else f"bubblewrap can't work here: {done.stderr.strip()}"


@pytest.fixture
def sandbox() -> None:
    """Skip where this machine can't sandbox."""
    reason = why_no_sandbox()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
async def make(sandbox: None, tmp_path: Path) -> AsyncIterator[BoxMaker]:
    """Makes boxes that are closed after the test."""
    boxes: list[Box] = []

    def build(root: Path, **rest: Any) -> Box:
        box = make_box(root, tmp_path, **rest)
        boxes.append(box)
        return box

    yield build
    for box in boxes:
        await box.runner.close()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results wait for the look after their command, however busy the machine is; a test may take that back."""
    monkeypatch.setattr(git_session, "_PATIENCE_S", 10.0)


@pytest.fixture
def box(make: BoxMaker, git_repo: Callable[..., Path]) -> Box:
    """A box over a repository with one commit."""
    return make(git_repo({"file.txt": "aaa\n", "src/app.py": "print('hi')\n"}))


FAR_FOLDER = "SANDBOX_TESTS_FAR_FOLDER"
"""Names a writable folder that a sandbox shows read-only, for users who can't write in /opt."""


@pytest.fixture
def far() -> Iterator[Path]:
    """A folder that is below no home and no private folder, so that nothing hides it."""
    base = os.environ.get(FAR_FOLDER, "/opt")
    if not os.access(base, os.W_OK):
        pytest.skip(f"{base} isn't writable for this user; name another folder with {FAR_FOLDER}")
    with tempfile.TemporaryDirectory(prefix="drawbar-test-", dir=base) as folder:
        yield Path(folder)
