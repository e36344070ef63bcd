"""Opening the data root for one command that looks or answers, and turning what it gives into JSON or lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from drawbar.contracts.codec import UNSET, field_names
from drawbar.contracts.run import RunRecord
from drawbar.surfaces.cli.output import Look, look_of

if TYPE_CHECKING:
    from drawbar.app import Harness
    from drawbar.contracts.methods import Recovery

__all__ = ["call", "print_lines", "record_object", "settled_text", "standard_look"]


def call(work: Callable[[Harness], Awaitable[int]], *, without_root: Callable[[], int] | None = None) -> int:
    """Run ``work`` on the open data root and give its exit code. No root is made: looking leaves nothing behind.

    Args:
        work: what to do.
        without_root: answers where no root was made yet.

    Raises:
        NotFound: there is no data root, and nobody said what that means.
    """
    import asyncio

    from drawbar.app import root_exists

    if not root_exists(os.environ):
        if without_root is not None:
            return without_root()
        from drawbar.contracts.errors import NotFound
        from drawbar.stores.layout import Layout

        data = Layout.resolve(os.environ).data
        raise NotFound(f"nothing was recorded yet: there is no data root {data}", path=str(data))

    async def opened() -> int:
        import drawbar

        async with drawbar.open() as harness:
            if harness.recovery.interrupted_run_ids and "--json" not in sys.argv:
                print(settled_text(harness.recovery), file=sys.stderr)
            return await work(harness)

    return asyncio.run(opened())


def settled_text(recovery: Recovery) -> str:
    """Which runs were settled because their process was gone."""
    return f"drawbar: settled {', '.join(recovery.interrupted_run_ids)}, whose process was gone"


def standard_look() -> Look:
    """What standard output can show."""
    return look_of(sys.stdout, os.environ)


def print_lines(lines: list[str]) -> None:
    """Finished lines on standard output, in one write."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def record_object(record: RunRecord) -> dict[str, Any]:
    """Every field of a record, also those at their default; what is unknown is absent (CON-1, CON-7)."""
    fields = {name: getattr(record, name) for name in field_names(RunRecord)}
    return {name: value for name, value in fields.items() if value is not UNSET}
