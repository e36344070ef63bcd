"""A capability set: what a run may do, as a value; only intersection ever combines two (BND-2)."""

from __future__ import annotations

import hashlib
from typing import Final, Literal

from drawbar.contracts.codec import FrozenRecord, encode

__all__ = ["SCOPES", "CapabilitySet", "Scope", "SubagentRights"]

Scope = Literal["read-only", "workspace", "outside"]
SCOPES: Final = ("read-only", "workspace", "outside")


class SubagentRights(FrozenRecord, frozen=True):
    depth: int = 0
    max_children: int = 0


class CapabilitySet(FrozenRecord, frozen=True):
    """Names of tools, plugins, scopes and connectors, the network mode, subagent and question rights.

    ``network`` holds the allowed hosts; an empty tuple is off (BND-13: no socket at all).
    """

    tools: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()
    network: tuple[str, ...] = ()
    connectors: tuple[str, ...] = ()
    subagents: SubagentRights = SubagentRights()
    questions: bool = False

    def intersect(self, other: CapabilitySet) -> CapabilitySet:
        """What both allow; never wider than either (RUN-5)."""

        def both(mine: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(sorted(set(mine) & set(theirs)))

        return CapabilitySet(
            tools=both(self.tools, other.tools),
            plugins=both(self.plugins, other.plugins),
            scopes=tuple(s for s in SCOPES if s in self.scopes and s in other.scopes),  # pyright: ignore[reportArgumentType]
            network=both(self.network, other.network),
            connectors=both(self.connectors, other.connectors),
            subagents=SubagentRights(
                depth=min(self.subagents.depth, other.subagents.depth),
                max_children=min(self.subagents.max_children, other.subagents.max_children),
            ),
            questions=self.questions and other.questions,
        )

    def normalised(self) -> CapabilitySet:
        """The same set with its names sorted and unique: what digests and files hold."""
        return self.intersect(self)

    def digest(self) -> str:
        """SHA-256 over the normalised set, lower-case hex."""
        return hashlib.sha256(encode(self.normalised(), canonical=True)).hexdigest()
