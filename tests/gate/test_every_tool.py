"""Every built-in tool under every fault of the gate: none of them runs (QLT-2).

The tools are those of the registry, so one that is added is tried from its first day.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.gate.test_faults import FAULTS, Faulty
from tests.tools.kit import Workshop

from drawbar.boundary.gate import PolicyGate
from drawbar.contracts.boundary import Gate, Grant, StandingRule, Verdict
from drawbar.contracts.codec import convert, json_schema
from drawbar.contracts.tool import Tool, ToolCall, ToolContext, ToolResult
from drawbar.tools.registry import builtin_tools

NAMES = [tool.spec.name for tool in builtin_tools()]

CALLS: Mapping[str, dict[str, Any]] = {
    "read": {"path": "there.txt"},
    "write": {"path": "SENTINEL", "content": "x"},
    "edit": {"path": "there.txt", "edits": [{"oldText": "old", "newText": "new"}]},
    "bash": {"command": "touch SENTINEL"},
    "grep": {"pattern": "old"},
    "find": {"pattern": "*"},
    "ls": {},
    "ask_user": {"questions": [{"text": "Which?", "free_text": True}]},
    "web_fetch": {"url": "http://127.0.0.1:9/"},
}


class Watched:
    """A built-in tool that leaves a mark when it is carried out."""

    def __init__(self, tool: Tool, mark: Path) -> None:
        self.spec = tool.spec
        self._tool = tool
        self._mark = mark

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        self._mark.mkdir(exist_ok=True)
        (self._mark / self.spec.name).touch()
        return await self._tool.run(verdict, context)


class Judge:
    """A gate that answers, or fails, in one way."""

    def __init__(self, way: Any) -> None:
        self._way = way

    async def judge(self, call: ToolCall, *, grant: Grant | None = None) -> Any:
        return await self._way(call)

    def remember(self, rule: StandingRule) -> None: ...


def arguments_of(tool: Tool) -> dict[str, Any]:
    """Arguments that the tool's schema accepts: told above, or made from the schema for a tool that is new."""
    name = tool.spec.name
    if name in CALLS:
        given = CALLS[name]
    else:
        (schema,), known = json_schema([tool.spec.input])
        given = _sample(schema, known)
    convert(given, tool.spec.input, what=name)
    return given


def _sample(schema: dict[str, Any], known: dict[str, Any]) -> Any:
    if "$ref" in schema:
        return _sample(known[schema["$ref"].rsplit("/", 1)[-1]], known)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return _sample(schema[key][0], known)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        wanted = schema.get("required", ())
        return {name: _sample(part, known) for name, part in schema["properties"].items() if name in wanted}
    if kind == "array":
        return [_sample(schema["items"], known)] * max(1, schema.get("minItems", 1))
    return {"string": "x", "integer": 1, "number": 1.0, "boolean": False, "null": None}[kind or "string"]


async def raises(_call: ToolCall) -> Any:
    raise RuntimeError("boom")


async def exits(_call: ToolCall) -> Any:
    raise SystemExit(0)


async def interrupts(_call: ToolCall) -> Any:
    raise KeyboardInterrupt


async def generator_exits(_call: ToolCall) -> Any:
    raise GeneratorExit


async def gives_up(_call: ToolCall) -> Any:
    raise asyncio.CancelledError


async def bare(_call: ToolCall) -> Any:
    raise BaseException("bare")


async def hangs(_call: ToolCall) -> Any:
    await asyncio.sleep(60)


async def hangs_in_another_task(_call: ToolCall) -> Any:
    await asyncio.create_task(asyncio.sleep(60))


async def nothing(_call: ToolCall) -> Any:
    return None


async def true(_call: ToolCall) -> Any:
    return True


async def an_object(_call: ToolCall) -> Any:
    return {"outcome": "allow"}


async def looks_like_one(_call: ToolCall) -> Any:
    return SimpleNamespace(outcome="allow", input=None, targets=[], close=lambda: None)


async def an_unknown_word(_call: ToolCall) -> Any:
    return Verdict(outcome="yes")  # type: ignore[arg-type]


async def allow_without_input(_call: ToolCall) -> Any:
    return Verdict(outcome="allow")


async def allow_with_another_input(_call: ToolCall) -> Any:
    return Verdict(outcome="allow", input=object())


