"""All runs of a data root as one service: live ones here, live ones elsewhere, settled ones (RUN-9, RUN-34)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from drawbar.contracts.boundary import Approval
from drawbar.contracts.codec import convert
from drawbar.contracts.errors import InvalidInput, NotFound, NotPermitted, RunNotActive
from drawbar.contracts.events.base import Event
from drawbar.contracts.methods import (
    AnswerInput,
    AnswerOutput,
    ApproveInput,
    ApproveOutput,
    Family,
    Inspection,
    InterruptOutput,
    ListRuns,
    RunList,
    RunPrompt,
    Verification,
)
from drawbar.contracts.run import RunRecord
from drawbar.contracts.status import ACTIVE, SETTLED
from drawbar.runs.control import ControlServer, call_owner
from drawbar.runs.follow import Wake, follow_lines
from drawbar.runs.live import LiveRun
from drawbar.runs.peers import Peer, may_answer
from drawbar.runs.settlement import interrupted
from drawbar.stores.runs import RunStore

__all__ = ["RunRegistry"]

SETTLE_WAIT_S = 5.0


class RunRegistry:
    """``harness.runs``.

    Args:
        store: the run store of the root.
        sockets: the folder of control sockets.
    """

    def __init__(self, store: RunStore, sockets: Path) -> None:
        self._store = store
        self._live: dict[str, LiveRun] = {}
        self._wakes: dict[str, Wake] = {}
        self._control = ControlServer(
            sockets,
            {
                "runs.interrupt": self._remote_interrupt,
                "runs.approve": self._remote_approve,
                "runs.answer": self._remote_answer,
            },
        )
        self._serving = False

    # -- live runs of this process ----------------------------------------------------------------

    @property
    def live(self) -> Mapping[str, LiveRun]:
        return self._live

    async def socket(self) -> str:
        """Serve the control socket if it isn't served yet; its path goes into ``owner.json``."""
        if not self._serving:
            self._serving = True
            await self._control.start()
        return str(self._control.path)

    def wake(self, run_id: str) -> Wake:
        """What tells followers of ``run_id`` that its log grew."""
        return self._wakes.setdefault(run_id, Wake())

    def start(self, run: LiveRun) -> None:
        """Register a run that this process owns."""
        self._live[run.id] = run

    def finished(self, run: LiveRun) -> None:
        """Forget a settled run; its record answers from now on."""
        self._live.pop(run.id, None)
        wake = self._wakes.pop(run.id, None)
        if wake is not None:
            wake.notify()

    async def close(self) -> None:
        """Interrupt what still lives here and stop serving."""
        for run in list(self._live.values()):
            run.interrupt(interrupted("terminal_closed", "the process that owned the run closed"))
        for run in list(self._live.values()):
            await run.settled.wait()
        await self._control.close()

    # -- reading ----------------------------------------------------------------------------------

    def get(self, run: str) -> RunRecord:
        """One record by id or unique prefix. Raises :class:`NotFound`."""
        return self._store.load(self._store.resolve(run))

    def list(self, query: ListRuns | None = None) -> RunList:
        """Newest first, by filter and page (RUN-34)."""
        return self._store.list(query or ListRuns())

    def family(self, run: str) -> Family:
        """Parents, children, continuations and side questions as one tree (RUN-34)."""
        return self._store.family(self._store.resolve(run))

    def events(self, run: str, from_seq: int = 0) -> list[Event]:
        """What is in the log now."""
        from drawbar.stores.event_reader import read_events

        folder = self._store.folder(self._store.resolve(run))
        return list(read_events(folder / "events.jsonl", from_seq))

    def prompt(self, run: str) -> RunPrompt:
        """What the model saw (PRM-5). Raises :class:`NotFound` when the run never compiled one."""
        from drawbar.prompt.compiler import read_context

        return read_context(self._store.folder(self._store.resolve(run)))

    def verify(self, run: str) -> Verification:
        """Recompute the chain (CON-11). ``run`` may be a run folder."""
        from drawbar.stores.verify import verify_run

        return verify_run(self._folder(run))

    def inspect(self, run: str) -> Inspection:
        """What is in a run's folder, damage included (CLI-7). ``run`` may be a run folder."""
        from drawbar.stores.event_reader import read_report

        return read_report(self._folder(run))

    def _folder(self, run: str) -> Path:
        path = Path(run)
        return path if path.is_dir() else self._store.folder(self._store.resolve(run))

    async def follow(self, run: str, from_seq: int = 0) -> AsyncIterator[Event]:
        """Persisted events from ``from_seq`` to the run's end, as they are written (API-2)."""
        async for event, _line in self._follow(run, from_seq):
            yield event

    async def follow_raw(self, run: str, from_seq: int = 0) -> AsyncIterator[bytes]:
        """As :meth:`follow`, but the very bytes of each line, without its line end."""
        async for _event, line in self._follow(run, from_seq):
            yield line

    async def _follow(self, run: str, from_seq: int) -> AsyncIterator[tuple[Event, bytes]]:
        run_id = self._store.resolve(run)
        path = self._store.folder(run_id) / "events.jsonl"

        def ended() -> bool:
            return run_id not in self._live and (
                self._store.load(run_id).status in SETTLED or not self._store.owner_alive(run_id)
            )

        wake = self.wake(run_id) if run_id in self._live else None
        async for item in follow_lines(path, from_seq=from_seq, ended=ended, wake=wake):
            yield item

    # -- commands ---------------------------------------------------------------------------------

    async def interrupt(self, run: str) -> InterruptOutput:
        """Stop a live run, here or in another process; waits a little for it to settle (RUN-10).

        Raises:
            RunNotActive: it has settled already.
            OwnerUnreachable: its process doesn't answer.
        """
        run_id = self._store.resolve(run)
        if run_id in self._live:
            return await self._interrupt_here(run_id)
        answer = await self._call_owner(run_id, "runs.interrupt", {"run": run_id})
        return convert(answer, InterruptOutput, what="runs.interrupt")

    async def approve(self, request: ApproveInput) -> ApproveOutput:
        """Answer a pending approval, here or in another process (SES-18).

        Raises:
            NotFound: no such approval waits.
            RunNotActive: the run has settled.
            NotPermitted: this process may not answer for a person (BND-16).
        """
        run_id = self._store.resolve(request.run)
        if run_id in self._live:
            return await self._approve_here(run_id, request, by="api")
        params = {
            "run": run_id,
            "decision": request.decision,
            "approval": request.approval,
            "message": request.message,
        }
        answer = await self._call_owner(run_id, "runs.approve", params)
        return convert(answer, ApproveOutput, what="runs.approve")

    async def answer(self, request: AnswerInput) -> AnswerOutput:
        """Answer the questions that a run waits for, here or in another process (SES-19).

        Raises:
            NotFound: no such question waits.
            InvalidInput: an answer that its question doesn't allow; the question waits on.
            RunNotActive: the run has settled.
            NotPermitted: this process may not answer for a person (BND-16).
        """
        run_id = self._store.resolve(request.run)
        if run_id in self._live:
            return await self._answer_here(run_id, request, by="api")
        params = {"run": run_id, "answers": request.answers, "question": request.question}
        answer = await self._call_owner(run_id, "runs.answer", params)
        return convert(answer, AnswerOutput, what="runs.answer")

    async def _call_owner(self, run_id: str, method: str, params: Mapping[str, Any]) -> Any:
        record = self._store.load(run_id)
        if record.status not in ACTIVE:
            raise RunNotActive(f"run {run_id} has settled as {record.status}", run=run_id, status=record.status)
        owner = self._store.owner(run_id)
        if owner is None or owner.socket is None:
            raise RunNotActive(f"run {run_id} has no live owner", run=run_id)
        return await call_owner(owner.socket, method, params)

    async def _interrupt_here(self, run_id: str) -> InterruptOutput:
        live = self._live[run_id]
        live.interrupt(interrupted("user_abort", "stopped by a person"))
        try:
            await asyncio.wait_for(live.settled.wait(), SETTLE_WAIT_S)
        except TimeoutError:
            return InterruptOutput(run_id=run_id, settled=False, status=live.status)
        return InterruptOutput(run_id=run_id, settled=True, status=live.status)

    async def _approve_here(self, run_id: str, request: ApproveInput, *, by: str) -> ApproveOutput:
        live = self._live[run_id]
        approval_id = _only(live, "approval", request.approval, live.pending, live.pending_questions)
        await live.resolve_approval(
            Approval(approval_id=approval_id, decision=request.decision, by=by, message=request.message)
        )
        return ApproveOutput(approval_id=approval_id, decision=request.decision)

    async def _answer_here(self, run_id: str, request: AnswerInput, *, by: str) -> AnswerOutput:
        live = self._live[run_id]
        question_id = _only(live, "question", request.question, live.pending_questions, live.pending)
        answers = await live.resolve_question(question_id, request.answers, by=by)
        return AnswerOutput(question_id=question_id, answers=list(answers))

    def _owner_pids(self) -> set[int]:
        owners = (self._store.owner(run_id) for run_id in self._store.active())
        return {owner.pid for owner in owners if owner is not None}

    # -- the control socket's side ----------------------------------------------------------------

    async def _remote_interrupt(self, params: Mapping[str, Any], peer: Peer) -> Any:
        run_id = str(params.get("run"))
        if run_id not in self._live:
            raise RunNotActive(f"run {run_id} is not live in this process", run=run_id)
        return await self._interrupt_here(run_id)

    async def _remote_approve(self, params: Mapping[str, Any], peer: Peer) -> Any:
        request = convert(dict(params), ApproveInput, what="runs.approve")
        self._may_answer(request.run, peer)
        return await self._approve_here(request.run, request, by=f"socket:{peer.pid}")

    async def _remote_answer(self, params: Mapping[str, Any], peer: Peer) -> Any:
        request = convert(dict(params), AnswerInput, what="runs.answer")
        self._may_answer(request.run, peer)
        return await self._answer_here(request.run, request, by=f"socket:{peer.pid}")

    def _may_answer(self, run_id: str, peer: Peer) -> None:
        """Refuse whoever may not speak for a person in this run (BND-16)."""
        live = self._live.get(run_id)
        if live is None:
            raise RunNotActive(f"run {run_id} is not live in this process", run=run_id)
        if not live.answers_over_socket:
            raise NotPermitted(
                "without the sandbox, or without PID namespaces, a run takes no answer over its socket: a command "
                "could have given it; answer in the run's own terminal"
            )
        may_answer(peer, self._owner_pids())


def _only(
    live: LiveRun,
    what: Literal["approval", "question"],
    wanted: str | None,
    these: Sequence[str],
    others: Sequence[str],
) -> str:
    """The one of ``these`` that is meant; ``others`` are asks of the other kind, for whoever mixed them up."""
    matches = [name for name in these if wanted is None or name.startswith(wanted)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InvalidInput(
            f"{len(matches)} {what}s wait in run {live.id}: name one of {', '.join(matches)}", field=what
        )
    mixed_up = [name for name in others if wanted is None or name.startswith(wanted)]
    if mixed_up:
        other = "a question: use `runs answer`" if what == "approval" else "an approval: use `runs approve`"
        raise InvalidInput(f"{mixed_up[0]}, which waits in run {live.id}, is {other}", field=what)
    raise NotFound(f"no such {what} waits in run {live.id}", run=live.id)
