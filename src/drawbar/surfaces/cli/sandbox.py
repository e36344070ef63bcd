"""``drawbar sandbox``: a command in the very sandbox that a run's commands get, typed by hand (CLI-6)."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import sys
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import click

from drawbar.surfaces.cli.shell import Command, EndWith

if TYPE_CHECKING:
    from drawbar.contracts.boundary import CommandRequest, CommandResult, RunningCommand
    from drawbar.contracts.capability import Scope
    from drawbar.surfaces.cli.raw_terminal import RawTerminal

__all__ = ["sandbox"]

CANT_WORK: Final = 125
"""The sandbox itself failed, as of `docker run` and `timeout`: nothing was run, or nobody knows what became of it."""
_SCOPES: Final = ("read-only", "workspace", "outside")
_MISSING: Final = "put the command behind `--`, as in: drawbar sandbox -- make test"


class _SandboxCommand(Command):
    """Takes everything behind ``--`` as it is, and several hosts behind one ``--net``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a line that is still being typed
            return super().parse_args(ctx, args)
        at = args.index("--") if "--" in args else None
        options = args if at is None else args[:at]
        command = [] if at is None else args[at + 1 :]
        rest = super().parse_args(ctx, [*_one_host_each(options), "--", *command])
        if not command or ctx.params["command"] != tuple(command):
            raise click.UsageError(_MISSING, ctx)
        return rest


def _one_host_each(words: list[str]) -> list[str]:
    expanded: list[str] = []
    hosts = 0
    for word in words:
        if word == "--net":
            hosts = 1
        elif hosts and not word.startswith("-"):
            if hosts > 1:
                expanded.append("--net")
            hosts += 1
        else:
            hosts = 0
        expanded.append(word)
    return expanded


@click.command(cls=_SandboxCommand, epilog="Example: drawbar sandbox --net example.org -- curl -sS https://example.org")
@click.option(
    "--scope",
    type=click.Choice(_SCOPES),
    default="workspace",
    help="workspace (the default): writes only in the folder's workspace and a private temporary folder; read-only:"
    " writes nothing, no network; outside: unconfined, with an environment without secrets.",
)
@click.option("--root", default=".", metavar="DIR", help="Start there instead of in the current folder.")
@click.option("--net", multiple=True, metavar="HOST…", help="Hosts that the command may reach, in scope workspace.")
@click.option("--session", metavar="NAME", help="Keep the private temporary folder under this name, for the next call.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND…")
def sandbox(scope: Scope, root: str, net: tuple[str, ...], session: str | None, command: tuple[str, ...]) -> int:
    """Run COMMAND in the very sandbox that a run's commands get in this folder.

    COMMAND is a program and its arguments, no shell line (`-- bash -c '…'` makes one of it). It gets a terminal of
    its own when standard input and output are one, else pipes. It has no time limit; Ctrl-C goes to it. Exit codes:
    the command's own, 128+n for a signal; 2 bad usage, or a folder that can't be a workspace; 3 `outside` asked for
    from within a run; 125 the sandbox can't work.
    """
    if net and scope != "workspace":
        why = "no network at all" if scope == "read-only" else "nothing that keeps it from the network"
        raise click.UsageError(f"--net is for scope workspace; {scope} has {why}")
    _check_hosts(net)
    return asyncio.run(_Passing(scope, Path(root), net, session, command).carry_out())


def _check_hosts(hosts: tuple[str, ...]) -> None:
    from drawbar.boundary.hosts import AllowList, HostRefused

    try:
        AllowList(hosts)
    except HostRefused as error:
        raise click.UsageError(f"--net: {error}") from error


