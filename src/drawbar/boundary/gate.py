"""The one gate: every tool call is judged here, at the moment of its execution, and runs only on *allow* (BND-3).

The order: schema → known tool → capability set → plan mode → path confinement → ``before_tool`` hooks → once
more from the schema if one rewrote the call → approval over the final bytes → the foundation's last word. Any
exception, time-out or unreadable answer on the way is a refusal with the cause ``fault`` (QLT-2).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from drawbar.boundary.approval import Approvals
from drawbar.boundary.case import Case, Refusal
from drawbar.boundary.gate_codes import cause_of
from drawbar.boundary.hooks import Allowed, BeforeTool, HookFault, HookRunner, HookTimeout, Refused, hook_name
from drawbar.boundary.modes import ScopeRefused, effective_scope
from drawbar.boundary.network import HostCheck
from drawbar.boundary.open_arguments import read_open_arguments
from drawbar.boundary.paths import PathRefused, Resolver, RootGone, open_root
from drawbar.boundary.plan_mode import check_plan_mode
from drawbar.boundary.reach import Reach
from drawbar.boundary.schema_errors import argument_help
from drawbar.boundary.shown import shown
from drawbar.contracts.boundary import Grant, Policy, StandingRule, Verdict
from drawbar.contracts.codec import convert, encode
from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.tool import ToolCall, ToolSpec

__all__ = ["Explanation", "LastWord", "PolicyGate", "arguments_digest"]

LastWord = Callable[[ToolCall, Any], str | None]
"""The foundation's last word: a refusal in words, or None."""


