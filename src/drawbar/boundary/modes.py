"""Approval modes: one table from (mode, act) to pass, ask or refuse, and how modes combine (BND-6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from drawbar.contracts.boundary import Policy
from drawbar.contracts.capability import Scope
from drawbar.contracts.run import ApprovalMode

__all__ = ["Act", "Ruling", "ScopeRefused", "effective_mode", "effective_scope", "rule_on", "stricter"]

Act = Literal["internal", "read", "write", "command", "outside", "unconfined", "network", "connector"]
"""What a call does: nothing outside the harness, a read in the root, a native write, a shell command in the sandbox,
a read outside the root, a shell command outside the sandbox, reaching a network host that isn't listed, or a
tool of somebody else's server."""

Outcome = Literal["allow", "ask", "refuse"]

_STRICTEST_FIRST: Final[tuple[ApprovalMode, ...]] = ("read-only", "ask", "never", "auto-workspace")
# ``never`` allows what ``auto-workspace`` allows and asks nothing, so it is the narrower of the two; ``ask`` puts
# a person before each change, so it is narrower than ``never``.

_TABLE: Final[dict[ApprovalMode, dict[Act, Outcome]]] = {
    "ask": {"read": "allow", "write": "ask", "command": "ask"},
    "auto-workspace": {"read": "allow", "write": "allow", "command": "allow"},
    "read-only": {"read": "allow", "write": "refuse", "command": "refuse"},
    "never": {"read": "allow", "write": "allow", "command": "allow"},
}
_BEYOND: Final[dict[ApprovalMode, Outcome]] = {
    "ask": "ask",
    "auto-workspace": "ask",
    "read-only": "refuse",
    "never": "refuse",
}
"""The table's last column: reads outside, the scope ``outside``, network hosts that aren't listed, and connectors."""
_BEYOND_ACTS: Final[dict[Act, tuple[str, str]]] = {
    "outside": ("outside_workspace", "it lies outside the workspace"),
    "unconfined": ("scope_unavailable", "it would run outside the sandbox"),
    "network": ("host_not_listed", "it would reach a network host that isn't listed"),
    "connector": ("connector", "it is a tool of another program, which acts outside the sandbox"),
}
_UNSANDBOXED: Final[dict[ApprovalMode, Outcome]] = {
    "ask": "ask",
    "auto-workspace": "ask",
    "read-only": "refuse",
    "never": "refuse",
}


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a mode says: the outcome, the rule that decided, and on refusal the code of the gate's table."""

    outcome: Outcome
    rule: str
    code: str | None = None
    reason: str = ""


