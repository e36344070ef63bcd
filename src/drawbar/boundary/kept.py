"""A sandbox that serves one command after another, so that entering it costs little more than the command (PRF-2).

Every guarantee of a sandbox of its own holds for each call, or the sandbox is given up: the plan is compared, the
root and every hole are looked at again, nothing may be alive, and nothing discarded may be left.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from drawbar.boundary.output import Output
from drawbar.boundary.process import DRAIN_GRACE_S, Cause, Check, Outcome
from drawbar.boundary.processes import living_children
from drawbar.boundary.supervised import TERM_GRACE_S, Supervised, through_cancellation, wait_for
from drawbar.boundary.supervisor import Word, call_script
from drawbar.boundary.traces import Traces, traces_of
from drawbar.contracts.boundary import Attachment, Wrapped

__all__ = ["KeptSandbox"]

_READY_S: Final = 10.0
_IDLE_S: Final = 30.0
_LOOK_S: Final = 0.01


class KeptSandbox:
    """One running sandbox and the calls that go into it, never two at a time.

    Args:
        wrapped: what to spawn.
        view: what it shows, comparable; a call that needs another view needs another sandbox.
        calls: the folder for the calls' scripts; it is removed when the sandbox is closed.
        shown: as what it shows inside.
        idle_s: seconds without a call after which it ends by itself; None takes half a minute.

    Attributes:
        usable: whether another call may enter.
        busy: whether one is inside.
        attachment: its way to the network, if it has one.
    """

    def __init__(self, wrapped: Wrapped, view: object, *, calls: Path, shown: str, idle_s: float | None = None) -> None:
        self.view = view
        self.usable = True
        self.busy = False
        self.attachment: Attachment | None = None
        self._traces: Traces | None = None
        self._calls = calls
        self._shown = shown
        self._count = 0
        self._idle_s = _IDLE_S if idle_s is None else idle_s
        self._expiry: asyncio.TimerHandle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._word: Word | None = None
        self._aborted = False
        self._tree = Supervised(wrapped, apart=True, heed=self._heed, on_exit=self._on_exit)

    async def open(self) -> bool:
        """Wait until it is set up; whether it is."""
        await wait_for(self._ready, _READY_S)
        if not self.usable or not self._ready.done() or self._tree.exited.done():
            return False
        with contextlib.suppress(OSError):
            self._traces = traces_of(self.init_pid)
        return self._traces is not None

    @property
    def init_pid(self) -> int:
        """The process id of its first process, once it is open."""
        assert self._tree.init_pid is not None
        return self._tree.init_pid

    def fault(self, check: Check) -> str | None:
        """Why no call may enter any more: something changed under the sandbox since it was made."""
        if self._tree.init_pid is None:
            return "the sandbox is not there"
        try:
            if traces_of(self._tree.init_pid) != self._traces:
                return "an earlier command changed what the next one would inherit"
            return check(self._tree.init_pid)
        except OSError as error:
            return f"the sandbox can't be looked at ({error.strerror})"

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Iterable[tuple[str, str]],
        stdin: bytes | None,
        out: Output,
        err: Output | None,
        limit_s: float,
    ) -> Outcome:
        """Carry one command out; afterwards nothing of it is left, or the sandbox is no longer usable and ended.

        Raises:
            ValueError: for a zero byte in the command.
            OSError: when its script can't be written.
            asyncio.CancelledError: after everything of it is gone.
        """
        started = time.monotonic()
        files = self._write(argv, cwd, env, stdin, apart=err is not None)
        self._begin(out, err)
        try:
            self._tree.send(os.fsencode(f"{self._shown}/{files[0].name}\n"))
            await asyncio.wait((self._ended,), timeout=limit_s)
            timed_out = not self._ended.done()
            if timed_out:
                await self._terminate()
            left = await self._finish(give_up=timed_out or self._aborted)
        except asyncio.CancelledError:
            await through_cancellation(self._end_now())
            raise
        finally:
            self._tree.sinks = [None, None]
            for file in files:
                with contextlib.suppress(OSError):
                    os.unlink(file)
            self._end_call()
        code = self._word.number if self._word is not None else self._tree.returncode
        cause: Cause = "ok" if code == 0 else "error"
        if timed_out:
            cause = "timeout"
        elif self._aborted:
            cause = "aborted"
        return Outcome(
            cause=cause,
            exit_code=code,
            ready=True,
            refused=None,
            left=left,
            gone=self.usable or (self._tree.exited.done() and self._tree.emptied.done()),
            duration_ms=round((time.monotonic() - started) * 1000),
        )

    def abort(self) -> None:
        """End the call inside from outside; it then returns with cause ``aborted``."""
        self._aborted = True
        self._tree.terminate()
        self._later = self._loop.call_later(TERM_GRACE_S, self._tree.kill)

    async def close(self) -> None:
        """End the sandbox; safe to call twice."""
        self.usable = False
        if self._expiry is not None:
            self._expiry.cancel()
        if self.attachment is not None:
            await through_cancellation(self.attachment.close())
        if not self._tree.exited.done():
            await through_cancellation(self._tree.end())
        self._tree.close()
        shutil.rmtree(self._calls, ignore_errors=True)

    # -- one call ---------------------------------------------------------------------------------------

    def _begin(self, out: Output, err: Output | None) -> None:
        self.busy = True
        self._word = None
        self._ended = self._loop.create_future()
        if self._tree.exited.done():
            self._ended.set_result(None)
        self._tree.sinks = [out, out if err is None else err]
        if self._expiry is not None:
            self._expiry.cancel()

    def _end_call(self) -> None:
        self.busy = False
        if self._later is not None:
            self._later.cancel()
        if self.usable:
            self._expiry = self._loop.call_later(self._idle_s, self._expire)

    def _write(
        self, argv: Sequence[str], cwd: Path, env: Iterable[tuple[str, str]], stdin: bytes | None, *, apart: bool
    ) -> list[Path]:
        self._count += 1
        name = f"{self._count}"
        given = f"{name}.in" if stdin is not None else None
        shown = f"{self._shown}/{given}" if given is not None else None
        script = call_script(argv, cwd=str(cwd), env=env, stdin=shown, apart=apart)
        files = [_create(self._calls / name, script)]
        if given is not None and stdin is not None:
            files.append(_create(self._calls / given, stdin))
        return files

    async def _terminate(self) -> None:
        self._tree.terminate()
        await wait_for(self._ended, TERM_GRACE_S)

    async def _finish(self, *, give_up: bool) -> int:
        """From the command's end to a sandbox with nothing in it; the number of processes left behind."""
        word = self._word
        left = 0
        if self._ended.done() and not give_up:
            await self._settle()
        if word is None or give_up or self._alive():
            left = len(self._tree.living())
            self.usable = False
            await self._tree.end()
        elif word.kind == "soiled":
            self.usable = False
            await self._tree.end()
        # Every writer has ended, so what the pipes hold now is all there is.
        self._tree.read_now()
        return left

    async def _settle(self) -> None:
        """Give what the command left a moment to finish by itself."""
        end = time.monotonic() + DRAIN_GRACE_S
        while self._alive() and time.monotonic() < end:  # noqa: ASYNC110 - nothing tells when an orphan ends
            await asyncio.sleep(_LOOK_S)

    async def _end_now(self) -> None:
        if not self._ended.done():
            await self._terminate()
        await self._finish(give_up=True)

    def _alive(self) -> bool:
        """Whether anything but the supervisor lives: the kernel's word, not the supervisor's."""
        return self._tree.init_pid is not None and bool(living_children(self._tree.init_pid))

    # -- what is heard ----------------------------------------------------------------------------------

    def _heed(self, word: Word) -> None:
        if word.kind == "ready":
            if not self._ready.done():
                self._ready.set_result(None)
        elif self.busy and not self._ended.done():
            self._word = word
            self._ended.set_result(None)

    def _on_exit(self) -> None:
        self.usable = False
        for future in (self._ready, self._ended):
            if not future.done():
                future.set_result(None)

    def _expire(self) -> None:
        if not self.busy:
            self.usable = False
            self._tree.kill()


def _create(path: Path, content: bytes) -> Path:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)
    return path
