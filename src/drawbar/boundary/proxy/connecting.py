"""A connection to the address that was checked, and to no other: nothing here knows a name (BND-13)."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

__all__ = ["connect_to"]

_EACH_S: Final = 8.0
_ALL_S: Final = 25.0
_MOST: Final = 8


async def connect_to(addresses: Sequence[str], port: int) -> socket.socket:
    """Connect to the first address that answers.

    Raises:
        OSError: when none does; ``TimeoutError`` when the last one didn't answer in time.
    """
    fault: OSError = OSError("there is no address to connect to")
    end = asyncio.get_running_loop().time() + _ALL_S
    for address in addresses[:_MOST]:
        left = min(_EACH_S, end - asyncio.get_running_loop().time())
        if left <= 0:
            break
        try:
            return await _connect(address, port, left)
        except TimeoutError:
            fault = TimeoutError(f"no connection to {address} within {_EACH_S:g} s")
        except OSError as error:
            fault = error
    raise fault


async def _connect(address: str, port: int, limit_s: float) -> socket.socket:
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(limit_s):
            await asyncio.get_running_loop().sock_connect(made, (address, port))
    except BaseException:
        made.close()
        raise
    return made