class ScopeRefused(Exception):
    """The scope that a call asks for isn't to be had: ``code`` of the gate's table, and what to do instead."""

    def __init__(self, code: str, rule: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.rule = rule
        self.message = message


def stricter(first: ApprovalMode, *others: ApprovalMode) -> ApprovalMode:
    """The strictest of the modes: ``read-only``, ``ask``, ``never``, ``auto-workspace`` in that order."""
    return min((first, *others), key=_STRICTEST_FIRST.index)


def effective_mode(account: ApprovalMode, project: ApprovalMode | None, *, unattended: bool) -> ApprovalMode:
    """The mode of a run (BND-6).

    Args:
        account, project: the stricter of both holds; a project that says nothing narrows nothing.
        unattended: with nobody to ask every mode but ``read-only`` is ``never``.
    """
    mode = account if project is None else stricter(account, project)
    return "never" if unattended and mode != "read-only" else mode


def effective_scope(requested: str | None, policy: Policy) -> Scope:
    """The scope that a command runs in.

    Left open it is ``workspace``, or ``read-only`` where the mode, plan mode or the capability set allows no more.

    Raises:
        ScopeRefused: for a scope that this run can't have, ``outside`` in all but attended runs included (BND-9).
    """
    if requested == "outside":
        return _outside(policy)
    if requested is None:
        narrow = policy.approval == "read-only" or policy.plan or "workspace" not in policy.scopes
        scope: Scope = "read-only" if narrow else "workspace"
    elif requested in ("read-only", "workspace"):
        scope = "workspace" if requested == "workspace" else "read-only"
    else:
        message = "`scope` must be `read-only`, `workspace` or `outside`"
        raise ScopeRefused("invalid_arguments", "schema", message)
    if scope == "workspace" and policy.plan:
        raise ScopeRefused("plan_mode", "plan", "plan mode runs commands in the `read-only` scope alone")
    if scope == "workspace" and policy.approval == "read-only":
        message = "the approval mode `read-only` runs commands in the `read-only` scope alone; leave `scope` out"
        raise ScopeRefused("read_only", "mode:read-only", message)
    if scope not in policy.scopes:
        raise ScopeRefused("not_capable", "capability", f"this run may not use the scope `{scope}`")
    return scope


def _outside(policy: Policy) -> Scope:
    """``outside`` is a person's to allow, so it is refused wherever none is asked, before any question."""
    instead = "use `workspace`, or tell the person what to run"
    if "outside" not in policy.scopes:
        message = f"this run may not use the scope `outside`, which only an attended run can ask for; {instead}"
        raise ScopeRefused("not_capable", "capability", message)
    if policy.plan:
        message = "plan mode runs commands in the `read-only` scope alone, never in `outside`"
        raise ScopeRefused("plan_mode", "plan", message)
    if _BEYOND[policy.approval] == "refuse":
        message = f"the approval mode `{policy.approval}` runs nothing in the scope `outside`; {instead}"
        raise ScopeRefused("scope_unavailable", f"mode:{policy.approval}", message)
    if not policy.asks:
        message = f"the scope `outside` needs a person's approval, and in this run none is asked; {instead}"
        raise ScopeRefused("scope_unavailable", "scope:outside", message)
    return "outside"


def rule_on(policy: Policy, act: Act, scope: Scope) -> Ruling:
    """What the policy's mode says to an act, before standing rules and grants (BND-6).

    Args:
        policy: its ``approval``, ``sandbox`` and ``explicit_off`` are read.
        act: what the call does.
        scope: of a command; with the sandbox on, ``read-only`` passes unasked in every mode, since the operating
            system holds it (APR-14).
    """
    mode = policy.approval
    if act == "internal":
        return Ruling("allow", "kind:internal")
    if act in _BEYOND_ACTS:
        return _beyond(mode, act)
    if act == "command":
        if policy.sandbox == "off":
            return _unsandboxed(policy)
        if scope == "read-only":
            return Ruling("allow", "scope:read-only")
    outcome = _TABLE[mode][act]
    rule = f"mode:{mode}"
    if outcome == "refuse":
        return Ruling("refuse", rule, "read_only", f"approval mode `{mode}` allows no changes")
    return Ruling(outcome, rule, reason=_asks_before(mode) if outcome == "ask" else "")


def _beyond(mode: ApprovalMode, act: Act) -> Ruling:
    code, what = _BEYOND_ACTS[act]
    if _BEYOND[mode] == "refuse":
        return Ruling("refuse", f"mode:{mode}", code, f"{what}, which approval mode `{mode}` doesn't allow")
    if act == "unconfined":
        reason = "it runs once, outside the sandbox, with your own rights: it can reach all your files and the network"
        return Ruling("ask", "scope:outside", reason=reason)
    return Ruling("ask", f"mode:{mode}", reason=_asks_before(mode))


def _asks_before(mode: ApprovalMode) -> str:
    return f"approval mode `{mode}` asks before this"


def _unsandboxed(policy: Policy) -> Ruling:
    mode = policy.approval
    if policy.explicit_off and mode in ("auto-workspace", "never"):
        return Ruling("allow", f"mode:{mode}:sandbox-off")
    outcome = _UNSANDBOXED[mode]
    if outcome == "ask":
        return Ruling("ask", f"mode:{mode}:sandbox-off", reason="the sandbox is off: the command can reach everything")
    message = f"the sandbox is off, and approval mode `{mode}` runs no command without it"
    return Ruling("refuse", f"mode:{mode}:sandbox-off", "sandbox_off", message)
