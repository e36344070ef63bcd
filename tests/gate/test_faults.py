"""Whatever goes wrong in the gate, the call does not run, and the cause says that it was a fault (QLT-2)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.gate.kit import (
    CALLS,
    FIXTURES,
    SPECS,
    ReadInput,
    call,
    carried_out,
    gate,
    judged,
    open_descriptors,
    policy,
    workspace,
)

from drawbar.boundary.gate import PolicyGate
from drawbar.boundary.hooks import Allowed, HookAnswer, Refused
from drawbar.contracts.boundary import PathUse
from drawbar.contracts.tool import ToolCall, ToolSpec

Answer = Callable[[ToolCall, Any], Awaitable[HookAnswer]]


class ProgramHook:
    """A hook that is a program: only an explicit ``{"decision": "allow"}`` with exit code 0 is an answer."""

    def __init__(self, *argv: str) -> None:
        self.name = "program"
        self._argv = argv

    async def __call__(self, tool_call: ToolCall, tool_input: Any) -> HookAnswer:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        try:
            out, _err = await process.communicate(json.dumps(tool_call.arguments).encode())
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode != 0:
            raise RuntimeError(f"exit code {process.returncode}")
        return Allowed() if json.loads(out)["decision"] == "allow" else Refused("denied")


class Faulty:
    """A hook with one way to fail."""

    name = "faulty"

    def __init__(self, way: Answer) -> None:
        self._way = way

    def __call__(self, tool_call: ToolCall, tool_input: Any) -> Awaitable[HookAnswer]:
        return self._way(tool_call, tool_input)


async def raises(_call: ToolCall, _input: Any) -> Any:
    raise ValueError("broken")


async def exits(_call: ToolCall, _input: Any) -> Any:
    raise SystemExit(0)


async def interrupts(_call: ToolCall, _input: Any) -> Any:
    raise KeyboardInterrupt


async def cancels_itself(_call: ToolCall, _input: Any) -> Any:
    raise asyncio.CancelledError


async def says_nothing(_call: ToolCall, _input: Any) -> Any:
    return None


async def says_true(_call: ToolCall, _input: Any) -> Any:
    return True


async def says_garbage(_call: ToolCall, _input: Any) -> Any:
    return {"decision": "allow"}


async def says_what_looks_like_an_answer(_call: ToolCall, _input: Any) -> Any:
    return SimpleNamespace(arguments=_call.arguments, message="")


def is_no_coroutine(_call: ToolCall, _input: Any) -> Any:
    return Allowed()


async def hangs(_call: ToolCall, _input: Any) -> Any:
    await asyncio.sleep(60)


async def hangs_and_ignores_cancellation(_call: ToolCall, _input: Any) -> Any:
    until = time.monotonic() + 1
    while time.monotonic() < until:
        try:
            await asyncio.sleep(until - time.monotonic())
        except asyncio.CancelledError:
            continue
    return Allowed()


async def blocks_the_loop(_call: ToolCall, _input: Any) -> Any:
    time.sleep(0.6)
    return Allowed()


FAULTS: dict[str, tuple[Answer, str]] = {
    way.__name__: (way, code)
    for way, code in [
        (raises, "gate_fault"),
        (exits, "gate_fault"),
        (interrupts, "gate_fault"),
        (cancels_itself, "gate_fault"),
        (says_nothing, "gate_fault"),
        (says_true, "gate_fault"),
        (says_garbage, "gate_fault"),
        (says_what_looks_like_an_answer, "gate_fault"),
        (is_no_coroutine, "gate_fault"),
        (hangs, "gate_timeout"),
        (hangs_and_ignores_cancellation, "gate_timeout"),
        (blocks_the_loop, "gate_timeout"),
    ]
}


@pytest.mark.clause("QLT-2")
@pytest.mark.bug("HKS-01", "HKS-03", "HKS-04")
@pytest.mark.parametrize("tool", sorted(CALLS))
@pytest.mark.parametrize("fault", sorted(FAULTS))
async def test_no_tool_runs_when_a_hook_fails(tmp_path: Path, tool: str, fault: str) -> None:
    root, sentinel = workspace(tmp_path), tmp_path / "SENTINEL"
    way, code = FAULTS[fault]
    before = open_descriptors()
    started = time.monotonic()
    made = gate(root, before_tool=[Faulty(way)], time_limit_s=0.3)
    verdict = await carried_out(made, tool, root, sentinel, **CALLS[tool])
    assert (verdict.outcome, verdict.code, verdict.cause) == ("refuse", code, "fault")
    assert "did not run" in verdict.message
    assert time.monotonic() - started < 2
    assert not sentinel.exists()
    assert sorted(path.name for path in root.iterdir()) == ["a.txt", "d"]
    assert (root / "a.txt").read_text() == "alpha\n"
    assert open_descriptors() == before


@pytest.mark.clause("QLT-2")
@pytest.mark.bug("HKS-03", "HKS-04")
@pytest.mark.parametrize("tool", sorted(CALLS))
@pytest.mark.parametrize(
    ("program", "cause"),
    [
        ("HKS-03/exit1.sh", "fault"),
        ("HKS-03/garbage.sh", "fault"),
        ("HKS-03/killed.sh", "fault"),
        ("HKS-03/exit2_no_decision.sh", "fault"),
        ("HKS-04/deny.sh", "fault"),
        ("HKS-04/missing.sh", "fault"),
    ],
)
async def test_no_tool_runs_when_a_hook_program_fails(tmp_path: Path, tool: str, program: str, cause: str) -> None:
    root, sentinel = workspace(tmp_path), tmp_path / "SENTINEL"
    hook = ProgramHook("/bin/bash", str(FIXTURES / program))
    verdict = await carried_out(gate(root, before_tool=[hook]), tool, root, sentinel, **CALLS[tool])
    assert (verdict.outcome, verdict.cause) == ("refuse", cause)
    assert not sentinel.exists()


@pytest.mark.clause("QLT-2")
@pytest.mark.bug("HKS-01")
async def test_a_hook_program_that_sleeps_is_not_waited_for(tmp_path: Path) -> None:
    root, sentinel = workspace(tmp_path), tmp_path / "SENTINEL"
    made = gate(root, before_tool=[ProgramHook("/bin/bash", str(FIXTURES / "HKS-01/slow.sh"))], time_limit_s=0.4)
    started = time.monotonic()
    verdict = await carried_out(made, "bash", root, sentinel, **CALLS["bash"])
    assert time.monotonic() - started < 3
    assert (verdict.outcome, verdict.code, verdict.cause) == ("refuse", "gate_timeout", "fault")
    assert "did not answer within" in verdict.message
    assert not sentinel.exists()


@pytest.mark.clause("QLT-2")
async def test_a_hook_program_that_allows_lets_the_tool_run(tmp_path: Path) -> None:
    """What makes the sentinels above mean something."""
    root, sentinel = workspace(tmp_path), tmp_path / "SENTINEL"
    hook = ProgramHook("/bin/bash", "-c", 'cat >/dev/null; echo \'{"decision": "allow"}\'')
    assert (
        await carried_out(gate(root, before_tool=[hook]), "bash", root, sentinel, command="true")
    ).outcome == "allow"
    assert sentinel.exists()


@pytest.mark.clause("QLT-2")
async def test_the_limit_is_for_all_hooks_together(tmp_path: Path) -> None:
    async def slow(_call: ToolCall, _input: Any) -> HookAnswer:
        await asyncio.sleep(0.25)
        return Allowed()

    made = gate(workspace(tmp_path), before_tool=[Faulty(slow)] * 3, time_limit_s=0.4)
    started = time.monotonic()
    assert (await judged(made, "read", path="a.txt")).code == "gate_timeout"
    assert time.monotonic() - started < 0.7


@pytest.mark.clause("QLT-2")
@pytest.mark.parametrize("tool", sorted(CALLS))
@pytest.mark.parametrize(
    "last_word",
    [lambda _call, _input: 1 / 0, lambda _call, _input: True, lambda _call, _input: {"allow": True}],
    ids=["raises", "true", "object"],
)
async def test_no_tool_runs_when_the_last_word_cannot_be_read(tmp_path: Path, tool: str, last_word: Any) -> None:
    root, sentinel = workspace(tmp_path), tmp_path / "SENTINEL"
    verdict = await carried_out(gate(root, last_word=last_word), tool, root, sentinel, **CALLS[tool])
    assert (verdict.outcome, verdict.code, verdict.cause) == ("refuse", "gate_fault", "fault")
    assert not sentinel.exists()


def _spec(**changes: Any) -> ToolSpec:
    return ToolSpec(**{"name": "read", "description": "", "input": ReadInput, "kind": "read", **changes})


def _fails(_input: Any) -> Any:
    raise RuntimeError("no paths today")


@pytest.mark.clause("QLT-2")
@pytest.mark.parametrize(
    "spec",
    [
        _spec(paths=_fails),
        _spec(paths=lambda _input: None),
        _spec(paths=lambda _input: ["a.txt"]),
        _spec(paths=lambda given: (PathUse("path", given.path, "write"),)),
        _spec(kind="write"),
        _spec(kind="write", paths=lambda given: (PathUse("path", given.path, "read"),)),
        _spec(kind="internal", paths=lambda given: (PathUse("path", given.path, "write"),)),
        _spec(kind="execute"),
        _spec(kind="execute", command=lambda _input: 7),
        _spec(kind="surprise"),
    ],
    ids=lambda spec: spec.kind,
)
async def test_a_tool_that_describes_itself_wrongly_does_not_run(tmp_path: Path, spec: ToolSpec) -> None:
    made = PolicyGate(policy(workspace(tmp_path)), {"read": spec}, homes=())
    before = open_descriptors()
    verdict = await made.judge(call("read", path="a.txt"))
    assert (verdict.outcome, verdict.code, verdict.cause) == ("refuse", "gate_fault", "fault")
    assert open_descriptors() == before


@pytest.mark.clause("QLT-2")
@pytest.mark.parametrize("broken", ["approval", "scopes", "standing", "deny_read"])
async def test_a_policy_that_cannot_be_read_allows_nothing(tmp_path: Path, broken: str) -> None:
    root = workspace(tmp_path)
    changes: dict[str, Any] = {"approval": "ask", broken: object()}
    try:
        made = gate(root, **changes)
    except TypeError:
        return  # no gate at all: whoever builds the run refuses it
    for tool, arguments in CALLS.items():
        verdict = await judged(made, tool, **arguments)
        if SPECS[tool].kind in ("write", "execute"):
            assert (verdict.outcome, verdict.cause) == ("refuse", "fault"), tool


@pytest.mark.clause("QLT-2", "BND-3")
async def test_cancelling_the_caller_passes_through_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = open_descriptors()
    made = gate(workspace(tmp_path), before_tool=[Faulty(hangs)], time_limit_s=30)
    task = asyncio.create_task(made.judge(call("read", path="a.txt")))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert open_descriptors() == before


@pytest.mark.clause("QLT-2")
async def test_the_gates_own_slowness_blocks_too(tmp_path: Path) -> None:
    """A judgement that took longer than the limit is no answer, although it would have been *allow*."""
    made = gate(workspace(tmp_path), last_word=lambda _call, _input: time.sleep(0.2), time_limit_s=0.1)
    before = open_descriptors()
    verdict = await made.judge(call("read", path="a.txt"))
    assert (verdict.outcome, verdict.code) == ("refuse", "gate_timeout")
    assert open_descriptors() == before
