"""A spawned supervisor as the event loop sees it: its exit by pidfd, its words by a socket, output by pipes.

No thread waits for anything, and no Python code runs between fork and exec (BND-15, BND-18).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from drawbar.boundary.processes import descendants, signal_all
from drawbar.boundary.supervisor import END, Word, Words, first_process
from drawbar.contracts.boundary import Wrapped

__all__ = ["DEATH_S", "TERM_GRACE_S", "Sink", "Supervised", "through_cancellation", "wait_for"]

T = TypeVar("T")

TERM_GRACE_S: Final = 1.0
"""Between SIGTERM and SIGKILL."""
DEATH_S: Final = 2.0
"""How long a killed tree may take to be gone: the kernel may have to finish a write first."""
_BIRTH_LOOKS, _BIRTH_LOOK_S = 50, 0.01
_NO_CORE: Final = (1, 1)
"""A limit of one byte: no file in the workspace, and no crash handler of the machine started for a command."""
_STATUS_BYTES: Final = 4096
_CHUNK: Final = 256 * 1024


class Sink(Protocol):
    """Takes what a pipe carries."""

    def feed(self, chunk: bytes) -> asyncio.Future[bool] | None:
        """Take the next bytes.

        A future holds the pipe up until it is done: whoever writes then waits. False as its result says that
        nobody takes more, and the pipe is closed.
        """
        ...


class Supervised:
    """The supervisor and everything below it.

    Args:
        wrapped: what to spawn; its descriptors are used up.
        apart: whether standard error gets a pipe of its own.
        heed: called with each word of the supervisor.
        on_exit: called once when the spawned process has ended.

    Attributes:
        sinks: who takes what the pipes carry, standard output first; None drops it.
        exited, emptied, drained: done when the spawned process has ended, when nothing below it is alive, and
            when every pipe is closed by its last writer.

    Raises:
        OSError: when the program can't be started at all.
    """

    def __init__(
        self, wrapped: Wrapped, *, apart: bool, heed: Callable[[Word], None], on_exit: Callable[[], None]
    ) -> None:
        assert wrapped.talk_fd is not None
        self._loop = asyncio.get_running_loop()
        self._heed = heed
        self._after_exit = on_exit
        self._words = Words()
        self._control = socket.socket(fileno=wrapped.talk_fd)
        self._control.setblocking(False)
        self._status = wrapped.info_fd
        self._to_send = memoryview(b"")
        self._init_fd: int | None = None
        self._closed = False
        self._pipes: dict[int, int] = {}
        self.init_pid: int | None = None
        self.sinks: list[Sink | None] = [None, None] if apart else [None]
        self.exited: asyncio.Future[None] = self._loop.create_future()
        self.emptied: asyncio.Future[None] = self._loop.create_future()
        self.drained: asyncio.Future[None] = self._loop.create_future()
        self._spawn(wrapped)

    # -- talking and reading ----------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Say something to the supervisor, as fast as it takes it; what a dead one misses is dropped."""
        self._to_send = memoryview(bytes(self._to_send) + data) if self._to_send else memoryview(data)
        self._send()

    def listen(self, fd: int) -> None:
        """Read a further descriptor as if it were standard output; it is closed with the others."""
        os.set_blocking(fd, False)
        self._pipes[fd] = 0
        self._loop.add_reader(fd, self._read, fd)

    def read_now(self) -> None:
        """Take what the pipes hold at this moment, for when every writer has ended but the pipes live on."""
        for fd in tuple(self._pipes):
            while self._read(fd):
                pass

    @property
    def returncode(self) -> int:
        """The exit code, 128+n for a signal; SIGKILL's while the process can't be collected."""
        code = self._popen.returncode if self.exited.done() else -signal.SIGKILL
        return code if code >= 0 else 128 - code

    # -- ending -----------------------------------------------------------------------------------------

    def living(self) -> list[int]:
        """Every process of the tree but the supervisor itself."""
        return [] if self.init_pid is None else descendants(self.init_pid)

    def terminate(self) -> None:
        """SIGTERM to every process of the tree but the supervisor; stopped ones are woken to hear it."""
        living = self.living()
        signal_all(living, signal.SIGTERM)
        signal_all(living, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to all of it: the end of a namespace's first process is the end of the namespace."""
        if self._init_fd is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)
        elif self.init_pid is not None:
            # Without a namespace the supervisor collects what loses its parent; it must be the last to go.
            signal_all(self.living(), signal.SIGKILL)
            with contextlib.suppress(OSError):
                self._control.send(END)
        elif not self.exited.done():
            self._popen.kill()

    async def end(self) -> None:
        """Kill, and wait until everything is gone or can't be."""
        await self._born_or_dead()
        self.kill()
        await wait_for(self.exited, DEATH_S)
        if not self.exited.done():
            self._popen.kill()
        await wait_for(self.emptied, DEATH_S)

    def close(self) -> None:
        """Give every descriptor back; whatever is said or written later is lost. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        held = (fd for fd in (self._pidfd, self._init_fd, self._status) if fd is not None)
        for fd in (*self._pipes, *held):
            self._loop.remove_reader(fd)
            os.close(fd)
        self._pipes.clear()
        self._init_fd = self._status = None
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control.fileno())
            self._loop.remove_writer(self._control.fileno())
            self._control.close()

    async def _born_or_dead(self) -> None:
        # Killing the outer process between its fork and the set-up of the inner one would orphan the inner one.
        for _ in range(_BIRTH_LOOKS):
            self._adopt()
            if self.init_pid is not None or self.exited.done():
                return
            await wait_for(self.exited, _BIRTH_LOOK_S)

    # -- starting and watching --------------------------------------------------------------------------

    def _spawn(self, wrapped: Wrapped) -> None:
        reading: list[int] = []
        writing: list[int] = []
        try:
            for _ in self.sinks:
                read_end, write_end = os.pipe2(os.O_CLOEXEC)
                os.set_blocking(read_end, False)
                reading.append(read_end)
                writing.append(write_end)
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
        self._pipes = {fd: number for number, fd in enumerate(reading)}
        self._loop.add_reader(self._pidfd, self._on_exit)
        self._loop.add_reader(self._control.fileno(), self._on_words)
        for fd in reading:
            self._loop.add_reader(fd, self._read, fd)

    def _read(self, fd: int) -> bool:
        """Take one chunk; whether there may be more."""
        try:
            chunk = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if chunk:
            sink = self.sinks[self._pipes[fd]]
            held = None if sink is None else sink.feed(chunk)
            if held is not None:
                self._loop.remove_reader(fd)
                held.add_done_callback(lambda taken: self._go_on(fd, taken))
            return held is None
        self._shut(fd)
        return False

    def _go_on(self, fd: int, taken: asyncio.Future[bool]) -> None:
        if fd not in self._pipes:
            return
        if taken.cancelled() or not taken.result():
            self._shut(fd)
        else:
            self._loop.add_reader(fd, self._read, fd)

    def _shut(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        os.close(fd)
        del self._pipes[fd]
        if not self._pipes:
            _resolve(self.drained)

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
            self._adopt()
            self._heed(word)

    def _send(self) -> None:
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

    def _adopt(self) -> None:
        """Hold the sandbox's first process by a pidfd: when it is gone, the kernel has ended all the others."""
        if self.init_pid is not None:
            return
        if self._status is None:
            # Without a namespace the supervisor itself is the top, and it outlives what it collects.
            self.init_pid = self._popen.pid
            return
        pid = first_process(os.pread(self._status, _STATUS_BYTES, 0))
        if pid is None:
            return
        self.init_pid = pid
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_CORE, _NO_CORE)
        try:
            self._init_fd = os.pidfd_open(pid)
        except OSError:
            return
        self._loop.add_reader(self._init_fd, self._on_empty)

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._popen.wait()
        if self._init_fd is None:
            _resolve(self.emptied)
        _resolve(self.exited)
        self._after_exit()

    def _on_empty(self) -> None:
        assert self._init_fd is not None
        self._loop.remove_reader(self._init_fd)
        # When this process collects orphans, the sandbox's first process became its child.
        with contextlib.suppress(OSError):
            os.waitid(os.P_PIDFD, self._init_fd, os.WEXITED | os.WNOHANG)
        _resolve(self.emptied)


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


async def wait_for(future: asyncio.Future[None], seconds: float) -> bool:
    """Wait at most so long; whether it is done."""
    if not future.done():
        await asyncio.wait((future,), timeout=seconds)
    return future.done()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
