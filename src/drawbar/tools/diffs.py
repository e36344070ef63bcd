"""What a native change did to a file, as the disk shows it: a unified diff in bounded time and space (QLT-10)."""

from __future__ import annotations

import difflib
import os
import stat
from typing import Any, Final

from drawbar.boundary.openat2 import open_beneath
from drawbar.boundary.paths import RootGone, open_root
from drawbar.contracts.boundary import PinnedRoot, Target
from drawbar.tools.truncation import MAX_BYTES, MAX_LINES, head

__all__ = ["change_details", "on_disk", "unified"]

CONTEXT_LINES: Final = 3
_COMPARED: Final = 4_000_000
"""Products of line counts up to which changed stretches are matched line by line; beyond, one replaces the other."""
_DIFFED_BYTES: Final = 8 << 20


def on_disk(target: Target, root: PinnedRoot) -> bytes | None:
    """What stands at a written path now, at most 8 MiB of it; None when no plain file does."""
    if target.relative is None:
        return None
    try:
        root_fd = open_root(root)
    except RootGone:
        return None
    try:
        fd = open_beneath(root_fd, os.fsencode(target.relative), os.O_RDONLY | os.O_NONBLOCK, links=False)
    except OSError:
        return None
    finally:
        os.close(root_fd)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(_DIFFED_BYTES)
    finally:
        os.close(fd)


def change_details(before: bytes, after: bytes, path: str) -> dict[str, Any] | None:
    """The history's ``details`` of a change: the diff, and the first line that it touched."""
    if max(len(before), len(after)) >= _DIFFED_BYTES:
        return None
    text, first = unified(before.decode("utf-8", "replace"), after.decode("utf-8", "replace"), path)
    if not text:
        return None
    cut = head(text, lines=MAX_LINES, limit=MAX_BYTES)
    note = "" if cut.whole else f"[{cut.total_lines - cut.lines} more lines of the diff left out]\n"
    return {"diff": cut.text + note, "firstChangedLine": first}


def unified(before: str, after: str, path: str) -> tuple[str, int]:
    """A unified diff and the number of the first changed line in the new text; empty when nothing differs."""
    old, new = before.split("\n"), after.split("\n")
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    if start == len(old) == len(new):
        return "", 0
    margin = min(start, CONTEXT_LINES)
    behind = min(end, CONTEXT_LINES)
    old_part = old[start - margin : len(old) - end + behind]
    new_part = new[start - margin : len(new) - end + behind]
    offset = start - margin
    lines = [f"--- a/{path}", f"+++ b/{path}"]
    for group in _groups(old_part, new_part, margin, behind):
        i1, i2, j1, j2 = group[0][1], group[-1][2], group[0][3], group[-1][4]
        lines.append(f"@@ -{_span(offset + i1, i2 - i1)} +{_span(offset + j1, j2 - j1)} @@")
        for kind, a, b, c, d in group:
            if kind == "equal":
                lines += [" " + line for line in old_part[a:b]]
            else:
                lines += ["-" + line for line in old_part[a:b]]
                lines += ["+" + line for line in new_part[c:d]]
    return "\n".join(lines) + "\n", start + 1


def _common(first: list[str], second: list[str]) -> int:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def _groups(old: list[str], new: list[str], margin: int, behind: int) -> list[list[tuple[str, int, int, int, int]]]:
    if len(old) * len(new) <= _COMPARED:
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        return [list(group) for group in matcher.get_grouped_opcodes(CONTEXT_LINES)]
    whole = [
        ("equal", 0, margin, 0, margin),
        ("replace", margin, len(old) - behind, margin, len(new) - behind),
        ("equal", len(old) - behind, len(old), len(new) - behind, len(new)),
    ]
    return [whole]


def _span(start: int, length: int) -> str:
    first = start + 1 if length else start
    return f"{first}" if length == 1 else f"{first},{length}"
