"""Asking a person at the terminal: approvals to the letter, deny unless told otherwise; questions until answered.

What is shown is what runs (SES-18, QLT-4): the exact arguments with controls as codes, the scope, the reason,
and the very rule that *always* would save. A key pressed before the question stood there answers nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from drawbar.contracts.boundary import Approval, ApprovalAsk, StandingRule
from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.events.human import Answer as QuestionAnswer
from drawbar.contracts.events.human import Question
from drawbar.contracts.question import Answered, QuestionAsk
from drawbar.runs.answers import read_answer
from drawbar.surfaces.cli.cards import exact_arguments
from drawbar.surfaces.cli.output import Look
from drawbar.surfaces.cli.questions import answer_text, prompt_of, question_lines
from drawbar.surfaces.cli.screen import Screen
from drawbar.surfaces.cli.text import cells, folder_short, label, wrapped

__all__ = ["Answer", "Asker", "Lines", "TypedLines", "ask_lines", "parse_answer", "rule_text"]

FOLDED_LINES = 40
"""Lines of one long argument shown before the rest is folded; a command is never folded."""
ORDER_WAIT_S = 2.0

Decision = Literal["once", "session", "always", "deny"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was typed: a decision, with what to tell the model; or ``show`` for everything that was folded."""

    decision: Decision | None
    message: str | None = None
    show: bool = False


def rule_text(rule: StandingRule, home: str | None = None) -> str:
    """The rule as it would be saved: tool, scope, pattern, and where it holds."""
    where = f" in {folder_short(label(rule.root), home)}" if rule.root else ""
    return f"{label(rule.tool)} ({label(rule.scope)}): {label(rule.pattern)}{where}"


def ask_lines(ask: ApprovalAsk, look: Look, *, full: bool = False, home: str | None = None) -> list[str]:
    """The question as lines.

    Args:
        ask: what is asked.
        look: what the terminal can show.
        full: nothing folded.
        home: written as ``~`` in folders.
    """
    bar = "│ " if look.glyphs.rule == "─" else "| "
    lines = [
        look.paint(f"{look.glyphs.ask} {label(ask.tool)} wants to run (scope {label(ask.scope)})", "yellow", "bold")
    ]
    room = max(10, look.width - 4)
    for name, values in exact_arguments(ask.tool, ask.arguments):
        lines.append(f"  {look.paint(name, 'dim')}")
        shown = values if full or ask.tool == "bash" else values[:FOLDED_LINES]
        for value in shown:
            lines += [f"  {look.paint(bar, 'dim')}{piece}" for piece in wrapped(value, room)]
        if len(shown) < len(values):
            lines.append(
                look.paint(f"  {look.glyphs.dots} {len(values) - len(shown)} more lines: v shows them", "yellow")
            )
    lines += _named("why", label(ask.reason), look)
    if ask.rule is not None:
        lines += _named("always would save", rule_text(ask.rule, home), look)
    return lines


def _named(name: str, text: str, look: Look) -> list[str]:
    """``name text``, cut at the width with the margin kept; nothing is left out."""
    first, *rest = wrapped(f"{name} {text}", max(10, look.width - 2), words=True)
    painted = look.paint(name, "dim") + first[len(name) :] if first.startswith(name) else first
    return [f"  {painted}", *(f"  {piece}" for piece in rest)]


def offers(ask: ApprovalAsk, look: Look) -> str:
    """The choices, session and always only where there is a rule to remember; the last line is open for the answer."""
    keys = ["[y] once", *(["[s] this session", "[a] always"] if ask.rule is not None else [])]
    keys += ["[n] deny (n REASON tells the model)", "default: deny > "]
    lines = [""]
    for key in keys:
        line = f"{lines[-1]}  {key}"
        if lines[-1] and cells(line) >= look.width:
            lines.append(f"  {key}")
        else:
            lines[-1] = line
    return "\n".join(lines)


def parse_answer(typed: str, *, rule: bool) -> Answer | None:
    """What a typed line means; None when it means nothing, and the question is put again.

    Args:
        typed: the line.
        rule: whether there is a rule that could be remembered.
    """
    word, _, rest = typed.strip().partition(" ")
    message = rest.strip() or None
    word = word.lower().rstrip(":,")
    if word in ("", "n", "no", "deny"):
        return Answer("deny", message)
    if message is not None:
        return None  # a yes takes no conditions
    if word in ("y", "yes", "once"):
        return Answer("once")
    if word in ("v", "view"):
        return Answer(None, show=True)
    if rule and word in ("s", "session"):
        return Answer("session")
    if rule and word in ("a", "always"):
        return Answer("always")
    return None


class Lines(Protocol):
    """Lines that a person types."""

    def discard(self) -> None: ...

    def next(self) -> asyncio.Future[str | None]: ...


