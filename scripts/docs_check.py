"""Checks the documentation as a reader would trip over it: links, anchors, fences, line ends, leftovers (ARC-7).

usage: scripts/docs_check.py        exit 1 with one line a fault, else 0
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$")
FENCE = re.compile(r"^\s*```(.*)$")
LEFTOVER = re.compile(r"\b(?:to-?do:|fix-?me\b|tbd\b|lorem ipsum\b)", re.IGNORECASE)


def pages() -> list[Path]:
    """README, change log and everything under docs/."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines outside code fences."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(path: Path) -> set[str]:
    """The anchors that the page's headings get."""
    found: set[str] = set()
    for _, line in prose(path.read_text(encoding="utf-8")):
        if heading := HEADING.match(line):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "")
            base = slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
            count = 0
            while slug in found:
                count += 1
                slug = f"{base}-{count}"
            found.add(slug)
    return found


def faults_of(path: Path) -> Iterator[tuple[int, str]]:
    """Each fault of one page with its line."""
    text = path.read_text(encoding="utf-8")
    if not text.startswith("# "):
        yield 1, "the page does not begin with its title"
    opened: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if fence := FENCE.match(line):
            if opened is None and not fence[1].strip():
                yield number, "a code block that does not say its language (text, console, python, …)"
            opened = None if opened is not None else number
        if line != line.rstrip():
            yield number, "white space at the end of the line"
    if opened is not None:
        yield opened, "a code block that is never closed"
    for number, line in prose(text):
        if LEFTOVER.search(line):
            yield number, "something left to do"
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            goal = (path.parent / name).resolve() if name else path
            if not goal.is_relative_to(ROOT) or not goal.exists():
                yield number, f"link to what is not there: {target}"
            elif anchor and goal.suffix == ".md" and anchor not in anchors(goal):
                yield number, f"link to a heading that is not there: {target}"


def unlinked() -> Iterator[str]:
    """Pages of docs/ that no other page leads to."""
    linked: set[Path] = set()
    for path in pages():
        for _, line in prose(path.read_text(encoding="utf-8")):
            linked |= {(path.parent / target.partition("#")[0]).resolve() for target in LINK.findall(line)}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if path.resolve() not in linked:
            yield f"{path.relative_to(ROOT)}: no page links to it"


def main() -> int:
    """Print every fault; 1 if there was one."""
    faults = [f"{path.relative_to(ROOT)}:{line}: {what}" for path in pages() for line, what in faults_of(path)]
    faults += unlinked()
    print("\n".join([*faults, f"{len(pages())} pages, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
