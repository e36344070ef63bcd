"""A run's servers and their tools: what is offered is fixed at the start, a server starts at its first call (PRO-3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from drawbar.boundary.open_arguments import OpenArguments
from drawbar.contracts.boundary import CommandRunner, Verdict
from drawbar.contracts.tool import Tool, ToolContext, ToolResult, ToolSpec
from drawbar.tools.mcp.connection import Connection, ServerFault, library_there
from drawbar.tools.mcp.listing import ListedTool, Listing, ListingCache
from drawbar.tools.mcp.names import tool_name
from drawbar.tools.mcp.results import result_of
from drawbar.tools.mcp.settings import ServerSettings

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["ConnectorTool", "Offer", "Offers", "Pool", "offers_of"]

LISTING_S: Final = 4.0
"""How long a run waits for servers that were never listed; all are asked at once (MCP-02)."""

Values = Callable[[ServerSettings], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Offer:
    """One tool of one server, under the name that the model knows."""

    server: ServerSettings
    tool: ListedTool

    @property
    def name(self) -> str:
        return tool_name(self.server.name, self.tool.name)

    def spec(self) -> ToolSpec:
        """For the gate and the model."""
        return ToolSpec(
            name=self.name,
            description=f"{self.tool.description}\n(A tool of the MCP server `{self.server.name}`.)".strip(),
            input=OpenArguments,
            kind="connector",
            limit_s=self.server.timeout_s,
            limit_max_s=self.server.timeout_s,
            schema=self.tool.schema,
            origin=self.tool.digest(self.server),
        )


@dataclass(frozen=True, slots=True)
class Offers:
    """Every tool that a run is offered, in a fixed order, and what there is to say about the rest."""

    offers: tuple[Offer, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(offer.name for offer in self.offers)


async def offers_of(
    servers: Sequence[ServerSettings],
    cache: ListingCache,
    commands: CommandRunner,
    values: Values,
    *,
    limit_s: float = LISTING_S,
) -> Offers:
    """The tools of all servers: as last listed, or asked for now, within a bounded time.

    A server that doesn't answer in time is named and left out.
    """
    used = [server for server in servers if server.enabled]
    if not used:
        return Offers()
    known = {server.name: cache.load(server) for server in used}
    asked = [server for server in used if known[server.name] is None]
    if asked and not library_there():
        names = ", ".join(server.name for server in asked)
        return Offers(notices=(f"the MCP servers {names} need the package `mcp`: pip install 'drawbar[mcp]'",))
    notices: list[str] = []

    async def ask(server: ServerSettings) -> None:
        found = await list_server(server, cache, commands, values, limit_s=limit_s)
        if isinstance(found, Listing):
            known[server.name] = found
        else:
            notices.append(
                f"the MCP server {server.name} is left out of this run: {found}. "
                f"`drawbar mcp check {server.name}` gives it more time"
            )

    await asyncio.gather(*(ask(server) for server in asked))
    for server in used:
        listing = known[server.name]
        if listing is not None and listing.left_out:
            notices.append(f"MCP server {server.name}: left out: {'; '.join(listing.left_out[:10])}")
    offers = [Offer(server, tool) for server in used for tool in (known[server.name] or Listing(())).tools]
    return Offers(tuple({offer.name: offer for offer in reversed(offers)}.values())[::-1], tuple(notices))


async def list_server(
    server: ServerSettings, cache: ListingCache, commands: CommandRunner, values: Values, *, limit_s: float
) -> Listing | str:
    """Start a server, ask it for its tools, keep the answer and end it; why not, in words."""
    connection = Connection(server, commands, lambda: values(server))
    try:
        async with asyncio.timeout(limit_s):
            listing = await connection.list_tools()
    except TimeoutError:
        return f"it gave no list of tools within {limit_s:g} s"
    except ServerFault as fault:
        return str(fault)
    finally:
        await connection.close()
    cache.save(server, listing)
    return listing


class Pool:
    """The servers of one run.

    Args:
        offers: what the run is offered.
        commands: starts programs.
        values: fetches a server's variables or headers.
        cache: told when a server lists other tools than before.
        release: called last of all when the pool is closed.
    """

    def __init__(
        self,
        offers: Sequence[Offer],
        commands: CommandRunner,
        values: Values,
        cache: ListingCache,
        *,
        release: Callable[[], Awaitable[None]],
    ) -> None:
        self._offers = offers
        self._commands = commands
        self._values = values
        self._cache = cache
        self._release = release
        self._up: dict[str, tuple[Connection, asyncio.Task[Listing]]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    def tools(self) -> list[Tool]:
        """In the fixed order."""
        return [ConnectorTool(offer, self) for offer in self._offers]

    async def call(self, offer: Offer, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool, starting its server if need be.

        Raises:
            ServerFault: there was no usable answer, or the server describes the tool otherwise than it did.
        """
        if not library_there():
            raise ServerFault("the package `mcp` isn't installed: pip install 'drawbar[mcp]'")
        connection, listing = self._connected(offer.server)
        now = (await asyncio.shield(listing)).get(offer.tool.name)
        if now != offer.tool:
            raise ServerFault(
                "the server no longer describes this tool as it did when the run began, so it was not called; a new "
                "run is offered it as it is now"
            )
        return await connection.call(offer.tool.name, arguments)

    def drop(self, server: ServerSettings) -> None:
        """End a server that hangs or broke; the next call starts it anew."""
        found = self._up.pop(server.name, None)
        if found is not None:
            self._ending.add(task := asyncio.create_task(_end(*found)))
            task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """End every server; later calls are refused."""
        self._closed = True
        up, self._up = self._up, {}
        try:
            await asyncio.gather(*(_end(*found) for found in up.values()), *self._ending)
        finally:
            await self._release()

    def _connected(self, server: ServerSettings) -> tuple[Connection, asyncio.Task[Listing]]:
        if self._closed:
            raise ServerFault("the run is ending")
        found = self._up.get(server.name)
        if found is None or found[0].ended:
            connection = Connection(server, self._commands, lambda: self._values(server))
            listing = asyncio.create_task(self._listed(server, connection))
            listing.add_done_callback(lambda done: done.cancelled() or done.exception())
            found = self._up[server.name] = (connection, listing)
        return found

    async def _listed(self, server: ServerSettings, connection: Connection) -> Listing:
        listing = await connection.list_tools()
        self._cache.save(server, listing)
        return listing


async def _end(connection: Connection, listing: asyncio.Task[Listing]) -> None:
    listing.cancel()
    await connection.close()


class ConnectorTool:
    """One tool of a server. What it does isn't seen; that it ends within its limit, with one result, is (QLT-12)."""

    def __init__(self, offer: Offer, pool: Pool) -> None:
        self.spec = offer.spec()
        self._offer = offer
        self._pool = pool

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        """Call it; a fault of the server is a result that names the server and says what to do."""
        given: OpenArguments = verdict.input
        server = self._offer.server
        try:
            async with asyncio.timeout(server.timeout_s):
                answer = await self._pool.call(self._offer, given.values)
        except TimeoutError:
            self._pool.drop(server)
            return ToolResult.error(
                f"The MCP server {server.name} gave no answer within {server.timeout_s:g} s and was ended; whether it "
                "did what was asked isn't known. The next call starts it anew.",
                cause="timeout",
            )
        except ServerFault as fault:
            if not str(fault).startswith("it answered with an error"):
                self._pool.drop(server)
            return ToolResult.error(f"The MCP server {server.name} gave no usable answer: {fault}")
        return result_of(answer, server.name, context)
