"""What the gate's tests start from: a real workspace, tools of every kind, and a gate over them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from drawbar.boundary.gate import PolicyGate
from drawbar.boundary.native_files import write_target
from drawbar.boundary.paths import Resolver, open_root
from drawbar.boundary.reach import Reach
from drawbar.contracts.boundary import Gate, Grant, PathUse, PinnedRoot, Policy, Target, Verdict
from drawbar.contracts.codec import Request
from drawbar.contracts.tool import ToolCall, ToolSpec

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "bugs"


class ReadInput(Request):
    path: str
    offset: int | None = None


class ListInput(Request):
    path: str = "."


class WriteInput(Request):
    path: str
    content: str = ""


class CommandInput(Request):
    command: str
    scope: Literal["read-only", "workspace", "outside"] | None = None
    hosts: list[str] = []


class FetchInput(Request):
    host: str


class NoInput(Request):
    pass


SPECS = {
    spec.name: spec
    for spec in (
        ToolSpec(
            "read",
            "Reads.",
            ReadInput,
            "read",
            paths=lambda given: (PathUse("path", given.path, "read"),),
            plan_mode_safe=True,
        ),
        ToolSpec(
            "ls",
            "Lists.",
            ListInput,
            "read",
            paths=lambda given: (PathUse("path", given.path, "list"),),
            plan_mode_safe=True,
        ),
        ToolSpec("write", "Writes.", WriteInput, "write", paths=lambda given: (PathUse("path", given.path, "write"),)),
        ToolSpec("edit", "Edits.", WriteInput, "write", paths=lambda given: (PathUse("path", given.path, "write"),)),
        ToolSpec(
            "bash",
            "Runs.",
            CommandInput,
            "execute",
            command=lambda given: given.command,
            hosts=lambda given: given.hosts,
        ),
        ToolSpec("fetch", "Fetches.", FetchInput, "read", hosts=lambda given: (given.host,)),
        ToolSpec("todo_write", "Notes.", NoInput, "internal", plan_mode_safe=True),
    )
}

CALLS: dict[str, dict[str, Any]] = {
    "read": {"path": "a.txt"},
    "ls": {"path": "."},
    "write": {"path": "new.txt", "content": "x"},
    "edit": {"path": "a.txt", "content": "x"},
    "bash": {"command": "true"},
    "fetch": {"host": "listed.example"},
    "todo_write": {},
}
"""A call of each tool that nothing speaks against."""


def pinned(path: Path, cwd: Path | None = None) -> PinnedRoot:
    """The root at ``path`` as it is now."""
    real = path.resolve()
    found = real.stat()
    return PinnedRoot(real, found.st_dev, found.st_ino, cwd.resolve() if cwd else real)


def workspace(tmp_path: Path) -> Path:
    """A workspace with one file and one folder, and a file beside it that isn't in it."""
    root = tmp_path / "ws"
    (root / "d").mkdir(parents=True)
    (root / "a.txt").write_text("alpha\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("original\n")
    return root


def policy(root: Path | PinnedRoot, **changes: Any) -> Policy:
    """Every tool, both scopes of this build, nothing hidden; ``changes`` override."""
    given: dict[str, Any] = {
        "tools": frozenset(SPECS),
        "scopes": ("read-only", "workspace"),
        "network": ("listed.example",),
    }
    return Policy(root=pinned(root) if isinstance(root, Path) else root, **{**given, **changes})


def gate(root: Path | PinnedRoot, *, homes: Sequence[Path] = (), **changes: Any) -> PolicyGate:
    """A gate over :func:`policy`; no home folder of this machine counts."""
    extra = {name: changes.pop(name) for name in ("before_tool", "time_limit_s", "last_word") if name in changes}
    made = PolicyGate(policy(root, **changes), SPECS, homes=homes, **extra)
    kept: Gate = made  # the contract is kept, as the type checker sees it
    assert kept is made
    return made


def call(tool: str, call_id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(call_id, tool, arguments)


async def judged(of: PolicyGate, tool: str, *, grant: Grant | None = None, **arguments: Any) -> Verdict:
    """The verdict on one call, with its descriptors given back."""
    verdict = await of.judge(call(tool, **arguments), grant=grant)
    verdict.close()
    return verdict


def grant_for(verdict: Verdict, approval_id: str = "a_1", **changes: Any) -> Grant:
    """A person's yes to what ``verdict`` asked."""
    given: dict[str, Any] = {
        "approval_id": approval_id,
        "arguments_sha256": verdict.arguments_sha256,
        "scope": verdict.scope,
        "by": "tester",
    }
    return Grant(**{**given, **changes})


async def carried_out(of: Any, tool: str, root: Path, sentinel: Path, **arguments: Any) -> Verdict:
    """Judge a call and, only on *allow*, do it: each kind of tool leaves its mark at ``sentinel``."""
    verdict: Verdict = await of.judge(call(tool, **arguments))
    try:
        if verdict.outcome != "allow":
            return verdict
        if SPECS[tool].kind == "write":
            write_target(verdict.targets[0], b"x", root=pinned(root), expected_sha256=None, create=True, overwrite=True)
        process = await asyncio.create_subprocess_exec("/bin/touch", str(sentinel))
        await process.wait()
        return verdict
    finally:
        verdict.close()


def resolver(root: Path, *, homes: Sequence[Path] = (), home: str = "/nonexistent", **changes: Any) -> Resolver:
    of = policy(root, **changes)
    return Resolver(of.root, Reach(of, homes), home)


def resolve(root: Path, path: str, access: Literal["read", "list", "write"] = "write", **changes: Any) -> Target:
    """One path resolved as the gate does it; the caller closes the target."""
    of = resolver(root, **changes)
    root_fd = open_root(pinned(root))
    try:
        return of.resolve(root_fd, PathUse("path", path, access))
    finally:
        os.close(root_fd)


def open_descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))
