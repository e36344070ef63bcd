"""What a run needs besides its record: built by the composition root, used by the session service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from drawbar.contracts.boundary import PinnedRoot, Policy, Trial
    from drawbar.contracts.capability import CapabilitySet
    from drawbar.contracts.engine import Engine
    from drawbar.contracts.model import Account
    from drawbar.contracts.run import RunRecord
    from drawbar.contracts.tool import ToolExecutor, ToolSpec
    from drawbar.runs.live import LiveRun

__all__ = ["Assembly", "Connectors", "Equipment"]


@dataclass(frozen=True, slots=True)
class Equipment:
    """One run's gate, tools and sandbox, bound to it.

    ``trial`` proves the sandbox with a real command (QLT-1); ``begin_turn`` looks at the workspace beside the
    model's request (BND-12); ``close`` ends whatever is left of the run.
    """

    executor: ToolExecutor
    trial: Callable[[], Awaitable[Trial]]
    begin_turn: Callable[[], None]
    close: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Connectors:
    """The tools of MCP servers that a run is offered, fixed when it starts (PRO-3, RUN-5).

    ``names`` as the model knows them; ``notices`` what was left out and why; ``offered`` is the assembly's own.
    """

    names: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    offered: tuple[Any, ...] = ()


class Assembly(Protocol):
    """Makes the parts; ``app.py`` is the only implementation."""

    def engine(self, name: str) -> Engine:
        """Raises :class:`UnsupportedFeature` for an engine that isn't built."""
        ...

    def check(self, account: Account) -> None:
        """Refuse an account that no client can use, before there is a run (RUN-4)."""
        ...

    def specs(self) -> tuple[ToolSpec, ...]:
        """Every built-in tool, in its fixed order."""
        ...

    def pin(self, cwd: str, *, read_only: bool) -> PinnedRoot: ...

    async def connectors(self, root: PinnedRoot) -> Connectors:
        """What the configured servers offer, as last listed or asked now, in a few seconds at most (PRO-3)."""
        ...

    def equip(
        self,
        live: LiveRun,
        record: RunRecord,
        policy: Policy,
        capabilities: CapabilitySet,
        connectors: Connectors,
    ) -> Equipment: ...

    def namespaced(self) -> bool:
        """Whether commands can have a PID namespace here, so that answers over the socket are safe (BND-16)."""
        ...
