"""A live run: the one place that its events, status, asks and end pass through (RUN-9, CON-12)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from drawbar.contracts.boundary import Approval, ApprovalAsk
from drawbar.contracts.clock import Clock, stamp
from drawbar.contracts.errors import InvalidInput, NotFound, RunNotActive, StorageFailed
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.human import ApprovalRequested, ApprovalResolved
from drawbar.contracts.events.lifecycle import ExtensionNotice, StatusChanged
from drawbar.contracts.events.usage import UsageUpdated
from drawbar.contracts.ids import new_id
from drawbar.contracts.run import RunRecord
from drawbar.contracts.status import SETTLED, edge_allowed
from drawbar.runs.settlement import Settlement, failed
from drawbar.stores.event_log import EventLog
from drawbar.stores.runs import RunStore

__all__ = ["AskHandler", "LiveRun"]

AskHandler = Callable[[ApprovalAsk, str], Awaitable[Approval | None]]
"""A surface that can ask a person: gets the ask and its approval id; None when it can't or nobody answered."""

FLUSH_EVERY_S = 0.25
FLUSH_FOR_S = 10.0
"""How long a run that can't be written tries again before it gives up and says so (QLT-6)."""


class LiveRun:
    """One run while this process owns it.

    Args:
        record: as just saved.
        log: the run's open event log, whose lock this process holds.
        store: where the record is patched.
        clock: time source.
        ask_handler: a surface of this process that can ask a person, if there is one.
        ask_timeout_s: how long an ask waits for somebody; without a handler 0 means not at all (RUN-35).
        answers_over_socket: whether another process may answer (BND-16).
        on_settled: told when the run has let go of everything, before anybody who waits for :attr:`settled`.
    """

    def __init__(
        self,
        record: RunRecord,
        log: EventLog,
        store: RunStore,
        clock: Clock,
        *,
        ask_handler: AskHandler | None = None,
        ask_timeout_s: float = 0.0,
        answers_over_socket: bool = True,
        on_settled: Callable[[LiveRun], None] = lambda _run: None,
    ) -> None:
        self.id = record.id
        self.session_id = record.session_id
        self.status: str = record.status
        self.log = log
        self.answers_over_socket = answers_over_socket
        self.unanswered = 0
        self.settled = asyncio.Event()
        self.fault: str | None = None
        self._store = store
        self._clock = clock
        self._on_settled = on_settled
        self._ask_handler = ask_handler
        self._ask_timeout_s = ask_timeout_s
        self._task: asyncio.Task[Any] | None = None
        self._stop: Settlement | None = None
        self._pending: dict[str, asyncio.Future[Approval]] = {}
        self._unwritten: deque[Payload] = deque()
        self._usage: Any = None

    # -- events -----------------------------------------------------------------------------------

    def emit(self, payload: Payload) -> None:
        """Validate, redact, chain, persist, relay.

        Raises:
            StorageFailed: the disk refused. The event is kept and written first when the disk recovers,
                so that the order holds (QLT-6); whoever emits stops acting meanwhile.
        """
        if isinstance(payload, UsageUpdated):
            self._usage = payload.totals
        self._unwritten.append(payload)
        self.flush()

    def flush(self) -> None:
        """Write what the disk refused so far, in order."""
        while self._unwritten:
            self.log.append(self._unwritten[0])
            self._unwritten.popleft()

    async def emit_durable(self, payload: Payload) -> None:
        """As :meth:`emit`, on the disk itself before it is relayed (CON-14)."""
        self.flush()
        await self.log.append_durable(payload)

    def notice(self, code: str, message: str) -> None:
        """Say something that a person should see."""
        self.emit(ExtensionNotice(source="harness", code=code, message=message))

    # -- status -----------------------------------------------------------------------------------

    def set_status(self, new: str, **record: Any) -> None:
        """Move along an allowed edge; another change ends the run as failed with the fault named (CON-3)."""
        if new == self.status:
            return
        if not edge_allowed(self.status, new):
            self.interrupt(failed(InvalidInput(f"a run can't go from {self.status} to {new}")))
            return
        old, self.status = self.status, new
        self.emit(StatusChanged(from_=old, to=new))
        self._store.patch(self.id, {"status": new, **record})

    # -- stopping ---------------------------------------------------------------------------------

    def drive(self, task: asyncio.Task[Any]) -> None:
        """The task whose cancellation stops the run."""
        self._task = task
        if self._stop is not None:
            task.cancel()

    def interrupt(self, settlement: Settlement) -> None:
        """Stop the run; the first reason given is the one recorded."""
        if self._stop is None and self.status not in SETTLED:
            self._stop = settlement
            if self._task is not None:
                self._task.cancel()

    @property
    def stop_reason(self) -> Settlement | None:
        return self._stop

    # -- asking a person --------------------------------------------------------------------------

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of the approvals that wait now."""
        return tuple(self._pending)

    async def request_approval(self, ask: ApprovalAsk) -> Approval:
        """Ask on every surface; the first answer wins and is on disk before it takes effect (SES-18).

        With nobody to take it the answer's ``decision`` is None and the run goes on (RUN-35).
        """
        approval_id = new_id("approval")
        answer: asyncio.Future[Approval] = asyncio.get_running_loop().create_future()
        self._pending[approval_id] = answer
        self.emit(
            ApprovalRequested(
                approval_id=approval_id,
                call_id=ask.call_id,
                tool=ask.tool,
                arguments=ask.arguments,
                scope=ask.scope,
                reason=ask.reason,
                rule=ask.rule.pattern if ask.rule else None,
            )
        )
        self.set_status("waiting_for_approval")
        try:
            approval = await self._wait(ask, approval_id, answer)
        finally:
            del self._pending[approval_id]
        if approval.decision is None:
            self.unanswered += 1
        await self.emit_durable(
            ApprovalResolved(
                approval_id=approval_id,
                decision=approval.decision or "deny",
                by=approval.by or "nobody",
                message=approval.message,
            )
        )
        if not self._pending:
            self.set_status("running")
        return approval

    async def _wait(self, ask: ApprovalAsk, approval_id: str, answer: asyncio.Future[Approval]) -> Approval:
        nobody = Approval(approval_id=approval_id, decision=None, by="nobody")
        handler = asyncio.ensure_future(self._ask_handler(ask, approval_id)) if self._ask_handler else None
        try:
            if handler is None:
                if not self._ask_timeout_s:
                    return nobody
                return await asyncio.wait_for(answer, self._ask_timeout_s)
            limit = self._ask_timeout_s or None
            done, _ = await asyncio.wait({answer, handler}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if answer in done:
                return answer.result()
            if handler not in done:
                return nobody
            given = handler.result()
            if given is not None and given.approval_id == approval_id:
                return given
            # The surface gave up, or answered something else; others may still answer within the time-out.
            return await asyncio.wait_for(answer, limit) if limit else nobody
        except TimeoutError:
            return nobody
        finally:
            if handler is not None and not handler.done():
                handler.cancel()
                await asyncio.gather(handler, return_exceptions=True)

    def resolve_approval(self, approval: Approval) -> None:
        """Answer a pending approval from any surface.

        Raises:
            NotFound: no such approval waits (already answered, or never asked).
            RunNotActive: the run has settled.
        """
        if self.status in SETTLED:
            raise RunNotActive(f"run {self.id} has settled as {self.status}; its approvals can't be answered any more")
        answer = self._pending.get(approval.approval_id)
        if answer is None or answer.done():
            raise NotFound(f"no approval {approval.approval_id} waits in run {self.id}", approval=approval.approval_id)
        answer.set_result(approval)

    # -- the end ----------------------------------------------------------------------------------

    async def finish(self, settlement: Settlement) -> None:
        """Seal the log, patch the record, let go of the lock: in this order, so that the log always wins.

        A disk that refuses is tried again for a while, in order; if it never recovers the run stays
        unsettled on disk (the next opening of the root settles it) and :attr:`fault` says so.
        """
        try:
            await self._until_written(lambda: self.emit_durable(settlement.event(self.status)))
            self.status = self.log.status
            await self._until_written(lambda: self._save(settlement))
        except StorageFailed as error:
            self.status = settlement.status
            self.fault = f"the run's end could not be saved: {error.message}"
        finally:
            self.log.close()
            self._on_settled(self)
            self.settled.set()

    async def _save(self, settlement: Settlement) -> None:
        if self.log.status != settlement.status:
            self._store.settle_from_log(self.id)
        else:
            changes = {
                "status": settlement.status,
                "terminal_code": settlement.code,
                "terminal_reason": settlement.reason,
                "outcome": settlement.outcome,
                "ended_at": stamp(self._clock.now_ms()),
                "usage": self._usage,
                "log_head": self.log.head,
            }
            self._store.patch(self.id, changes)
        self._store.settle_marker(self.id)

    async def _until_written(self, write: Callable[[], Awaitable[None]]) -> None:
        deadline = self._clock.monotonic() + FLUSH_FOR_S
        while True:
            try:
                await write()
                return
            except StorageFailed:
                if self._clock.monotonic() >= deadline:
                    raise
            await asyncio.sleep(FLUSH_EVERY_S)
