"""From what was pinned, or from a policy file, to the one policy that the gate and the sandbox decide from."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from drawbar.boundary.hosts import AllowList, HostRefused
from drawbar.contracts.boundary import PinnedRoot, Policy, StandingRule
from drawbar.contracts.codec import Record, Request
from drawbar.contracts.decision import GateDecision
from drawbar.contracts.errors import InvalidInput, UnsupportedFeature
from drawbar.contracts.tool import ToolSpec
from drawbar.runs.freeze import caller_capabilities, freeze

if TYPE_CHECKING:
    from drawbar.boundary.gate import Explanation
    from drawbar.contracts.capability import CapabilitySet
    from drawbar.contracts.decision import PolicyFile
    from drawbar.contracts.engine import Redactor
    from drawbar.contracts.run import ApprovalMode
    from drawbar.contracts.settings import Settings

__all__ = [
    "check_engine",
    "check_policy_file",
    "decision_of",
    "person_policy",
    "policy_of_file",
    "run_policy",
    "typed_spec",
]


def run_policy(
    root: PinnedRoot,
    capabilities: CapabilitySet,
    *,
    approval: ApprovalMode,
    hidden: tuple[Path, ...],
    deny_read: tuple[str, ...],
    standing: Iterable[StandingRule] = (),
    sandbox: Literal["on", "off"] = "on",
    explicit_off: bool = False,
    asks: bool = True,
    plan: bool = False,
) -> Policy:
    """The policy of a run.

    Args:
        root: the workspace.
        capabilities: as frozen.
        approval: the mode that holds.
        hidden: the harness's own folders (BND-16).
        deny_read: of account and project (BND-17).
        standing: all saved rules; those of other workspaces are left out.
        sandbox, explicit_off: see :class:`~drawbar.contracts.boundary.Policy`.
        asks: whether a person is asked at all.
        plan: plan mode.
    """
    return Policy(
        root=root,
        tools=frozenset((*capabilities.tools, *capabilities.connectors)),
        scopes=capabilities.scopes,
        approval=approval,
        network=capabilities.network,
        plan=plan,
        hidden=hidden,
        deny_read=deny_read,
        standing=tuple(rule for rule in standing if rule.root == str(root.path)),
        sandbox=sandbox,
        explicit_off=explicit_off,
        asks=asks,
    )


def person_policy(
    root: PinnedRoot,
    settings: Settings,
    tools: Sequence[str],
    *,
    approval: ApprovalMode,
    hidden: tuple[Path, ...],
    standing: Iterable[StandingRule],
    plan: bool,
) -> Policy:
    """The policy of a run that a person starts with this approval mode, having said nothing else."""
    return run_policy(
        root,
        freeze(
            caller_capabilities(tools, network=settings.network, attended=True),
            narrow_tools=None,
            narrow_scopes=["read-only"] if approval == "read-only" else None,
        ),
        approval=approval,
        hidden=hidden,
        deny_read=settings.deny_read,
        standing=standing,
        plan=plan,
    )


def check_policy_file(file: PolicyFile, builtin: Collection[str]) -> None:
    """Refuse what can't be meant: a typo would silently take a tool or a host away.

    Raises:
        InvalidInput: naming the field, and for a tool where it belongs.
    """
    for name in file.tools:
        if name not in builtin:
            alike = difflib.get_close_matches(name, builtin, n=1)
            meant = f"did you mean {alike[0]!r}? " if alike else ""
            raise InvalidInput(
                f"policy: tools: there is no built-in tool {name!r}; {meant}Known are {', '.join(sorted(builtin))}; "
                "a tool of your own goes under typed_tools",
                field="tools",
            )
    taken = next((name for name in file.typed_tools if name in builtin), None)
    if taken is not None:
        raise InvalidInput(
            f"policy: typed_tools: {taken!r} is a built-in tool, whose arguments the gate judges; list it under tools",
            field="typed_tools",
        )
    try:
        AllowList(() if file.network == "off" else file.network)
    except HostRefused as error:
        raise InvalidInput(f"policy: network: {error}", field="network") from error


def policy_of_file(file: PolicyFile, root: PinnedRoot, *, hidden: tuple[Path, ...], plan: bool) -> Policy:
    """The policy that a file describes; no saved rule counts for it (BND-4).

    Args:
        file: with tools that :func:`check_policy_file` let pass.
        root: as pinned.
        hidden: the harness's own folders (BND-16).
        plan: plan mode, whatever the file says.
    """
    return Policy(
        root=root,
        tools=frozenset(file.tools + file.typed_tools),
        scopes=tuple(dict.fromkeys(file.scopes)),
        approval=file.approval,
        network=() if file.network == "off" else file.network,
        plan=plan or file.plan,
        hidden=hidden,
        deny_read=file.deny_read,
    )


class _AnyArguments(Record):
    """What the gate knows of a typed tool's arguments: nothing but that they are an object."""


def typed_spec(name: str) -> ToolSpec:
    """A tool that passes by its name: whoever serves it judges its arguments (BND-4)."""
    return ToolSpec(name=name, description="", input=cast("type[Request]", _AnyArguments), kind="internal")


def check_engine(name: str) -> None:
    """Refuse an engine whose path rules aren't there: one module per engine holds them (BND-5).

    Raises:
        UnsupportedFeature: it isn't built yet.
        InvalidInput: there is no such engine.
    """
    if name in ("pi", "claude-code"):
        raise UnsupportedFeature(f"the engine {name!r} isn't built yet; only `native` is", feature=name)
    if name != "native":
        raise InvalidInput(f"there is no engine {name!r}; known are native, pi, claude-code", field="engine")


def decision_of(found: Explanation, redactor: Redactor) -> GateDecision:
    """A verdict as it is printed."""
    verdict = found.verdict
    asked = verdict.outcome == "ask"
    return GateDecision(
        decision=verdict.outcome,
        code="needs_approval" if asked else verdict.code,
        cause="policy" if asked else "fault" if verdict.cause == "fault" else "policy" if verdict.code else None,
        message=redactor.text(verdict.message),
        resolved_paths=tuple(redactor.text(_as_text(path)) for path in found.resolved_paths),
        rule=verdict.rule,
    )


def _as_text(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
