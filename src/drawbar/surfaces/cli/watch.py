"""Showing a run to its end in one of three forms: for people, as JSON lines, or its last reply alone (CLI-1)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Literal, Protocol

from drawbar.contracts.codec import decoder
from drawbar.contracts.events.base import Event, Payload
from drawbar.contracts.events.human import ApprovalRequested, ApprovalResolved, QuestionAnswered, QuestionRequested
from drawbar.contracts.methods import Recovery
from drawbar.surfaces.cli.asking import Asker, TypedLines
from drawbar.surfaces.cli.display import Display
from drawbar.surfaces.cli.harness import settled_text
from drawbar.surfaces.cli.output import Output, look_of
from drawbar.surfaces.cli.pending import resolved_text
from drawbar.surfaces.cli.screen import Screen
from drawbar.surfaces.cli.summary import Account, payload_of
from drawbar.surfaces.cli.text import escaped_json, visible

__all__ = ["Form", "ReaderGone", "Watch"]

Form = Literal["people", "json", "quiet"]
TICK_S = 0.1
FORCE_WAIT_S = 0.2
FLUSH_WAIT_S = 2.0
"""How long a question waits for a reader of standard output who doesn't read."""
_EVENT = decoder(Event)


class Follows(Protocol):
    """What is needed of ``harness.runs``."""

    def follow(self, run: str, from_seq: int = 0) -> AsyncIterator[Event]: ...

    def follow_raw(self, run: str, from_seq: int = 0) -> AsyncIterator[bytes]: ...


class ReaderGone(Exception):
    """Nobody reads standard output any more."""


class Watch:
    """One run's way to the terminal.

    Args:
        form: ``people``, ``json`` (events exactly as persisted; on a terminal, controls in them as codes) or
            ``quiet`` (the last reply alone).
        environ: for colours, width and home.
    """

    def __init__(self, form: Form, environ: Mapping[str, str]) -> None:
        self._form: Form = form
        self._home = environ.get("HOME")
        self._out = Output(sys.stdout)
        self._err = Output(sys.stderr)
        self._screen = Screen(self._out.text, look_of(sys.stdout, environ))
        self._aside = Screen(self._err.text, look_of(sys.stderr, environ))
        self._asker: Asker | None = None
        self._terminal: int | None = None

    def say(self, text: str) -> None:
        """A remark of the command itself, kept apart from what programs read."""
        screen = self._screen if self._form == "people" and self._screen.look.tty else self._aside
        screen.line(screen.look.paint(text, "yellow"))

    def remark(self, text: str) -> None:
        """A remark on standard error, whatever is printed otherwise."""
        self._aside.line(visible(text))

    def settled(self, recovery: Recovery) -> None:
        """Say which runs opening the root had to settle (RUN-13)."""
        if recovery.interrupted_run_ids and self._form == "people":
            self.say(settled_text(recovery))

    def force_end(self, status: int) -> None:
        """End the program now; what was said last still gets out, if anybody reads."""
        self._out.drain(FORCE_WAIT_S)
        self._err.drain(FORCE_WAIT_S)
        os._exit(status)

    def asker(self) -> Asker | None:
        """How a person is asked, None when there is no terminal to ask on and to answer at."""
        # Where the reply goes into a pipe or file, the question stands on standard error.
        beside = self._form != "people" or not self._screen.look.tty
        screen = self._aside if beside else self._screen
        fd = _terminal() if screen.look.tty else None
        if fd is None:
            return None
        self._terminal = fd
        self._asker = Asker(screen, TypedLines(fd), home=self._home, flush=lambda: self._out.drain(FLUSH_WAIT_S))
        return self._asker

    async def follow(
        self,
        runs: Follows,
        run_id: str,
        from_seq: int = 0,
        *,
        fault: Callable[[], str | None] = lambda: None,
        answerable: bool = True,
        answered: Collection[str] = (),
    ) -> Account:
        """Show the run from ``from_seq`` to its end.

        Args:
            runs: where to follow.
            run_id: whole.
            from_seq: the first event wanted.
            fault: asked at the end for what kept it from being recorded.
            answerable: whether anybody elsewhere could answer what it asks.
            answered: approvals and questions of which it is known that they don't wait any more.

        Raises:
            ReaderGone: nobody reads any more.
        """
        if self._form == "people":
            display = Display(
                self._screen,
                asks_here=self._asker is not None,
                answerable=answerable,
                answered=answered,
                home=self._home,
            )
            account = await self._for_people(runs, run_id, from_seq, display)
            account.fault = fault()
            self._screen.line()
            for line in account.lines(self._screen.look):
                self._screen.line(line)
            return await self._written(account)
        account = await self._for_programs(runs, run_id, from_seq)
        account.fault = fault()
        if self._form == "quiet" and account.reply:
            self._out.text(visible(account.reply).rstrip("\n") + "\n")
        if account.exit_code == 1 or (self._form == "quiet" and account.status != "completed"):
            for line in account.lines(self._aside.look)[:2]:
                self._aside.line(line)
        for line in account.unanswered_lines(self._aside.look):
            self._aside.line(line)
        return await self._written(account)

    async def _for_people(self, runs: Follows, run_id: str, from_seq: int, display: Display) -> Account:
        display.account.run_id = run_id
        ticking = asyncio.create_task(self._tick(display))
        try:
            async for event in runs.follow(run_id, from_seq):
                if self._asker is not None:
                    await self._asker.idle()
                asked = display.show(event)
                if asked is not None and self._asker is not None:
                    self._asker.shown(asked)
                self._check()
        finally:
            ticking.cancel()
            await asyncio.gather(ticking, return_exceptions=True)
            display.finish()
        return display.account

    async def _for_programs(self, runs: Follows, run_id: str, from_seq: int) -> Account:
        account = Account(run_id=run_id)
        async for line in runs.follow_raw(run_id, from_seq):
            if self._form == "json":
                self._out.raw((escaped_json(line) if self._screen.look.tty else line) + b"\n")
            with contextlib.suppress(ValueError):
                event = _EVENT.decode(line)
                payload = payload_of(event)
                account.add(event, payload)
                if self._asker is not None:
                    await self._tell_asker(self._asker, payload)
            self._check()
        return account

    async def _tell_asker(self, asker: Asker, payload: Payload | None) -> None:
        """Where no display does it: let a question follow its event, and say so when it was answered elsewhere."""
        match payload:
            case ApprovalRequested(approval_id=ask_id) | QuestionRequested(question_id=ask_id):
                asker.shown(ask_id)
            case ApprovalResolved(approval_id=ask_id) | QuestionAnswered(question_id=ask_id):
                if payload.by != "terminal" and asker.was_put(ask_id):
                    await asker.idle()
                    self._aside.line(resolved_text(payload, self._aside.look))
            case _:
                return

    async def _tick(self, display: Display) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if self._asker is not None:
                await self._asker.idle()
            display.tick()

    async def _written(self, account: Account) -> Account:
        """What isn't out yet may still fail, and then the command hasn't said what it was to say (QLT-6)."""
        await asyncio.to_thread(self._out.drain)
        self._check()
        return account

    def _check(self) -> None:
        if self._out.broken.is_set():
            raise ReaderGone

    def close(self) -> None:
        """Write what is left and give the terminal back."""
        self._screen.status("")
        self._out.close()
        self._err.close()
        if self._terminal is not None and self._terminal != 0:
            os.close(self._terminal)
        self._terminal = None


def _terminal() -> int | None:
    """A descriptor to read a person's answers from: standard input, or the terminal behind a pipe."""
    with contextlib.suppress(OSError):
        if os.isatty(0):
            return 0
    try:
        return os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
