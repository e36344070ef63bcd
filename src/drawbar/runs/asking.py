"""Asking a person: what waits, the first answer that wins, and both sides on record (SES-18, SES-19, RUN-35).

Approvals and questions are one mechanism. Whoever answers first writes the answer to the disk itself, and only then
does it count (CON-14); every other answer finds nothing that waits. A crash in between leaves the ask unanswered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from drawbar.contracts.boundary import Approval, ApprovalAsk
from drawbar.contracts.errors import NotFound, RunNotActive
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.human import (
    Answer,
    ApprovalRequested,
    ApprovalResolved,
    QuestionAnswered,
    QuestionRequested,
)
from drawbar.contracts.ids import new_id
from drawbar.contracts.question import Answered, QuestionAsk
from drawbar.contracts.status import SETTLED
from drawbar.runs.answers import Given, read_answers

__all__ = ["AskHandler", "Asking", "QuestionHandler"]

AskHandler = Callable[[ApprovalAsk, str], Awaitable[Approval | None]]
"""A surface that can ask a person: gets the ask and its approval id; None when it can't or nobody answered."""

QuestionHandler = Callable[[QuestionAsk, str], Awaitable[Answered | None]]
"""The same for questions, with the question id; an answer that a question doesn't allow counts as none."""

NOBODY: Final = "nobody"
_WAITING: Final = frozenset({"waiting_for_approval", "waiting_for_input"})

A = TypeVar("A")


class AskedRun(Protocol):
    """What is needed of a live run."""

    id: str
    status: str

    def emit(self, payload: Payload) -> None: ...

    async def emit_durable(self, payload: Payload) -> None: ...

    def set_status(self, new: str) -> None: ...

    def notice(self, code: str, message: str) -> None: ...


@dataclass(eq=False, slots=True)
class _Ask(Generic[A]):
    """One ask that waits. ``taken`` from the moment that somebody's answer is being written."""

    id: str
    status: Literal["waiting_for_approval", "waiting_for_input"]
    requested: Payload
    resolved: Callable[[A], Payload]
    nobody: A
    answer: asyncio.Future[A]
    questions: QuestionAsk | None = None
    taken: bool = False


