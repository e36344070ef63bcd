"""One client connection: its head, the decision, and then a tunnel, one forwarded request, or a refusal in words."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from drawbar.boundary.proxy.connecting import connect_to
from drawbar.boundary.proxy.decisions import Decision
from drawbar.boundary.proxy.heads import HEAD_LIMIT_BYTES, BadHost, BadRequest, Target, read_head, target_of
from drawbar.boundary.proxy.relay import leave, relay

if TYPE_CHECKING:
    import h11

__all__ = ["Decide", "serve"]

Decide = Callable[[str, int], Awaitable[Decision]]

_STATUS: Final = {"not_listed": 403, "refused_address": 403, "no_host": 400, "no_address": 502, "unrecorded": 503}
_REASONS: Final = {
    400: "Bad request",
    403: "Blocked by Drawbar",
    405: "Method not allowed",
    408: "Too slow",
    431: "Header too long",
    501: "Not supported",
    502: "Could not connect",
    503: "Could not be recorded",
    504: "No answer in time",
}
_UPSTREAM_BUFFER: Final = 256 * 1024


async def serve(accepted: socket.socket, decide: Decide) -> None:
    """Serve one connection to its end; takes the socket over.

    Raises:
        asyncio.CancelledError: after both sides were cut off.
    """
    try:
        reader, writer = await asyncio.open_connection(sock=accepted, limit=HEAD_LIMIT_BYTES)
    except BaseException as error:
        accepted.close()
        if isinstance(error, OSError):
            return
        raise
    try:
        try:
            await _carry_out(reader, writer, decide)
        except BadRequest as error:
            writer.write(_refusal(error.status, error.message))
        await leave(reader, writer)
    except OSError:
        writer.transport.abort()
    except BaseException:
        writer.transport.abort()
        raise


async def _carry_out(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, decide: Decide) -> None:
    import h11

    head = await read_head(reader)
    if head is None:
        return
    client = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT_BYTES)
    try:
        client.receive_data(head)
        request = client.next_event()
    except h11.RemoteProtocolError as error:
        raise BadRequest(error.error_status_hint, f"the request can't be read: {error}") from error
    if not isinstance(request, h11.Request):
        raise BadRequest(400, "the request can't be read")
    try:
        target = target_of(request)
    except BadHost as error:
        await decide(error.text, 0)
        raise
    if target.path is not None and _wants_websocket(request):
        raise BadRequest(501, "a WebSocket goes through a tunnel (CONNECT), not through a plain request")
    upstream = await _connected(await decide(target.host, target.port), target)
    try:
        if target.path is None:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            if await relay((reader, writer), upstream):
                await leave(*upstream)
            else:
                writer.transport.abort()
        else:
            await _forwarded(client, request, target, (reader, writer), upstream)
    finally:
        upstream[1].transport.abort()


async def _forwarded(client: h11.Connection, request: h11.Request, target: Target, streams: Any, upstream: Any) -> None:
    import h11

    from drawbar.boundary.proxy.forward import forward

    # A client that can't be told any more what went wrong is cut off, never given half a reply as a whole one.
    try:
        await forward(client, request, target, streams, upstream)
    except (OSError, TimeoutError, h11.ProtocolError) as error:
        if client.our_state is h11.SEND_RESPONSE:
            status = 504 if isinstance(error, TimeoutError) else 502
            raise BadRequest(status, f"the connection to {target.host} broke off ({error or 'no answer'})") from error
        streams[1].transport.abort()


async def _connected(decision: Decision, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if not decision.allowed:
        raise BadRequest(_STATUS[decision.outcome], decision.message)
    try:
        connected = await connect_to(decision.addresses, target.port)
    except TimeoutError as error:
        raise BadRequest(504, f"{target.host}:{target.port} didn't answer ({error})") from error
    except OSError as error:
        raise BadRequest(
            502, f"{target.host}:{target.port} could not be reached ({error.strerror or error})"
        ) from error
    with contextlib.ExitStack() as undo:
        undo.callback(connected.close)
        streams = await asyncio.open_connection(sock=connected, limit=_UPSTREAM_BUFFER)
        undo.pop_all()
    return streams


def _wants_websocket(request: h11.Request) -> bool:
    return any(name == b"upgrade" and b"websocket" in bytes(value).lower() for name, value in request.headers)


def _refusal(status: int, message: str) -> bytes:
    """A reply in plain words; the first of them stand in the status line, which is all that many programs show."""
    body = f"drawbar: {message}\n".encode()
    first = message.encode("ascii", "replace").decode().split(". ")[0]
    reason = "".join(char if " " <= char <= "~" else " " for char in f"{_REASONS[status]}: {first}")[:200]
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\nX-Drawbar: refused\r\n\r\n"
    )
    return head.encode() + body
