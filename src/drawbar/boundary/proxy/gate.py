"""``NetworkProxy``: the proxy of one run, and the sandboxes that it is attached to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from drawbar.boundary.hosts import AllowList
from drawbar.boundary.proxy.connecting import connect_to
from drawbar.boundary.proxy.decisions import Decider, Decision
from drawbar.boundary.proxy.entry import listen_inside
from drawbar.boundary.proxy.ledger import Ledger
from drawbar.boundary.proxy.resolver import Resolver, system_resolver
from drawbar.boundary.proxy.service import serve
from drawbar.boundary.proxy.variables import proxy_variables
from drawbar.contracts.errors import NotPermitted, SandboxUnavailable
from drawbar.contracts.events.base import Payload

__all__ = ["NetworkProxy"]

_AT_ONCE: Final = 64
"""Connections of one sandbox at a time; more wait to be accepted."""
_PAUSE_S: Final = 0.2


class NetworkProxy:
    """The allow-list proxy of one run (a ``NetworkGate``): default deny, each decision recorded.

    Args:
        listed: the hosts of the run's policy.
        emit: appends an event to the run's log; what can't be recorded isn't connected.
        resolver: looks names up; None asks the machine's resolver.

    Raises:
        HostRefused: for an entry that can't be one.
    """

    def __init__(
        self, listed: Sequence[str], emit: Callable[[Payload], Any], *, resolver: Resolver | None = None
    ) -> None:
        self._listed = tuple(listed)
        AllowList(self._listed)
        self._ledger = Ledger(emit)
        self._decider = Decider(system_resolver() if resolver is None else resolver, self._ledger.record)
        self._attached: set[_Attached] = set()
        self._closed = False

    def environment(self, hosts: tuple[str, ...] = ()) -> tuple[tuple[str, str], ...]:
        """The variables that tell programs inside of the proxy; ``hosts`` are those of the one command."""
        return proxy_variables((*self._listed, *hosts))

    async def attach(self, init: int, *, hosts: tuple[str, ...], call_id: str) -> _Attached:
        """Give the sandbox whose first process is ``init`` a way to ``hosts``, and to nothing else.

        Raises:
            SandboxUnavailable: its network can't be entered, or the run is over; nothing was opened.
            HostRefused: for a host that can't be one.
        """
        listed = AllowList(hosts)
        if self._closed:
            raise SandboxUnavailable("the run is over, so nothing is connected any more")
        listener = await listen_inside(init)
        if self._closed:
            listener.close()
            raise SandboxUnavailable("the run is over, so nothing is connected any more")
        attached = _Attached(listener, self._decider, self._ledger, listed, call_id, self._attached.discard)
        self._attached.add(attached)
        return attached

    async def connect(self, host: str, port: int, *, hosts: tuple[str, ...], call_id: str) -> socket.socket:
        """A connection of the harness's own, by the same decision and the same checked addresses.

        Args:
            hosts: that this one call may reach besides the policy's own.

        Raises:
            NotPermitted: the host isn't listed or leads to an address that is refused; the message says which.
            OSError: it has no address, or none of them answers.
        """
        decision = await self.decide(host, port, hosts=hosts, call_id=call_id)
        if decision.outcome == "no_address":
            raise OSError(decision.message)
        if not decision.allowed:
            raise NotPermitted(decision.message, host=decision.host, port=port, reason=decision.reason)
        return await connect_to(decision.addresses, port)

    async def decide(self, host: str, port: int, *, hosts: tuple[str, ...], call_id: str) -> Decision:
        """Decide about one connection, and record it, without making it."""
        return await self._decider.decide(AllowList((*self._listed, *hosts)), host, port, call_id)

    async def close(self) -> None:
        """End every connection at once and write what still waits to be written (RUN-10)."""
        self._closed = True
        await asyncio.gather(*(attached.close() for attached in list(self._attached)))
        self._ledger.close()


class _Attached:
    """One sandbox's listener and the connections that came through it (an ``Attachment``)."""

    def __init__(
        self,
        listener: socket.socket,
        decider: Decider,
        ledger: Ledger,
        listed: AllowList,
        call_id: str,
        forget: Callable[[_Attached], None],
    ) -> None:
        self._listener = listener
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._decider = decider
        self._ledger = ledger
        self._listed = listed
        self._call_id = call_id
        self._forget = forget
        self._serving: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept(), name="proxy")

    @property
    def call_id(self) -> str:
        """The tool call whose connections are being decided now.

        Setting another one ends the connections of the call before it, whose processes are gone.
        """
        return self._call_id

    @call_id.setter
    def call_id(self, value: str) -> None:
        if value == self._call_id:
            return
        for task in self._serving:
            task.cancel()
        self._ledger.end_call(self._call_id)
        self._call_id = value

    async def close(self) -> None:
        """Take the sandbox's way out away, with every connection; safe to call twice."""
        tasks = [self._accepting, *self._serving]
        for task in tasks:
            task.cancel()
        self._listener.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._ledger.end_call(self._call_id)
        self._forget(self)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            async with self._free:
                pass  # there is room for one more
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError:
                await asyncio.sleep(_PAUSE_S)  # out of descriptors, or the client left at once
                continue
            task = asyncio.create_task(self._serve(accepted), name="proxy connection")
            self._serving.add(task)
            task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._serving.discard(task)
        if not task.cancelled():
            task.exception()  # a defect ends its own connection only

    async def _serve(self, accepted: socket.socket) -> None:
        call_id = self._call_id
        async with self._free:
            await serve(accepted, lambda host, port: self._decider.decide(self._listed, host, port, call_id))