class Asker:
    """The ask handlers of a terminal: puts one question at a time, below everything that happened before it.

    Args:
        screen: where the question is shown.
        typed: where the answers come from.
        by: who answers, for the record.
        home: written as ``~`` in folders.
        ordered: whether events are shown meanwhile, so that a question waits for its own event.
        flush: makes everything said so far visible, where that goes somewhere else than the question.
    """

    def __init__(
        self,
        screen: Screen,
        typed: Lines,
        *,
        by: str = "terminal",
        home: str | None = None,
        ordered: bool = True,
        flush: Callable[[], object] = lambda: None,
    ) -> None:
        self._screen = screen
        self._typed = typed
        self._by = by
        self._home = home
        self._ordered = ordered
        self._flush = flush
        self._lock = asyncio.Lock()
        self._reached: dict[str, asyncio.Event] = {}
        self._put_here: set[str] = set()

    def shown(self, ask_id: str) -> None:
        """The request's event was shown: the question may follow it."""
        self._reached.setdefault(ask_id, asyncio.Event()).set()

    def was_put(self, ask_id: str) -> bool:
        """Whether a person was asked this here."""
        return ask_id in self._put_here

    async def idle(self) -> None:
        """Until no question is open: nothing may be printed into one."""
        async with self._lock:
            return

    async def __call__(self, ask: ApprovalAsk, approval_id: str) -> Approval | None:
        """Ask for an approval; None when the terminal is gone."""
        async with self._turn(approval_id):
            answer = await self._put(ask)
        if answer is None or answer.decision is None:
            return None
        return Approval(approval_id=approval_id, decision=answer.decision, by=self._by, message=answer.message)

    async def question(self, ask: QuestionAsk, question_id: str) -> Answered | None:
        """Ask questions, one after the other; None when one was left open or the terminal is gone."""
        answers: list[QuestionAnswer] = []
        async with self._turn(question_id):
            for place, question in enumerate(ask.questions, 1):
                answer = await self._put_question(question, place, len(ask.questions))
                if answer is None:
                    self._screen.gap()
                    return None
                answers.append(answer)
        return Answered(question_id, tuple(answers), self._by)

    @contextlib.asynccontextmanager
    async def _turn(self, ask_id: str) -> AsyncGenerator[None]:
        """This ask's turn at the terminal: after its event was shown, and nothing else meanwhile."""
        if self._ordered:
            reached = self._reached.setdefault(ask_id, asyncio.Event())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reached.wait(), ORDER_WAIT_S)
        async with self._lock:
            self._put_here.add(ask_id)
            self._screen.status("")
            await asyncio.to_thread(self._flush)
            try:
                yield
            except asyncio.CancelledError:
                # Another surface answered, or the run was stopped; its own event says which.
                self._screen.gap()
                raise

    async def _put_question(self, question: Question, place: int, of: int) -> QuestionAnswer | None:
        look = self._screen.look
        self._typed.discard()
        for line in question_lines(question, look, place=place, of=of):
            self._screen.line(line)
        while True:
            self._screen.stream(prompt_of(question))
            typed = await self._typed.next()
            if typed is None:
                return None
            self._screen.typed()
            try:
                answer = read_answer(question, typed)
            except InvalidInput as error:
                for line in wrapped(label(error.message), max(10, look.width - 2), words=True):
                    self._screen.line(f"  {look.paint(line, 'yellow')}")
                continue
            taken = answer_text(answer) if answer.choices else "in your own words"
            for line in wrapped(f"{look.glyphs.bullet} {taken}", max(10, look.width - 2), words=True):
                self._screen.line(f"  {look.paint(line, 'dim')}")
            return answer

    async def _put(self, ask: ApprovalAsk) -> Answer | None:
        full = False
        self._typed.discard()
        while True:
            for line in ask_lines(ask, self._screen.look, full=full, home=self._home):
                self._screen.line(line)
            self._screen.stream(offers(ask, self._screen.look))
            while True:
                typed = await self._typed.next()
                self._screen.typed()
                if typed is None:
                    return None
                answer = parse_answer(typed, rule=ask.rule is not None)
                if answer is not None:
                    break
                self._screen.stream("  please answer with one of the letters > ")
            if not answer.show:
                return answer
            full = True


class TypedLines:
    """What is typed at a terminal, line by line, without blocking the loop.

    Args:
        fd: of the terminal.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def discard(self) -> None:
        """Throw away what was typed so far: it answers nothing that wasn't asked yet."""
        import termios

        with contextlib.suppress(termios.error):
            termios.tcflush(self._fd, termios.TCIFLUSH)

    def next(self) -> asyncio.Future[str | None]:
        """The next line; None when the terminal is gone or its input was ended."""
        loop = asyncio.get_running_loop()
        typed: asyncio.Future[str | None] = loop.create_future()
        held: list[bytes] = []

        def ready() -> None:
            try:
                data = os.read(self._fd, 4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            held.append(data)
            if typed.done() or (data and not data.endswith(b"\n")):
                return
            text = b"".join(held)
            typed.set_result(text.decode("utf-8", "replace").rstrip("\r\n") if text.endswith(b"\n") else None)

        loop.add_reader(self._fd, ready)
        typed.add_done_callback(lambda _: loop.remove_reader(self._fd))
        return typed
