"""One plain HTTP request to the server that was decided on, and its one reply.

Both sides are framed anew from parsed events, so no byte of a request reaches the server but the request that was
judged. A connection to a server carries one request and ends; so does the client's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Set
from typing import Any, Final

import h11

from drawbar.boundary.hosts import join_host
from drawbar.boundary.proxy.heads import BadRequest, Target
from drawbar.boundary.proxy.relay import IDLE_S

__all__ = ["forward"]

_CHUNK: Final = 64 * 1024
_HOP: Final = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings", b"expect"),
    }
)
"""Fields that are between two neighbours only."""
_RELAYED: Final = frozenset(
    {
        *(b"forwarded", b"via", b"x-real-ip", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto"),
        *(b"x-forwarded-port", b"x-forwarded-server", b"x-original-url", b"x-original-host", b"x-rewrite-url"),
        *(b"x-host", b"x-http-host-override", b"x-client-ip", b"true-client-ip", b"cf-connecting-ip"),
    }
)
"""Fields by which a relay speaks for somebody else; a server may take another host's name from one."""

_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})

Fields = list[tuple[bytes, bytes]]


async def forward(
    client: h11.Connection,
    request: h11.Request,
    target: Target,
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    *,
    idle_s: float = IDLE_S,
) -> None:
    """Send ``request`` upstream and its reply back.

    Args:
        client: has received the request's head; bodies are read from ``streams`` through it.

    Raises:
        BadRequest: when the server's reply can't be carried and nothing of it was sent yet.
        OSError, TimeoutError, h11.ProtocolError: the exchange broke off midway.
    """
    async with asyncio.timeout(None) as limit:
        await _Exchange(client, request, streams, upstream, limit, idle_s).carry(target)


class _Exchange:
    """One request and its reply, between two parsers."""

    def __init__(
        self,
        client: h11.Connection,
        request: h11.Request,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        limit: asyncio.Timeout,
        idle_s: float,
    ) -> None:
        self._client = client
        self._request = request
        self._from_client, self._to_client = streams
        self._from_server, self._to_server = upstream
        self._server = h11.Connection(h11.CLIENT, max_incomplete_event_size=_CHUNK)
        self._limit = limit
        self._idle_s = idle_s
        self._begun = False

    async def carry(self, target: Target) -> None:
        self._moved()
        assert target.path is not None
        head = h11.Request(method=self._request.method, target=target.path, headers=_sent(self._request, target))
        await self._to(self._to_server, self._server.send(head))
        if self._client.they_are_waiting_for_100_continue:
            ready = h11.InformationalResponse(status_code=100, headers=[])
            await self._to(self._to_client, self._client.send(ready))
        sending = asyncio.create_task(self._send_body())
        replying = asyncio.create_task(self._reply())
        try:
            await asyncio.wait({sending, replying}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and not replying.done() and (broken := sending.result()) is not None:
                raise BadRequest(400, f"the request's body can't be read ({broken})") if not self._begun else broken
            await replying
        finally:
            for task in (sending, replying):
                task.cancel()
            await asyncio.gather(sending, replying, return_exceptions=True)

    async def _send_body(self) -> Exception | None:
        """The request's body, as fast as the server takes it; what is wrong with what the client sends."""
        events = self._events(self._client, self._from_client)
        while True:
            try:
                event = await anext(events)
            except (OSError, h11.RemoteProtocolError) as error:
                return error
            # Trailers would be fields that nobody has looked at.
            event = h11.EndOfMessage() if isinstance(event, h11.EndOfMessage) else event
            try:
                await self._to(self._to_server, self._server.send(event))
            except OSError:
                return None  # a server may reply, and hang up, before it has read everything
            if isinstance(event, h11.EndOfMessage):
                return None

    async def _reply(self) -> None:
        """The server's reply, which may come before the request's body is through."""
        try:
            async for event in self._events(self._server, self._from_server):
                if isinstance(event, h11.InformationalResponse):
                    continue
                if isinstance(event, h11.Response):
                    self._begun = True
                    fields = _returned(event, self._request)
                    event = h11.Response(status_code=event.status_code, reason=event.reason, headers=fields)
                elif isinstance(event, h11.EndOfMessage):
                    event = h11.EndOfMessage()
                await self._to(self._to_client, self._client.send(event))
        except h11.RemoteProtocolError as error:
            if self._begun:
                raise
            raise BadRequest(502, f"the server's reply is no HTTP that could be passed on ({error})") from error

    async def _events(self, side: h11.Connection, reader: asyncio.StreamReader) -> AsyncGenerator[Any]:
        """Events of one message up to its end."""
        while True:
            event: Any = side.next_event()
            if event is h11.NEED_DATA:
                side.receive_data(await reader.read(_CHUNK))
                self._moved()
            elif event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                raise h11.RemoteProtocolError("it ended early")
            else:
                yield event
                if isinstance(event, h11.EndOfMessage):
                    return

    async def _to(self, writer: asyncio.StreamWriter, data: bytes | None) -> None:
        if data:
            writer.write(data)
            await writer.drain()
        self._moved()

    def _moved(self) -> None:
        self._limit.reschedule(asyncio.get_running_loop().time() + self._idle_s)


def _sent(request: h11.Request, target: Target) -> Fields:
    dropped = _HOP | _RELAYED | _named(request.headers) | {b"host"}
    host = target.host if target.port == 80 else join_host(target.host, target.port)
    return [
        (b"Host", host.encode("ascii")),
        *_kept(request.headers, dropped - _FRAMING),
        (b"Connection", b"close"),
    ]


def _returned(response: h11.Response, request: h11.Request) -> Fields:
    dropped = _HOP | _named(response.headers)
    chunked = any(name == b"transfer-encoding" for name, _ in response.headers)
    if chunked and bytes(request.method) != b"HEAD":
        # The parser has gone by the chunks; a length beside them would be a second reading.
        dropped |= {b"content-length"}
    else:
        dropped -= {b"content-length"}
    return [*_kept(response.headers, dropped), (b"Connection", b"close")]


def _kept(headers: Any, dropped: Set[bytes]) -> Fields:
    """The fields that go on, spelt as they came."""
    return [(name, value) for name, value in headers.raw_items() if name.lower() not in dropped]


def _named(headers: Any) -> Set[bytes]:
    """Fields that ``Connection`` names are between neighbours too."""
    return {
        part.strip().lower() for name, value in headers if name == b"connection" for part in bytes(value).split(b",")
    }
