"""Everything that can be said about the code without running it (ARC-7): style, types, layers, sizes, documentation.

usage: scripts/lint.py [STEP…]       steps: style, format, types, layers, sizes, docs (all by default)
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
WARN_LINES = 400
FAIL_LINES = 600


def run(*argv: str) -> bool:
    """Whether a tool of the environment was content."""
    return subprocess.run([BIN / argv[0], *argv[1:]], cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode == 0


def sizes() -> bool:
    """A module says one thing: over 400 lines it is named, over 600 it is refused."""
    lines = {path: len(path.read_bytes().splitlines()) for path in sorted((ROOT / "src").rglob("*.py"))}
    for path, count in sorted(lines.items(), key=lambda item: -item[1]):
        if count > WARN_LINES:
            verdict = "too long" if count > FAIL_LINES else "long"
            print(f"{path.relative_to(ROOT)}: {count} lines, {verdict} (is it still one thing?)")
    print(f"{len(lines)} modules, {sum(lines.values())} lines, longest {max(lines.values(), default=0)}")
    return all(count <= FAIL_LINES for count in lines.values())


def docs() -> bool:
    """Links, anchors and fences of the documentation; its commands and examples are tests (tests/arch)."""
    return run("python", "scripts/docs_check.py")


STEPS: dict[str, Callable[[], bool]] = {
    "style": lambda: run("ruff", "check", "."),
    "format": lambda: run("ruff", "format", "--check", "."),
    "types": lambda: run("basedpyright", "--level", "warning"),
    "layers": lambda: run("lint-imports", "--no-cache"),
    "sizes": sizes,
    "docs": docs,
}


def main(names: list[str]) -> int:
    """0 when every named step passed; all of them run, so that one look shows all faults."""
    if unknown := [name for name in names if name not in STEPS]:
        print(f"lint.py: no step {', '.join(unknown)}; there are {', '.join(STEPS)}", file=sys.stderr)
        return 2
    failed: list[str] = []
    for name in names or STEPS:
        print(f"── {name}", flush=True)
        began = time.monotonic()
        if not STEPS[name]():
            failed.append(name)
        print(f"   {time.monotonic() - began:.1f} s", flush=True)
    print(f"lint: failed: {', '.join(failed)}" if failed else "lint: all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
