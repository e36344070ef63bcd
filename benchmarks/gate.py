"""What one judgement of the gate costs (PRF-8): a file call under 100 µs, a Bash call under 1 ms, parsing included.

    python benchmarks/gate.py [--rounds N] [--json]

Every call is judged on a real workspace, with hidden folders, a deny list and a hundred standing rules, as in a
run that has been used for a while; the descriptors are opened and closed each time. ``ratio`` compares with one
``os.stat`` measured in the same round, so that it means something on any machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from drawbar.boundary.gate import PolicyGate
from drawbar.contracts.boundary import PathUse, PinnedRoot, Policy, StandingRule
from drawbar.contracts.codec import Request
from drawbar.contracts.run import ApprovalMode
from drawbar.contracts.tool import ToolCall, ToolSpec

FILE_LIMIT_US = 100.0
COMMAND_LIMIT_US = 1000.0


class FileInput(Request):
    path: str
    content: str = ""


class CommandInput(Request):
    command: str
    scope: str | None = None
    hosts: list[str] = []


SPECS = {
    spec.name: spec
    for spec in (
        ToolSpec("read", "", FileInput, "read", paths=lambda given: (PathUse("path", given.path, "read"),)),
        ToolSpec("write", "", FileInput, "write", paths=lambda given: (PathUse("path", given.path, "write"),)),
        ToolSpec(
            "bash", "", CommandInput, "execute", command=lambda given: given.command, hosts=lambda given: given.hosts
        ),
    )
}

CASES: dict[str, tuple[str, ApprovalMode, dict[str, Any], float]] = {
    "read": ("read", "auto-workspace", {"path": "src/deep/er/module.py"}, FILE_LIMIT_US),
    "read_through_a_link": ("read", "auto-workspace", {"path": "link/module.py"}, FILE_LIMIT_US),
    "read_what_is_missing": ("read", "auto-workspace", {"path": "src/deep/er/no_such.py"}, FILE_LIMIT_US),
    "write": ("write", "auto-workspace", {"path": "src/deep/er/module.py", "content": "x" * 2000}, FILE_LIMIT_US),
    "write_asked": ("write", "ask", {"path": "src/deep/er/new.py", "content": "x" * 2000}, FILE_LIMIT_US),
    "bash_passed": ("bash", "never", {"command": "npm test"}, COMMAND_LIMIT_US),
    "bash_by_rule": ("bash", "ask", {"command": "git log --oneline -20 -- src 2>&1"}, COMMAND_LIMIT_US),
    "bash_asked": ("bash", "ask", {"command": "cd src && npm run build 2>&1 | tail -20"}, COMMAND_LIMIT_US),
    "bash_outside": ("bash", "ask", {"command": "sudo make install", "scope": "outside"}, COMMAND_LIMIT_US),
    "bash_with_hosts": (
        "bash",
        "ask",
        {"command": "npm ci", "hosts": ["registry.example", "new.example"]},
        COMMAND_LIMIT_US,
    ),
    "bash_script": (
        "bash",
        "ask",
        {"command": "set -e\n" + "echo step\ngrep -rn foo src | head -5\n" * 12},
        COMMAND_LIMIT_US,
    ),
}


def _workspace(folder: Path) -> PinnedRoot:
    root = (folder / "ws").resolve()
    deep = root / "src" / "deep" / "er"
    deep.mkdir(parents=True)
    (deep / "module.py").write_text("x = 1\n" * 200)
    (root / "link").symlink_to("src/deep/er")
    found = root.stat()
    return PinnedRoot(root, found.st_dev, found.st_ino, root)


def _gate(root: PinnedRoot, mode: ApprovalMode) -> PolicyGate:
    rules = tuple(StandingRule(f"a_{number}", "bash", "workspace", f"frobnicate {number} *") for number in range(100))
    return PolicyGate(
        Policy(
            root=root,
            tools=frozenset(SPECS),
            scopes=("read-only", "workspace", "outside"),
            approval=mode,
            network=("registry.example", "files.example", "example.org"),
            hidden=(root.path.parent / "data", root.path.parent / "state", root.path.parent / "config"),
            deny_read=(".env", "secrets/", "*.pem"),
            standing=(*rules, StandingRule("a_git", "bash", "workspace", "git log *")),
        ),
        SPECS,
    )


async def _judge(gate: PolicyGate, call: ToolCall, rounds: int) -> list[float]:
    took: list[float] = []
    for _ in range(rounds):
        started = time.perf_counter()
        verdict = await gate.judge(call)
        took.append((time.perf_counter() - started) * 1e6)
        verdict.close()
    return took


def _stat_us(path: Path, rounds: int) -> float:
    started = time.perf_counter()
    for _ in range(rounds):
        os.stat(path)
    return (time.perf_counter() - started) * 1e6 / rounds


async def measure(rounds: int) -> dict[str, float]:
    """Microseconds of each case: the best of ten stretches' medians, and that over one ``stat``."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="drawbar-bench-") as folder:
        root = _workspace(Path(folder))
        for name, (tool, mode, arguments, _limit) in CASES.items():
            gate, call = _gate(root, mode), ToolCall("c", tool, arguments)
            await _judge(gate, call, 20)
            stretches: list[float] = []
            stats: list[float] = []
            for _ in range(10):
                stretches.append(statistics.median(await _judge(gate, call, rounds)))
                stats.append(_stat_us(root.path, rounds))
            figures[f"{name}_us"] = round(min(stretches), 1)
            figures[f"{name}_ratio"] = round(min(stretches) / min(stats), 2)
    return figures


def main() -> int:
    """1 when a case takes longer than PRF-8 allows."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=300, help="judgements in each of ten stretches")
    options.add_argument("--json", action="store_true", help="end with the figures as one line of JSON")
    given = options.parse_args()
    figures = asyncio.run(measure(given.rounds))
    late = 0
    print(f"{'call':24} {'µs':>8} {'limit':>8} {'× stat':>8}")
    for name, (_tool, _mode, _arguments, limit) in CASES.items():
        us = figures[f"{name}_us"]
        late += us > limit
        print(f"{name:24} {us:8.1f} {limit:8.0f} {figures[f'{name}_ratio']:8.1f}{'  too slow' if us > limit else ''}")
    if given.json:
        print(json.dumps(figures))
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
