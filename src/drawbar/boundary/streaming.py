"""A command's streams passed through raw: the harness's own pipes or pseudo-terminal stand in between (BND-10, CLI-6).

Nothing of the harness's own streams is handed in: input is pumped, output is handed on by a thread that may block
without holding up the limit, and while it blocks the command waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from drawbar.boundary.pty import Terminal, open_terminal
from drawbar.boundary.supervisor import GO, INPUT_FD, PIPED, on_terminal
from drawbar.contracts.boundary import Streams, Wrapped

if TYPE_CHECKING:
    from drawbar.boundary.process import ProcessTree
    from drawbar.boundary.supervised import Supervised

__all__ = ["Passage", "Pump"]

_CHUNK: Final = 64 * 1024
_END_OF_INPUT: Final = b"\x04"
_WITH_INPUT: Final = (
    "import os,sys,_signal;fd,to=map(int,sys.argv[1:3]);os.dup2(fd,to);fd==to or os.close(fd);"
    "[_signal.signal(n,_signal.SIG_DFL) for n in (_signal.SIGPIPE,_signal.SIGXFSZ)];os.execv(sys.argv[3],sys.argv[3:])"
)
"""A shell can name no descriptor above 9, and a descriptor can't be given another number without a program.

Python ignores two signals, and what is ignored would be inherited.
"""


class Passage:
    """Both directions of one command's streams.

    Args:
        streams: what the caller gave.
        namespaced: whether the command has terminals of its own (``/dev/pts``), as in every namespace.

    Attributes:
        out, err: take the command's output.
    """

    def __init__(self, streams: Streams, *, namespaced: bool) -> None:
        self._streams = streams
        # Before anything else is opened, which would take the number of a descriptor that is closed.
        self._source = None if streams.stdin_fd is None else _duplicate(streams.stdin_fd)
        self._namespaced = namespaced
        self._taker = _Taker()
        self._pump: Pump | None = None
        self._terminal: Terminal | None = None
        self._write_end: int | None = None
        self.out = _Outlet(self._taker, streams.stdout)
        self.err = None if streams.terminal is not None else _Outlet(self._taker, streams.stderr)

    def prepare(self, wrapped: Wrapped) -> None:
        """Give the command line a pipe for its standard input, where it gets one."""
        if self._streams.terminal is not None or self._streams.stdin_fd is None:
            return
        read_end, self._write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._write_end, False)
        wrapped.pass_fds = (*wrapped.pass_fds, read_end)
        wrapped.argv = [sys.executable, "-I", "-S", "-c", _WITH_INPUT, str(read_end), str(INPUT_FD), *wrapped.argv]

    def begin(self, tree: ProcessTree, supervised: Supervised) -> bytes:
        """The sandbox is set up: make the terminal, start the pump; what to say to the supervisor.

        Raises:
            OSError: when no terminal can be had.
        """
        word = GO if self._write_end is None else PIPED
        sink = self._write_end
        if self._streams.terminal is not None:
            init = tree.init_pid if self._namespaced else None
            self._terminal = open_terminal(init, self._streams.terminal)
            supervised.listen(os.dup(self._terminal.master))
            word, sink = on_terminal(self._terminal.number), self._terminal.master
        self._write_end = None
        if self._streams.stdin_fd is not None and sink is not None:
            end = _END_OF_INPUT if self._terminal is not None else None
            self._pump = Pump(self._source, sink, end=end)
            self._source = None
        if self._streams.started is not None:
            self._streams.started(_Running(tree, self._terminal))
        return word

    def end_input(self) -> None:
        """The command has ended: nobody is left to read."""
        if self._pump is not None:
            self._pump.close()

    def close(self) -> None:
        """Give every descriptor back; safe to call twice."""
        self.end_input()
        if self._terminal is not None:
            self._terminal.close()
        if self._write_end is not None:
            os.close(self._write_end)
            self._write_end = None
        if self._source is not None:
            os.close(self._source)
            self._source = None
        self._taker.close()


class _Running:
    """The command as its caller steers it."""

    def __init__(self, tree: ProcessTree, terminal: Terminal | None) -> None:
        self._tree = tree
        self._terminal = terminal

    def signal(self, number: int) -> None:
        if self._terminal is None or not self._terminal.signal(number):
            self._tree.signal(number)

    def resize(self, rows: int, columns: int) -> None:
        if self._terminal is not None:
            self._terminal.resize(rows, columns)


class _Taker:
    """Calls the caller's functions one after another in a thread of their own, started when first needed."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def take(self, function: Callable[[bytes], None], chunk: bytes) -> asyncio.Future[bool]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()

        def work() -> None:
            try:
                function(chunk)
                taken = True
            except Exception:  # whoever takes the output is gone; the command learns it as from any broken pipe
                taken = False
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, done, taken)

        if self._thread is None:
            # A daemon: output that nobody takes must not keep the harness from ending.
            self._thread = threading.Thread(target=self._serve, name="drawbar-streams", daemon=True)
            self._thread.start()
        self._queue.put(work)
        return done

    def close(self) -> None:
        self._queue.put(None)

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            work()


