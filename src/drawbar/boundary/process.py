"""One call and its process tree: exactly one outcome within the limit, and nothing left alive (QLT-12)."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from drawbar.boundary.processes import signal_all
from drawbar.boundary.streaming import Passage
from drawbar.boundary.supervised import DEATH_S, TERM_GRACE_S, Sink, Supervised, through_cancellation, wait_for
from drawbar.boundary.supervisor import GO, Word
from drawbar.contracts.boundary import Wrapped

__all__ = ["DRAIN_GRACE_S", "Admit", "Cause", "Check", "Outcome", "ProcessTree"]

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


Admit = Callable[[int], Awaitable[None]]
"""Does what must be done to a sandbox before its command starts; raises what forbids the start."""


class ProcessTree:
    """A supervisor for one command.

    Args:
        wrapped: what to spawn.
        out: takes standard output, and standard error too when ``err`` is None.
        err: takes standard error apart.
        stdin: bytes for the command's standard input; None is ``/dev/null``.
        check: called with the process id of the sandbox's first process before the command may start.
        admit: awaited with the same afterwards; what it raises is raised by :meth:`run`, and nothing was run.
        passage: how streams are passed through raw; None gives the command neither input nor a terminal.

    Attributes:
        begun: done when the command was told to start, or never will be.
        held_back: whether it never will be.
        aborted: whether it was ended from outside.

    Raises:
        OSError: when the program can't be started at all.
    """

    def __init__(
        self,
        wrapped: Wrapped,
        out: Sink,
        err: Sink | None = None,
        *,
        stdin: bytes | None = None,
        check: Check | None = None,
        admit: Admit | None = None,
        passage: Passage | None = None,
    ) -> None:
        self._check = check
        self._admit = admit
        self._admitting: asyncio.Task[None] | None = None
        self._passage = passage
        self._stdin = stdin
        self._ready = False
        self.aborted = self.held_back = False
        self._refused: str | None = None
        self._fault: BaseException | None = None
        self._left: int | None = None
        self._later: asyncio.TimerHandle | None = None
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self._foreground: asyncio.Future[None] = loop.create_future()
        self._started = time.monotonic()
        self._tree = Supervised(wrapped, apart=err is not None, heed=self._heed, on_exit=self._foreground_ended)
        self._tree.sinks = [out] if err is None else [out, err]

    async def run(self, limit_s: float) -> Outcome:
        """Wait for the end, or bring it about after ``limit_s`` seconds or on cancellation.

        Raises:
            asyncio.CancelledError: after the tree is gone.
            Exception: what ``admit`` raised.
        """
        try:
            await asyncio.wait((self._foreground,), timeout=None if math.isinf(limit_s) else limit_s)
            timed_out = not self._foreground.done()
            if timed_out:
                await self._terminate()
            left = await self._finish(0 if timed_out else self._started + limit_s)
        except asyncio.CancelledError:
            await through_cancellation(self._end_now())
            raise
        finally:
            if self._later is not None:
                self._later.cancel()
            if self._admitting is not None:
                self._admitting.cancel()
            if self._passage is not None:
                self._passage.close()
            self._tree.close()
            _resolve(self.begun)
        if self._fault is not None:
            raise self._fault
        code = self._tree.returncode if self._left is None else self._left
        cause: Cause = "ok" if code == 0 and self._ready else "error"
        if timed_out:
            cause = "timeout"
        elif self.aborted:
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
        self.aborted = True
        self._tree.terminate()
        self._later = asyncio.get_running_loop().call_later(TERM_GRACE_S, self._tree.kill)

    @property
    def init_pid(self) -> int | None:
        """The process id of the sandbox's first process; None until it is known."""
        return self._tree.init_pid

    def signal(self, number: int) -> None:
        """Send a signal to the command and everything it started; nothing happens once it has ended."""
        if not self._foreground.done():
            signal_all(self._tree.living(), signal.Signals(number))

    async def _terminate(self) -> None:
        """SIGTERM to every process of the tree; what is left after the grace is killed (PRC-03)."""
        self._tree.terminate()
        await wait_for(self._foreground, TERM_GRACE_S)

    async def _finish(self, until: float = 0) -> int:
        """From the foreground's end to an empty tree and drained pipes; the number of processes left behind.

        Args:
            until: how long a slow taker of raw output is waited for.
        """
        if self._passage is not None:
            self._passage.end_input()
        left = 0
        if not self._tree.exited.done():
            if self._foreground.done() and not self.aborted:
                await wait_for(self._tree.drained, DRAIN_GRACE_S)
            left = len(self._tree.living())
            await self._tree.end()
        await wait_for(self._tree.emptied, DEATH_S)
        # No writer is left, so what the pipes still hold is read to its end at once.
        patience = 0 if self._passage is None or self.aborted else max(0, until - time.monotonic())
        await wait_for(self._tree.drained, DEATH_S + patience)
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
        init = self._tree.init_pid
        if self._check is not None and init is not None:
            try:
                self._refused = self._check(init)
            except OSError as error:
                self._refused = f"the sandbox could not be checked before the command ({error.strerror})"
        if self._refused is not None or self.aborted:
            self._hold_back()
        elif self._admit is None or init is None:
            self._go()
        else:
            self._admitting = asyncio.ensure_future(self._admitted(self._admit, init))

    async def _admitted(self, admit: Admit, init: int) -> None:
        try:
            await admit(init)
        except Exception as error:
            self._fault = error
            self._hold_back()
        else:
            self._go()

    def _go(self) -> None:
        try:
            word = self._word()
        except OSError as error:
            self._refused = f"the command's terminal could not be made ({error.strerror}); nothing was run"
            self._hold_back()
            return
        self._tree.send(word)
        _resolve(self.begun)

    def _word(self) -> bytes:
        if self._passage is not None:
            return self._passage.begin(self, self._tree)
        return GO if self._stdin is None else b"%d\n%s" % (len(self._stdin), self._stdin)

    def _hold_back(self) -> None:
        self.held_back = True
        self._tree.kill()
        _resolve(self.begun)

    def _foreground_ended(self) -> None:
        _resolve(self._foreground)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
