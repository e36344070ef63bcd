"""Unified diffs computed from the bytes before and after, so that what is reported is what happened (QLT-10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from drawbar.boundary.text_files import UndecodableText, read_text

__all__ = ["line_changes", "unified_diff"]

_MAX_COMPARED: Final = 4_000_000
_Opcode = tuple[str, int, int, int, int]


def unified_diff(before: bytes, after: bytes, *, path: str, context: int = 3) -> str:
    """The change from ``before`` to ``after`` as a unified diff; empty when they are equal.

    Args:
        before, after: the whole file; an empty ``before`` of a new file is fine.
        path: shown in the header.
        context: unchanged lines around each change.

    Carriage returns are kept, so a change of line ends shows. Bytes that aren't text are shown as U+FFFD.
    """
    if before == after:
        return ""
    old, new = _lines(before), _lines(after)
    out = [f"--- a/{path}\n", f"+++ b/{path}\n"]
    for hunk in _hunks(line_changes(old, new), context):
        first, last = hunk[0], hunk[-1]
        out.append(f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@\n")
        for kind, old_start, old_end, new_start, new_end in hunk:
            if kind == "equal":
                out += [_line(" ", line) for line in old[old_start:old_end]]
                continue
            out += [_line("-", line) for line in old[old_start:old_end]]
            out += [_line("+", line) for line in new[new_start:new_end]]
    return "".join(out)


def line_changes(old: Sequence[str], new: Sequence[str]) -> list[_Opcode]:
    """How ``new`` comes from ``old``: ``(equal|replace|delete|insert, old start, end, new start, end)``.

    Two long stretches without anything in common at their ends are taken as one replacement, so that the time
    stays bounded.
    """
    head = 0
    while head < len(old) and head < len(new) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_end, new_end = len(old) - tail, len(new) - tail
    found: list[_Opcode] = [("equal", 0, head, 0, head)] if head else []
    if (old_end - head) * (new_end - head) > _MAX_COMPARED:
        found.append(("replace", head, old_end, head, new_end))
    else:
        matcher = SequenceMatcher(None, old[head:old_end], new[head:new_end], autojunk=False)
        found += [(kind, a + head, b + head, c + head, d + head) for kind, a, b, c, d in matcher.get_opcodes()]
    if tail:
        found.append(("equal", old_end, len(old), new_end, len(new)))
    return found


def _hunks(changes: Sequence[_Opcode], context: int) -> Iterator[list[_Opcode]]:
    hunk: list[_Opcode] = []
    for place, change in enumerate(changes):
        kind, old_start, old_end, new_start, new_end = change
        if kind != "equal":
            hunk.append(change)
            continue
        size = old_end - old_start
        after = context if hunk else 0
        before = context if place + 1 < len(changes) else 0
        if size <= after + before and (hunk or before >= size):
            hunk.append(change)
            continue
        if hunk:
            hunk.append((kind, old_start, old_start + after, new_start, new_start + after))
            yield hunk
            hunk = []
        if before:
            hunk = [(kind, old_end - before, old_end, new_end - before, new_end)]
    if any(change[0] != "equal" for change in hunk):
        yield hunk


def _span(start: int, end: int) -> str:
    if end - start == 1:
        return str(start + 1)
    return f"{start if end == start else start + 1},{end - start}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def _lines(data: bytes) -> list[str]:
    try:
        text = read_text(data).text
    except UndecodableText:
        text = data.decode("latin-1")
    shown = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text) if not text.isascii() else text
    pieces = shown.split("\n")
    return [f"{piece}\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])
