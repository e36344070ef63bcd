"""What the sandbox tests share: a pinned repository with a runner, and how to ask it for a command."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drawbar.boundary.bubblewrap import Bubblewrap
from drawbar.boundary.roots import pin_root
from drawbar.boundary.runner import SandboxRunner
from drawbar.contracts.boundary import CommandRequest, CommandResult, Policy
from drawbar.contracts.capability import Scope

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "bugs"
MARKER = "DRAWBAR_CALL=r_test"


@dataclass
class Box:
    """One run's sandbox: ``await box.sh("…")`` runs a Bash command in it."""

    root: Path
    hidden: Path
    private: Path
    runner: SandboxRunner
    results: list[CommandResult] = field(default_factory=list[CommandResult])

    async def sh(self, command: str, *, scope: Scope = "workspace", limit_s: float = 30, **rest: Any) -> CommandResult:
        return await self.run(("/bin/bash", "-c", command), scope=scope, limit_s=limit_s, **rest)

    async def run(
        self, argv: tuple[str, ...], *, scope: Scope = "workspace", limit_s: float = 30, **rest: Any
    ) -> CommandResult:
        result = await self.runner.run(CommandRequest(argv=argv, scope=scope, limit_s=limit_s, **rest))
        self.results.append(result)
        return result

    async def text(self, command: str, *, scope: Scope = "workspace", **rest: Any) -> str:
        """The output of a command that must succeed."""
        result = await self.sh(command, scope=scope, **rest)
        assert result.cause == "ok", (command, result)
        return result.output


def make_box(
    root: Path,
    folder: Path,
    *,
    backend: Any = None,
    environ: Mapping[str, str] | None = None,
    read_only: bool = False,
    unconfined: Any = None,
    keep: bool = True,
    network_gate: Any = None,
    notice: Any = lambda _code, _text: None,
    **policy: Any,
) -> Box:
    """A runner for ``root``, with the harness's own folder and the private folder made in ``folder``."""
    hidden = folder / "harness-data"
    hidden.mkdir(exist_ok=True)
    pinned = pin_root(root, hidden=[hidden, *policy.get("hidden", ())], read_only=read_only)
    rest: dict[str, Any] = {"tools": frozenset({"bash"}), "scopes": ("read-only", "workspace")} | policy
    rest["hidden"] = (hidden, *policy.get("hidden", ()))
    runner = SandboxRunner(
        Policy(root=pinned, **rest),
        backend=backend or Bubblewrap(),
        private_tmp=hidden / "private",
        environ=os.environ if environ is None else environ,
        marker=MARKER,
        unconfined=unconfined,
        keep=keep,
        network=network_gate,
        notice=notice,
    )
    return Box(root=pinned.path, hidden=hidden, private=hidden / "private", runner=runner)


def git(folder: Path, *argv: str) -> str:
    """Run git as the person would, outside of any sandbox."""
    done = subprocess.run(["git", *argv], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def tag() -> str:
    """A number of seconds that no other test sleeps, to find one's own sleepers by."""
    return f"{3000 + uuid.uuid4().int % 10**6}.{uuid.uuid4().int % 10**6}"


def alive(pattern: str) -> list[int]:
    """Processes of the machine whose command line holds ``pattern``, this one aside."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            command = Path(f"/proc/{entry}/cmdline").read_bytes()
            state = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if pattern.encode() in command and state != b"Z":
            found.append(int(entry))
    return found


def children() -> list[int]:
    """Direct children of this process, zombies too."""
    return [
        int(pid)
        for task in os.listdir("/proc/self/task")
        for pid in Path(f"/proc/self/task/{task}/children").read_text().split()
    ]


def litter(root: Path) -> set[str]:
    """Every name below ``root`` outside of ``.git``."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.relative_to(root).parts[0] != ".git"}


BASE_PYTHON = getattr(sys, "_base_executable", sys.executable)
"""The interpreter under the environment that runs the tests: a checkout may lie where no sandbox shows it."""


PYTEST = ("pytest", "_pytest", "py", "xdist", "execnet", "pluggy", "iniconfig", "packaging", "pygments")
_INFO = {"pytest", "pytest_xdist", "execnet", "pluggy", "iniconfig", "packaging", "pygments"}


def bring_pytest(folder: Path) -> None:
    """Copy pytest with its workers into ``folder``: the environment of the checkout may be out of sight inside."""
    for name in PYTEST:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        package = Path(spec.origin).parent
        if not spec.submodule_search_locations:
            shutil.copy(spec.origin, folder)
            continue
        shutil.copytree(package, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for found in package.parent.glob("*.dist-info"):
            if found.name.partition("-")[0] in _INFO:
                shutil.copytree(found, folder / found.name, dirs_exist_ok=True)
