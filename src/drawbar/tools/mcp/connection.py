"""One server while it is up: started at the first need, talked to by many calls, ended with the run (PRO-3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from drawbar.boundary.shown import shown
from drawbar.contracts.boundary import CommandRunner
from drawbar.contracts.errors import InvalidInput
from drawbar.tools.mcp.listing import Listing, listing_of
from drawbar.tools.mcp.settings import ServerSettings
from drawbar.tools.mcp.streams import Outcome, http_streams, stdio_streams

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp_types import CallToolResult

__all__ = ["Connection", "ServerFault", "library_there"]

T = TypeVar("T")
_MOST_PAGES: Final = 100
_MOST_LISTED: Final = 20_000
_WORDS: Final = 2_000
_FAREWELL_S: Final = 2.0
"""How long a server may take to part in its protocol's way."""


class ServerFault(Exception):
    """A server gave no answer that can be used; the message says why, in words that may be shown."""


def library_there() -> bool:
    """Whether the library for MCP is installed."""
    import importlib.util

    return importlib.util.find_spec("mcp") is not None


class Connection:
    """A server, not started yet.

    Args:
        server: its settings.
        commands: starts programs; used for stdio servers alone.
        values: fetches its variables or headers when it is started; raises :class:`InvalidInput`.
    """

    def __init__(
        self, server: ServerSettings, commands: CommandRunner, values: Callable[[], Mapping[str, str]]
    ) -> None:
        self._server = server
        self._commands = commands
        self._values = values
        self._outcome = Outcome()
        self._ready: asyncio.Future[ClientSession] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def list_tools(self) -> Listing:
        """Ask for the tools, all pages.

        Raises:
            ServerFault: there was no usable answer.
        """
        return await self._used(self._list)

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool by the server's own name.

        Raises:
            ServerFault: there was no usable answer.
        """

        async def job(session: ClientSession) -> CallToolResult:
            import mcp_types as types

            # The library would check the result against the server's own schema, whose patterns may take for ever.
            params = types.CallToolRequestParams(name=tool, arguments=arguments)
            return await session.send_request(types.CallToolRequest(params=params), types.CallToolResult)

        return await self._used(job)

    @property
    def ended(self) -> bool:
        """Whether it was started and is gone."""
        return self._task is not None and self._task.done()

    async def close(self) -> None:
        """End it; returns when nothing of it is alive. Safe to call twice."""
        self._stop.set()
        if self._task is None or self._ready is None:
            return
        if self._ready.done():
            await asyncio.wait({self._task}, timeout=_FAREWELL_S)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _list(self, session: ClientSession) -> Listing:
        import mcp_types as types

        found: list[tuple[str, str | None, Any, bool]] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            request = types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor) if cursor else None)
            page = await session.send_request(request, types.ListToolsResult)
            found += [
                (
                    tool.name,
                    tool.description,
                    tool.input_schema,
                    bool(tool.annotations and tool.annotations.read_only_hint),
                )
                for tool in page.tools
            ]
            cursor = page.next_cursor
            if not cursor or len(found) > _MOST_LISTED:
                break
        return await asyncio.to_thread(listing_of, self._server, found[:_MOST_LISTED])

    async def _used(self, job: Callable[[ClientSession], Awaitable[T]]) -> T:
        if self._task is None:
            self._begin()
        assert self._task is not None
        assert self._ready is not None
        working = asyncio.ensure_future(self._work(self._ready, job))
        try:
            await asyncio.wait({working, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ServerFault(self._outcome.said or "the connection ended")
            return working.result()
        except ServerFault:
            raise
        except Exception as error:
            raise ServerFault(await self._words(error)) from error
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
            if not working.cancelled():
                working.exception()

    async def _work(self, ready: asyncio.Future[ClientSession], job: Callable[[ClientSession], Awaitable[T]]) -> T:
        return await job(await asyncio.shield(ready))

    def _begin(self) -> None:
        ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._ready = ready
        self._task = asyncio.create_task(self._serve(ready), name=f"drawbar-mcp-{self._server.name}")
        # Whoever waits hears of a failure; nobody has to.
        ready.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _serve(self, ready: asyncio.Future[ClientSession]) -> None:
        """One task from start to end: the library's scopes have to be left where they were entered."""
        from mcp.client.session import ClientSession

        _quiet()
        try:
            values = await asyncio.to_thread(self._values)
            async with self._streams(values) as (read, write), ClientSession(read, write) as session:
                await _shake_hands(session)
                ready.set_result(session)
                await self._stop.wait()
        except asyncio.CancelledError:
            if not ready.done():
                ready.set_exception(ServerFault("it was ended before it was ready"))
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and not isinstance(error, BaseExceptionGroup):
                raise
            fault = ServerFault(self._outcome.said or _plain(cast("BaseException", error)))
            self._outcome.fault = self._outcome.fault or str(fault)
            if not ready.done():
                ready.set_exception(fault)

    def _streams(self, values: Mapping[str, str]) -> AbstractAsyncContextManager[Any]:
        if self._server.url:
            return http_streams(self._server, values, self._outcome)
        return stdio_streams(self._server, values, self._commands, self._outcome)

    async def _words(self, error: Exception) -> str:
        from mcp.shared.exceptions import MCPError

        if isinstance(error, MCPError):
            # A connection that broke says so before its program's end is known.
            await asyncio.sleep(0.05)
            return self._outcome.said if self._outcome.fault else _plain(error)
        return _plain(error)


async def _shake_hands(session: ClientSession) -> None:
    """As nearly every server wants it; one that only knows the newest protocol refuses that and is asked its way."""
    from mcp.shared.exceptions import MCPError

    try:
        await session.initialize()
    except MCPError as error:
        from mcp_types import UNSUPPORTED_PROTOCOL_VERSION

        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()


def _plain(error: BaseException) -> str:
    """What went wrong, in bounded words without anything that a terminal acts on."""
    from mcp.shared.exceptions import MCPError

    if isinstance(error, BaseExceptionGroup):
        return _plain(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    if isinstance(error, MCPError):
        return f"it answered with an error: {shown(error.error.message[:_WORDS])}"
    if isinstance(error, (InvalidInput, ServerFault)):
        return str(error)
    if isinstance(error, ValueError):
        return "its answer doesn't fit the protocol"
    return f"{type(error).__name__}: {shown(str(error)[:_WORDS])}"


def _quiet() -> None:
    """The library reports what servers do wrong through ``logging``, which would print it in the middle of a run."""
    for name in ("mcp", "client"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
