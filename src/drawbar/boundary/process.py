"""One supervised process tree: started without threads, watched by the event loop, ended whatever it does.

Upholds QLT-12: exactly one outcome, within the limit plus a few seconds, and nothing that the command started is
alive afterwards. The exit comes by pidfd, output by pipes, the supervisor's words by its socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeVar

from drawbar.boundary.output import Output
from drawbar.boundary.processes import descendants, signal_all
from drawbar.boundary.supervisor import END, GO, Word, Words, first_process
from drawbar.contracts.boundary import Wrapped

__all__ = ["Check", "Outcome", "ProcessTree", "through_cancellation"]

T = TypeVar("T")

TERM_GRACE_S: Final = 1.0
"""Between SIGTERM and SIGKILL."""
DRAIN_GRACE_S: Final = 0.15
"""How long what a command left may go on writing after the command itself ended."""
_DEATH_S: Final = 2.0
"""How long a killed tree may take to be gone: the kernel may have to finish a write first."""
_BIRTH_LOOKS, _BIRTH_LOOK_S = 50, 0.01
_STATUS_BYTES: Final = 4096
_CHUNK: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a tree ended.

    ``exit_code`` is 128+n for a signal. ``ready`` is False when the sandbox never got as far as the command, and
    ``refused`` says why the harness then held the command back. ``left`` counts the processes that had to be
    ended after the command itself; ``gone`` is False when something outlived even SIGKILL (a hung disk).
    """

    cause: Literal["ok", "error", "timeout", "aborted"]
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
    """A spawned supervisor and everything below it.

    Args:
        wrapped: what to spawn; its ``control_fd`` becomes the supervisor's standard input.
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
        self._loop = asyncio.get_running_loop()
        self._check = check
        self._to_send = memoryview(GO if stdin is None else b"%d\n%s" % (len(stdin), stdin))
        self._words = Words()
        self._ready = False
        self._refused: str | None = None
        self._aborted = False
        self._later: asyncio.TimerHandle | None = None
        self._left: int | None = None
        self._init_pid: int | None = None
        self._init_fd: int | None = None
        self._foreground: asyncio.Future[None] = self._loop.create_future()
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._emptied: asyncio.Future[None] = self._loop.create_future()
        self._drained: asyncio.Future[None] = self._loop.create_future()
        self._pipes: dict[int, Output] = {}
        self._started = time.monotonic()
        self._spawn(wrapped, out, err)

    # -- the whole life ---------------------------------------------------------------------------------

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
            self._close()
        code = self._exit_code()
        cause: Literal["ok", "error", "timeout", "aborted"] = "ok" if code == 0 and self._ready else "error"
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
            gone=self._exited.done() and self._emptied.done(),
            duration_ms=round((time.monotonic() - self._started) * 1000),
        )

    def abort(self) -> None:
        """End the tree from outside; ``run`` then returns with cause ``aborted``."""
        self._aborted = True
        self._signal_tree(signal.SIGTERM)
        self._later = self._loop.call_later(TERM_GRACE_S, self._kill)

    # -- ending -----------------------------------------------------------------------------------------

    async def _terminate(self) -> None:
        """SIGTERM to every process of the tree, then SIGKILL to all that is left (PRC-03)."""
        self._signal_tree(signal.SIGTERM)
        await _wait(self._foreground, TERM_GRACE_S)

    async def _finish(self) -> int:
        """From the foreground's end to an empty tree and drained pipes; the number of processes left behind."""
        left = 0
        if not self._exited.done():
            if self._foreground.done() and not self._aborted:
                await _wait(self._drained, DRAIN_GRACE_S)
            left = len(self._living())
            await self._born_or_dead()
            self._kill()
            await _wait(self._exited, _DEATH_S)
            if not self._exited.done():
                self._popen.kill()
        await _wait(self._emptied, _DEATH_S)
        # No writer is left, so what the pipes still hold is read to its end at once.
        await _wait(self._drained, _DEATH_S)
        return left

    async def _end_now(self) -> None:
        if not self._exited.done():
            await self._terminate()
        await self._finish()

    async def _born_or_dead(self) -> None:
        # Killing the outer process between its fork and the set-up of the inner one would orphan the inner one.
        for _ in range(_BIRTH_LOOKS):
            self._adopt()
            if self._init_pid is not None or self._exited.done():
                return
            await _wait(self._exited, _BIRTH_LOOK_S)

    def _kill(self) -> None:
        if self._init_fd is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)
        elif self._init_pid is not None:
            # Without a namespace the supervisor collects what loses its parent; it must be the last to go.
            signal_all(self._living(), signal.SIGKILL)
            with contextlib.suppress(OSError):
                self._control.send(END)
        elif not self._exited.done():
            self._popen.kill()

    def _signal_tree(self, number: signal.Signals) -> None:
        living = self._living()
        signal_all(living, number)
        signal_all(living, signal.SIGCONT)

    def _living(self) -> list[int]:
        """Every process of the tree but the supervisor itself."""
        return [] if self._init_pid is None else descendants(self._init_pid)

    # -- starting and watching --------------------------------------------------------------------------

    def _spawn(self, wrapped: Wrapped, out: Output, err: Output | None) -> None:
        assert wrapped.talk_fd is not None
        assert wrapped.control_fd is not None
        self._control = socket.socket(fileno=wrapped.talk_fd)
        self._control.setblocking(False)
        self._status = wrapped.info_fd
        reading: list[int] = []
        writing: list[int] = []
        try:
            for sink in (out,) if err is None else (out, err):
                read_end, write_end = os.pipe2(os.O_CLOEXEC)
                os.set_blocking(read_end, False)
                reading.append(read_end)
                writing.append(write_end)
                self._pipes[read_end] = sink
            self._popen = subprocess.Popen(
                wrapped.argv,
                stdin=wrapped.control_fd,
                stdout=writing[0],
                stderr=writing[-1],
                env=wrapped.env,
                cwd=wrapped.cwd,
                pass_fds=wrapped.pass_fds,
                start_new_session=True,
            )
            self._pidfd = os.pidfd_open(self._popen.pid)
        except BaseException:
            self._control.close()
            for fd in (*reading, *(() if self._status is None else (self._status,))):
                os.close(fd)
            raise
        finally:
            for fd in writing:
                os.close(fd)
            wrapped.close()
        self._loop.add_reader(self._pidfd, self._on_exit)
        self._loop.add_reader(self._control.fileno(), self._on_words)
        for fd in reading:
            self._loop.add_reader(fd, self._on_output, fd)

    def _on_output(self, fd: int) -> None:
        try:
            chunk = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk:
            self._pipes[fd].feed(chunk)
            return
        self._loop.remove_reader(fd)
        os.close(fd)
        del self._pipes[fd]
        if not self._pipes:
            _resolve(self._drained)

    def _on_words(self) -> None:
        try:
            data = self._control.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._control.fileno())
            return
        for word in self._words.feed(data):
            self._heed(word)

    def _heed(self, word: Word) -> None:
        if word.kind == "ready":
            self._adopt()
            self._begin()
        else:
            self._left = word.number
            _resolve(self._foreground)

    def _adopt(self) -> None:
        """Hold the sandbox's first process by a pidfd: when it is gone, the kernel has ended all the others."""
        if self._init_pid is not None:
            return
        if self._status is None:
            # Without a namespace the supervisor itself is the top, and it outlives what it collects.
            self._init_pid = self._popen.pid
            return
        pid = first_process(os.pread(self._status, _STATUS_BYTES, 0))
        if pid is None:
            return
        self._init_pid = pid
        try:
            self._init_fd = os.pidfd_open(pid)
        except OSError:
            return
        self._loop.add_reader(self._init_fd, self._on_empty)

    def _begin(self) -> None:
        self._ready = True
        if self._check is not None and self._init_pid is not None:
            try:
                self._refused = self._check(self._init_pid)
            except OSError as error:
                self._refused = f"the sandbox could not be checked before the command ({error.strerror})"
        if self._refused is not None or self._aborted:
            self._kill()
            return
        self._send()

    def _send(self) -> None:
        """Give the word to start and the standard input, as fast as the command takes it."""
        try:
            sent = self._control.send(self._to_send)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(self._to_send)
        self._to_send = self._to_send[sent:]
        if self._to_send:
            self._loop.add_writer(self._control.fileno(), self._send)
        else:
            self._loop.remove_writer(self._control.fileno())

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._popen.wait()
        if self._init_fd is None:
            _resolve(self._emptied)
        _resolve(self._exited)
        _resolve(self._foreground)

    def _on_empty(self) -> None:
        assert self._init_fd is not None
        self._loop.remove_reader(self._init_fd)
        # When this process collects orphans, the sandbox's first process became its child.
        with contextlib.suppress(OSError):
            os.waitid(os.P_PIDFD, self._init_fd, os.WEXITED | os.WNOHANG)
        _resolve(self._emptied)

    def _exit_code(self) -> int:
        if not self._exited.done():
            return 128 + signal.SIGKILL
        code = self._popen.returncode
        if self._left is not None:
            return self._left
        return code if code >= 0 else 128 - code

    def _close(self) -> None:
        held = (fd for fd in (self._pidfd, self._init_fd, self._status) if fd is not None)
        for fd in (*self._pipes, *held):
            self._loop.remove_reader(fd)
            os.close(fd)
        self._pipes.clear()
        self._init_fd = None
        if self._later is not None:
            self._later.cancel()
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control.fileno())
            self._loop.remove_writer(self._control.fileno())
            self._control.close()


async def through_cancellation(work: Coroutine[Any, Any, T]) -> T:
    """Carry ``work`` to its end however often the caller is cancelled meanwhile (RUN-10)."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
    return task.result()


async def _wait(future: asyncio.Future[None], seconds: float) -> None:
    if not future.done():
        await asyncio.wait((future,), timeout=seconds)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
