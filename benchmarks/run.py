"""Runs every benchmark, keeps the figures, and compares ratios with the last release's (PRF-9).

usage: benchmarks/run.py [NAME…] [--keep]
  NAME    startup, redaction, …: files of this folder (all of them by default)
  --keep  write the figures to benchmarks/released/<version>.json, to be committed with a release
The figures go to benchmarks/results/latest.json as well as into the table.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "latest.json"
RELEASED = HERE / "released"
REGRESSION = 1.20
"""A ratio that grew by more is a defect. Plain times are shown only: they belong to the machine."""


def run_one(path: Path) -> tuple[dict[str, float], bool]:
    """A benchmark's figures (the last line of ``--json``), and whether it kept its own limits."""
    done = subprocess.run([sys.executable, path, "--json"], stdout=subprocess.PIPE, text=True, check=False)
    try:
        return json.loads(done.stdout.splitlines()[-1]), done.returncode == 0
    except (IndexError, ValueError):
        return {}, False


def regressions(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Ratios that grew by more than a fifth."""
    return [
        f"{bench}: {name} was {before:.2f}, is {after:.2f}"
        for bench, figures in new.items()
        for name, after in figures.items()
        if "ratio" in name and (before := old.get(bench, {}).get(name)) and after > before * REGRESSION
    ]


def last_release() -> dict[str, Any]:
    """The figures kept last; empty before the first release."""
    kept = sorted(RELEASED.glob("*.json"), key=lambda path: [int(n) for n in path.stem.split(".") if n.isdecimal()])
    return json.loads(kept[-1].read_text(encoding="utf-8"))["figures"] if kept else {}


def main(arguments: list[str]) -> int:
    """1 when a benchmark failed or passed its limits, or a ratio regressed."""
    names = [argument for argument in arguments if not argument.startswith("-")]
    paths = {path.stem: path for path in sorted(HERE.glob("*.py")) if path.name != Path(__file__).name}
    if unknown := [name for name in names if name not in paths]:
        print(f"run.py: no benchmark {', '.join(unknown)}; there are {', '.join(paths)}", file=sys.stderr)
        return 2
    figures: dict[str, dict[str, float]] = {}
    faults: list[str] = []
    for name in names or paths:
        print(f"── {name}", flush=True)
        figures[name], kept_limits = run_one(paths[name])
        width = max(map(len, figures[name]), default=0)
        for what, value in figures[name].items():
            print(f"{what:<{width}}  {value:12.3f}")
        if not kept_limits:
            faults.append(f"{name}: failed, or over a limit of its own")
    faults += regressions(last_release(), figures)
    from drawbar import __version__

    report = {
        "version": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()} {platform.system()}",
        "figures": figures,
    }
    for path in [RESULTS, *([RELEASED / f"{__version__}.json"] if "--keep" in arguments else [])]:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print("\n".join(faults) or f"all well; figures in {RESULTS.relative_to(HERE.parent)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
