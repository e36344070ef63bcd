"""One call and its process tree: exactly one outcome within the limit, and nothing left alive (QLT-12)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from drawbar.boundary.output import Output
from drawbar.boundary.supervised import DEATH_S, TERM_GRACE_S, Supervised, through_cancellation, wait_for
from drawbar.boundary.supervisor import GO, Word
from drawbar.contracts.boundary import Wrapped

__all__ = ["DRAIN_GRACE_S", "Cause", "Check", "Outcome", "ProcessTree"]

DRAIN_GRACE_S: Final = 0.15
"""How long what a command left may go on writing after the command itself ended."""

Cause = Literal["ok", "error", "timeout", "aborted"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a tree ended.

    ``exit_code`` is 128+n for a signal. ``ready`` is False when the sandbox never got as far as the command, and
    ``refused`` says why the harness then held the command back. ``left`` counts the processes that had to be
    ended after the command itself; ``gone`` is False when something outlived even SIGKILL (a hung disk).
    """

    cause: Cause
    exit_code: int
    ready: bool
    refused: str | None
    left: int
    gone: bool
    duration_ms: int


class Check(Protocol):
    """Looks at a sandbox that is set up, before its command starts; raises ``OSError`` or says what is wrong."""

    def __call__(self, init: int) -> str | None: ...


class ProcessTree:
    """A supervisor for one command.

    Args:
        wrapped: what to spawn.
        out: takes standard output, and standard error too when ``err`` is None.
        err: takes standard error apart.
        stdin: bytes for the command's standard input; None is ``/dev/null``.
        check: called with the process id of the sandbox's first process before the command may start.

    Raises:
        OSError: when the program can't be started at all.
    """

    def __init__(
        self,
        wrapped: Wrapped,
        out: Output,
        err: Output | None = None,
        *,
        stdin: bytes | None = None,
        check: Check | None = None,
    ) -> None:
        self._check = check
        self._stdin = stdin
        self._ready = self._aborted = False
        self._refused: str | None = None
        self._left: int | None = None
        self._later: asyncio.TimerHandle | None = None
        self._foreground: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._started = time.monotonic()
        self._tree = Supervised(wrapped, apart=err is not None, heed=self._heed, on_exit=self._foreground_ended)
        self._tree.sinks = [out] if err is None else [out, err]

    async def run(self, limit_s: float) -> Outcome:
        """Wait for the end, or bring it about after ``limit_s`` seconds or on cancellation.

        Raises:
            asyncio.CancelledError: after the tree is gone.
        """
        try:
            await asyncio.wait((self._foreground,), timeout=limit_s)
            timed_out = not self._foreground.done()
            if timed_out:
                await self._terminate()
            left = await self._finish()
        except asyncio.CancelledError:
            await through_cancellation(self._end_now())
            raise
        finally:
            if self._later is not None:
                self._later.cancel()
            self._tree.close()
        code = self._tree.returncode if self._left is None else self._left
        cause: Cause = "ok" if code == 0 and self._ready else "error"
        if timed_out:
            cause = "timeout"
        elif self._aborted:
            cause = "aborted"
        return Outcome(
            cause=cause,
            exit_code=code,
            ready=self._ready,
            refused=self._refused,
            left=left,
            gone=self._tree.exited.done() and self._tree.emptied.done(),
            duration_ms=round((time.monotonic() - self._started) * 1000),
        )

    def abort(self) -> None:
        """End the tree from outside; ``run`` then returns with cause ``aborted``."""
        self._aborted = True
        self._tree.terminate()
        self._later = asyncio.get_running_loop().call_later(TERM_GRACE_S, self._tree.kill)

    async def _terminate(self) -> None:
        """SIGTERM to every process of the tree; what is left after the grace is killed (PRC-03)."""
        self._tree.terminate()
        await wait_for(self._foreground, TERM_GRACE_S)

    async def _finish(self) -> int:
        """From the foreground's end to an empty tree and drained pipes; the number of processes left behind."""
        left = 0
        if not self._tree.exited.done():
            if self._foreground.done() and not self._aborted:
                await wait_for(self._tree.drained, DRAIN_GRACE_S)
            left = len(self._tree.living())
            await self._tree.end()
        await wait_for(self._tree.emptied, DEATH_S)
        # No writer is left, so what the pipes still hold is read to its end at once.
        await wait_for(self._tree.drained, DEATH_S)
        return left

    async def _end_now(self) -> None:
        if not self._tree.exited.done():
            await self._terminate()
        await self._finish()

    def _heed(self, word: Word) -> None:
        if word.kind == "ready" and not self._ready:
            self._begin()
        elif word.kind == "left" and self._left is None:
            self._left = word.number
            self._foreground_ended()

    def _begin(self) -> None:
        self._ready = True
        if self._check is not None and self._tree.init_pid is not None:
            try:
                self._refused = self._check(self._tree.init_pid)
            except OSError as error:
                self._refused = f"the sandbox could not be checked before the command ({error.strerror})"
        if self._refused is not None or self._aborted:
            self._tree.kill()
        else:
            self._tree.send(GO if self._stdin is None else b"%d\n%s" % (len(self._stdin), self._stdin))

    def _foreground_ended(self) -> None:
        if not self._foreground.done():
            self._foreground.set_result(None)
