"""A small HTTP/1.1 server on 127.0.0.1 that can misbehave on purpose and notices when its client leaves."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import h11

__all__ = ["Handler", "HttpRequest", "HttpServer", "Responder"]

READ_BYTES: Final = 256 * 1024


@dataclass(slots=True)
class HttpRequest:
    """One request, read whole. Header names are lower case; ``received_at`` is monotonic seconds."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    received_at: float = field(default_factory=time.monotonic)


class Responder:
    """Answers one request, piece by piece.

    Attributes:
        disconnected_at: monotonic seconds at which the client left before the answer's end; None if it stayed.
        ended_at: monotonic seconds at which the answer had been sent whole.
    """

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self.disconnected_at: float | None = None
        self.ended_at: float | None = None

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Send status and headers; without a ``content-length`` the body is sent in chunks."""
        import h11

        fields = list(headers.items())
        if "content-length" not in headers:
            fields.append(("transfer-encoding", "chunked"))
        await self._connection.send(h11.Response(status_code=status, headers=fields))

    async def send(self, data: bytes) -> None:
        """Send a piece of the body, written at once."""
        import h11

        if data:
            await self._connection.send(h11.Data(data=data))

    async def end(self) -> None:
        """The answer is whole; the connection may be used again."""
        import h11

        await self._connection.send(h11.EndOfMessage())
        self.ended_at = time.monotonic()

    async def whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """A complete answer."""
        await self.start(status, {**headers, "content-length": str(len(body))})
        await self.send(body)
        await self.end()

    async def cut(self, *, reset: bool) -> None:
        """Close the connection in the middle, as a failing network does; ``reset`` with a TCP reset."""
        await self._connection.cut(reset=reset)


Handler = Callable[[HttpRequest, Responder], Awaitable[None]]


class HttpServer:
    """Serves ``handler`` until closed.

    Args:
        handler: answers each request; it is cancelled when its client leaves.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self, port: int = 0) -> None:
        """Listen on 127.0.0.1; port 0 takes a free one."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, limit=READ_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and drop every connection."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await _Connection(reader, writer).serve(self._handler)
        except (ConnectionError, asyncio.CancelledError):
            # Either end hung up, or the server is closing: there is nobody left to tell.
            pass
        finally:
            self._connections.discard(task)
            writer.transport.abort()


class _Connection:
    """One connection: requests one after another, each answered while the client is watched."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import h11

        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)
        self._cut = False

    async def serve(self, handler: Handler) -> None:
        import h11

        while (request := await self._next_request()) is not None:
            responder = Responder(self)
            stayed = await self._answer(handler, request, responder)
            if not stayed or self._cut or self._http.our_state is not h11.DONE:
                return
            if self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def send(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        data = self._http.send(event)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportArgumentType, reportCallIssue]
        if data:
            self._writer.write(data)  # pyright: ignore[reportUnknownArgumentType]
            await self._writer.drain()

    async def cut(self, *, reset: bool) -> None:
        self._cut = True
        if reset:
            sock: Any = self._writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._writer.transport.abort()
        else:
            self._writer.close()
            await self._writer.wait_closed()

    async def _next_request(self) -> HttpRequest | None:
        import h11

        head: h11.Request | None = None
        body: list[bytes] = []
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError:
                return None
            if event is h11.NEED_DATA:
                if head is not None and self._http.they_are_waiting_for_100_continue:
                    self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                data = await self._read()
                if not data and head is None:
                    return None
                self._http.receive_data(data)
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
                return HttpRequest(head.method.decode(), head.target.decode("latin-1"), headers, b"".join(body))
            else:
                return None

    async def _answer(self, handler: Handler, request: HttpRequest, responder: Responder) -> bool:
        """Run the handler and watch the client meanwhile; False when it left."""
        answering = asyncio.ensure_future(handler(request, responder))
        watching = asyncio.ensure_future(self._read())
        try:
            while True:
                await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
                if answering.done():
                    answering.result()
                    return True
                data = watching.result()
                if not data:
                    responder.disconnected_at = time.monotonic()
                    return False
                self._http.receive_data(data)
                watching = asyncio.ensure_future(self._read())
        finally:
            for task in (answering, watching):
                task.cancel()
            await asyncio.gather(answering, watching, return_exceptions=True)

    async def _read(self) -> bytes:
        try:
            return await self._reader.read(READ_BYTES)
        except ConnectionError:
            return b""
