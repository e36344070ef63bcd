"""Events turned into what a person reads: the reply as it streams, each tool call in a line, what needs attention.

Pure but for the screen it is given: the same events always make the same lines.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from drawbar.contracts.events.base import Event, Payload
from drawbar.contracts.events.human import ApprovalRequested, ApprovalResolved, QuestionAnswered, QuestionRequested
from drawbar.contracts.events.lifecycle import (
    CompactionEnded,
    CompactionStarted,
    ExtensionNotice,
    NetworkDecided,
    RetryEnded,
    RetryStarted,
    SandboxChanged,
    Started,
)
from drawbar.contracts.events.message import MessageCompleted, MessageDelta, MessageDropped, MessageSteered
from drawbar.contracts.events.progress import Heartbeat, TodoUpdated
from drawbar.contracts.events.tool import ToolCompleted, ToolRefused, ToolStarted
from drawbar.contracts.events.usage import AccountStatus
from drawbar.surfaces.cli.cards import call_line, diff_lines, headline
from drawbar.surfaces.cli.pending import ask_of, input_lines, question_lines, questions_of, resolved_text
from drawbar.surfaces.cli.screen import Screen
from drawbar.surfaces.cli.summary import Account, payload_of
from drawbar.surfaces.cli.text import clip, duration, first_line, label, visible, wrapped

__all__ = ["Display"]

RESULT_COLUMNS = 26
"""Kept free at a card's end for how the call ended."""
CARD_DELAY_S = 0.3
"""A call that ends sooner is one line, also when several run side by side."""
OUTPUT_LINES = 6
"""Last lines of a failed command's output that are shown."""
_NOT_RUN = re.compile(r"\[(\w+) was not run: ")


@dataclass(slots=True)
class _Call:
    tool: str
    arguments: Any
    since: float = 0.0
    shown: bool = False


