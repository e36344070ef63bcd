"""Approval over the final bytes: what the mode says, which rule covers it, whether a person's yes fits (BND-6)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from drawbar.boundary.case import Case, Refusal
from drawbar.boundary.connectors import covering_connector, propose_connector_rule
from drawbar.boundary.modes import Act, Ruling, rule_on
from drawbar.boundary.network import RULE_TOOL, covering_hosts, propose_host_rule
from drawbar.boundary.rules import covering, covers_target, propose_rule, propose_target_rule, why_uncoverable
from drawbar.boundary.shell import ParsedCommand, parse_command
from drawbar.boundary.shown import shown
from drawbar.contracts.boundary import Grant, Policy, StandingRule, Target, Verdict

__all__ = ["Approvals"]

_REMEMBERED_ASKS: Final = 256
_ACT_OF_KIND: Final[dict[str, Act]] = {
    "execute": "command",
    "write": "write",
    "read": "read",
    "internal": "internal",
    "connector": "connector",
}
_ON_FILES: Final[frozenset[Act]] = frozenset({"read", "write", "outside"})

_Open = list[tuple[Act, Ruling]]
"""The acts of one call that a person has to allow, each with why."""


class Approvals:
    """The approval step of one gate: the mode's table, the saved rules, and the questions it asked.

    A yes holds for this gate, and so for its run, and for one execution of the call that was asked about: the same
    call id, the same arguments, the same files and the same working directory.

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
        self._ran_outside: set[str] = set()

    def remember(self, rule: StandingRule) -> None:
        """A person allowed ``rule`` for the rest of the session."""
        self._session_rules.append(rule)

    def used(self, case: Case, grant: Grant) -> None:
        """The call that ``grant`` allowed is being carried out: it is good for no other."""
        self._used_grants.add(grant.approval_id)
        self._asked.pop(_key(case), None)
        if case.unconfined:
            self._ran_outside.add(case.call.id)

    def decide(self, case: Case, grant: Grant | None, *, remember: bool = True) -> Verdict:
        """*Allow* or *ask*.

        Args:
            case: judged up to here.
            grant: a person's answer to an earlier ask of this same call.
            remember: whether an *ask* is one that a grant may answer.

        Raises:
            Refusal: when the mode refuses, or would ask where nobody is asked (CON-6).
        """
        if case.unconfined and case.call.id in self._ran_outside:
            message = "this call ran outside the sandbox once, and once is all; a new call asks a person anew"
            raise Refusal("already_ran", "scope:outside", message)
        rulings = self._rulings(case)
        for _act, ruling in rulings:
            if ruling.outcome == "refuse":
                raise Refusal(ruling.code or "gate_fault", ruling.rule, ruling.reason)
        verdict = Verdict(outcome="allow", rule=rulings[0][1].rule, scope=case.scope, input=case.input)
        verdict.arguments, verdict.arguments_sha256, verdict.hosts = case.call.arguments, case.digest, case.hosts
        asks: _Open = [(act, ruling) for act, ruling in rulings if ruling.outcome == "ask"]
        if not asks:
            return verdict
        parsed = parse_command(case.command) if case.command is not None else None
        still, covered_by = self._uncovered(case, asks, parsed)
        if not still:
            verdict.rule = ", ".join(covered_by)
            return verdict
        if grant is not None and self._grants(case, grant):
            verdict.rule, verdict.by = f"approval:{grant.approval_id}", grant.by
            return verdict
        if not self._policy.asks:
            why = _question(case, still, parsed)
            raise Refusal("needs_approval", still[0][1].rule, f"a person would have to allow this: {why}")
        if remember:
            self._remember_ask(case)
        verdict.outcome, verdict.rule, verdict.hosts = "ask", still[0][1].rule, ()
        verdict.message = _question(case, still, parsed)
        verdict.proposed = self._proposal(case, still, parsed)
        return verdict

    def _rulings(self, case: Case) -> _Open:
        assert case.spec is not None
        acts: list[Act] = ["unconfined" if case.unconfined else _ACT_OF_KIND[case.spec.kind]]
        if case.outside:
            acts.append("outside")
        if case.hosts:
            acts.append("network")
        return [(act, rule_on(self._policy, act, case.scope)) for act in acts]

    # Standing rules

    def _uncovered(self, case: Case, asks: _Open, parsed: ParsedCommand | None) -> tuple[_Open, list[str]]:
        """The acts that no saved or remembered rule covers, and the rules that cover the others."""
        still: _Open = []
        found: dict[str, None] = {}
        for act, ruling in asks:
            names = self._standing(case, act, parsed)
            if names is None:
                still.append((act, ruling))
            else:
                found.update(dict.fromkeys(names))
        return still, list(found)

    def _standing(self, case: Case, act: Act, parsed: ParsedCommand | None) -> tuple[str, ...] | None:
        """Which rules cover one act of the call, as ``standing:ID`` or ``session:ID``; None when none does."""
        if act == "unconfined":
            return None  # each such command is a person's to allow, whatever was saved
        for source, rules in (("standing", self._policy.standing), ("session", self._session_rules)):
            here = [rule for rule in rules if rule.root in ("", self._root)]
            if act == "network":
                covered = covering_hosts((rule for rule in here if rule.tool == RULE_TOOL), case.hosts)
                if covered is not None:
                    return tuple(f"{source}:{rule.id}" for rule in covered)
                continue
            fitting = [rule for rule in here if rule.tool == case.call.name and rule.scope == case.scope]
            one = None
            if act in _ON_FILES:
                one = _covering_targets(case.asked_about, fitting)
            elif act == "connector":
                one = covering_connector(fitting, case.spec)
            elif parsed is not None and self._rules_speak(source):
                one = covering(fitting, parsed)
            if one is not None:
                return (f"{source}:{one.id}",)
        return None

    def _rules_speak(self, source: str) -> bool:
        # A rule that was saved for the sandbox says nothing about a command that runs without one; what a person
        # allowed in this very session was allowed knowing it.
        return self._rules_for_commands and (self._policy.sandbox == "on" or source == "session")

    def _proposal(self, case: Case, still: _Open, parsed: ParsedCommand | None) -> StandingRule | None:
        """One rule: for the command or the file where that is asked about, else for the hosts."""
        acts = {act for act, _ruling in still}
        if "unconfined" in acts:
            return None
        tool = case.call.name
        if "command" in acts and parsed is not None and self._rules_for_commands:
            rule = propose_rule(tool, case.scope, parsed, root=self._root)
            if rule is not None:
                return rule
        if acts & _ON_FILES and len(case.asked_about) == 1:
            return propose_target_rule(tool, case.scope, case.asked_about[0], root=self._root)
        if "connector" in acts:
            return propose_connector_rule(case.spec, case.scope, root=self._root)
        return propose_host_rule(case.hosts, root=self._root) if "network" in acts else None

    # Questions and their answers

    def _remember_ask(self, case: Case) -> None:
        self._asked[_key(case)] = _circumstances(case, self._policy)
        if len(self._asked) > _REMEMBERED_ASKS:
            del self._asked[next(iter(self._asked))]

    def _grants(self, case: Case, grant: Grant) -> bool:
        if grant.arguments_sha256 != case.digest or grant.scope != case.scope:
            return False
        if grant.approval_id in self._used_grants:
            return False
        # The person saw where the paths led; a link that has been turned since needs a new question.
        return self._asked.get(_key(case)) == _circumstances(case, self._policy)


