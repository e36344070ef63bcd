"""What every test gets: an environment of its own, and the two things that most of them start from."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

# What a developer's or a CI machine's own settings could change in a test's outcome.
_PERSONAL = re.compile(
    r"(?:DRAWBAR|GIT|XDG)_.*|.*_(?:API_KEY|BASE_URL|AUTH_TOKEN)|(?:HTTPS?|ALL|NO)_PROXY|NO_COLOR|FORCE_COLOR|COLUMNS|LINES",
    re.IGNORECASE,
)
_KEPT = {"DRAWBAR_CORPORA", "DRAWBAR_STREAMS"}

# A shell that starts tests in the background has their children ignore Ctrl-C, which many of them are about.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGTERM, signal.SIG_DFL),
):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)

MakeRepo = Callable[..., Path]


@pytest.fixture(scope="session")
def nobodys_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a test that asks for no data root of its own would put one: never the home of whoever runs it."""
    return tmp_path_factory.mktemp("nobody") / "drawbar"


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, nobodys_root: Path) -> None:
    """No account, proxy, data root or git setting of whoever runs the tests reaches them."""
    for name in list(os.environ):
        if _PERSONAL.fullmatch(name) and name not in _KEPT:
            monkeypatch.delenv(name)
    monkeypatch.setenv("DRAWBAR_HOME", str(nobodys_root))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "A Tester")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "tester@example.invalid")


@pytest.fixture
def data_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data root of this test's own, not made yet; state and config lie inside it (``$DRAWBAR_HOME``)."""
    root = tmp_path / "drawbar"
    monkeypatch.setenv("DRAWBAR_HOME", str(root))
    return root


@pytest.fixture
def git_repo(tmp_path: Path) -> MakeRepo:
    """Makes git repositories: ``git_repo({"a.py": "…"}, name="work")`` → its folder, with one commit of the files."""

    def make(files: Mapping[str, str | bytes] | None = None, name: str = "repo") -> Path:
        repo = tmp_path / name
        repo.mkdir()
        for relative, content in (files or {"README.md": "# A repository\n"}).items():
            path = repo / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        for argv in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "Begin"]):
            subprocess.run(["git", *argv], cwd=repo, check=True, stdin=subprocess.DEVNULL)
        return repo

    return make
