"""A tunnel: bytes in both directions with back pressure and half-close, until both ends or silence (BND-13)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

__all__ = ["IDLE_S", "leave", "relay"]

IDLE_S: Final = 600.0
"""Seconds without a byte in either direction after which a connection is given up."""
HALF_CLOSED_S: Final = 60.0
"""The same once one side has said that it sends no more."""

_CHUNK: Final = 64 * 1024
_FLUSH_S: Final = 60.0
_LINGER_S: Final = 1.0
_LINGER_BYTES: Final = 1024 * 1024


async def relay(
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    *,
    idle_s: float = IDLE_S,
) -> bool:
    """Carry bytes both ways until both sides have ended, one breaks, or nothing moves for ``idle_s`` seconds.

    Whether both sides have ended in order.
    """
    loop = asyncio.get_running_loop()
    open_ways = 2
    with contextlib.suppress(OSError, TimeoutError, ExceptionGroup):
        async with asyncio.timeout(idle_s) as limit:

            def moved() -> None:
                limit.reschedule(loop.time() + (idle_s if open_ways == 2 else min(idle_s, HALF_CLOSED_S)))

            async def one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                nonlocal open_ways
                await _pump(reader, writer, moved)
                open_ways -= 1
                moved()

            async with asyncio.TaskGroup() as both:
                both.create_task(one_way(client[0], server[1]))
                both.create_task(one_way(server[0], client[1]))
        return True
    return False


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, moved: Callable[[], None]) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
        moved()
    if writer.can_write_eof():
        writer.write_eof()


async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End a connection so that the last bytes written still arrive; its faults are over with it.

    What the other side still sends is read for a moment: closing on unread bytes resets the connection, and the
    reply is lost with it.
    """
    try:
        async with asyncio.timeout(_FLUSH_S):
            writer.transport.set_write_buffer_limits(0)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except (OSError, TimeoutError):
        writer.transport.abort()
        return
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            left = _LINGER_BYTES
            while left > 0 and (data := await reader.read(_CHUNK)):
                left -= len(data)
    writer.close()
