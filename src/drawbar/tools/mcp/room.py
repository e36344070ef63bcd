"""Where servers start: outside the sandbox, as the person's own programs, each in a process tree of its own (PRO-3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from drawbar.contracts.boundary import CommandRunner, PinnedRoot, Policy
from drawbar.tools.mcp.connection import library_there
from drawbar.tools.mcp.listing import Listing, ListingCache
from drawbar.tools.mcp.pool import Offer, Offers, Pool, list_server, offers_of
from drawbar.tools.mcp.settings import ServerSettings

__all__ = ["Checked", "ServerRoom"]


class _Runner(CommandRunner, Protocol):
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of asking one server: its tools, or the fault in words; ``where`` it is, as it may be printed."""

    server: ServerSettings
    listing: Listing | None
    fault: str = ""
    where: str = ""


class ServerRoom:
    """Makes a run's pool, and asks servers for their tools.

    Args:
        folder: the workspace.
        hidden: the harness's own folders, masked for servers as for every command (BND-16).
        lists: where listings are kept.
        environ: where references to variables are looked up.
        learn: told each secret that is fetched, and what it is.
        start: makes what runs commands under a policy.
    """

    def __init__(
        self,
        *,
        folder: PinnedRoot,
        hidden: tuple[Path, ...],
        lists: Path,
        environ: Mapping[str, str],
        learn: Callable[[str, str], None],
        start: Callable[[Policy], _Runner],
    ) -> None:
        self._policy = Policy(root=folder, tools=frozenset(), scopes=("outside",), approval="ask", hidden=hidden)
        self._cache = ListingCache(lists)
        self._environ = environ
        self._learn = learn
        self._start = start

    def pool(self, offers: Sequence[Offer]) -> Pool:
        """A run's servers; the caller closes it."""
        runner = self._start(self._policy)
        return Pool(offers, runner, self._values, self._cache, release=runner.close)

    async def offers(self, servers: Sequence[ServerSettings]) -> Offers:
        """What a run is offered; see :func:`~drawbar.tools.mcp.pool.offers_of`."""
        runner = self._start(self._policy)
        try:
            return await offers_of(servers, self._cache, runner, self._values)
        finally:
            await runner.close()

    async def check(self, servers: Sequence[ServerSettings]) -> list[Checked]:
        """Start each server with the time that its settings give it, ask for its tools, and end it."""
        if not library_there():
            return [Checked(one, None, "it needs the package `mcp`: pip install 'drawbar[mcp]'") for one in servers]
        runner = self._start(self._policy)
        try:
            return await asyncio.gather(*(self._check(server, runner) for server in servers))
        finally:
            await runner.close()

    def known(self, server: ServerSettings) -> Listing | None:
        """The tools as last listed, without starting anything."""
        return self._cache.load(server)

    async def _check(self, server: ServerSettings, runner: CommandRunner) -> Checked:
        found = await list_server(server, self._cache, runner, self._values, limit_s=server.timeout_s)
        return Checked(server, found) if isinstance(found, Listing) else Checked(server, None, found)

    def _values(self, server: ServerSettings) -> Mapping[str, str]:
        return server.values(self._environ, self._learn)
