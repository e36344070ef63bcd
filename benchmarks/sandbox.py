"""What a sandboxed command costs beside bubblewrap itself with the same profile (BND-15), as ratios in one run.

    python benchmarks/sandbox.py [--rounds N] [--json [FILE]]

Each round runs every variant once, interleaved, so that a busy machine slows all of them alike. ``bare`` is the
command without any sandbox, ``bubblewrap`` the program with exactly the options that the harness gives it,
``drawbar`` the whole call in a sandbox of its own: plan, spawn, output, and the proof that nothing is left,
``entered`` the same in the session's kept sandbox (PRF-2), and ``outside`` without the file sandbox (BND-18).
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from drawbar.boundary.bubblewrap import Bubblewrap
from drawbar.boundary.plan import build_plan, host_view
from drawbar.boundary.roots import pin_root
from drawbar.boundary.runner import SandboxRunner
from drawbar.contracts.boundary import CommandRequest, Policy

COMMAND = ("/bin/bash", "-c", "true")
LIMIT = 1.5
"""BND-15: a sandbox of one call's own, over bubblewrap itself."""
ENTRY_LIMIT = 0.7
"""PRF-2: entering the kept one, over the same."""


def _run(argv: list[str], env: dict[str, str], pass_fds: tuple[int, ...] = ()) -> None:
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, pass_fds=pass_fds
    )
    assert process.stdout is not None
    output = process.stdout.read()
    process.stdout.close()
    if process.wait() != 0:
        raise RuntimeError(output.decode("utf-8", "replace"))


def _bare_bubblewrap(backend: Bubblewrap, plan: Any, env: dict[str, str]) -> Callable[[], None]:
    """The same options, but the command right inside; its own reaper instead of our supervisor."""

    def run() -> None:
        wrapped = backend.wrap(plan, COMMAND)
        try:
            start = wrapped.argv.index("--")
            _run([*wrapped.argv[: start + 1], *COMMAND], env, wrapped.pass_fds)
        finally:
            wrapped.close()
            for fd in (wrapped.info_fd, wrapped.talk_fd):
                if fd is not None:
                    os.close(fd)

    return run


def _make_repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", folder], check=True)


def _cpu() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


async def measure(rounds: int) -> dict[str, Any]:
    """Wall and CPU milliseconds of each variant, and the ratio that BND-15 bounds."""
    with tempfile.TemporaryDirectory(prefix="drawbar-bench-") as folder:
        root = Path(folder) / "repository"
        _make_repository(root)
        hidden = Path(folder) / "data"
        hidden.mkdir()
        policy = Policy(
            root=pin_root(root, hidden=[hidden]),
            tools=frozenset({"bash"}),
            scopes=("read-only", "workspace", "outside"),
            hidden=(hidden,),
        )
        backend = Bubblewrap()
        own, kept = (
            SandboxRunner(
                policy,
                backend=backend,
                private_tmp=Path(folder) / "private",
                environ=os.environ,
                marker="DRAWBAR_CALL=r_0",
                keep=keep,
            )
            for keep in (False, True)
        )
        trial = await own.trial()
        if not trial.ok:
            raise SystemExit(f"the sandbox can't work here: {trial.cause}")
        request = CommandRequest(argv=COMMAND, scope="workspace", limit_s=30)
        unconfined = dataclasses.replace(request, scope="outside")
        for runner, first in ((own, request), (kept, request), (own, unconfined)):
            if (await runner.run(first)).exit_code != 0:
                raise SystemExit(f"a call of scope {first.scope} fails here")
        plan = build_plan(
            policy,
            "workspace",
            cwd=root,
            private_tmp=Path(folder) / "private",
            environ=os.environ,
            host=host_view(policy, os.environ),
        )
        env = dict(plan.env)
        bubblewrap = _bare_bubblewrap(backend, plan, env)

        async def bare() -> None:
            _run(list(COMMAND), env)

        async def wrapped() -> None:
            bubblewrap()

        async def drawbar() -> None:
            await own.run(request)

        async def entered() -> None:
            await kept.run(request)

        async def outside() -> None:
            await own.run(unconfined)

        variants: dict[str, Callable[[], Awaitable[None]]] = {
            "bare": bare,
            "bubblewrap": wrapped,
            "drawbar": drawbar,
            "entered": entered,
            "outside": outside,
        }
        wall: dict[str, list[float]] = {name: [] for name in variants}
        cpu: dict[str, list[float]] = {name: [] for name in variants}
        for _ in range(rounds):
            for name, run in variants.items():
                started, used = time.perf_counter(), _cpu()
                await run()
                wall[name].append((time.perf_counter() - started) * 1000)
                cpu[name].append((_cpu() - used) * 1000)
        await own.close()
        await kept.close()
    rows = {
        name: {
            "min_ms": round(min(wall[name]), 2),
            "median_ms": round(statistics.median(wall[name]), 2),
            "cpu_ms": round(statistics.mean(cpu[name]), 2),
        }
        for name in variants
    }
    ratios = {
        "min": round(rows["drawbar"]["min_ms"] / rows["bubblewrap"]["min_ms"], 3),
        "median": round(rows["drawbar"]["median_ms"] / rows["bubblewrap"]["median_ms"], 3),
    }
    return {"rounds": rounds, "variants": rows, "ratio_to_bubblewrap": ratios, "limit": LIMIT}


def figures_of(result: dict[str, Any]) -> dict[str, float]:
    """One flat object of numbers, as `benchmarks/run.py` keeps them."""
    rows = result["variants"]
    figures = {f"{name}_{what}": value for name, row in rows.items() for what, value in row.items()}
    for name in ("drawbar", "entered", "outside"):
        figures[f"{name}_ratio"] = round(rows[name]["min_ms"] / rows["bubblewrap"]["min_ms"], 3)
    return figures


def main() -> int:
    """Print a table, and JSON when asked: to a file, or as the last line; 1 when a limit is passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE")
    options = parser.parse_args()
    result = asyncio.run(measure(options.rounds))
    print("| variant | min ms | median ms | CPU ms |\n|---|---|---|---|")
    for name, row in result["variants"].items():
        print(f"| {name} | {row['min_ms']} | {row['median_ms']} | {row['cpu_ms']} |")
    figures = figures_of(result)
    print(f"\ndrawbar / bubblewrap: {figures['drawbar_ratio']} (at most {LIMIT})")
    print(f"entered / bubblewrap: {figures['entered_ratio']} (at most {ENTRY_LIMIT})")
    if options.json == "-":
        print(json.dumps(figures))
    elif options.json:
        Path(options.json).write_text(json.dumps(result, indent=2) + "\n")
    return int(figures["drawbar_ratio"] > LIMIT or figures["entered_ratio"] > ENTRY_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
