"""``make setup`` on a machine that lacks something says what, and what to do (the README's first promise)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent.parent
BASICS = ("bash", "dirname", "uname", "cat", "grep", "pwd", "env")


def setup(tmp_path: Path, *tools: str, root: bool, apt: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a copy of the script where only the named tools exist; ``apt`` is what apt-get does there."""
    checkout, bin = tmp_path / "checkout", tmp_path / "bin"
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(CHECKOUT / "scripts" / "setup", checkout / "scripts")
    shutil.copy(CHECKOUT / "pyproject.toml", checkout)
    bin.mkdir()
    for tool in (*BASICS, *tools):
        found = sys.executable if tool == "python3" else shutil.which(tool)
        assert found is not None
        (bin / tool).symlink_to(found)
    scripts = {"id": f"echo {0 if root else 1000}"}
    if apt is not None:
        scripts["apt-get"] = apt
    for name, line in scripts.items():
        (bin / name).write_text(f"#!{shutil.which('bash')}\n{line}\n")
        (bin / name).chmod(0o755)
    return subprocess.run(
        [bin / "bash", checkout / "scripts" / "setup"],
        env={"PATH": str(bin), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("root", "apt", "advice"),
    [
        (True, None, "this is no Debian or Ubuntu"),
        (False, "exit 1", "there is no sudo"),
        (True, "echo no network >&2; exit 100", "apt-get could not install them"),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(tmp_path: Path, root: bool, apt: str | None, advice: str) -> None:
    done = setup(tmp_path, root=root, apt=apt)
    assert done.returncode == 1
    assert "needed and not found: python3 python3-venv git bubblewrap" in done.stderr
    assert advice in done.stderr
    assert not (tmp_path / "checkout" / ".venv").exists()


def test_only_what_is_missing_is_installed(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    done = setup(tmp_path, "python3", "git", "rg", "patch", root=True, apt=f'echo "$@" >>{asked}; exit 1')
    assert done.returncode == 1
    first = asked.read_text().splitlines()[0].split()
    assert [word for word in first if not word.startswith("-")] == ["install", "bubblewrap", "fd-find"]


def test_an_interpreter_that_cannot_serve_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", CHECKOUT / "scripts" / "setup"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHON": "/bin/false"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "PYTHON=/bin/false is no Python 3.11" in done.stderr
