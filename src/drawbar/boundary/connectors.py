"""Standing rules for tools of other programs: one tool, with any arguments, while it stays what it was (PRO-3, BND-6).

A server is asked anew what its tools are, and may answer otherwise tomorrow; its settings may name another program.
So a rule says what was allowed by digest, and covers nothing once that has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drawbar.contracts.boundary import StandingRule
from drawbar.contracts.capability import Scope
from drawbar.contracts.ids import new_id
from drawbar.contracts.tool import ToolSpec

__all__ = ["covering_connector", "propose_connector_rule"]

_ANY_ARGUMENTS: Final = "*"


def covering_connector(rules: Iterable[StandingRule], spec: ToolSpec | None) -> StandingRule | None:
    """The first of the rules for this tool's name and scope that was given for the tool as it is now."""
    pattern = _pattern(spec)
    return None if pattern is None else next((rule for rule in rules if rule.pattern == pattern), None)


def propose_connector_rule(spec: ToolSpec | None, scope: Scope, *, root: str) -> StandingRule | None:
    """The rule that *always* would save: this tool with any arguments. None for a tool that doesn't say what it is."""
    pattern = _pattern(spec)
    if spec is None or pattern is None:
        return None
    return StandingRule(id=new_id("approval"), tool=spec.name, scope=scope, pattern=pattern, root=root)


def _pattern(spec: ToolSpec | None) -> str | None:
    return f"{_ANY_ARGUMENTS} @{spec.origin}" if spec is not None and spec.origin else None
