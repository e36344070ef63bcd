"""Commands that go on beside a run's calls, each in a sandbox of its own, and end with the run (BND-14, QLT-12)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Final

from drawbar.boundary.own import OwnSandbox
from drawbar.boundary.process import Check
from drawbar.boundary.root_scan import Scanned
from drawbar.boundary.supervised import through_cancellation
from drawbar.contracts.boundary import CommandResult, SandboxPlan
from drawbar.contracts.errors import DrawbarError, InvalidInput

__all__ = ["MOST", "Job", "Jobs"]

MOST: Final = 16
"""Jobs that may live at once in one run."""
_LOOK_S: Final = 0.5
"""How often it is looked whether what a job's sandbox protects is still protected."""


class Job:
    """One job.

    Args:
        own: its sandbox.
        plan: what it may touch.
        check: looks at the sandbox again while the job runs.
        on_end: told its result.

    Attributes:
        result: how it ended; None while it runs.
        task: waits for its end.
    """

    def __init__(
        self, own: OwnSandbox, plan: SandboxPlan, check: Check, on_end: Callable[[CommandResult], None]
    ) -> None:
        self.result: CommandResult | None = None
        self._own = own
        self._plan = plan
        self._check = check
        self._on_end = on_end
        self._why: str | None = None
        self.task = asyncio.ensure_future(self._run())

    async def begun(self) -> None:
        """Wait until its command was told to start.

        Raises:
            WorkspaceRefused, SandboxUnavailable: when the command was held back.
        """
        await asyncio.wait((self._own.tree.begun,))
        if self.result is None and self._own.tree.held_back:
            await asyncio.wait((self.task,))
        if self.task.done():
            await self.task

    async def wait(self, seconds: float) -> bool:
        """Wait at most so long for its end; whether it has ended."""
        await asyncio.wait((self.task,), timeout=seconds)
        return self.task.done()

    async def stop(self) -> None:
        """End it and everything it started; safe to call twice."""
        self.abort()
        await through_cancellation(self._ended())

    def abort(self, why: str | None = None) -> None:
        """Begin to end it; ``why`` is for its result."""
        if not self.task.done() and not self._own.tree.aborted:
            self._why = why
            self._own.abort()

    def look(self) -> None:
        """End it if what its sandbox protects isn't protected any more: a mount goes with the file it lies over."""
        init = self._own.tree.init_pid
        if init is None or not self._own.tree.begun.done() or self.task.done():
            return
        with contextlib.suppress(OSError):
            if self._check(init) is not None:
                self.abort(
                    "what the sandbox keeps read-only was replaced from outside it, so it was ended; start it again"
                )

    def meets(self, scanned: Scanned) -> None:
        """End it if it could write through a hard link that was found after its start (BND-12)."""
        if self._plan.scope != "workspace":
            return
        unknown = set(scanned.read_only) - set(self._plan.read_only)
        if unknown:
            self.abort(
                f"{min(unknown)} became a hard link to a file outside the workspace, which it could have changed, so "
                "it was ended; start it again"
            )

    async def _run(self) -> None:
        result = CommandResult(cause="unknown", exit_code=None)
        try:
            result = await self._own.run()
            result.denial = self._why or result.denial
        except DrawbarError as error:
            result = CommandResult(cause="error", exit_code=None, denial=error.message)
            raise
        finally:
            self.result = result
            self._on_end(result)

    async def _ended(self) -> None:
        await asyncio.wait((self.task,))


class Jobs:
    """The jobs of one run."""

    def __init__(self) -> None:
        self._live: set[Job] = set()
        self._looking: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._live)

    def admit(self) -> None:
        """Whether there is room for one more.

        Raises:
            InvalidInput: when there is none.
        """
        if len(self._live) >= MOST:
            raise InvalidInput(
                f"{MOST} background jobs are running, which is all that a run may have; end one with job_stop first",
                limit=MOST,
            )

    async def add(self, job: Job, after: Callable[[], None]) -> None:
        """Watch over ``job`` from now on, and call ``after`` once it has ended.

        Raises:
            WorkspaceRefused, SandboxUnavailable: when its command was held back; it isn't among the jobs then.
        """
        self._live.add(job)

        def ended(task: asyncio.Task[None]) -> None:
            self._live.discard(job)
            if not task.cancelled():
                task.exception()
            after()

        job.task.add_done_callback(ended)
        self._look()
        try:
            await job.begun()
        except asyncio.CancelledError:
            await job.stop()
            raise

    def meet(self, scanned: Scanned) -> None:
        """Compare each job with what a new walk over the root found."""
        for job in self._live:
            job.meets(scanned)

    async def close(self) -> None:
        """End them all, side by side."""
        ending: Iterable[Job] = tuple(self._live)
        for job in ending:
            job.abort()
        for job in ending:
            await job.stop()

    def _look(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for job in tuple(self._live):
            job.look()
        self._looking = asyncio.get_running_loop().call_later(_LOOK_S, self._look) if self._live else None
