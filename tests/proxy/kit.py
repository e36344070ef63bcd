"""What the proxy's tests share: servers of the machine, clients of the proxy, and sandboxes with a way out."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drawbar.boundary.bubblewrap import Bubblewrap
from drawbar.boundary.hosts import AllowList
from drawbar.boundary.proxy import NetworkProxy
from drawbar.boundary.proxy.decisions import Decider, Decision
from drawbar.boundary.proxy.ledger import Ledger
from drawbar.boundary.proxy.service import serve
from drawbar.boundary.roots import pin_root
from drawbar.boundary.supervisor import GO, first_process
from drawbar.contracts.boundary import SandboxPlan
from drawbar.contracts.events.lifecycle import NetworkDecided

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """A server on the machine's loopback that keeps every byte it was sent."""

    port: int = 0
    heard: list[bytes] = field(default_factory=list[bytes])
    connections: int = 0

    @property
    def all_heard(self) -> bytes:
        return b"".join(self.heard)


@asynccontextmanager
async def serving(answer: Answer | bytes) -> AsyncGenerator[Server]:
    """A server that answers each connection as told; bytes are sent after the first header block."""
    server = Server()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        try:
            if isinstance(answer, bytes):
                server.heard.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(answer)
                await writer.drain()
                writer.write_eof()
                while data := await reader.read(65536):
                    server.heard.append(data)
            else:
                await answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


def reply(body: bytes = b"hello", status: str = "200 OK", *fields: str) -> bytes:
    """A whole HTTP reply."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass
class Names:
    """A resolver of the test's own, with what it was asked."""

    table: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    asked: list[str] = field(default_factory=list[str])

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.table:
            raise OSError("no such name")
        return self.table[host]


@dataclass
class Proxied:
    """The proxy's service on a loopback port, without a sandbox before it."""

    port: int
    events: list[NetworkDecided]
    ledger: Ledger

    async def ask(self, raw: bytes, *, more: Iterable[bytes] = (), end: bool = False) -> bytes:
        """Everything that comes back for these bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(raw)
            for piece in more:
                await asyncio.sleep(0.01)
                writer.write(piece)
            if end:
                writer.write_eof()
            return await asyncio.wait_for(reader.read(-1), 20)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


@asynccontextmanager
async def proxied(
    *listed: str, names: Names | None = None, emit: Callable[[Any], Any] | None = None
) -> AsyncGenerator[Proxied]:
    """The proxy's service for ``listed``, at a port of the machine's loopback."""
    events: list[NetworkDecided] = []
    ledger = Ledger(events.append if emit is None else emit)
    decider = Decider(names or Names(), ledger.record)
    allowed = AllowList(listed)
    tasks: set[asyncio.Task[None]] = set()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)

    async def decide(host: str, port: int) -> Decision:
        return await decider.decide(allowed, host, port, "c_1")

    async def accept() -> None:
        while True:
            accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
            tasks.add(asyncio.create_task(serve(accepted, decide)))

    accepting = asyncio.create_task(accept())
    try:
        yield Proxied(listener.getsockname()[1], events, ledger)
    finally:
        for task in (accepting, *tasks):
            task.cancel()
        failed = await asyncio.gather(accepting, *tasks, return_exceptions=True)
        listener.close()
        ledger.close()
        faults = [error for error in failed if error is not None and not isinstance(error, asyncio.CancelledError)]
        assert not faults, faults


class Inside:
    """A sandbox whose supervisor waits: attach something, then let its command go."""

    def __init__(self, root: Path, private: Path, command: str, env: dict[str, str] | None = None) -> None:
        pinned = pin_root(root, hidden=[private])
        values = {"PATH": os.environ["PATH"], "HOME": "/tmp", "TMPDIR": "/tmp", **(env or {})}
        plan = SandboxPlan(
            scope="workspace", root=pinned, cwd=pinned.path, private_tmp=private, env=tuple(values.items())
        )
        wrapped = Bubblewrap().wrap(plan, ["/bin/bash", "-c", command])
        assert wrapped.talk_fd is not None
        assert wrapped.info_fd is not None
        self._info = wrapped.info_fd
        self._talk = socket.socket(fileno=wrapped.talk_fd)
        self._process = subprocess.Popen(
            wrapped.argv,
            env=wrapped.env,
            cwd=wrapped.cwd,
            pass_fds=wrapped.pass_fds,
            stdin=wrapped.control_fd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        wrapped.close()

    async def ready(self) -> int:
        """Wait until it is set up; the process id of its first process, seen from here."""
        self._talk.settimeout(10)
        said = await asyncio.to_thread(self._talk.recv, 64)
        assert b"ready" in said, said
        init = first_process(os.pread(self._info, 4096, 0))
        assert init is not None
        return init

    def go(self) -> None:
        self._talk.send(GO)

    async def output(self) -> str:
        """Let the command go and wait for its end."""
        self.go()
        out, _ = await asyncio.to_thread(self._process.communicate, None, 90)
        return out.decode("utf-8", "replace")

    def close(self) -> None:
        self._talk.close()
        os.close(self._info)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


@asynccontextmanager
async def inside(
    proxy: NetworkProxy | None,
    root: Path,
    private: Path,
    command: str,
    *,
    hosts: tuple[str, ...] = (),
    call: str = "c_1",
) -> AsyncGenerator[Inside]:
    """A sandbox with a way to ``hosts`` through ``proxy``, its command still held back."""
    env = dict(proxy.environment(hosts)) if proxy is not None else {}
    box = Inside(root, private, command, env)
    try:
        init = await box.ready()
        if proxy is None:
            yield box
            return
        attached = await proxy.attach(init, hosts=hosts, call_id=call)
        try:
            yield box
        finally:
            await attached.close()
    finally:
        box.close()


def public(number: int = 1) -> str:
    """An address that passes every check; nothing connects to it in a test."""
    return str(ipaddress.ip_address("93.184.215.0") + number)


@contextlib.contextmanager
def no_leak() -> Any:
    """Within it, no descriptor of this process is left open."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) <= before