def _covering_targets(targets: list[Target], rules: Iterable[StandingRule]) -> StandingRule | None:
    return next((rule for rule in rules if targets and all(covers_target(rule, one) for one in targets)), None)


def _key(case: Case) -> str:
    return f"{case.call.id}:{case.digest}"


def _circumstances(case: Case, policy: Policy) -> tuple[str, ...]:
    """What a question was about besides the arguments: where the paths led, and where a command would run."""
    paths = tuple(str(target.path) for target in case.targets)
    if case.command is None:
        return paths
    folder = policy.root.working_directory
    try:
        found = os.stat(folder)
    except OSError:
        return (*paths, str(folder), "gone")
    return (*paths, str(folder), f"{found.st_dev}:{found.st_ino}")


def _reason(case: Case, act: Act) -> str:
    """What an act is about besides the mode's own words: where it reaches."""
    if act == "outside":
        where = ", ".join(shown(str(target.path), one_line=True) for target in case.outside)
        return f"it reaches outside the workspace: {where}"
    if act == "network":
        where = ", ".join(shown(host, one_line=True) for host in case.hosts)
        return f"it would reach hosts on the network that aren't listed, and what is below them: {where}"
    if act == "connector":
        return "it is a tool of another program, which can do all that the program can, whatever it calls itself"
    if act == "unconfined":
        return "no rule can cover this: each such command is asked about"
    return ""


def _question(case: Case, still: _Open, parsed: ParsedCommand | None) -> str:
    """Why a person is asked, in words for that person."""
    parts: list[str] = []
    for act, ruling in still:
        parts += [ruling.reason, _reason(case, act)]
        if act == "command" and parsed is not None and (why := why_uncoverable(parsed)) is not None:
            parts.append(f"no rule can cover this command: {why}")
    return "; ".join(dict.fromkeys(part for part in parts if part))
