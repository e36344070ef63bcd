"""What is written of a call, and in which order: its start, its result in the history, its end (SES-21, QLT-12)."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from drawbar.contracts.boundary import Verdict
from drawbar.contracts.codec import encode
from drawbar.contracts.engine import Redactor
from drawbar.contracts.errors import StorageFailed
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.lifecycle import ExtensionNotice
from drawbar.contracts.events.tool import Decision, FileChanged, ToolCompleted, ToolRefused, ToolStarted
from drawbar.contracts.tool import ExecutedCall, ToolCall, ToolResult
from drawbar.tools.asking import judged_arguments
from drawbar.tools.escapes import plain_value
from drawbar.tools.truncation import MAX_BYTES, MAX_LINES, head, size, well_formed

__all__ = ["Admit", "OpenCall", "Recorder"]

Admit = Callable[[ToolCall, ToolResult], str]

PREVIEW_HEAD: Final = 700
PREVIEW_TAIL: Final = 300
"""Characters of a result that its event shows; the history has the whole."""


@dataclass(slots=True)
class OpenCall:
    """One call of a batch on its way to its one result.

    ``settled`` says that its last event was handed to the log: from then on nothing more is written of it.
    """

    call: ToolCall
    verdict: Verdict | None = None
    started: bool = False
    settled: bool = False
    refused: bool = False
    result: ToolResult | None = None

    @property
    def executed(self) -> ExecutedCall:
        assert self.result is not None
        return ExecutedCall(self.call, self.result, self.refused)


class Recorder:
    """Writes the records of one batch.

    A disk that refuses doesn't stop the recording: the log keeps what it couldn't write and writes it first later
    (QLT-6), so each record is handed over exactly once and in order. :meth:`check` is where the refusal comes out,
    before anything further is carried out (ACC-8).

    Args:
        emit: writes an event.
        emit_durable: writes one to the disk itself; None leaves that to ``emit``.
        redactor: results pass it once, before they are admitted (CON-38).
        admit: appends a result to the history and gives its entry id.
    """

    def __init__(
        self,
        emit: Callable[[Payload], Any],
        emit_durable: Callable[[Payload], Awaitable[None]] | None,
        redactor: Redactor,
        admit: Admit,
    ) -> None:
        self._emit = emit
        self._emit_durable = emit_durable
        self._redactor = redactor
        self._admit = admit
        self.fault: Exception | None = None

    def check(self) -> None:
        """Raise what the disk said, if it refused anything.

        Raises:
            StorageFailed: of the first record that could not be written.
        """
        if self.fault is not None:
            raise self.fault

    def emit(self, payload: Payload) -> None:
        """Write an event; a refusing disk is remembered for :meth:`check`."""
        try:
            self._emit(payload)
        except StorageFailed as error:
            self.failed(error)

    def failed(self, error: Exception) -> None:
        """Remember the first refusal."""
        self.fault = self.fault or error

    def notice(self, code: str, message: str) -> None:
        """Say something that a person should see."""
        self.emit(ExtensionNotice(source="harness", code=code, message=message))

    async def start(self, item: OpenCall, verdict: Verdict) -> None:
        """``tool.started``, with the operating system before the call is carried out (CON-34).

        Raises:
            StorageFailed: then the call must not run.
        """
        call = item.call
        arguments = judged_arguments(call, verdict)
        started = ToolStarted(
            call_id=call.id,
            tool=call.name,
            arguments=well_formed(arguments),
            arguments_sha256=verdict.arguments_sha256 or _digest(arguments),
            entry_id=call.entry_id,
            scope=verdict.scope,
            decision=Decision(
                outcome=verdict.outcome,
                rule=verdict.rule,
                by=verdict.by,
                us=verdict.us,
                reason=verdict.message or None,
            ),
        )
        item.started = True
        if verdict.scope == "outside" and self._emit_durable is not None:
            try:
                await self._emit_durable(started)
            except StorageFailed as error:
                self.failed(error)
        else:
            self.emit(started)
        self.check()

    def refuse(self, item: OpenCall, verdict: Verdict) -> None:
        """A refused call's result, then ``tool.refused``."""
        message = verdict.message or f"{item.call.name} was refused."
        entry_id = self._to_history(item, ToolResult.error(message), refused=True)
        assert item.result is not None
        self.emit(
            ToolRefused(
                call_id=item.call.id,
                tool=item.call.name,
                arguments=well_formed(judged_arguments(item.call, verdict)),
                code=verdict.code or "refused",
                cause=verdict.cause or "policy",
                message=item.result.joined,
                entry_id=entry_id,
            )
        )

    def complete(self, item: OpenCall, result: ToolResult, duration_ms: int | None) -> None:
        """A call's changes on disk, its result, then ``tool.completed``."""
        for change in result.changes:
            self.emit(
                FileChanged(
                    path=well_formed(change.path),
                    change=change.change,
                    before=change.before,
                    after=change.after,
                    call_id=item.call.id,
                )
            )
        entry_id = self._to_history(item, result, refused=False)
        assert item.result is not None
        text = item.result.joined
        self.emit(
            ToolCompleted(
                call_id=item.call.id,
                cause=result.cause,
                exit_code=result.exit_code,
                duration_ms=duration_ms,
                preview=_preview(text),
                sha256=hashlib.sha256(text.encode()).hexdigest(),
                artifact=result.artifact,
                entry_id=entry_id,
            )
        )

    def abandon(self, item: OpenCall, why: str) -> None:
        """The result and the end of a call that was never carried out or whose batch was stopped."""
        self.complete(item, ToolResult.error(f"[{item.call.name} was not run: {why}]", cause="aborted"), None)

    def _to_history(self, item: OpenCall, result: ToolResult, *, refused: bool) -> str | None:
        """Admit the bounded, redacted result; from here on the call counts as settled."""
        item.result, item.refused, item.settled = self._admissible(result), refused, True
        try:
            return self._admit(item.call, item.result)
        except StorageFailed as error:
            self.failed(error)
            return None

    def _admissible(self, result: ToolResult) -> ToolResult:
        """What history, events and requests will hold: bounded, well-formed, redacted once (CON-38, SES-14)."""
        content = [self._redacted(_bounded(block)) for block in result.content]
        details = self._redacted(result.details) if result.details else None
        return replace(result, content=content, details=details)

    def _redacted(self, value: Any) -> Any:
        """``value`` as it may leave memory (QLT-20).

        Escapes and characters that don't show stay, since a file that is read must be seen as it is to be edited;
        only where they hide a secret does the value become plain.
        """
        redacted = self._redactor.value(well_formed(value))
        plain = plain_value(redacted)
        uncovered = redacted if plain is redacted else self._redactor.value(plain)
        return redacted if uncovered is plain else uncovered


def _bounded(block: dict[str, Any]) -> dict[str, Any]:
    """The built-in tools keep their bounds themselves; this holds any other tool to them (ENG-6)."""
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str) or len(text) <= MAX_BYTES // 4:
        return block
    cut = head(text, lines=MAX_LINES + 10, limit=MAX_BYTES + 1024)
    if cut.whole:
        return block
    return {**block, "text": f"{cut.text}\n[the result was {size(cut.total_bytes)}; the rest is left out]"}


def _preview(text: str) -> str:
    if len(text) <= PREVIEW_HEAD + PREVIEW_TAIL + 1:
        return text
    return f"{text[:PREVIEW_HEAD]}…{text[-PREVIEW_TAIL:]}"


def _digest(arguments: Any) -> str:
    return hashlib.sha256(encode(well_formed(arguments), canonical=True)).hexdigest()
