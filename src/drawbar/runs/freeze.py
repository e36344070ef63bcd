"""Capabilities are resolved, intersected and frozen once, at the run's start (RUN-2, RUN-5, BND-2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drawbar.contracts.capability import SCOPES, CapabilitySet, Scope
from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.run import ApprovalMode

__all__ = ["approval_mode", "caller_capabilities", "freeze"]

_STRICTNESS: tuple[ApprovalMode, ...] = ("read-only", "ask", "never", "auto-workspace")


QUESTION_TOOL: Final = "ask_user"


def caller_capabilities(
    tools: Sequence[str], *, network: Sequence[str] = (), attended: bool = False, connectors: Sequence[str] = ()
) -> CapabilitySet:
    """All that a person's own top-level run may have.

    Args:
        tools: every built-in tool.
        network: the hosts that settings list.
        attended: whether a person may be asked: only then there are questions and the scope ``outside``, which
            never runs without one (BND-9).
        connectors: the tools of MCP servers, by the names that the model knows.
    """
    scopes: tuple[Scope, ...] = ("read-only", "workspace", "outside") if attended else ("read-only", "workspace")
    return CapabilitySet(
        tools=tuple(name for name in tools if attended or name != QUESTION_TOOL),
        scopes=scopes,
        network=tuple(network),
        connectors=tuple(connectors),
        questions=attended,
    ).normalised()


def freeze(
    caller: CapabilitySet, *, narrow_tools: Sequence[str] | None, narrow_scopes: Sequence[str] | None
) -> CapabilitySet:
    """The caller's set, intersected with a narrower requested one; it never widens.

    Raises:
        InvalidInput: a requested name doesn't exist, so that a typo doesn't silently take a tool away.
    """
    unknown = sorted(set(narrow_tools or ()) - {*caller.tools, *caller.connectors})
    if unknown:
        raise InvalidInput(f"narrow_tools: no such tool: {', '.join(unknown)}", field="narrow_tools")
    scopes: list[Scope] = []
    for name in narrow_scopes if narrow_scopes is not None else SCOPES:
        if name not in SCOPES:
            raise InvalidInput(f"narrow_scopes: no such scope: {name}", field="narrow_scopes")
        scopes.append(name)
    requested = CapabilitySet(
        tools=tuple(narrow_tools) if narrow_tools is not None else caller.tools,
        plugins=caller.plugins,
        scopes=tuple(scopes),
        network=caller.network,
        connectors=tuple(narrow_tools) if narrow_tools is not None else caller.connectors,
        subagents=caller.subagents,
        questions=caller.questions,
    )
    return caller.intersect(requested)


def approval_mode(*modes: ApprovalMode | None, automatic: bool) -> ApprovalMode:
    """The stricter of what account, project and caller say; an automatic run never asks (BND-6).

    ``--unattended`` turns every mode but ``read-only`` into ``never``.
    """
    strictest: ApprovalMode = "ask"
    for mode in reversed(_STRICTNESS):
        if mode in modes:
            strictest = mode
    return "never" if automatic and strictest != "read-only" else strictest
