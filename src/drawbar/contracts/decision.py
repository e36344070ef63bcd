"""What ``drawbar gate decide`` reads and prints: a policy as a file, a decision as an object (CLI-6, BND-4)."""

from __future__ import annotations

from typing import Literal

from drawbar.contracts.capability import Scope
from drawbar.contracts.codec import FrozenRecord, Request
from drawbar.contracts.run import ApprovalMode

__all__ = ["GateDecision", "PolicyFile"]


class PolicyFile(Request):
    """A policy as a person writes it down.

    ``root`` is the effective working directory (BND-1). ``tools`` are built-in ones; ``typed_tools`` are others
    that the policy lets pass by their name, whose arguments say nothing to the gate. ``network`` is ``off`` or the
    hosts that may be reached. What is left out is off, but for the two scopes that every run has.
    """

    root: str
    tools: tuple[str, ...]
    typed_tools: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ("read-only", "workspace")
    network: Literal["off"] | tuple[str, ...] = "off"
    plan: bool = False
    deny_read: tuple[str, ...] = ()
    approval: ApprovalMode = "never"


class GateDecision(FrozenRecord, frozen=True):
    """A decision that was not carried out.

    ``code`` and ``cause`` are null on allow, ``rule`` where none decided. ``resolved_paths`` are canonical; bytes of
    a name that are no UTF-8 are shown as ``\\xNN``.
    """

    decision: Literal["allow", "refuse", "ask"]
    code: str | None
    cause: Literal["policy", "fault"] | None
    message: str
    resolved_paths: tuple[str, ...]
    rule: str | None
