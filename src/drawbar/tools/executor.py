"""Has every call judged and carries out what may run; each ends with exactly one result (BND-3, QLT-2, QLT-12).

Order for one call: judged, ``tool.started`` on disk, carried out, its result in the history, ``tool.completed``. A
refused call has its result and ``tool.refused``. Whatever happens in between (a tool that raises or hangs, a stop, a
disk that refuses), each call of the batch ends with one result and one of the two events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from drawbar.contracts.boundary import Approver, Gate, StandingRule, Verdict
from drawbar.contracts.clock import Clock
from drawbar.contracts.engine import Redactor
from drawbar.contracts.errors import DrawbarError, StorageFailed
from drawbar.contracts.events.base import Payload
from drawbar.contracts.tool import ExecutedCall, Tool, ToolCall, ToolContext, ToolResult, ToolSpec
from drawbar.tools.asking import ask_person
from drawbar.tools.escapes import PlainText
from drawbar.tools.judging import GATE_LIMIT_S, GuardedGate
from drawbar.tools.live import LiveOutput
from drawbar.tools.outputs import FullOutput
from drawbar.tools.recording import Admit, OpenCall, Recorder

__all__ = ["GatedExecutor"]

WATCH_S: Final = 2.0
"""Seconds beyond a tool's own limit after which the executor ends the call itself."""
UNWIND_S: Final = 2.5
"""Seconds that an ended tool may take to clean up before it is left behind; in all within QLT-12's 5."""


