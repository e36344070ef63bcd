"""The gate behind a guard: whatever is wrong with it is a refusal with its own cause, never a pass (QLT-2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from drawbar.contracts.boundary import Gate, Grant, StandingRule, Verdict
from drawbar.contracts.tool import Tool, ToolCall
from drawbar.tools.asking import refusal

__all__ = ["GATE_LIMIT_S", "GuardedGate"]

GATE_LIMIT_S: Final = 10.0


class GuardedGate:
    """Judges through the gate and lets only a whole, well-formed allow pass.

    Args:
        gate: the run's gate; None is a gate that is missing.
        tools: by name; an allow for a tool that this run can't carry out is a fault.
        limit_s: seconds that the gate may take, a person's answer not counted.
    """

    def __init__(self, gate: Gate | None, tools: Mapping[str, Tool], limit_s: float = GATE_LIMIT_S) -> None:
        self._gate = gate
        self._tools = tools
        self._limit_s = limit_s

    def remember(self, rule: StandingRule) -> None:
        """Hand a person's rule to the gate."""
        if self._gate is not None:
            self._gate.remember(rule)

    async def judge(self, call: ToolCall, *, grant: Grant | None = None) -> Verdict:
        """The gate's verdict on ``call``, or a refusal with cause ``fault``.

        Raises:
            asyncio.CancelledError: the caller itself was stopped.
        """
        if self._gate is None:
            return _fault(call, "gate_missing", "there is no gate to judge it")
        try:
            async with asyncio.timeout(self._limit_s):
                verdict: Any = await self._gate.judge(call, grant=grant)
        except TimeoutError:
            return _fault(call, "gate_timeout", f"the gate gave no answer within {self._limit_s:g} s")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return _fault(call, "gate_failed", "the gate gave up")
        except BaseException as error:
            # Not even SystemExit out of a gate may pass for anything but a refusal.
            return _fault(call, "gate_failed", f"the gate failed ({type(error).__name__}: {error})")
        fault = self._unreadable(call, verdict)
        if fault is None:
            return verdict
        if isinstance(verdict, Verdict):
            verdict.close()
        return _fault(call, "gate_unreadable", fault)

    def _unreadable(self, call: ToolCall, verdict: Any) -> str | None:
        if not isinstance(verdict, Verdict) or verdict.outcome not in ("allow", "refuse", "ask"):
            return "the gate's answer can't be read"
        if verdict.outcome != "allow":
            return None
        tool = self._tools.get(call.name)
        if tool is None:
            return "the gate allowed a tool that this run doesn't have"
        if not isinstance(verdict.input, tool.spec.input):
            return "the gate allowed it without its validated input"
        return None


def _fault(call: ToolCall, code: str, why: str) -> Verdict:
    return refusal(code, "fault", f"{call.name} was not run: {why}. This is a fault of the harness, not of the call.")
