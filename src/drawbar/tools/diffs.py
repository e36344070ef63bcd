"""What a native change did to a file, as the disk shows it (QLT-10)."""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Final

from drawbar.boundary.diffs import unified_diff
from drawbar.boundary.openat2 import open_beneath
from drawbar.boundary.paths import RootGone, open_root
from drawbar.contracts.boundary import PinnedRoot, Target
from drawbar.tools.truncation import MAX_BYTES, MAX_LINES, count, head

__all__ = ["DIFFED_BYTES", "change_details", "on_disk"]

DIFFED_BYTES: Final = 8 << 20
"""Larger files are changed without a diff in the record; their hashes say that they did."""
_HUNK: Final = re.compile(r"^@@ -\S+ \+(\d+)\S* @@\n((?: .*\n)*)", re.MULTILINE)


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
            return file.read(DIFFED_BYTES)
    finally:
        os.close(fd)


def change_details(before: bytes, after: bytes, path: str) -> dict[str, Any] | None:
    """The history's ``details`` of a change: a bounded unified diff, and the first line that it touched."""
    if max(len(before), len(after)) >= DIFFED_BYTES:
        return None
    diff = unified_diff(before, after, path=path)
    first = _HUNK.search(diff)
    if first is None:
        return None
    cut = head(diff, lines=MAX_LINES, limit=MAX_BYTES)
    left = "" if cut.whole else f"[{count(cut.total_lines - cut.lines, 'more line')} of the diff left out]\n"
    return {"diff": cut.text + left, "firstChangedLine": int(first[1]) + first[2].count("\n")}
