"""The background jobs of one run as its tools know them: a name, the output, how it ended, and the record of it."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Final

from drawbar.contracts.boundary import BackgroundJob, CommandResult
from drawbar.contracts.errors import DrawbarError
from drawbar.contracts.events.lifecycle import ExtensionNotice
from drawbar.contracts.tool import ToolContext, ToolResult
from drawbar.tools.job_record import JobRecord
from drawbar.tools.truncation import MAX_BYTES, clip, head, size, tail

__all__ = ["JobEntry", "JobTable", "job_report"]

_ROOM: Final = MAX_BYTES - 2048
_SHOWN: Final = 80


class JobEntry:
    """One job.

    Args:
        name: as the model calls it.
        command: what it runs.
        context: of the call that started it.

    Attributes:
        job: its process; None until it was started.
        seen: how far the model has read.
        file: where the whole output is, relative to the run folder.
    """

    def __init__(self, name: str, command: str, context: ToolContext) -> None:
        self.id = name
        self.command = command
        self.job: BackgroundJob | None = None
        self.seen = 0
        self._call_id = context.call_id
        self._emit = context.emit
        self._artifacts = context.artifacts
        self.record = JobRecord(context.artifacts, f"job-{name}.log", context.redactor)
        self.file = "" if self.record.path is None else f"artifacts/{self.record.path.name}"
        self.feed = self.record.feed
        self._began = time.monotonic()
        self._ended: float | None = None
        self.result: CommandResult | None = None

    @property
    def seconds(self) -> float:
        """How long it has run, or ran."""
        return (time.monotonic() if self._ended is None else self._ended) - self._began

    def state(self) -> str:
        """In words: whether it runs, or how it ended."""
        if self.result is None:
            return f"[job {self.id} is running, for {_span(self.seconds)} now]"
        return f"[job {self.id} ended after {_span(self.seconds)}: {_how(self.result)}]"

    def end(self, result: CommandResult) -> None:
        """It has ended: record when and how, and its output as an artifact. Never raises."""
        self._ended = time.monotonic()
        self.result = result
        path = self.record.finish()
        if result.exit_code is None and self.job is None and not self.record.total:
            return  # it never began, which is the call's own answer
        with contextlib.suppress(DrawbarError):
            if path is not None:
                self._artifacts.added(path, call_id=self._call_id, media_type="text/plain", reason="job_output")
        with contextlib.suppress(DrawbarError):
            self._emit(
                ExtensionNotice(
                    code="job_ended",
                    message=f"job {self.id} ({clip(self.command, _SHOWN)}) ended after {_span(self.seconds)}: "
                    + _how(result),
                    details={
                        "job": self.id,
                        "call_id": self._call_id,
                        "cause": result.cause,
                        "exit_code": result.exit_code,
                        "duration_ms": round(self.seconds * 1000),
                        "bytes": self.record.total,
                        "artifact": self.file,
                    },
                )
            )

    def forget(self) -> None:
        """It was not started after all."""
        self.record.discard()


class JobTable:
    """The jobs of one run, in the order of their start."""

    def __init__(self) -> None:
        self._entries: dict[str, JobEntry] = {}
        self._count = 0

    def new(self, command: str, context: ToolContext) -> JobEntry:
        """A job about to be started; :meth:`add` it once it was."""
        self._count += 1
        return JobEntry(f"j{self._count}", command, context)

    def add(self, entry: JobEntry) -> None:
        """Keep a started job."""
        self._entries[entry.id] = entry

    def find(self, name: str) -> JobEntry | None:
        """The job of that name."""
        return self._entries.get(name)

    def unknown(self, name: str) -> ToolResult:
        """The answer to a name that no job has: which there are."""
        if not self._entries:
            return ToolResult.error(
                f"There is no job {clip(name, _SHOWN)!r}: this run has started none. Start one with bash and "
                "`background: true`; jobs of earlier runs ended with them."
            )
        known = "\n".join(f"{entry.state()} {clip(entry.command, _SHOWN)}" for entry in self._entries.values())
        return ToolResult.error(f"There is no job {clip(name, _SHOWN)!r} in this run. Its jobs:\n{known}")


def job_report(entry: JobEntry, *notes: str, since: int | None = None, lines: int | None = None) -> ToolResult:
    """Output of a job and its state, within the bounds of a result.

    Args:
        entry: the job.
        notes: further lines.
        since: from this byte on, forwards; None gives what is new since the last look, and of too much the end.
        lines: the last lines instead, whether seen before or not.
    """
    record = entry.record
    said = list(notes)
    if since is not None:
        part = record.read(since, _ROOM)
        cut = head(part.text, limit=_ROOM)
        text = cut.text
        shown_to = part.start + len(text.encode("utf-8", "surrogatepass")) if not cut.whole else part.end
        if part.start > since and since < record.total:
            said.append(f"[what came between byte {since} and {part.start} is kept no more]")
        if shown_to < record.total:
            said.append(f"[{size(record.total - shown_to)} more: go on with since={shown_to}]")
    else:
        start = max(0, record.total - _ROOM) if lines is not None else max(entry.seen, record.total - _ROOM)
        part = record.read(start, _ROOM)
        text = tail(part.text, limit=_ROOM, **({} if lines is None else {"lines": lines})).text
        missing = part.end - len(text.encode("utf-8", "surrogatepass")) - entry.seen
        if lines is None and missing > 0:
            said.append(f"[{size(missing)} of new output left out before this; since={entry.seen} shows it]")
        shown_to = record.total
    entry.seen = shown_to
    body = text.rstrip("\n") or ("[no new output]" if lines is None and since is None else "[no output there]")
    details: dict[str, Any] = {"job": entry.id, "running": entry.result is None, "next": shown_to}
    if entry.result is not None:
        details["exitCode"] = entry.result.exit_code
    return ToolResult.text("\n\n".join((body, *said, entry.state())), details=details)


def _how(result: CommandResult) -> str:
    why = f" ({result.denial.rstrip('.')})" if result.denial else ""
    match result.cause:
        case "timeout":
            return f"at its time limit{why}"
        case "aborted":
            return f"it was stopped{why}"
        case "unknown":
            return f"in a way that isn't known{why}"
        case _:
            pass
    if result.exit_code is None:
        return f"it could not be started{why}"
    signal = f", by signal {result.exit_code - 128}" if 128 < result.exit_code <= 192 else ""
    return f"exit code {result.exit_code}{signal}{why}"


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
