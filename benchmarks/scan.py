"""What the walk over a workspace costs that comes before its commands (BND-12): within 3 s on 100,000 files.

usage: benchmarks/scan.py [--json] [FILES]

The walk finds files that have a name outside (twenty are planted) and what ``deny_read`` closes, and is kept for the
turn; a later call only looks whether what it found is still in place. ``os.walk`` over the same tree, measured in the
same round, makes a ratio that means something on any machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from drawbar.boundary.root_scan import RootScan

FILES = 100_000
ALIASES = 20
ROUNDS = 3
LIMIT_S = 3.0
"""BND-12."""
DENIED = (".env", "secrets/", "*.pem", "config/*.key")


def fill(root: Path, beside: Path, count: int) -> None:
    """``count`` small files, a hundred in each folder, and aliases of files that lie beside the root."""
    for number in range(0, count, 100):
        folder = root / f"d{number // 10_000}" / f"s{number // 100}"
        folder.mkdir(parents=True)
        for place in range(min(100, count - number)):
            (folder / f"f{place}.py").touch()
    beside.mkdir()
    for number in range(ALIASES):
        (beside / str(number)).touch()
        os.link(beside / str(number), root / "d0" / f"alias{number}")


def walked_s(root: Path) -> float:
    start = time.perf_counter()
    for _folder, _folders, files in os.walk(root):
        for _name in files:
            pass
    return time.perf_counter() - start


async def scanned_s(root: Path, denied: tuple[str, ...]) -> tuple[float, float]:
    """Seconds of the first walk, and of a second call that relies on it."""
    scan = RootScan(root, denied)
    try:
        start = time.perf_counter()
        scan.begin()
        found = await scan.result()
        first = time.perf_counter() - start
        if found.refused or len(found.read_only) < ALIASES:
            raise SystemExit(f"the walk did not find what it should: {found.refused or found.read_only}")
        start = time.perf_counter()
        await scan.result()
        return first, time.perf_counter() - start
    finally:
        await scan.close()


def measure(count: int) -> dict[str, float]:
    """Every figure by name."""
    best = dict.fromkeys(("os_walk", "scan", "scan_denied", "again"), float("inf"))
    with tempfile.TemporaryDirectory(prefix="drawbar-bench-") as name:
        root = Path(name).resolve() / "root"
        fill(root, Path(name) / "beside", count)
        for _ in range(ROUNDS):
            best["os_walk"] = min(best["os_walk"], walked_s(root))
            first, again = asyncio.run(scanned_s(root, ()))
            best["scan"], best["again"] = min(best["scan"], first), min(best["again"], again)
            best["scan_denied"] = min(best["scan_denied"], asyncio.run(scanned_s(root, DENIED))[0])
    return {
        "files": float(count),
        "os_walk_s": best["os_walk"],
        "scan_s": best["scan"],
        "scan_with_deny_read_s": best["scan_denied"],
        "scan_relied_on_again_ms": best["again"] * 1e3,
        "scan_over_os_walk_ratio": best["scan"] / best["os_walk"],
    }


def main() -> int:
    """Print the figures; exit 1 when the limit is passed."""
    given = [argument for argument in sys.argv[1:] if argument.isdecimal()]
    figures = measure(int(given[0]) if given else FILES)
    if "--json" not in sys.argv:
        for name, value in figures.items():
            bound = f"  (at most {LIMIT_S:g})" if name in ("scan_s", "scan_with_deny_read_s") else ""
            print(f"{name:26} {value:12.3f}{bound}")
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))
    return int(max(figures["scan_s"], figures["scan_with_deny_read_s"]) > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
