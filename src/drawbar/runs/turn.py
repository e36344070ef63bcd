"""One turn: an engine session carries a request to its end, and whatever ends it settles the run once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from drawbar.contracts.clock import stamp
from drawbar.contracts.errors import StorageFailed
from drawbar.runs.settlement import Settlement, completed, failed, interrupted

if TYPE_CHECKING:
    from drawbar.contracts.clock import Clock
    from drawbar.contracts.engine import EngineSession
    from drawbar.runs.live import LiveRun

__all__ = ["run_turn"]


async def run_turn(
    live: LiveRun, session: EngineSession, text: str, release: Callable[[], Awaitable[None]], clock: Clock
) -> None:
    """Drive ``session`` with ``text`` and settle ``live`` with whatever ends it.

    The engine works in a task of its own, which is what an interruption cancels; this coroutine outlives it,
    so that a run stopped at any moment still settles.

    Args:
        live: the run.
        session: open and bound to the run.
        text: the request.
        release: closes what the run opened (session, sandbox); always called, before the run settles, so
            that a settled run has no process left.
        clock: time source.
    """

    async def work() -> None:
        live.set_status("running", started_at=stamp(clock.now_ms()))
        await session.prompt(text)

    task = asyncio.create_task(work(), name=f"drawbar-turn-{live.id}")
    live.drive(task)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
    await asyncio.shield(_settle(live, _settlement(live, task), release))


def _settlement(live: LiveRun, task: asyncio.Task[Any]) -> Settlement:
    if task.cancelled():
        return live.stop_reason or interrupted("terminal_closed", "the process that owned the run closed")
    error = task.exception()
    if error is None:
        return completed()
    if isinstance(error, StorageFailed):
        live.fault = error.message
    return failed(error)


async def _settle(live: LiveRun, settlement: Settlement, release: Callable[[], Awaitable[None]]) -> None:
    try:
        await release()
    except Exception as error:  # the run must settle; what couldn't be closed is its cause
        settlement = failed(error) if settlement.status == "completed" else settlement
    await live.finish(settlement)
