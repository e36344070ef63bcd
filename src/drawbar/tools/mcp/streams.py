"""A server's two directions, over standard input and output or over HTTP, as the library takes them (PRO-3).

A stdio server is a program that a person named, so it runs as the person's own: outside the sandbox, with an
environment without secrets but those its settings name, the harness's folders masked, and a process tree that ends
with the run (BND-10, BND-16, BND-18).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from drawbar.boundary.shown import shown
from drawbar.contracts.boundary import CommandRequest, CommandResult, CommandRunner, Streams
from drawbar.tools.mcp.framing import Flooded, Framer
from drawbar.tools.mcp.settings import ServerSettings

if TYPE_CHECKING:
    from mcp.client import _transport as wire

__all__ = ["Outcome", "http_streams", "stdio_streams"]

_GRACE_S: Final = 0.5
"""What a server gets to end by itself once its input is closed."""
_KEPT_STDERR: Final = 2_000
_MOST_MESSAGES: Final = 200_000
_LARGEST_RESPONSE: Final = 64 << 20


class Outcome:
    """What became of a server, for whoever has to say why there was no answer."""

    def __init__(self) -> None:
        self.fault = ""
        self._stderr = b""

    def printed(self, chunk: bytes) -> None:
        self._stderr = (self._stderr + chunk)[-_KEPT_STDERR:]

    @property
    def said(self) -> str:
        """The fault, and the end of what the program printed on standard error."""
        stderr = shown(self._stderr.decode("utf-8", "replace").strip())
        return "; ".join(part for part in (self.fault, stderr and f"on standard error it said: {stderr}") if part)


@asynccontextmanager
async def stdio_streams(
    server: ServerSettings, values: Mapping[str, str], commands: CommandRunner, outcome: Outcome
) -> AsyncGenerator[wire.TransportStreams]:
    """Start the program; on leaving, it and everything it started is gone."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    loop = asyncio.get_running_loop()
    inbox, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outbox = anyio.create_memory_object_stream[SessionMessage](0)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    framer = Framer()
    count = 0

    async def deliver(messages: list[dict[str, Any]]) -> None:
        for message in messages:
            try:
                parsed = jsonrpc_message_adapter.validate_python(message, by_name=False)
            except (ValueError, RecursionError):
                continue
            await inbox.send(SessionMessage(parsed))

    def take(chunk: bytes) -> None:
        nonlocal count
        try:
            messages = framer.feed(chunk)
            count += len(messages)
            if count > _MOST_MESSAGES:
                raise Flooded(f"it sent more than {_MOST_MESSAGES:,} messages")
        except Flooded as flood:
            outcome.fault = str(flood)
            loop.call_soon_threadsafe(inbox.close)
            raise
        if messages:
            asyncio.run_coroutine_threadsafe(deliver(messages), loop).result()

    async def send() -> None:
        with contextlib.suppress(OSError, anyio.ClosedResourceError):
            async for message in outbox:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await loop.sock_sendall(ours, text.encode("utf-8", "replace") + b"\n")

    async def run() -> None:
        request = CommandRequest(
            argv=server.argv,
            scope="outside",
            limit_s=math.inf,
            cwd=server.cwd or Path.home(),
            env=tuple(values.items()),
            streams=Streams(stdout=take, stderr=outcome.printed, stdin_fd=theirs.fileno()),
        )
        try:
            result = await commands.run(request)
            outcome.fault = outcome.fault or _ended(result)
        except Exception as error:
            outcome.fault = outcome.fault or f"it can't be started: {error}"
        finally:
            inbox.close()

    running, sending = asyncio.create_task(run()), asyncio.create_task(send())
    try:
        yield read, write
    finally:
        sending.cancel()
        ours.close()
        for stream in (read, write, inbox, outbox):
            stream.close()
        await asyncio.wait({running}, timeout=_GRACE_S)
        running.cancel()
        await asyncio.wait({running, sending})
        theirs.close()


def _ended(result: CommandResult) -> str:
    if result.exit_code is None:
        return f"it can't be started: {result.denial or result.output}"
    return f"it ended with exit code {result.exit_code}"


@asynccontextmanager
async def http_streams(
    server: ServerSettings, values: Mapping[str, str], outcome: Outcome
) -> AsyncGenerator[wire.TransportStreams]:
    """Connect to an address over the person's own network; a response may hold 64 MiB."""
    from mcp.client.streamable_http import streamable_http_client

    from drawbar.models.bounded_client import bounded_client

    def look(status: int) -> None:
        if status in (401, 403):
            outcome.fault = f"it answered {status}: it wants a login; give it a token under `headers` in its settings"

    client = bounded_client(values, silence_s=server.timeout_s, largest=_LARGEST_RESPONSE, on_status=look)
    async with client, streamable_http_client(server.url, http_client=client) as streams:
        yield streams
