"""A whole command line against the scripted model: a repository, a data root, an account."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.cli.terminal import Terminal, terminal
from tests.conftest import MakeRepo

from drawbar.testing.scenario import Scenario
from drawbar.testing.scripted_model import ScriptedModel

DRAWBAR = [sys.executable, "-m", "drawbar.surfaces.cli.main"]


@dataclass
class Place:
    """Where commands are typed."""

    repo: Path
    home: Path
    env: dict[str, str]
    servers: contextlib.ExitStack = field(repr=False)
    model: ScriptedModel = field(init=False, repr=False)

    def play(self, turns: Sequence[Any] | Scenario) -> ScriptedModel:
        """Serve a scenario to the account of the environment."""
        self.model = self.servers.enter_context(ScriptedModel(turns).in_thread())
        self.env |= {"ANTHROPIC_API_KEY": "sk-scripted", "ANTHROPIC_BASE_URL": self.model.base_url}
        return self.model

    def drawbar(self, *argv: str, stdin: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
        """Run one command to its end, without a terminal."""
        return subprocess.run(
            [*DRAWBAR, *argv], cwd=self.repo, env=self.env, input=stdin, capture_output=True, timeout=60,
            start_new_session=True, check=False, **options,
        )  # fmt: skip

    def begin(self, *argv: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start one command without a terminal."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen([*DRAWBAR, *argv], cwd=self.repo, env=self.env, start_new_session=True, **pipes)

    def at_terminal(self, *argv: str, columns: int = 100) -> contextlib.AbstractContextManager[Terminal]:
        """Type one command at a real terminal."""
        return terminal([*DRAWBAR, *argv], cwd=self.repo, env=self.env, columns=columns)

    @property
    def logs(self) -> list[Path]:
        """The event logs of all runs, oldest first."""
        return sorted((self.home / "runs").glob("r_*/events.jsonl"))


@pytest.fixture
def place(tmp_path: Path, git_repo: MakeRepo, data_root: Path) -> Iterator[Place]:
    with contextlib.ExitStack() as servers:
        env = {**os.environ, "HOME": str(tmp_path / "person"), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        (tmp_path / "person").mkdir()
        yield Place(git_repo({"a.txt": "one\n"}), data_root, env, servers)
