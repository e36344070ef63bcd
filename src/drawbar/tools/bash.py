"""``bash``: one shell command in the sandbox, its output's end, how it ended, and the whole of it on disk (ENG-6)."""

from __future__ import annotations

import math
import re
from typing import Annotated, Final, Literal

from drawbar.contracts.boundary import CommandRequest, CommandResult, Verdict
from drawbar.contracts.codec import Meta, Request
from drawbar.contracts.tool import ToolContext, ToolResult, ToolSpec
from drawbar.tools.escapes import plain_text
from drawbar.tools.jobs import JobTable, job_report
from drawbar.tools.truncation import MAX_BYTES, MAX_LINES, clip, count, head, size, tail

__all__ = ["LIMIT_MAX_S", "LIMIT_S", "BashInput", "BashTool", "plain_output"]

LIMIT_S: Final = 600.0
LIMIT_MAX_S: Final = 1680.0
"""BND-18: 10 minutes by default, 28 at most."""
SHELL: Final = ("/bin/bash", "--noprofile", "--norc", "-c")
HEAD_LINES: Final = 40
HEAD_BYTES: Final = 4 * 1024
TAIL_BYTES: Final = MAX_BYTES
_NOTES_BYTES: Final = 1024
_ROOM_LINES: Final = MAX_LINES - 20

_FIRST_LOOK_S: Final = 0.3
"""How long the start of a job is watched, so that one that fails at once says so at once."""

_OVERWRITTEN: Final = re.compile(r"[^\n]*\r(?=[^\n])")


