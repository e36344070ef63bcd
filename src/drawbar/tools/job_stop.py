"""``job_stop``: end a background job and everything it started (BND-14, ENG-6)."""

from __future__ import annotations

from typing import Annotated

from drawbar.contracts.boundary import Verdict
from drawbar.contracts.codec import Meta, Request
from drawbar.contracts.tool import ToolContext, ToolResult, ToolSpec
from drawbar.tools.jobs import JobTable, job_report

__all__ = ["JobStopInput", "JobStopTool"]


class JobStopInput(Request):
    job: Annotated[str, Meta(min_length=1, max_length=64, description="The job, as bash named it.")]


class JobStopTool:
    """Ends a job of the run.

    Args:
        jobs: the run's.
    """

    spec = ToolSpec(
        name="job_stop",
        description=(
            "End a background job with everything it started: SIGTERM, a second later SIGKILL. Shows the output that "
            "wasn't shown before."
        ),
        input=JobStopInput,
        kind="internal",
        plan_mode_safe=True,
        limit_s=30.0,
        limit_max_s=30.0,
    )

    def __init__(self, jobs: JobTable) -> None:
        self._jobs = jobs

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        given: JobStopInput = verdict.input
        entry = self._jobs.find(given.job)
        if entry is None:
            return self._jobs.unknown(given.job)
        if entry.job is None or entry.result is not None:
            return job_report(entry, f"Job {entry.id} had already ended.")
        await entry.job.stop()
        return job_report(entry)