class _Outlet:
    """One direction of output."""

    def __init__(self, taker: _Taker, function: Callable[[bytes], None]) -> None:
        self._taker = taker
        self._function = function

    def feed(self, chunk: bytes) -> asyncio.Future[bool]:
        return self._taker.take(self._function, chunk)


class Pump:
    """Moves input from one descriptor to another, at most one chunk ahead of whoever reads it.

    Args:
        source: read to its end and closed; never made non-blocking, since others may share it. None is at its end.
        sink: non-blocking; closed at the end unless ``end`` says what ends input there.
        end: what a terminal takes for the end of input; None closes the sink instead.
    """

    def __init__(self, source: int | None, sink: int, *, end: bytes | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink
        self._end = end
        self._rest = memoryview(b"")
        self._at_line_start = True
        self._ended = self._closed = self._watched = False
        self._task: asyncio.Handle | None = None
        self._source = source
        if source is None:
            self._finish()
        else:
            self._wait()

    def close(self) -> None:
        """Stop; input that is left stays where it is. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        if self._source is not None:
            if self._watched:
                self._loop.remove_reader(self._source)
            os.close(self._source)
            self._source = None
        self._loop.remove_writer(self._sink)
        if self._end is None:
            os.close(self._sink)

    def _wait(self) -> None:
        """Read as soon as there is something; what can't be waited for, a plain file above all, always has it."""
        assert self._source is not None
        try:
            self._loop.add_reader(self._source, self._read)
            self._watched = True
        except OSError:
            self._task = self._loop.call_soon(self._read)

    def _read(self) -> None:
        assert self._source is not None
        if self._watched:
            self._loop.remove_reader(self._source)
            self._watched = False
        try:
            chunk = os.read(self._source, _CHUNK)
        except BlockingIOError:
            self._wait()
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._finish()
            return
        self._at_line_start = chunk.endswith(b"\n")
        self._rest = memoryview(chunk)
        self._write()

    def _finish(self) -> None:
        self._ended = True
        if self._end is None:
            self.close()
        else:
            # In the middle of a line the first one only gives the line out.
            self._rest = memoryview(self._end if self._at_line_start else self._end * 2)
            self._write()

    def _write(self) -> None:
        try:
            written = os.write(self._sink, self._rest)
        except BlockingIOError:
            written = 0
        except OSError:
            self.close()
            return
        self._rest = self._rest[written:]
        if self._rest:
            self._loop.add_writer(self._sink, self._write)
            return
        self._loop.remove_writer(self._sink)
        if not self._ended:
            self._wait()


def _duplicate(fd: int) -> int | None:
    try:
        return os.dup(fd)
    except OSError:
        return None


def _settle(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)
