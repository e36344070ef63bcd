"""Opening the data root for one command that looks or answers, and turning what it gives into JSON or lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from drawbar.contracts.codec import field_names
from drawbar.contracts.run import RunRecord
from drawbar.surfaces.cli.output import Look, look_of

if TYPE_CHECKING:
    from drawbar.app import Harness

__all__ = ["call", "print_lines", "record_object", "standard_look"]


def call(work: Callable[[Harness], Awaitable[int]]) -> int:
    """Run ``work`` on the open data root and give its exit code."""

    async def opened() -> int:
        import drawbar

        async with drawbar.open() as harness:
            return await work(harness)

    import asyncio

    return asyncio.run(opened())


def standard_look() -> Look:
    """What standard output can show."""
    return look_of(sys.stdout, os.environ)


def print_lines(lines: list[str]) -> None:
    """Finished lines on standard output, in one write."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def record_object(record: RunRecord) -> dict[str, Any]:
    """Every field of a record, also those at their default: what programs read names all of CON-1."""
    return {name: getattr(record, name) for name in field_names(RunRecord)}
