"""What a person allowed for the rest of a session reaches that session's next run, in the same workspace (SES-18)."""

from __future__ import annotations

from drawbar.contracts.boundary import Gate, Grant, StandingRule, Verdict
from drawbar.contracts.tool import ToolCall

__all__ = ["SessionRules"]


class SessionRules:
    """The rules of each session while this process lives; they are never written."""

    def __init__(self) -> None:
        self._rules: dict[tuple[str, str], list[StandingRule]] = {}

    def gate(self, gate: Gate, *, session_id: str, root: str) -> Gate:
        """``gate`` with what was allowed before, remembering what will be."""
        rules = self._rules.setdefault((session_id, root), [])
        for rule in rules:
            gate.remember(rule)
        return _RememberingGate(gate, rules)


class _RememberingGate:
    def __init__(self, gate: Gate, rules: list[StandingRule]) -> None:
        self._gate = gate
        self._rules = rules

    async def judge(self, call: ToolCall, *, grant: Grant | None = None) -> Verdict:
        return await self._gate.judge(call, grant=grant)

    def remember(self, rule: StandingRule) -> None:
        self._rules.append(rule)
        self._gate.remember(rule)
