"""Approval over the final bytes: what the mode says, which rule covers it, whether a person's yes fits (BND-6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drawbar.boundary.case import Case, Refusal
from drawbar.boundary.modes import Act, Ruling, rule_on
from drawbar.boundary.rules import covering, covers_target, propose_rule, propose_target_rule, why_uncoverable
from drawbar.boundary.shell import ParsedCommand, parse_command
from drawbar.boundary.shown import shown
from drawbar.contracts.boundary import Grant, Policy, StandingRule, Target, Verdict

__all__ = ["Approvals"]

_REMEMBERED_ASKS: Final = 256
_ACT_OF_KIND: Final[dict[str, Act]] = {"execute": "command", "write": "write", "read": "read", "internal": "internal"}


class Approvals:
    """The approval step of one gate: the mode's table, the saved rules, and the questions it asked.

    Args:
        policy: its mode, sandbox and standing rules are read.
        rules_for_commands: False where no rule may cover a command (BND-16).
    """

    def __init__(self, policy: Policy, *, rules_for_commands: bool) -> None:
        self._policy = policy
        self._root = str(policy.root.path)
        self._rules_for_commands = rules_for_commands
        self._session_rules: list[StandingRule] = []
        self._asked: dict[str, tuple[str, ...]] = {}
        self._used_grants: set[str] = set()

    def remember(self, rule: StandingRule) -> None:
        """A person allowed ``rule`` for the rest of the session."""
        self._session_rules.append(rule)

    def used(self, grant: Grant) -> None:
        """The call that ``grant`` allowed is being carried out: it is good for no other."""
        self._used_grants.add(grant.approval_id)

    def decide(self, case: Case, grant: Grant | None, *, remember: bool = True) -> Verdict:
        """*Allow* or *ask*.

        Args:
            case: judged up to here.
            grant: a person's answer to an earlier ask of this same call.
            remember: whether an *ask* is one that a grant may answer.

        Raises:
            Refusal: when the mode refuses, or would ask where nobody is asked (CON-6).
        """
        ruling = self._ruling(case)
        if ruling.outcome == "refuse":
            raise Refusal(ruling.code or "gate_fault", ruling.rule, ruling.reason)
        verdict = Verdict(outcome="allow", rule=ruling.rule, scope=case.scope, input=case.input)
        verdict.arguments, verdict.arguments_sha256 = case.call.arguments, case.digest
        if ruling.outcome == "allow":
            return verdict
        parsed = parse_command(case.command) if case.command is not None else None
        rule = self._standing(case, parsed)
        if rule is not None:
            verdict.rule = rule
            return verdict
        if grant is not None and self._grants(case, grant):
            verdict.rule, verdict.by = f"approval:{grant.approval_id}", grant.by
            return verdict
        if not self._policy.asks:
            raise Refusal("needs_approval", ruling.rule, f"a person would have to allow this: {ruling.reason}")
        if remember:
            self._remember_ask(case)
        verdict.outcome = "ask"
        verdict.message = _question(case, ruling, parsed)
        verdict.proposed = self._proposal(case, parsed)
        return verdict

    def _ruling(self, case: Case) -> Ruling:
        assert case.spec is not None
        acts: list[Act] = [_ACT_OF_KIND[case.spec.kind]]
        if case.outside:
            acts.append("outside")
        rulings = [rule_on(self._policy, act, case.scope) for act in acts]
        for outcome in ("refuse", "ask"):
            for ruling in rulings:
                if ruling.outcome == outcome:
                    return ruling
        return rulings[0]

    def _standing(self, case: Case, parsed: ParsedCommand | None) -> str | None:
        """Which saved or remembered rule covers the call, as ``standing:ID`` or ``session:ID``."""
        for source, rules in (("standing", self._policy.standing), ("session", self._session_rules)):
            fitting = [rule for rule in rules if self._fits(rule, case)]
            if not fitting:
                continue
            found = None
            if parsed is None:
                found = _covering_targets(case.asked_about, fitting)
            elif self._rules_speak(source):
                found = covering(fitting, parsed)
            if found is not None:
                return f"{source}:{found.id}"
        return None

    def _fits(self, rule: StandingRule, case: Case) -> bool:
        # A yes in one project says nothing about another.
        here = rule.root in ("", self._root)
        return here and rule.tool == case.call.name and rule.scope == case.scope

    def _rules_speak(self, source: str) -> bool:
        # A rule that was saved for the sandbox says nothing about a command that runs without one; what a person
        # allowed in this very session was allowed knowing it.
        return self._rules_for_commands and (self._policy.sandbox == "on" or source == "session")

    def _proposal(self, case: Case, parsed: ParsedCommand | None) -> StandingRule | None:
        tool, targets = case.call.name, case.asked_about
        if parsed is not None:
            return propose_rule(tool, case.scope, parsed, root=self._root) if self._rules_for_commands else None
        if len(targets) != 1:
            return None
        return propose_target_rule(tool, case.scope, targets[0], root=self._root)

    def _remember_ask(self, case: Case) -> None:
        self._asked[_key(case)] = _paths(case)
        if len(self._asked) > _REMEMBERED_ASKS:
            del self._asked[next(iter(self._asked))]

    def _grants(self, case: Case, grant: Grant) -> bool:
        if grant.arguments_sha256 != case.digest or grant.scope != case.scope:
            return False
        if grant.approval_id in self._used_grants:
            return False
        # The person saw where the paths led; a link that has been turned since needs a new question.
        asked = self._asked.get(_key(case))
        return not case.outside if asked is None else asked == _paths(case)


def _covering_targets(targets: list[Target], rules: Iterable[StandingRule]) -> StandingRule | None:
    return next((rule for rule in rules if targets and all(covers_target(rule, one) for one in targets)), None)


def _key(case: Case) -> str:
    return f"{case.call.id}:{case.digest}"


def _paths(case: Case) -> tuple[str, ...]:
    return tuple(str(target.path) for target in case.targets)


def _question(case: Case, ruling: Ruling, parsed: ParsedCommand | None) -> str:
    """Why a person is asked, in words for that person."""
    parts = [ruling.reason]
    if case.outside:
        where = ", ".join(shown(str(target.path), one_line=True) for target in case.outside)
        parts.append(f"it reaches outside the workspace: {where}")
    if parsed is not None and (why := why_uncoverable(parsed)) is not None:
        parts.append(f"no rule can cover this command: {why}")
    return "; ".join(parts)