async def allow_with_raw_arguments(call: ToolCall) -> Any:
    return Verdict(outcome="allow", input=call.arguments)


GATES = [
    *(raises, exits, interrupts, generator_exits, gives_up, bare, hangs, hangs_in_another_task),
    *(nothing, true, an_object, looks_like_one, an_unknown_word),
    *(allow_without_input, allow_with_another_input, allow_with_raw_arguments),
]


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    made = Workshop(tmp_path)
    yield made
    await made.close()


async def carried_out(workshop: Workshop, gate: Any, mark: Path) -> Any:
    """One call of every built-in tool, under ``gate``."""
    tools = [Watched(tool, mark) for tool in builtin_tools()]
    bench = workshop.bench(tools=tools, gate=gate, files={"there.txt": "old\n"}, gate_limit_s=0.05)
    done = await bench.execute(
        *(ToolCall(f"c{number}", tool.spec.name, arguments_of(tool)) for number, tool in enumerate(tools))
    )
    return bench, done


def nothing_ran(bench: Any, done: Any, mark: Path) -> None:
    assert not mark.exists()
    assert [path.name for path in bench.root.iterdir()] == ["there.txt"]
    assert (bench.root / "there.txt").read_text() == "old\n"
    assert all(one.refused for one in done)
    refused = bench.events("tool.refused")
    assert [one.tool for one in refused] == NAMES
    assert {one.cause for one in refused} == {"fault"}
    assert all(one.code.startswith("gate_") for one in refused)
    assert bench.types() == ["started", *["tool.refused"] * len(NAMES)]


@pytest.mark.clause("QLT-2", "BND-3")
@pytest.mark.bug("HKS-01", "HKS-03", "HKS-04")
@pytest.mark.parametrize("way", [None, *GATES], ids=lambda way: "missing" if way is None else way.__name__)
async def test_no_built_in_tool_runs_under_a_faulty_gate(workshop: Workshop, tmp_path: Path, way: Any) -> None:
    mark = tmp_path / "MARK"
    bench, done = await carried_out(workshop, None if way is None else Judge(way), mark)
    nothing_ran(bench, done, mark)


@pytest.mark.clause("QLT-2", "BND-3")
@pytest.mark.bug("HKS-01", "HKS-03", "HKS-04")
@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("name", NAMES)
async def test_no_built_in_tool_runs_when_a_hook_fails(tmp_path: Path, name: str, fault: str) -> None:
    from tests.gate.kit import pinned, policy, workspace

    root = workspace(tmp_path)
    (root / "there.txt").write_text("old\n")
    specs = {tool.spec.name: tool.spec for tool in builtin_tools()}
    tool = next(tool for tool in builtin_tools() if tool.spec.name == name)
    way, code = FAULTS[fault]
    of = policy(pinned(root), tools=frozenset(specs), approval="auto-workspace", network=("127.0.0.1",))
    made = PolicyGate(of, specs, homes=(), before_tool=[Faulty(way)], time_limit_s=0.1)
    verdict = await made.judge(ToolCall("c0", name, arguments_of(tool)))
    assert (verdict.outcome, verdict.code, verdict.cause) == ("refuse", code, "fault"), verdict.message
    assert verdict.targets == []


@pytest.mark.clause("QLT-2")
async def test_under_a_whole_gate_every_tool_runs(workshop: Workshop, tmp_path: Path) -> None:
    """What makes the marks above mean something."""
    mark = tmp_path / "MARK"
    tools = {tool.spec.name: tool for tool in builtin_tools()}

    async def allow(call: ToolCall) -> Verdict:
        spec = tools[call.name].spec
        return Verdict(outcome="allow", input=convert(call.arguments, spec.input, what=call.name))

    gate: Gate = Judge(allow)
    await carried_out(workshop, gate, mark)
    assert sorted(path.name for path in mark.iterdir()) == sorted(NAMES)


@pytest.mark.clause("QLT-2", "RUN-10")
async def test_a_stop_while_the_gate_judges_is_a_stop_and_no_fault(workshop: Workshop, tmp_path: Path) -> None:
    tools = [Watched(tool, tmp_path / "MARK") for tool in builtin_tools()]
    bench = workshop.bench(tools=tools, gate=Judge(hangs), gate_limit_s=30)
    task = asyncio.create_task(bench.execute(ToolCall("c0", "bash", CALLS["bash"])))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (tmp_path / "MARK").exists()
