"""``job_output``: what a background job has put out since the last look, and how it goes (BND-14, ENG-6)."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Final

from drawbar.contracts.boundary import Verdict
from drawbar.contracts.codec import Meta, Request
from drawbar.contracts.tool import ToolContext, ToolResult, ToolSpec
from drawbar.tools.jobs import JobEntry, JobTable, job_report
from drawbar.tools.truncation import MAX_BYTES, MAX_LINES

__all__ = ["JobOutputInput", "JobOutputTool"]

WAIT_MAX_S: Final = 300.0


class JobOutputInput(Request):
    job: Annotated[str, Meta(min_length=1, max_length=64, description="The job, as bash named it.")]
    since: (
        Annotated[int, Meta(ge=0, description="Begin at this byte instead of after what was shown before.")] | None
    ) = None
    tail: Annotated[int, Meta(ge=1, le=MAX_LINES, description="Only the last lines, seen before or not.")] | None = None
    wait: (
        Annotated[
            float,
            Meta(ge=0, le=WAIT_MAX_S, description=f"Wait up to so many seconds (at most {WAIT_MAX_S:.0f}) for news."),
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        if self.since is not None and self.tail is not None:
            raise ValueError("give `since` or `tail`, not both")


class JobOutputTool:
    """Looks at a job of the run.

    Args:
        jobs: the run's.
    """

    spec = ToolSpec(
        name="job_output",
        description=(
            "Show what a background job has put out since the last look, whether it still runs, and its exit code. "
            f"At most {MAX_LINES:,} lines or {MAX_BYTES // 1024} KB at once; `wait` holds the answer back until there "
            "is more or the job ends."
        ),
        input=JobOutputInput,
        kind="internal",
        plan_mode_safe=True,
        limit_s=WAIT_MAX_S + 30,
        limit_max_s=WAIT_MAX_S + 30,
        guidance=("Give job_output a `wait` instead of calling it again and again.",),
    )

    def __init__(self, jobs: JobTable) -> None:
        self._jobs = jobs

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        given: JobOutputInput = verdict.input
        entry = self._jobs.find(given.job)
        if entry is None:
            return self._jobs.unknown(given.job)
        if given.wait:
            await _news(entry, given.wait, entry.seen if given.since is None else given.since)
        return job_report(entry, since=given.since, lines=given.tail)


async def _news(entry: JobEntry, seconds: float, seen: int) -> None:
    """Wait until there is more than ``seen``, or no more to come."""
    end = time.monotonic() + seconds
    while entry.record.total <= seen and entry.result is None and (left := end - time.monotonic()) > 0:
        entry.record.news.clear()
        try:
            await asyncio.wait_for(entry.record.news.wait(), left)
        except TimeoutError:
            return