class GatedExecutor:
    """Carries out the calls of one run.

    Args:
        gate: judges each call at the moment it starts; None is a gate that is missing, and refuses everything.
        tools: what the model is offered, in the order in which it is offered.
        context: of the run; each call gets a copy with its own id.
        approver: asks a person.
        redactor: results pass it once, before they are admitted (CON-38).
        save_rule: keeps a standing approval for good.
        clock: time source.
        on_needs_approval: told when a call was refused because nobody took its question (RUN-35).
        emit_durable: writes an event to the disk itself; used for the start of a call in scope ``outside``.
        gate_limit_s: seconds that the gate may take for one judgement.
    """

    def __init__(
        self,
        *,
        gate: Gate | None,
        tools: Sequence[Tool],
        context: ToolContext,
        approver: Approver,
        redactor: Redactor,
        save_rule: Callable[[StandingRule], None],
        clock: Clock,
        on_needs_approval: Callable[[], None] = lambda: None,
        emit_durable: Callable[[Payload], Awaitable[None]] | None = None,
        gate_limit_s: float = GATE_LIMIT_S,
    ) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            raise ValueError("two tools have the same name")
        self._gate = GuardedGate(gate, self._tools, gate_limit_s)
        self._context = context
        self._approver = approver
        self._redactor = redactor
        self._save_rule = save_rule
        self._clock = clock
        self._on_needs_approval = on_needs_approval
        self._emit_durable = emit_durable
        self._left_behind: set[asyncio.Task[ToolResult]] = set()

    def specs(self) -> Sequence[ToolSpec]:
        """The tools in the order given; the same order each time, so that the request prefix stays (USE-07)."""
        return [tool.spec for tool in self._tools.values()]

    async def execute(self, calls: Sequence[ToolCall], admit: Admit) -> list[ExecutedCall]:
        """Carry out the calls of one assistant message (BND-3).

        Consecutive parallel calls run together, each judged as it starts; any other call waits for all before it
        and is waited for. A question to a person holds up the calls after it.

        Args:
            calls: in order.
            admit: appends a call's result to the history and gives its entry id; called once a call, also for
                refused and stopped ones.

        Raises:
            asyncio.CancelledError: the run was stopped; by then every call has its result and its event.
            StorageFailed: the disk refused a record. Nothing was carried out after that.
        """
        record = Recorder(self._context.emit, self._emit_durable, self._redactor, admit)
        batch = [OpenCall(call) for call in calls]
        try:
            for parallel, group in groupby(batch, key=lambda item: self._is_parallel(item.call)):
                if parallel:
                    await self._together(list(group), record)
                else:
                    for item in group:
                        await self._carry_out(item, await self._judged(item, record), record)
        except BaseException as error:
            stopped = isinstance(error, asyncio.CancelledError)
            why = "the run was stopped before it" if stopped else f"the run ended before it ({error})"
            for item in batch:
                if item.verdict is not None:
                    item.verdict.close()
                if not item.settled:
                    record.abandon(item, why)
            raise
        return [item.executed for item in batch]

    def _is_parallel(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is not None and tool.spec.parallel

    def _needs_settled(self, call: ToolCall) -> bool:
        """Whether what the last command left has to be looked at first: a native write, and what a person answers."""
        tool = self._tools.get(call.name)
        return tool is not None and (tool.spec.kind == "write" or tool.spec.waits_for_person)

    async def _together(self, group: Sequence[OpenCall], record: Recorder) -> None:
        try:
            async with asyncio.TaskGroup() as running:
                for item in group:
                    # Judged one after the other: that is how a question holds up the calls after it.
                    verdict = await self._judged(item, record)
                    running.create_task(self._carry_out(item, verdict, record))
        except BaseExceptionGroup as several:
            raise _first(several) from None

    async def _judged(self, item: OpenCall, record: Recorder) -> Verdict:
        if self._needs_settled(item.call):
            await self._context.commands.settled()
        verdict = await self._gate.judge(item.call)
        if verdict.outcome == "ask":
            await self._context.commands.settled()
            verdict = await ask_person(
                item.call,
                verdict,
                self._gate,
                self._approver,
                save_rule=lambda rule: self._save(rule, record),
                on_needs_approval=self._on_needs_approval,
            )
        item.verdict = verdict
        return verdict

    def _save(self, rule: StandingRule, record: Recorder) -> None:
        """A rule that can't be kept costs the standing approval, not the answer that was just given."""
        try:
            self._save_rule(rule)
        except Exception as error:
            record.notice("approval_not_saved", f"the standing approval for {rule.tool} could not be saved: {error}")

    async def _carry_out(self, item: OpenCall, verdict: Verdict, record: Recorder) -> None:
        stopped = False
        try:
            if verdict.outcome == "allow":
                await record.start(item, verdict)
                began = self._clock.monotonic()
                result, stopped = await self._run(item, verdict, record)
                record.complete(item, result, round((self._clock.monotonic() - began) * 1000))
            else:
                record.refuse(item, verdict)
        finally:
            verdict.close()
        if stopped:
            raise asyncio.CancelledError
        record.check()

    async def _run(self, item: OpenCall, verdict: Verdict, record: Recorder) -> tuple[ToolResult, bool]:
        """The tool's one result, whatever it does, and whether the run was stopped meanwhile (QLT-12)."""
        tool = self._tools[item.call.name]
        live = LiveOutput(item.call.id, record.emit, self._redactor)
        name = f"{tool.spec.name}-{item.call.id}.log"
        full = FullOutput(self._context.artifacts, name, item.call.id, self._redactor, record.failed)
        plain = PlainText()

        def on_output(text: str) -> None:
            if live.takes_more or full.takes_more:
                shows = plain.feed(text)
                live.feed(shows)
                full.feed(shows)

        context = replace(
            self._context,
            call_id=item.call.id,
            on_output=on_output,
            emit=record.emit,
            keep_output=full.keep,
            redactor=self._redactor,
        )
        limit = _limit(tool.spec, verdict.input)
        task = asyncio.create_task(tool.run(verdict, context), name=f"{tool.spec.name} {item.call.id}")
        stopped = overdue = False
        try:
            await asyncio.wait({task}, timeout=None if tool.spec.waits_for_person else limit + WATCH_S)
            overdue = not task.done()
        except asyncio.CancelledError:
            stopped = True
        if not task.done():
            stopped = await _ended(task) or stopped
        live.end()
        full.discard()
        if not task.done():
            self._left_behind.add(task)
            task.add_done_callback(self._left_behind.discard)
            record.notice("tool_left_behind", f"{tool.spec.name} didn't end when it was told to and was left behind")
        return _result(task, tool.spec.name, limit if overdue else None, record), stopped


async def _ended(task: asyncio.Task[ToolResult]) -> bool:
    """Cancel ``task`` and wait for its clean-up; whether the waiting task was itself cancelled meanwhile."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + UNWIND_S
    cancelled = False
    task.cancel()
    while not task.done() and (left := deadline - loop.time()) > 0:
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


def _result(task: asyncio.Task[ToolResult], name: str, overdue_s: float | None, record: Recorder) -> ToolResult:
    """What the task ended with. A tool that finished in spite of being stopped says what it did (QLT-8)."""
    if not task.done() or task.cancelled():
        if overdue_s is not None:
            return ToolResult.error(f"[{name} was ended after {overdue_s:g} s]", cause="timeout")
        return ToolResult.error(f"[{name} was stopped while it ran; what it had done by then stays]", cause="aborted")
    error = task.exception()
    if error is None:
        result: Any = task.result()
        if isinstance(result, ToolResult):
            return result
        return ToolResult.error(f"{name} failed inside the harness: it gave no result.")
    if isinstance(error, StorageFailed):
        record.failed(error)
    if isinstance(error, DrawbarError):
        return ToolResult.error(error.message)
    return ToolResult.error(f"{name} failed inside the harness ({type(error).__name__}: {error}). Try another way.")


def _limit(spec: ToolSpec, given: Any) -> float:
    """The seconds that this call may take: its own, if it names them, but never above the tool's greatest."""
    asked = getattr(given, "timeout", None) if spec.kind == "execute" else None
    return min(asked or spec.limit_s, spec.limit_max_s)


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = several
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return error  # pyright: ignore[reportUnknownVariableType]
