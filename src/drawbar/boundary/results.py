"""From how a process tree ended to the one result of its call (QLT-12)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from drawbar.boundary.output import Output
from drawbar.boundary.process import Outcome
from drawbar.contracts.boundary import CommandRequest, CommandResult

__all__ = ["finish", "never_started", "outputs", "result_of", "unstartable"]

_LONGEST_WORD: Final = 128 * 1024
"""The kernel's limit of one argument (MAX_ARG_STRLEN)."""
_STDERR_BYTES: Final = 32 * 1024


def outputs(request: CommandRequest, cap_bytes: int) -> tuple[Output, Output | None]:
    """What takes a command's output, and its standard error where that is kept apart.

    Args:
        request: says how much of it stays in memory and where the whole goes.
        cap_bytes: how much of it a file holds.
    """
    out = Output(
        head_bytes=request.head_bytes,
        tail_bytes=request.tail_bytes,
        artifact=request.artifact,
        cap_bytes=cap_bytes,
        on_text=request.on_output,
    )
    return out, Output(head_bytes=_STDERR_BYTES, tail_bytes=_STDERR_BYTES) if request.separate else None


def finish(out: Output, err: Output | None) -> None:
    """No more output will come."""
    out.finish()
    if err is not None:
        err.finish()


def result_of(outcome: Outcome, out: Output, err: Output | None, swept: int = 0) -> CommandResult:
    """The result of a call.

    Args:
        outcome: how its tree ended.
        out, err: what it put out, finished.
        swept: how many processes were found by their marker alone.
    """
    head, tail, dropped = out.ends()
    if not outcome.ready and outcome.cause != "aborted":
        said = head + tail if err is None else "".join(err.ends()[:2])
        return CommandResult(cause="error", exit_code=None, stderr=said, duration_ms=outcome.duration_ms)
    errors = ""
    if err is not None:
        start, end, between = err.ends()
        errors = f"{start}\n[… {between} bytes dropped …]\n{end}" if between else start
    return CommandResult(
        cause=outcome.cause if outcome.gone else "unknown",
        exit_code=outcome.exit_code,
        head=head,
        tail=tail,
        stderr=errors,
        dropped=dropped,
        total=out.total,
        duration_ms=outcome.duration_ms,
        artifact=out.artifact,
        left_behind=outcome.left + swept,
    )


def never_started(why: str) -> CommandResult:
    """The result of a command that can't be started, with what to do about it."""
    return CommandResult(cause="error", exit_code=None, head=why, stderr=why, total=len(why), denial=why)


def unstartable(request: CommandRequest, cwd: Path) -> str | None:
    """Why the system could not start this command, None when it could."""
    if not os.path.isdir(cwd):
        return f"The folder {cwd} doesn't exist."
    for word in request.argv:
        if "\0" in word:
            return "The command holds a zero byte, which no program can be given."
        if len(os.fsencode(word)) >= _LONGEST_WORD:
            return "The command is too long for the system; write it to a file and run that."
    return None
