"""What starting costs over an empty Python: ``python benchmarks/startup.py [--json]`` (PRF-6).

Each command runs in a fresh process, interleaved with ``python -c pass``, and the best of the rounds counts:
a busy machine can only make a start slower.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 15
LIMITS = {"import_over_pass_ms": 40.0, "version_over_pass_ms": 60.0}
"""PRF-6."""

DRAWBAR = str(Path(sys.executable).with_name("drawbar"))
COMMANDS: dict[str, list[str]] = {
    "pass": [sys.executable, "-c", "pass"],
    "import": [sys.executable, "-c", "import drawbar"],
    "version": [DRAWBAR, "--version"],
    "help": [DRAWBAR, "--help"],
    "runs_list": [DRAWBAR, "runs", "list", "--json"],
}


def measure(rounds: int = ROUNDS) -> dict[str, float]:
    """Milliseconds of each start over the empty one, and the ratio to it."""
    best = dict.fromkeys(COMMANDS, float("inf"))
    with tempfile.TemporaryDirectory(prefix="drawbar-bench-") as home:
        environment = {"PATH": "/usr/bin:/bin", "HOME": home, "DRAWBAR_HOME": f"{home}/data", "LC_ALL": "C.UTF-8"}
        for _ in range(rounds):
            for name, argv in COMMANDS.items():
                began = time.perf_counter()
                subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True)
                best[name] = min(best[name], time.perf_counter() - began)
    figures = {"pass_ms": best["pass"] * 1000}
    for name in list(COMMANDS)[1:]:
        figures[f"{name}_over_pass_ms"] = (best[name] - best["pass"]) * 1000
        figures[f"{name}_ratio"] = best[name] / best["pass"]
    return figures


def main() -> int:
    """Print the figures; exit 1 when a limit is passed."""
    figures = measure()
    if "--json" in sys.argv:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            limit = f"  (at most {LIMITS[name]:.0f})" if name in LIMITS else ""
            print(f"{name:24} {value:8.2f}{limit}")
    return int(any(figures[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
