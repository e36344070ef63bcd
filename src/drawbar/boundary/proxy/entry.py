"""The way into a sandbox's network: a listening socket there that this process accepts from (BND-10, BND-13).

Nothing runs inside for it and nothing is bound into it: the sandbox sees a listener on its loopback and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
import sys
from pathlib import Path
from typing import Final

from drawbar.boundary.proxy.listener import PORT
from drawbar.contracts.errors import SandboxUnavailable

__all__ = ["PORT", "listen_inside"]

_OWNER_OF: Final = 0xB701
"""NS_GET_USERNS: the user namespace that owns a namespace."""
_LIMIT_S: Final = 10.0


async def listen_inside(init: int) -> socket.socket:
    """A socket that listens at 127.0.0.1:3128 in the network of process ``init``, not blocking.

    Raises:
        SandboxUnavailable: naming the cause; nothing was opened.
    """
    with contextlib.ExitStack() as opened:
        try:
            network = _opened(f"/proc/{init}/ns/net", opened)
            if _same(network, "/proc/self/ns/net"):
                raise _refused("the sandbox has no network of its own")
            owner = fcntl.ioctl(network, _OWNER_OF)
            opened.callback(os.close, owner)
        except OSError as error:
            raise _refused(f"its network can't be entered ({error.strerror})") from error
        ours, theirs = socket.socketpair()
        opened.enter_context(ours)
        opened.enter_context(theirs)
        fds = [theirs.fileno(), network, *([] if _same(owner, "/proc/self/ns/user") else [owner])]
        return await _ask(fds, ours, theirs)


async def _ask(fds: list[int], ours: socket.socket, theirs: socket.socket) -> socket.socket:
    program = Path(__file__).with_name("listener.py")
    argv = [sys.executable, "-I", "-S", str(program), *map(str, fds)]
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, pass_fds=fds, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL, env={}, cwd="/",
        )  # fmt: skip
    except OSError as error:
        raise _refused(f"{sys.executable} can't be started ({error.strerror})") from error
    theirs.close()
    listener: socket.socket | None = None
    try:
        async with asyncio.timeout(_LIMIT_S):
            word, listener = await _answer(ours)
            await process.wait()
    except TimeoutError as error:
        raise _refused(f"entering its network took over {_LIMIT_S:g} s") from error
    except BaseException:
        if listener is not None:
            listener.close()
        raise
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(process.wait())
    if listener is None:
        number = int(word) if word.isdigit() else 0
        if number == errno.EADDRINUSE:
            raise _refused(f"port {PORT} is taken inside")
        raise _refused(f"its network can't be entered ({os.strerror(number) if number else 'the helper failed'})")
    return listener


async def _answer(ours: socket.socket) -> tuple[bytes, socket.socket | None]:
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    ours.setblocking(False)
    loop.add_reader(ours, lambda: readable.done() or readable.set_result(None))
    try:
        await readable
    finally:
        loop.remove_reader(ours)
    word, fds, _flags, _address = socket.recv_fds(ours, 32, 1, socket.MSG_CMSG_CLOEXEC)
    if not fds:
        return word, None
    listener = socket.socket(fileno=fds[0])
    listener.setblocking(False)
    return word, listener


def _opened(path: str, stack: contextlib.ExitStack) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    stack.callback(os.close, fd)
    return fd


def _same(fd: int, path: str) -> bool:
    one, other = os.fstat(fd), os.stat(path)
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def _refused(cause: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"The sandbox can't be given its way to the listed hosts: {cause}. Nothing was run; without hosts the command "
        "runs, with no network.",
        cause=cause,
        cure="run it without hosts",
    )