class _Passing:
    """One command: its streams to ours, our signals to it."""

    def __init__(
        self, scope: Scope, folder: Path, hosts: tuple[str, ...], session: str | None, command: tuple[str, ...]
    ) -> None:
        self._scope: Scope = scope
        self._folder = folder
        self._hosts = hosts
        self._session = session
        self._command = command
        self._running: RunningCommand | None = None
        self._terminal: RawTerminal | None = None
        self._ended_by: int | None = None
        self._interrupted: list[int] = []
        self._stdout = _Sink(sys.stdout)
        self._stderr = _Sink(sys.stderr)
        stdin: TextIO | None = sys.stdin  # None where whoever started us closed it
        self._stdin_fd = None if stdin is None else stdin.fileno()

    async def carry_out(self) -> int:
        """Run it to its end, or end it; the exit code."""
        from drawbar import app
        from drawbar.contracts.errors import IncompatibleRoot, SandboxUnavailable, StorageFailed, WorkspaceRefused

        result: CommandResult | None = None
        try:
            with self._signals():
                async with app.open_sandbox(self._folder, scope=self._scope, session=self._session) as runner:
                    try:
                        with self._own_terminal():
                            result = await runner.run(self._request())
                    except (WorkspaceRefused, OSError) as error:
                        # The folder can be a workspace; what is in it keeps the sandbox from working.
                        raise SandboxUnavailable(f"{error}") from error
        except asyncio.CancelledError:
            return 128 + (self._ended_by or signal.SIGTERM)
        except (SandboxUnavailable, StorageFailed, IncompatibleRoot) as error:
            raise EndWith(CANT_WORK, error) from error
        for sink, name in ((self._stdout, "output"), (self._stderr, "error")):
            if sink.fault is not None:
                _say(f"standard {name} can't be written: {sink.fault.strerror}")
        return self._status(result)

    def _status(self, result: CommandResult) -> int:
        from drawbar.contracts.errors import SandboxUnavailable

        if result.exit_code is None:
            raise EndWith(CANT_WORK, SandboxUnavailable(result.denial or "the sandbox could not be set up"))
        if result.denial is not None:
            _say(result.denial)
        return result.exit_code

    def _request(self) -> CommandRequest:
        from drawbar.contracts.boundary import CommandRequest, Streams
        from drawbar.surfaces.cli.raw_terminal import terminal_size

        return CommandRequest(
            argv=self._command,
            scope=self._scope,
            limit_s=math.inf,
            hosts=self._hosts,
            streams=Streams(
                stdout=self._stdout.write,
                stderr=self._stderr.write,
                stdin_fd=self._stdin_fd,
                terminal=None if self._terminal is None or self._stdin_fd is None else terminal_size(self._stdin_fd),
                started=self._started,
            ),
        )

    @contextlib.contextmanager
    def _own_terminal(self) -> Generator[None]:
        """Where standard input and output are a terminal, the command gets one of its own and ours is raw."""
        from drawbar.surfaces.cli.raw_terminal import RawTerminal

        if self._stdin_fd is None or not (os.isatty(self._stdin_fd) and self._stdout.is_terminal()):
            yield
            return
        self._terminal = RawTerminal(self._stdin_fd)
        with self._terminal.held():
            yield

    def _started(self, running: RunningCommand) -> None:
        self._running = running
        for number in self._interrupted:
            running.signal(number)
        self._interrupted.clear()
        self._resize()

    # -- signals ----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        main = asyncio.current_task()
        assert main is not None

        def end(number: int) -> None:
            self._ended_by = number
            main.cancel()

        handlers: dict[int, Callable[[], object]] = {
            signal.SIGINT: partial(self._pass_on, signal.SIGINT),
            signal.SIGQUIT: partial(self._pass_on, signal.SIGQUIT),
            signal.SIGTERM: partial(end, signal.SIGTERM),
            signal.SIGHUP: partial(end, signal.SIGHUP),
            signal.SIGWINCH: self._resize,
            signal.SIGTSTP: self._stop,
        }
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    def _pass_on(self, number: int) -> None:
        """Ctrl-C is the command's to answer, now or as soon as there is one."""
        if self._running is None:
            self._interrupted.append(number)
        else:
            self._running.signal(number)

    def _resize(self) -> None:
        from drawbar.surfaces.cli.raw_terminal import terminal_size

        if self._running is not None and self._terminal is not None and self._stdin_fd is not None:
            self._running.resize(*terminal_size(self._stdin_fd))

    def _stop(self) -> None:
        if self._terminal is None:
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            self._terminal.stop()
            self._resize()


class _Sink:
    """Writes bytes as they come to one of our own streams; whoever doesn't read makes the command wait."""

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self._fd = stream.fileno()
        self.fault: OSError | None = None

    def is_terminal(self) -> bool:
        return os.isatty(self._fd)

    def write(self, data: bytes) -> None:
        """Raises :class:`OSError` when nobody takes it, which is how the command hears of it."""
        import select

        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:  # whoever shares the stream made it so
                select.select([], [self._fd], [])
            except BrokenPipeError:
                raise
            except OSError as error:
                self.fault = error
                raise


def _say(message: str) -> None:
    from drawbar.surfaces.cli.text import visible

    print(f"drawbar: {visible(message)}", file=sys.stderr)