class Display:
    """Shows the events of one run on a screen and keeps its account.

    Args:
        screen: where to.
        asks_here: this process asks the person itself, so requests are not announced as well.
        answerable: whether anybody elsewhere could answer a request.
        answered: approvals and questions that were answered before they are shown.
        home: written as ``~`` in folders.
        clock: seconds that never run backwards.
    """

    def __init__(
        self,
        screen: Screen,
        *,
        asks_here: bool = False,
        answerable: bool = True,
        answered: Collection[str] = (),
        home: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.account = Account()
        self._screen = screen
        self._look = screen.look
        self._asks_here = asks_here
        self._answerable = answerable
        self._answered_before = answered
        self._home = home
        self._root: str | None = None
        self._clock = clock
        self._calls: dict[str, _Call] = {}
        self._asked: dict[str, _Call] = {}
        self._streamed: set[str] = set()
        self._held_return = False
        self._noticed: list[str] = []

    def show(self, event: Event) -> str | None:
        """Show one event; what this release doesn't know is passed over.

        Returns the id of the approval or question that it asks, None for every other event.
        """
        payload = payload_of(event)
        self.account.add(event, payload)
        if payload is not None:
            self._show(payload)
        if isinstance(payload, QuestionRequested):
            return payload.question_id
        return payload.approval_id if isinstance(payload, ApprovalRequested) else None

    def tick(self) -> None:
        """Time passes: show calls that take long, and turn the spinner."""
        now = self._clock()
        self._show_calls(lambda call: now - call.since >= CARD_DELAY_S)
        self._screen.tick()

    def finish(self) -> None:
        """End whatever line is open and take the status away."""
        self._show_calls(lambda _call: True)
        self._screen.status("")
        self._screen.gap()

    def _show(self, payload: Payload) -> None:
        match payload:
            case MessageDelta():
                self._delta(payload)
            case MessageCompleted():
                self._message(payload)
            case ToolStarted():
                self._started(payload)
            case ToolCompleted():
                self._completed(payload)
            case ToolRefused():
                self._refused(payload)
            case ApprovalRequested():
                self._approval(payload)
            case ApprovalResolved() | QuestionAnswered():
                self._answered(payload)
            case QuestionRequested():
                self._question(payload)
            case Heartbeat():
                self._heartbeat(payload)
            case _:
                self._aside(payload)

    def _aside(self, payload: Payload) -> None:
        """What is neither said nor done by the model, in a line of its own where a person should know."""
        glyphs = self._look.glyphs
        match payload:
            case Started():
                self._root = payload.workspace_root
                self._screen.status("waiting for the model")
                if payload.sandbox == "off":
                    self._sandbox_off()
            case SandboxChanged() if payload.state != "off":
                self._note(f"{glyphs.warn} sandbox {label(payload.state)}: {first_line(payload.reason or '')}", "red")
            case ExtensionNotice():
                self._noticed.append(payload.message)
                self._note(f"{glyphs.warn} {visible(payload.message).strip()}", "yellow")
            case RetryStarted():
                wait = f" in {duration(payload.wait_ms / 1000)}" if payload.wait_ms else ""
                why = first_line(payload.message or payload.cause)
                self._note(f"{glyphs.retry} trying again{wait} (attempt {payload.attempt}): {why}", "yellow")
                self._screen.status("waiting to try again")
            case RetryEnded():
                self._screen.status("waiting for the model")
            case CompactionStarted():
                self._screen.status("summarising the conversation")
            case CompactionEnded():
                if not payload.ok:
                    self._note(f"{glyphs.warn} the conversation could not be summarised", "yellow")
                else:
                    self._note(f"{glyphs.bullet} conversation summarised", "dim")
            case TodoUpdated():
                self._todo(payload)
            case NetworkDecided(allowed=False):
                self._note(f"{glyphs.bad} network: {label(payload.host)}:{payload.port} refused", "yellow")
            case AccountStatus(ok=False):
                self._note(
                    f"{glyphs.warn} account {label(payload.account)}: {first_line(payload.message or '')}", "yellow"
                )
            case MessageDropped():
                self._note(
                    f"{glyphs.warn} a message was dropped: {label(payload.reason or 'no reason given')}", "yellow"
                )
            case MessageSteered():
                self._note(f"{glyphs.bullet} taken up: {first_line(payload.text or '')}", "dim")
            case _:
                return

    # -- what is said -----------------------------------------------------------------------------

    def _delta(self, payload: MessageDelta) -> None:
        if payload.kind != "text":
            self._screen.status("thinking" if payload.kind == "reasoning" else "writing a tool call")
            return
        self._screen.status("")
        self._streamed.add(payload.message_id)
        text = ("\r" if self._held_return else "") + payload.text
        # A line end may be split over two deltas, and is no lone carriage return then.
        self._held_return = text.endswith("\r")
        self._screen.stream(visible(text[:-1] if self._held_return else text))

    def _message(self, payload: MessageCompleted) -> None:
        if payload.role != "assistant":
            return
        if payload.message_id not in self._streamed and payload.text:
            self._screen.gap()
            self._screen.stream(visible(payload.text))
        self._streamed.discard(payload.message_id)
        self._held_return = False
        self._screen.gap()
        self._screen.status("working")

    # -- what is done -----------------------------------------------------------------------------

    def _started(self, payload: ToolStarted) -> None:
        self._calls[payload.call_id] = _Call(payload.tool, payload.arguments, self._clock())
        self._screen.status(f"{label(payload.tool)} running")

    def _show_calls(self, wanted: Callable[[_Call], bool]) -> None:
        for call_id, call in self._calls.items():
            if not call.shown and wanted(call):
                call.shown = True
                self._screen.card(call_id, self._line(call))

    def _line(self, call: _Call) -> str:
        return call_line(call.tool, call.arguments, self._look.width - RESULT_COLUMNS, self._look)

    def _completed(self, payload: ToolCompleted) -> None:
        call = self._calls.pop(payload.call_id, None) or self._never_started(payload)
        self._asked.pop(payload.call_id, None)
        result = f"  {self._look.glyphs.dots} {self._result(call, payload)}"
        if not self._screen.close_card(payload.call_id, result):
            self._screen.line(self._line(call) + result)
        if payload.cause == "ok" and payload.exit_code in (None, 0):
            lines = diff_lines(call.tool, call.arguments, self._look)
        else:
            lines = self._last_lines(payload)
        for line in lines:
            self._screen.line(line)
        self._screen.status("waiting for the model")

    def _never_started(self, payload: ToolCompleted) -> _Call:
        """The call of an end without a beginning: one that was asked about, or whose name the harness says."""
        asked = self._asked.get(payload.call_id)
        if asked is not None:
            return asked
        named = _NOT_RUN.match(payload.preview)
        return _Call(named[1] if named else "call", None)

    def _result(self, call: _Call, payload: ToolCompleted) -> str:
        took = f" in {duration(payload.duration_ms / 1000)}" if payload.duration_ms is not None else ""
        if payload.cause == "ok" and payload.exit_code in (None, 0):
            said = "exit 0" if payload.exit_code == 0 and call.tool == "bash" else "done"
            return self._look.paint(f"{said}{took}", "dim")
        if payload.cause == "timeout":
            return self._look.paint(f"timed out{took}", "red")
        if payload.cause in ("aborted", "unknown"):
            return self._look.paint(f"{payload.cause}{took}", "yellow")
        said = f"exit {payload.exit_code}" if payload.exit_code is not None else "failed"
        return self._look.paint(f"{said}{took}", "red")

    def _last_lines(self, payload: ToolCompleted) -> list[str]:
        said = f"[exit code {payload.exit_code}]"  # for the model; the card says it
        text = payload.preview
        if payload.exit_code is None:  # the model is told each time, a person once
            for noticed in self._noticed:
                text = text.replace(noticed, "see above.")
        lines = [line for line in visible(text).expandtabs(4).splitlines() if line.strip() not in ("", said)]
        room = self._look.width - 4
        if payload.exit_code is None:  # the harness's own words: never cut
            shown = [piece for line in lines[:OUTPUT_LINES] for piece in wrapped(line, room)]
        else:
            shown = [clip(line, room, self._look.glyphs.dots) for line in lines[-OUTPUT_LINES:]]
        return [f"    {self._look.paint(line, 'dim')}" for line in shown]

    def _refused(self, payload: ToolRefused) -> None:
        self._calls.pop(payload.call_id, None)
        by = {"policy": "refused", "person": "denied", "fault": "blocked by a fault"}[payload.cause]
        about = clip(headline(payload.tool, payload.arguments), self._look.width // 2, self._look.glyphs.dots)
        text = f"{self._look.glyphs.bad} {label(payload.tool)}  {about}  {self._look.glyphs.dots} {by}"
        self._screen.line(self._look.paint(text, "red" if payload.cause == "fault" else "yellow"))
        if payload.message:
            self._screen.line(f"    {self._look.paint(first_line(payload.message), 'dim')}")
        self._screen.status("waiting for the model")

    def _todo(self, payload: TodoUpdated) -> None:
        done = sum(item.status == "completed" for item in payload.items)
        current = next((item.text for item in payload.items if item.status == "in_progress"), "")
        about = f": {clip(first_line(current), self._look.width - 24, self._look.glyphs.dots)}" if current else ""
        self._note(f"{self._look.glyphs.bullet} todo  {done} of {len(payload.items)} done{about}", "dim")

    # -- what needs a person ----------------------------------------------------------------------

    def _approval(self, payload: ApprovalRequested) -> None:
        self._screen.status("waiting for an approval")
        self._asked[payload.call_id] = _Call(payload.tool, payload.arguments)
        if self._asks_here:
            return
        if self._answerable and payload.approval_id not in self._answered_before:
            run_id = self.account.run_id or "RUN"
            ask = ask_of(payload, self._root)
            elsewhere = self.account.sandbox != "off"
            for line in question_lines(run_id, payload.approval_id, ask, self._look, self._home, elsewhere=elsewhere):
                self._screen.line(line)
            return
        about = clip(headline(payload.tool, payload.arguments), self._look.width // 2, self._look.glyphs.dots)
        self._note(f"{self._look.glyphs.ask} asked for approval: {label(payload.tool)}  {about}", "yellow")

    def _question(self, payload: QuestionRequested) -> None:
        self._screen.status("waiting for an answer")
        if self._asks_here:
            return
        if self._answerable and payload.question_id not in self._answered_before:
            run_id = self.account.run_id or "RUN"
            elsewhere = self.account.sandbox != "off"
            ask = questions_of(payload)
            for line in input_lines(run_id, payload.question_id, ask, self._look, elsewhere=elsewhere):
                self._screen.line(line)
            return
        for question in payload.questions:
            about = clip(first_line(question.text), self._look.width - 10, self._look.glyphs.dots)
            self._note(f"{self._look.glyphs.ask} asked: {about}", "yellow")

    def _answered(self, payload: ApprovalResolved | QuestionAnswered) -> None:
        self._screen.status("working")
        if payload.by == "nobody" or not self._asks_here or payload.by != "terminal":
            self._screen.line(resolved_text(payload, self._look))

    def _sandbox_off(self) -> None:
        self._note(f"{self._look.glyphs.warn} sandbox off: commands of this run are not confined", "red", "bold")

    def _heartbeat(self, payload: Heartbeat) -> None:
        if payload.running_tools:
            age = f" for {duration(payload.oldest_tool_s)}" if payload.oldest_tool_s is not None else ""
            self._screen.status(f"{', '.join(map(label, payload.running_tools))} running{age}")

    def _note(self, text: str, *styles: str) -> None:
        self._screen.line(self._look.paint(text, *styles))
