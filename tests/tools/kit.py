"""A run's tools on real parts: gate, sandbox, event log, redactor; only the model and the person are played."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drawbar.boundary.bubblewrap import Bubblewrap
from drawbar.boundary.gate import PolicyGate
from drawbar.boundary.roots import pin_root
from drawbar.boundary.runner import SandboxRunner
from drawbar.contracts.boundary import Approval, ApprovalAsk, Gate, Grant, PinnedRoot, Policy, StandingRule, Verdict
from drawbar.contracts.capability import CapabilitySet
from drawbar.contracts.clock import SystemClock
from drawbar.contracts.codec import Request, decode
from drawbar.contracts.events import payload_type
from drawbar.contracts.events.lifecycle import Started
from drawbar.contracts.tool import ExecutedCall, Tool, ToolCall, ToolContext, ToolResult, ToolSpec
from drawbar.stores.event_log import EventLog
from drawbar.stores.event_reader import read_events
from drawbar.stores.redaction import SecretRedactor
from drawbar.tools.executor import GatedExecutor
from drawbar.tools.registry import builtin_tools
from drawbar.tools.search.sandboxed import SearchPrograms

RUN_ID = "r_01jd0000000000000000000000"
SECRET = "hunter2-Tr0ub4dor-and-3"


class Person:
    """Answers questions as told, in turn; by default nobody does."""

    def __init__(self, *answers: Approval | str | Callable[[ApprovalAsk], Awaitable[Approval]]) -> None:
        self.answers = list(answers)
        self.asked: list[ApprovalAsk] = []

    async def request_approval(self, ask: ApprovalAsk) -> Approval:
        self.asked.append(ask)
        answer = self.answers.pop(0) if self.answers else Approval("a_1", None, by="nobody")
        if isinstance(answer, str):
            return Approval(f"a_{len(self.asked)}", answer, by="person")  # pyright: ignore[reportArgumentType]
        return answer if isinstance(answer, Approval) else await answer(ask)


@dataclass
class Bench:
    """One run's executor and everything that it wrote."""

    root: Path
    folder: Path
    log: EventLog
    executor: GatedExecutor
    context: ToolContext
    gate: Gate | None
    runner: SandboxRunner
    saved: list[StandingRule]
    unanswered: list[bool]
    history: list[tuple[ToolCall, ToolResult]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def admit(self, call: ToolCall, result: ToolResult) -> str:
        self.history.append((call, result))
        self.order.append(f"result {call.id}")
        return f"e_{len(self.history)}"

    async def call(self, name: str, /, **arguments: Any) -> ToolResult:
        """Carry out one call; its result as the model gets it."""
        (done,) = await self.execute(ToolCall(f"c{len(self.history)}", name, arguments, "e_model"))
        return done.result

    async def text(self, name: str, /, **arguments: Any) -> str:
        return (await self.call(name, **arguments)).joined

    async def execute(self, *calls: ToolCall) -> list[ExecutedCall]:
        return await self.executor.execute(calls, self.admit)

    def events(self, *types: str) -> list[Any]:
        """The typed payloads of the log as it is on disk, in order."""
        found: list[Any] = []
        for event in read_events(self.folder / "events.jsonl"):
            if not types or event.type in types:
                kind = payload_type(event.type)
                assert kind is not None
                found.append(decode(bytes(event.payload), kind, what=event.type))
        return found

    def types(self) -> list[str]:
        return [event.type for event in read_events(self.folder / "events.jsonl")]


@dataclass
class Workshop:
    """Makes benches below one test's folder and closes them."""

    folder: Path
    made: list[Bench] = field(default_factory=list)

    def bench(
        self,
        *,
        files: dict[str, str | bytes] | None = None,
        approval: Any = "never",
        sandbox: Any = "on",
        person: Person | None = None,
        tools: Sequence[Tool] | None = None,
        gate: Any = "real",
        programs: SearchPrograms | None = None,
        emit: Callable[[Any], Any] | None = None,
        deny_read: tuple[str, ...] = (),
        gate_limit_s: float = 10.0,
    ) -> Bench:
        number = len(self.made)
        root = self.folder / f"work{number}"
        root.mkdir()
        for name, content in (files or {}).items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        folder = self.folder / f"run{number}"
        folder.mkdir()
        pinned: PinnedRoot = pin_root(root, hidden=[folder])
        redactor = SecretRedactor([(SECRET, "planted")])
        log = EventLog.create(folder, RUN_ID, redactor=redactor, clock=SystemClock())
        log.append(Started(run_id=RUN_ID))
        offered = list(tools) if tools is not None else builtin_tools(programs)
        names = tuple(tool.spec.name for tool in offered)
        policy = Policy(
            root=pinned,
            tools=frozenset(names),
            scopes=("read-only", "workspace"),
            approval=approval,
            sandbox=sandbox,
            explicit_off=sandbox == "off",
            hidden=(folder,),
            deny_read=deny_read,
        )
        runner = SandboxRunner(
            policy,
            backend=Bubblewrap(),
            private_tmp=self.folder / f"tmp{number}",
            environ={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.folder)},
            marker=f"DRAWBAR_TEST=bench{number}",
        )
        order: list[str] = []

        def written(payload: Any) -> None:
            (emit or log.append)(payload)
            order.append(f"{payload.event} {getattr(payload, 'call_id', '')}".strip())

        context = ToolContext(
            root=pinned,
            commands=runner,
            artifacts=log.artifacts(),
            capabilities=CapabilitySet(tools=names, scopes=policy.scopes),
            emit=written,
            facts={"approval": approval, "sandbox": sandbox},
        )
        saved: list[StandingRule] = []
        unanswered: list[bool] = []
        judge = PolicyGate(policy, {tool.spec.name: tool.spec for tool in offered}) if gate == "real" else gate
        executor = GatedExecutor(
            gate=judge,
            tools=offered,
            context=context,
            approver=person or Person(),
            redactor=redactor,
            save_rule=saved.append,
            clock=SystemClock(),
            on_needs_approval=lambda: unanswered.append(True),
            gate_limit_s=gate_limit_s,
        )
        bench = Bench(root, folder, log, executor, context, judge, runner, saved, unanswered, order=order)
        self.made.append(bench)
        return bench

    async def close(self) -> None:
        for bench in self.made:
            await bench.runner.close()
            bench.log.close()


