"""Names to addresses, by the machine's own resolver and within a time limit."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

__all__ = ["RESOLVE_LIMIT_S", "Resolver", "system_resolver"]

RESOLVE_LIMIT_S: Final = 10.0
_AT_ONCE: Final = 16

Resolver = Callable[[str], Awaitable[Sequence[str]]]
"""A host name to the texts of its addresses, best first; raises ``OSError`` when it has none."""


def system_resolver() -> Resolver:
    """A resolver that asks the C library, a bounded number of names at a time.

    Each name is looked up in a thread of its own that nothing waits for: a lookup that hangs takes neither the
    event loop's pool nor the program's exit with it.
    """
    free = asyncio.Semaphore(_AT_ONCE)

    async def resolve(host: str) -> Sequence[str]:
        async with free, asyncio.timeout(RESOLVE_LIMIT_S):
            return await _look_up(host)

    return resolve


async def _look_up(host: str) -> list[str]:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def settle(found: list[str], error: OSError | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(found)

    def ask() -> None:
        found: list[str] = []
        fault: OSError | None = None
        try:
            for *_, address in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
                found.append(str(address[0]))
        except (OSError, UnicodeError) as error:
            fault = error if isinstance(error, OSError) else OSError(str(error))
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, list(dict.fromkeys(found)), fault)

    threading.Thread(target=ask, name="resolve", daemon=True).start()
    return await answer
