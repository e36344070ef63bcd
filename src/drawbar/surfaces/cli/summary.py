"""What a run came to, counted from its events: files, checks, tokens, cost, how it ended (CLI-1's short account)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from drawbar.contracts.codec import as_object
from drawbar.contracts.events.base import Event, Payload
from drawbar.contracts.events.human import ApprovalResolved, QuestionAnswered
from drawbar.contracts.events.lifecycle import Completed, Failed, SandboxChanged, Started, StatusChanged
from drawbar.contracts.events.message import MessageCompleted
from drawbar.contracts.events.tool import FileChanged, ToolCompleted, ToolRefused, ToolStarted
from drawbar.contracts.events.usage import Usage, UsageUpdated
from drawbar.contracts.status import EXIT_CODES, SETTLED
from drawbar.surfaces.cli.output import Look
from drawbar.surfaces.cli.text import clip, counted, duration, first_line, label, size, visible, wrapped

if TYPE_CHECKING:
    from drawbar.policy.checks import Check

__all__ = ["Account", "Price", "payload_of"]

Price = Callable[[str, Usage], float | None]
"""What some tokens of a model cost in US dollars; None where no price is known."""

FILES_SHOWN = 12
CHECKS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class _Command:
    text: str
    writes: bool


def _never_ran(ended: ToolCompleted) -> bool:
    """Whether the command didn't even start: no exit code, and nothing but a failure or a stop before it to tell."""
    if ended.exit_code is not None:
        return False
    return ended.cause == "error" or (ended.cause == "aborted" and ended.duration_ms is None)