class BashInput(Request):
    command: Annotated[str, Meta(min_length=1, description="What /bin/bash runs.")]
    timeout: (
        Annotated[
            float,
            Meta(
                gt=0,
                le=LIMIT_MAX_S,
                description=f"Seconds until it is ended ({LIMIT_S:.0f} if left out, at most {LIMIT_MAX_S:.0f}).",
            ),
        ]
        | None
    ) = None
    scope: (
        Annotated[
            Literal["read-only", "workspace", "outside"],
            Meta(description="What the command may touch; leave it out for the widest that needs no person."),
        ]
        | None
    ) = None
    background: Annotated[
        bool, Meta(description="Start it as a background job and return at once; job_output shows how it goes.")
    ] = False
    hosts: (
        Annotated[
            list[Annotated[str, Meta(min_length=1, max_length=300)]],
            Meta(max_length=16, description="Network hosts (`name` or `name:port`) that it must reach; usually none."),
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        if self.background and self.scope == "outside":
            raise ValueError("a command in the scope `outside` can't be a background job; leave `background` out")


class BashTool:
    """Runs a command where the gate decided, in the working directory of the pinned root (QLT-11).

    Args:
        jobs: where the background jobs that it starts are found again; a table of its own if left out.
    """

    def __init__(self, jobs: JobTable | None = None) -> None:
        self._jobs = JobTable() if jobs is None else jobs

    spec = ToolSpec(
        name="bash",
        description=(
            "Run a command with bash in the working directory, inside the sandbox. Gives standard output and "
            f"standard error together, at most {MAX_LINES:,} lines or {MAX_BYTES // 1024} KB of them (the beginning "
            "and above all the end), and the exit code when it is not 0. Each call is a new shell: nothing of "
            "`cd`, variables or background processes stays. There is no standard input and no terminal."
        ),
        input=BashInput,
        kind="execute",
        command=lambda given: given.command,
        hosts=lambda given: given.hosts or (),
        limit_s=LIMIT_S,
        limit_max_s=LIMIT_MAX_S,
        guidance=(
            "Use bash to build, test, run and use git; for looking at files use read, grep, find and ls.",
            "Commands must not wait for input: pass flags such as --yes, and use git --no-pager. Set `timeout` for "
            "what takes more than ten minutes.",
            "Start servers, watchers and whatever takes longer than half an hour with `background`; see how they go "
            "with job_output, and end them with job_stop.",
            "When the sandbox denies something, say so in your answer instead of working around it.",
        ),
    )

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        given: BashInput = verdict.input
        if given.background:
            return await self._start(given, verdict, context)
        limit = given.timeout or LIMIT_S
        result = await context.commands.run(
            CommandRequest(
                argv=(*SHELL, given.command),
                scope=verdict.scope,
                limit_s=limit,
                on_output=context.on_output,
                head_bytes=HEAD_BYTES,
                tail_bytes=TAIL_BYTES,
                hosts=verdict.hosts,
                call_id=context.call_id,
            )
        )
        text, cut = _report(result, limit)
        artifact = context.keep_output() if cut else None
        failed = result.cause != "ok" or bool(result.exit_code)
        return ToolResult(
            content=[{"type": "text", "text": text}],
            is_error=failed,
            cause="error" if failed and result.cause == "ok" else result.cause,
            exit_code=result.exit_code,
            artifact=artifact,
            details={"fullOutputPath": artifact} if artifact else None,
        )

    async def _start(self, given: BashInput, verdict: Verdict, context: ToolContext) -> ToolResult:
        """Start a background job, and say how to see it again (BND-14)."""
        entry = self._jobs.new(given.command, context)
        try:
            entry.job = await context.commands.start(
                CommandRequest(
                    argv=(*SHELL, given.command),
                    scope=verdict.scope,
                    limit_s=given.timeout or math.inf,
                    on_output=entry.feed,
                    head_bytes=0,
                    tail_bytes=0,
                    hosts=verdict.hosts,
                    call_id=context.call_id,
                ),
                entry.end,
            )
        except BaseException:
            entry.forget()
            raise
        self._jobs.add(entry)
        await entry.job.wait(_FIRST_LOOK_S)
        said = (
            f"Started job {entry.id}. It goes on until it ends, job_stop ends it, or this run ends. "
            f"job_output {{job: {entry.id}}} shows its output and whether it still runs; the whole output is kept "
            f"beside the run as {entry.file}, which no tool can open."
        )
        return job_report(entry, said)


def _report(result: CommandResult, limit_s: float) -> tuple[str, bool]:
    """The text of a result, and whether any output was left out of it."""
    if result.exit_code is None and result.cause not in ("timeout", "aborted"):
        why = result.denial or result.stderr.strip() or "for an unknown reason"
        return f"[the command could not be started: {clip(why, 2000)}]", False
    notes = _notes(result, limit_s)
    room = MAX_BYTES - _NOTES_BYTES
    text = plain_output(result.head + result.tail)
    whole = not result.dropped and tail(text, lines=_ROOM_LINES, limit=room).whole
    if not whole:
        first, last = (plain_output(result.head), plain_output(result.tail)) if result.dropped else (text, text)
        text, note = _both_ends(first, last, result.total, room)
        notes.insert(0, note)
    body = text.rstrip("\n") or "[no output]"
    return "\n\n".join((body, *notes)), not whole


def _both_ends(first: str, last: str, total: int, room: int) -> tuple[str, str]:
    """The beginning of ``first`` and the end of ``last``, and a note on what is missing between them (QLT-12)."""
    begin = head(first, lines=HEAD_LINES, limit=HEAD_BYTES)
    end = tail(last, lines=_ROOM_LINES - begin.lines, limit=room - _bytes(begin.text))
    missing = max(0, total - _bytes(begin.text) - _bytes(end.text))
    note = (
        f"[{size(total)} of output: the first {count(begin.lines, 'line')} and the last {count(end.lines, 'line')} "
        "are shown. To see another part, run the command again through grep, sed -n or head.]"
    )
    return f"{begin.text.rstrip(chr(10))}\n[… {size(missing)} left out …]\n{end.text}", note


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _notes(result: CommandResult, limit_s: float) -> list[str]:
    notes: list[str] = []
    if result.denial:
        notes.append(f"[sandbox: {result.denial}]")
    if result.left_behind and result.cause not in ("timeout", "aborted"):
        what = count(result.left_behind, "process", "processes")
        notes.append(f"[{what} still running in the background when the command returned; ended with the call]")
    if result.cause == "timeout":
        notes.append(
            f"[timed out after {limit_s:g} s: the command and everything it started were ended. Give a larger "
            f"`timeout` (at most {LIMIT_MAX_S:.0f}), or run less at once.]"
        )
    elif result.cause == "aborted":
        notes.append("[stopped before it ended]")
    elif result.cause == "unknown":
        notes.append("[how the command ended is unknown]")
    elif result.exit_code:
        signal = f" (ended by signal {result.exit_code - 128})" if 128 < result.exit_code <= 192 else ""
        notes.append(f"[exit code {result.exit_code}{signal}]")
    return notes


def plain_output(text: str) -> str:
    """Output as text: what a terminal acts on or doesn't show left out, overwritten progress lines too."""
    text = plain_text(text)
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text.replace("\r\n", "\n"))
        text = text.replace("\r", "")
    return text