def arguments_digest(arguments: Any) -> str:
    """SHA-256 over a call's arguments as canonical JSON: what a grant is bound to."""
    return hashlib.sha256(encode(arguments, canonical=True)).hexdigest()


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision without its execution: what ``gate decide`` prints. ``resolved_paths`` are canonical."""

    verdict: Verdict
    resolved_paths: tuple[Path, ...]


class PolicyGate:
    """Decides calls from a frozen policy (implements :class:`drawbar.contracts.boundary.Gate`).

    Args:
        policy: everything it decides from.
        specs: every known tool by name; ``policy.tools`` says which of them this run may use.
        before_tool: hooks, asked in order.
        time_limit_s: seconds that one judgement may take, hooks included; waiting for a person isn't part of it.
        last_word: asked last, with the final call and its typed input.
        homes: home folders whose credential stores are closed; None looks them up when first needed.
        rules_for_commands: False where nothing keeps the model's children apart, so that no rule may cover Bash
            (BND-16).
    """

    def __init__(
        self,
        policy: Policy,
        specs: Mapping[str, ToolSpec],
        *,
        before_tool: Sequence[BeforeTool] = (),
        time_limit_s: float = 5.0,
        last_word: LastWord | None = None,
        homes: Sequence[Path] | None = None,
        rules_for_commands: bool = True,
    ) -> None:
        self._policy = policy
        self._specs = specs
        self._before_tool = tuple(before_tool)
        self._time_limit_s = time_limit_s
        self._last_word = last_word
        self._reach = Reach(policy, homes)
        self._resolver = Resolver(policy.root, self._reach, os.path.expanduser("~"))
        self._hosts = HostCheck(policy)
        self._approvals = Approvals(policy, rules_for_commands=rules_for_commands)
        self._hooks = HookRunner()

    async def judge(self, call: ToolCall, *, grant: Grant | None = None) -> Verdict:
        """Decide ``call`` now; never raises (but for the cancellation of the caller itself).

        On *allow* the verdict's targets hold open descriptors, which the caller closes; any other verdict holds
        none. A grant is good for one execution of exactly the arguments and the files that were asked about.
        """
        started = time.perf_counter()
        case = Case(call)
        try:
            verdict = await self._judge(case, grant, started)
        except BaseException as error:
            case.close()
            if not isinstance(error, Exception):
                raise
            verdict = _refused(case, error)
        if time.perf_counter() - started > self._time_limit_s and verdict.outcome != "refuse":
            case.close()
            verdict = _refused(case, HookTimeout(f"the gate did not answer within {self._time_limit_s:.1f} s"))
        if verdict.outcome == "allow":
            verdict.targets = case.targets
            if grant is not None and verdict.rule == f"approval:{grant.approval_id}":
                self._approvals.used(case, grant)
        else:
            case.close()
        verdict.us = int((time.perf_counter() - started) * 1e6)
        return verdict

    def remember(self, rule: StandingRule) -> None:
        """A person allowed ``rule`` for the rest of the session."""
        self._approvals.remember(rule)

    async def explain(self, call: ToolCall) -> Explanation:
        """Decide ``call`` without anything being carried out or remembered; nothing stays open."""
        started = time.perf_counter()
        case = Case(call)
        try:
            verdict = await self._judge(case, None, started, remember=False)
        except Exception as error:
            verdict = _refused(case, error)
        finally:
            case.close()
        verdict.us = int((time.perf_counter() - started) * 1e6)
        return Explanation(verdict, case.resolved)

    async def _judge(self, case: Case, grant: Grant | None, started: float, *, remember: bool = True) -> Verdict:
        self._up_to_paths(case)
        if self._before_tool:
            await self._ask_hooks(case, started)
        verdict = self._approvals.decide(case, grant, remember=remember)
        if verdict.outcome == "allow":
            self._say_last_word(case)
        return verdict

    # From the schema to the paths

    def _up_to_paths(self, case: Case) -> None:
        spec = self._specs.get(case.call.name)
        if spec is None:
            known = ", ".join(sorted(name for name in self._specs if name in self._policy.tools)) or "none"
            name = shown(case.call.name[:80], one_line=True)
            raise Refusal("unknown_tool", "tool", f"there is no tool `{name}`; available: {known}")
        case.spec = spec
        case.input = self._typed(case.call, spec)
        case.digest = self._digest(case.call)
        if case.call.name not in self._policy.tools:
            raise Refusal("not_capable", "capability", f"this run may not use the tool `{case.call.name}`")
        self._choose_scope(case, spec)
        if self._policy.plan:
            check_plan_mode(case, spec)
        case.hosts = self._hosts.new_hosts(case, spec)
        self._confine(case, spec)

    def _typed(self, call: ToolCall, spec: ToolSpec) -> Any:
        try:
            if spec.schema is not None:
                return read_open_arguments(call.arguments, spec.schema, what=spec.name)
            return convert(call.arguments, spec.input, what=spec.name)
        except InvalidInput as error:
            raise Refusal("invalid_arguments", "schema", f"{error.message}. {argument_help(spec)}") from error

    def _digest(self, call: ToolCall) -> str:
        try:
            return arguments_digest(call.arguments)
        except UnicodeEncodeError as error:
            message = "the arguments hold half a character (a lone surrogate); send valid Unicode text"
            raise Refusal("invalid_arguments", "schema", message) from error

    def _choose_scope(self, case: Case, spec: ToolSpec) -> None:
        policy = self._policy
        if spec.kind == "execute":
            case.command = spec.command(case.input)
            if not isinstance(case.command, str):
                raise TypeError(f"the tool `{spec.name}` names no command")
            if "\0" in case.command:
                raise Refusal("invalid_arguments", "schema", "the command holds a NUL character; leave it out")
            requested = getattr(case.input, "scope", None)
            case.scope = effective_scope(requested if isinstance(requested, str) else None, policy)
            if policy.plan and policy.sandbox == "off":
                raise Refusal("plan_mode", "plan", "plan mode runs commands in the sandbox alone, and it is off")
            return
        if spec.kind == "write":
            if "workspace" not in policy.scopes:
                raise Refusal("not_capable", "capability", "this run may not write in the workspace")
            case.scope = "workspace"
            return
        case.scope = "outside" if spec.kind == "connector" else "read-only"

    def _confine(self, case: Case, spec: ToolSpec) -> None:
        uses = list(spec.paths(case.input))
        writes = any(use.access == "write" for use in uses)
        if (spec.kind == "write") != writes:
            raise TypeError(f"the tool `{spec.name}` of kind {spec.kind} names paths that don't fit it")
        if not uses:
            return
        root_fd = open_root(self._policy.root)
        try:
            for use in uses:
                case.targets.append(self._resolver.resolve(root_fd, use))
        finally:
            os.close(root_fd)
        case.resolved = tuple(target.path for target in case.targets)
        case.outside = [
            target for target in case.targets if target.relative is None and not self._reach.pinned(str(target.path))
        ]
        if case.outside and spec.kind != "execute":
            case.scope = "outside"

    # Hooks

    async def _ask_hooks(self, case: Case, started: float) -> None:
        rewritten_by: str | None = None
        for hook in self._before_tool:
            left = self._time_limit_s - (time.perf_counter() - started)
            answer = await self._hooks.ask(hook, case.call, case.input, left)
            if isinstance(answer, Allowed):
                continue
            if isinstance(answer, Refused):
                raise Refusal("hook_refused", f"hook:{hook_name(hook)}", str(answer.message))
            if rewritten_by is not None:
                raise HookFault(f"the hook `{hook_name(hook)}` rewrote what `{rewritten_by}` had rewritten")
            rewritten_by = hook_name(hook)
            case.close()
            case.call = replace(case.call, arguments=answer.arguments)
            self._up_to_paths(case)

    # The last word

    def _say_last_word(self, case: Case) -> None:
        os.close(open_root(self._policy.root))
        if self._last_word is None:
            return
        answer = cast("object", self._last_word(case.call, case.input))
        if answer is None:
            return
        if not isinstance(answer, str):
            raise TypeError("the foundation's last word can't be read")
        raise Refusal("last_word", "last_word", answer)


def _refused(case: Case, error: Exception) -> Verdict:
    code, rule, message = _told(error)
    verdict = Verdict(outcome="refuse", code=code, cause=cause_of(code), message=message, rule=rule, scope=case.scope)
    verdict.input, verdict.arguments, verdict.arguments_sha256 = case.input, case.call.arguments, case.digest
    return verdict


def _told(error: Exception) -> tuple[str, str | None, str]:
    """The code, rule and message of whatever ended a judgement."""
    if isinstance(error, (Refusal, ScopeRefused, PathRefused)):
        return error.code, error.rule, error.message
    if isinstance(error, RootGone):
        return "root_gone", "root", f"{error}; nothing was done"
    if isinstance(error, HookTimeout):
        return "gate_timeout", "fault", f"{error}, so the call did not run; this says nothing about the call itself"
    what = str(error) if isinstance(error, HookFault) else f"the gate failed ({type(error).__name__}: {error})"
    return "gate_fault", "fault", f"{what}, so the call did not run; this says nothing about the call itself"
