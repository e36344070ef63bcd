"""A live run: the one place that its events, status, asks and end pass through (RUN-9, CON-12)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from drawbar.contracts.boundary import Approval, ApprovalAsk
from drawbar.contracts.clock import Clock, stamp
from drawbar.contracts.errors import InvalidInput, StorageFailed
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.human import Answer
from drawbar.contracts.events.lifecycle import ExtensionNotice, StatusChanged
from drawbar.contracts.events.usage import UsageUpdated
from drawbar.contracts.question import Answered, QuestionAsk
from drawbar.contracts.run import RunRecord
from drawbar.contracts.status import SETTLED, edge_allowed
from drawbar.runs.answers import Given
from drawbar.runs.asking import AskHandler, Asking, QuestionHandler
from drawbar.runs.settlement import Settlement, failed
from drawbar.stores.event_log import EventLog
from drawbar.stores.runs import RunStore

__all__ = ["LiveRun"]

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
        ask_handler: a surface of this process that can ask a person for an approval, if there is one.
        question_handler: the same for questions.
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
        question_handler: QuestionHandler | None = None,
        ask_timeout_s: float = 0.0,
        answers_over_socket: bool = True,
        on_settled: Callable[[LiveRun], None] = lambda _run: None,
    ) -> None:
        self.id = record.id
        self.session_id = record.session_id
        self.status: str = record.status
        self.log = log
        self.answers_over_socket = answers_over_socket
        self.settled = asyncio.Event()
        self.fault: str | None = None
        self._store = store
        self._clock = clock
        self._on_settled = on_settled
        self._asking = Asking(self, approvals=ask_handler, questions=question_handler, timeout_s=ask_timeout_s)
        self._task: asyncio.Task[Any] | None = None
        self._stop: Settlement | None = None
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
    def unanswered(self) -> int:
        """How many asks nobody took (RUN-35)."""
        return self._asking.unanswered

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of the approvals that wait now."""
        return self._asking.pending("waiting_for_approval")

    @property
    def pending_questions(self) -> tuple[str, ...]:
        """Ids of the questions that wait now."""
        return self._asking.pending("waiting_for_input")

    async def request_approval(self, ask: ApprovalAsk) -> Approval:
        """Ask on every surface; the first answer wins and is on disk before it takes effect (SES-18).

        With nobody to take it the answer's ``decision`` is None and the run goes on (RUN-35).
        """
        return await self._asking.approval(ask)

    async def request_answers(self, ask: QuestionAsk) -> Answered:
        """Put questions to a person on every surface (SES-19); ``answers`` is None when nobody took them."""
        return await self._asking.question(ask)

    async def resolve_approval(self, approval: Approval) -> None:
        """Answer a pending approval from any surface; on disk when this returns (CON-14).

        Raises:
            NotFound: no such approval waits (already answered, or never asked).
            RunNotActive: the run has settled.
            StorageFailed: the answer couldn't be recorded, so it doesn't count.
        """
        await self._asking.approve(approval)

    async def resolve_question(self, question_id: str, given: Sequence[Given], *, by: str) -> tuple[Answer, ...]:
        """Answer pending questions from any surface; on disk when this returns (CON-14).

        Args:
            question_id: as pending.
            given: one answer for each question.
            by: who answers, for the record.

        Raises:
            InvalidInput: an answer that its question doesn't allow; it waits on.
            NotFound, RunNotActive, StorageFailed: as :meth:`resolve_approval`.
        """
        return await self._asking.answer(question_id, given, by)

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
