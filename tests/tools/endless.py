"""A run that writes one file after another until it is killed (a process of its own, see test_killed.py)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.tools.kit import Workshop

from drawbar.contracts.tool import ToolCall


async def main(folder: Path) -> None:
    bench = Workshop(folder).bench()
    print("ready", flush=True)
    for number in range(100_000):
        await bench.execute(
            ToolCall(f"w{number}", "write", {"path": f"w{number}", "content": f"{number}\n" * 2000}),
            ToolCall(f"b{number}", "bash", {"command": f"echo {number} > b{number}"}),
        )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