@dataclass(slots=True)
class Account:
    """The tally of one run; feed it every event in order.

    ``fault`` is what kept the run's end from being recorded, where the owner knows it (QLT-6).
    """

    run_id: str = ""
    model: str | None = None
    status: str = ""
    code: str | None = None
    reason: str = ""
    fault: str | None = None
    reply: str = ""
    files: dict[str, str] = field(default_factory=dict[str, str])
    checks: dict[str, tuple[Check, bool | None]] = field(default_factory=dict[str, "tuple[Check, bool | None]"])
    commands: int = 0
    refused: int = 0
    unanswered: int = 0
    unanswered_questions: int = 0
    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    sandbox: str | None = None
    began: str | None = None
    ended: str | None = None
    approval: str | None = None
    _running: dict[str, _Command] = field(default_factory=dict[str, "_Command"])

    def add(self, event: Event, payload: Payload | None) -> None:
        """Count one event; ``payload`` is its typed payload, None for a type that this release doesn't know."""
        self.began = self.began or event.at
        self.ended = event.at
        match payload:
            case Started():
                self.run_id, self.model, self.sandbox = payload.run_id, payload.model, payload.sandbox
                self.approval = payload.approval_mode
            case MessageCompleted(role="assistant"):
                self.reply = payload.text or self.reply
            case ToolStarted():
                self._started(payload)
            case ToolCompleted():
                self._completed(payload)
            case ToolRefused():
                self.refused += 1
            case FileChanged():
                self._changed(payload)
            case UsageUpdated():
                self.usage, self.requests = payload.totals, payload.requests
                self.model = payload.request.model or self.model
            case ApprovalResolved(by="nobody"):
                self.unanswered += 1
            case QuestionAnswered(by="nobody"):
                self.unanswered_questions += 1
            case SandboxChanged():
                self.sandbox = payload.state
            case Completed():
                self.status, self.code = "completed", payload.code
            case Failed():
                self.status, self.code, self.reason = "failed", payload.error, payload.reason
            case StatusChanged():
                self.status = payload.to
                self.code, self.reason = payload.code, payload.reason or ""
            case _:
                return

    def _started(self, payload: ToolStarted) -> None:
        command = (as_object(payload.arguments) or {}).get("command")
        if payload.tool == "bash" and isinstance(command, str):
            self._running[payload.call_id] = _Command(command, writes=payload.scope != "read-only")

    def _completed(self, payload: ToolCompleted) -> None:
        command = self._running.pop(payload.call_id, None)
        if command is None or _never_ran(payload):
            return
        self.commands += command.writes
        from drawbar.policy.checks import checks_of

        for check in checks_of(command.text):
            self.checks.pop(check.command, None)
            # A command that was cut short shows nothing of its check.
            ended = payload.cause in ("ok", "error")
            self.checks[check.command] = (check, check.passed(payload.exit_code) if ended else None)

    def _changed(self, payload: FileChanged) -> None:
        before = self.files.get(payload.path)
        change: str = payload.change
        if before == "created":
            if change == "deleted":
                del self.files[payload.path]
                return
            change = "created"
        self.files[payload.path] = change

    @property
    def seconds(self) -> float | None:
        """From the first event to the last."""
        if self.began is None or self.ended is None:
            return None
        try:
            return (datetime.fromisoformat(self.ended) - datetime.fromisoformat(self.began)).total_seconds()
        except ValueError:
            return None

    @property
    def exit_code(self) -> int:
        """CLI-1's: 0 completed, 1 failed, 3 when an ask found nobody, 130 interrupted."""
        if self.fault is not None:
            return 1
        if self.status == "completed" and (self.unanswered or self.unanswered_questions):
            return 3
        return EXIT_CODES.get(self.status, 1)

    def lines(self, look: Look, price: Price | None = None) -> list[str]:
        """The account as lines for a person."""
        glyphs = look.glyphs
        took = f" in {duration(self.seconds)}" if self.seconds is not None else ""
        words = {"completed": (glyphs.ok, "green"), "failed": (glyphs.bad, "red")}
        sign, colour = words.get(self.status, (glyphs.warn, "yellow"))
        why = "" if self.status == "completed" or not self.code else f" ({label(self.code)})"
        end = label(self.status) if self.status in SETTLED else "no end recorded"
        lines = [look.paint(f"{sign} {end}{why}{took}", colour, "bold")]
        if self.fault is not None:
            lines += [look.paint(f"  {line}", "red") for line in visible(self.fault).splitlines()]
        if self.reason and self.status != "completed":
            lines += [f"  {line}" for line in visible(self.reason).splitlines()]
        lines += self.unanswered_lines(look)
        rows = [
            ("files", self._files(look)),
            ("checks", self._checks(look)),
            ("tokens", self._tokens()),
            ("cost", self._cost(price)),
            ("run", label(self.run_id)),
        ]
        for name, shown in rows:
            for place, text in enumerate(shown if isinstance(shown, list) else [shown]):
                lead = "" if place else name
                lines.append(f"  {look.paint(lead.ljust(6), 'dim')} {text}".rstrip())
        return lines

    def unanswered_lines(self, look: Look) -> list[str]:
        """What it went on without because nobody could be asked, and how to be there next time; often nothing."""
        numbers = ((self.unanswered, "approval"), (self.unanswered_questions, "answer"))
        asked = " and ".join(counted(number, what) for number, what in numbers if number)
        if not asked:
            return []
        ways = ["run it in a terminal"]
        if self.sandbox != "off":  # such a run hears no other terminal
            verb = "approve" if not self.unanswered_questions else "answer"
            ways.append(f"with --ask-timeout SECONDS and {verb} from another terminal")
        if self.approval != "auto-workspace" and self.unanswered:
            ways.append("with --approval auto-workspace")
        said = (
            f"it went on without {asked} that nobody was there to give",
            f"asks found nobody: {', or '.join(filter(None, [', '.join(ways[:-1]), ways[-1]]))}",
        )
        return [
            look.paint(f"  {piece}", "yellow") for line in said for piece in wrapped(line, look.width - 2, words=True)
        ]

    def _files(self, look: Look) -> list[str]:
        shown = [
            f"{clip(label(path), look.width - 20, look.glyphs.dots)} {look.paint(change, 'dim')}"
            for path, change in list(self.files.items())[:FILES_SHOWN]
        ]
        if len(self.files) > FILES_SHOWN:
            shown.append(f"and {len(self.files) - FILES_SHOWN} more")
        # A command whose end is not recorded may have written as well.
        commands = self.commands + sum(command.writes for command in self._running.values())
        if commands:
            # Edits are recorded one by one; what a command wrote shows in the working tree alone.
            shown.append(
                look.paint(f"{'besides' if shown else 'only'} whatever {counted(commands, 'command')} changed", "dim")
            )
        return shown or ["none changed"]

    def _checks(self, look: Look) -> list[str]:
        words = {True: ("passed", "green"), False: ("failed", "red"), None: ("ran, result not told", "yellow")}
        shown: list[str] = []
        for check, passed in list(self.checks.values())[-CHECKS_SHOWN:]:
            word, colour = words[passed]
            shown.append(
                f"{clip(first_line(check.command), look.width - 32, look.glyphs.dots)} {look.paint(word, colour)}"
            )
        return shown or ["none ran"]

    def _tokens(self) -> str:
        use = self.usage
        if use.input_tokens is None and use.output_tokens is None:
            return "unknown" if self.requests else "none"
        known = [part for part in (use.input_tokens, use.cache_read_tokens, use.cache_write_tokens) if part is not None]
        cached = f" ({size(use.cache_read_tokens)} from cache)" if use.cache_read_tokens else ""
        out = "unknown" if use.output_tokens is None else size(use.output_tokens)
        return f"{size(sum(known))} in{cached}, {out} out, {counted(self.requests, 'request')}"

    def _cost(self, price: Price | None) -> str:
        if not self.requests:
            return "none"
        cost = price(self.model, self.usage) if price is not None and self.model else None
        if cost is None:
            return f"unknown (no price for {label(self.model)})" if self.model else "unknown"
        return f"${cost:.4f}" if cost < 1 else f"${cost:.2f}"


def payload_of(event: Event) -> Payload | None:
    """An event's typed payload; None for a type that isn't known, or a payload that doesn't fit (CON-8)."""
    from drawbar.contracts.codec import decode
    from drawbar.contracts.errors import InvalidInput
    from drawbar.contracts.events.table import payload_type

    kind: Any = payload_type(event.type)
    if kind is None:
        return None
    try:
        return decode(bytes(event.payload), kind, what=event.type)
    except InvalidInput:
        return None