class Anything(Request):
    """The input of a made-up tool."""

    note: str = ""


class MadeUp:
    """A tool that does what a test says.

    Args:
        name: as it is called.
        work: carried out; gets verdict and context.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[Verdict, ToolContext], Awaitable[ToolResult]],
        *,
        kind: Any = "internal",
        parallel: bool = False,
        limit_s: float = 60.0,
    ) -> None:
        self.spec = ToolSpec(
            name=name,
            description="A tool of a test.",
            input=Anything,
            kind=kind,
            parallel=parallel,
            limit_s=limit_s,
            command=lambda given: given.note,
        )
        self._work = work

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        return await self._work(verdict, context)


def says(text: str, log: list[str] | None = None, *, wait: float = 0.0) -> Callable[[Any, Any], Awaitable[ToolResult]]:
    """Work that waits, notes that it ran, and answers ``text``."""

    async def work(_verdict: Verdict, context: ToolContext) -> ToolResult:
        if log is not None:
            log.append(f"begin {context.call_id}")
        await asyncio.sleep(wait)
        if log is not None:
            log.append(f"end {context.call_id}")
        return ToolResult.text(text)

    return work


class ScriptedGate:
    """A gate of a test: answers each judgement with what ``answer`` gives."""

    def __init__(self, answer: Callable[[ToolCall, Grant | None], Any]) -> None:
        self._answer = answer
        self.judged: list[tuple[str, Grant | None]] = []
        self.rules: list[StandingRule] = []

    async def judge(self, call: ToolCall, *, grant: Grant | None = None) -> Any:
        self.judged.append((call.id, grant))
        answer = self._answer(call, grant)
        return await answer if asyncio.iscoroutine(answer) else answer

    def remember(self, rule: StandingRule) -> None:
        self.rules.append(rule)


def allow(call: ToolCall, **rest: Any) -> Verdict:
    return Verdict(outcome="allow", input=Anything(), rule="test", **rest)