class Asking:
    """The asks of one run.

    Args:
        run: whose record and status they go into.
        approvals: a surface of this process for approvals.
        questions: one for questions.
        timeout_s: how long an ask waits for somebody; without a surface 0 means not at all (RUN-35).
    """

    def __init__(
        self, run: AskedRun, *, approvals: AskHandler | None, questions: QuestionHandler | None, timeout_s: float
    ) -> None:
        self.unanswered = 0
        self._run = run
        self._approvals = approvals
        self._questions = questions
        self._timeout_s = timeout_s
        self._waiting: dict[str, _Ask[Any]] = {}

    def pending(self, status: Literal["waiting_for_approval", "waiting_for_input"]) -> tuple[str, ...]:
        """Ids of what waits now, of one kind, oldest first."""
        return tuple(ask.id for ask in self._waiting.values() if ask.status == status and not ask.taken)

    # -- putting an ask ---------------------------------------------------------------------------

    async def approval(self, ask: ApprovalAsk) -> Approval:
        """See :meth:`drawbar.runs.live.LiveRun.request_approval`."""
        approval_id = new_id("approval")
        requested = ApprovalRequested(
            approval_id=approval_id,
            call_id=ask.call_id,
            tool=ask.tool,
            arguments=ask.arguments,
            scope=ask.scope,
            reason=ask.reason,
            rule=ask.rule.pattern if ask.rule else None,
        )
        waiting = _Ask(
            id=approval_id,
            status="waiting_for_approval",
            requested=requested,
            resolved=_approval_resolved,
            nobody=Approval(approval_id=approval_id, decision=None, by=NOBODY),
            answer=asyncio.get_running_loop().create_future(),
        )
        surface = partial(self._approvals, ask, approval_id) if self._approvals else None
        return await self._put(waiting, surface)

    async def question(self, ask: QuestionAsk) -> Answered:
        """See :meth:`drawbar.runs.live.LiveRun.request_answers`."""
        question_id = new_id("question")
        waiting = _Ask(
            id=question_id,
            status="waiting_for_input",
            requested=QuestionRequested(
                question_id=question_id,
                questions=list(ask.questions),
                ui_sketch=ask.ui_sketch,
                call_id=ask.call_id or None,
            ),
            resolved=_question_answered,
            nobody=Answered(question_id=question_id, answers=None, by=NOBODY),
            answer=asyncio.get_running_loop().create_future(),
            questions=ask,
        )
        surface = partial(self._at_surface, ask, question_id) if self._questions else None
        return await self._put(waiting, surface)

    async def _at_surface(self, ask: QuestionAsk, question_id: str) -> Answered | None:
        assert self._questions is not None
        given = await self._questions(ask, question_id)
        if given is None or given.answers is None:
            return None
        return Answered(given.question_id, read_answers(ask.questions, given.answers), given.by)

    async def _put(self, ask: _Ask[A], surface: Callable[[], Awaitable[A | None]] | None) -> A:
        self._waiting[ask.id] = ask
        try:
            self._run.emit(ask.requested)
            self._show_status()
            await self._wait(ask, surface)
            if not ask.taken:
                await self._take(ask, ask.nobody)
            answer = await ask.answer
        finally:
            self._waiting.pop(ask.id, None)
        self._show_status()
        return answer

    async def _wait(self, ask: _Ask[A], surface: Callable[[], Awaitable[A | None]] | None) -> None:
        """Until somebody answered, nobody can any more, or the time is over."""
        local = asyncio.create_task(self._ask_surface(ask, surface)) if surface is not None else None
        try:
            async with asyncio.timeout(self._timeout_s or None):
                if local is not None:
                    await asyncio.wait({ask.answer, local}, return_when=asyncio.FIRST_COMPLETED)
                if self._timeout_s:
                    await asyncio.wait({ask.answer})
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            self._waiting.pop(ask.id, None)  # the run is being stopped: no answer counts any more
            raise
        finally:
            if local is not None and not local.done():
                if ask.taken:
                    await asyncio.wait({ask.answer})
                local.cancel()
                await asyncio.gather(local, return_exceptions=True)

    async def _ask_surface(self, ask: _Ask[A], surface: Callable[[], Awaitable[A | None]]) -> None:
        try:
            given = await surface()
        except Exception as error:
            self._run.notice("ask_failed", f"asking here failed ({type(error).__name__}: {error})")
            return
        if given is not None and _is_answer(given, ask.id) and ask.id in self._waiting and not ask.taken:
            await self._take(ask, given)

    # -- answering --------------------------------------------------------------------------------

    async def approve(self, approval: Approval) -> None:
        """See :meth:`drawbar.runs.live.LiveRun.resolve_approval`."""
        ask = self._find(approval.approval_id, "waiting_for_approval", "approval")
        await self._take(ask, approval)

    async def answer(self, question_id: str, given: Sequence[Given], by: str) -> tuple[Answer, ...]:
        """See :meth:`drawbar.runs.live.LiveRun.resolve_question`."""
        ask = self._find(question_id, "waiting_for_input", "question")
        assert ask.questions is not None
        answers = read_answers(ask.questions.questions, given)
        await self._take(ask, Answered(question_id, answers, by))
        return answers

    def _find(self, ask_id: str, status: str, what: str) -> _Ask[Any]:
        if self._run.status in SETTLED:
            raise RunNotActive(
                f"run {self._run.id} has settled as {self._run.status}; its {what}s can't be answered any more"
            )
        ask = self._waiting.get(ask_id)
        if ask is None or ask.taken or ask.status != status:
            raise NotFound(f"no {what} {ask_id} waits in run {self._run.id}", **{what: ask_id})
        return ask

    async def _take(self, ask: _Ask[A], answer: A) -> None:
        """The first answer: written to the disk itself, then handed to the call that waits."""
        ask.taken = True
        try:
            await self._run.emit_durable(ask.resolved(answer))
        except Exception as error:
            # Nothing can be recorded, so nothing may happen: the call ends as every other call does then.
            if not ask.answer.done():
                ask.answer.set_exception(error)
                ask.answer.exception()
            raise
        except asyncio.CancelledError:
            _hand_over(ask, answer)  # its line is on its way to the disk
            raise
        if answer is ask.nobody:
            self.unanswered += 1
        _hand_over(ask, answer)

    def _show_status(self) -> None:
        """The run's status by what still waits; between two kinds of waiting it passes through ``running``."""
        waiting = [ask.status for ask in self._waiting.values()]
        if self._run.status in waiting or self._run.status in SETTLED:
            return
        if not waiting or self._run.status in _WAITING:
            self._run.set_status("running")
        if waiting:
            self._run.set_status(waiting[0])


def _hand_over(ask: _Ask[A], answer: A) -> None:
    if not ask.answer.done():
        ask.answer.set_result(answer)


def _is_answer(given: object, ask_id: str) -> bool:
    """Whether a surface answered this very ask, and not another."""
    match given:
        case Approval():
            return given.approval_id == ask_id and given.decision is not None
        case Answered():
            return given.question_id == ask_id
        case _:
            return False


def _approval_resolved(approval: Approval) -> Payload:
    return ApprovalResolved(
        approval_id=approval.approval_id,
        decision=approval.decision or "deny",
        by=approval.by or NOBODY,
        message=approval.message,
    )


def _question_answered(answered: Answered) -> Payload:
    return QuestionAnswered(
        question_id=answered.question_id, answers=list(answered.answers or ()), by=answered.by or NOBODY
    )
