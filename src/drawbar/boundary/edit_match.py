"""Finding a model's text in a file: exactly, else tolerantly; and what of the found stretch really changes.

Line ends are compared as one, white space at line ends, typographic quotes, dashes and spaces and compatibility
forms (NFKC) as the same, when no exact match is there (ENG-6). A match always maps back to whole characters of
the file, and the parts of it that the model repeats unchanged keep the file's own bytes (QLT-10).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final

__all__ = ["Haystack", "fold", "merged_line", "plain_lines"]

_TYPOGRAPHIC: Final = {
    **dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u2032"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f\u2033"), '"'),
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), "-"),
    **dict.fromkeys(map(ord, "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"), " "),
    **dict.fromkeys(map(ord, "\u202f\u205f\u3000"), " "),
}
_TYPOGRAPHIC_CHAR: Final = re.compile("[" + "".join(map(chr, _TYPOGRAPHIC)) + "]")
_LINE_SPACE: Final = " \t\v\f"


def plain_lines(text: str, *, old_mac: bool = False) -> str:
    """``text`` with every line end as ``\\n``; a lone carriage return is one only in a file that has no other."""
    text = text.replace("\r\n", "\n")
    return text.replace("\r", "\n") if old_mac else text


def fold(line: str) -> str:
    """A line as the tolerant comparison sees it."""
    return _folded(line).rstrip(_LINE_SPACE)


def _folded(text: str) -> str:
    return text if _is_plain(text) else "".join(folded for _start, folded in _clusters(text))


def _is_plain(text: str) -> bool:
    return text.isascii() or (unicodedata.is_normalized("NFKC", text) and not _TYPOGRAPHIC_CHAR.search(text))


def _clusters(text: str) -> Iterator[tuple[int, str]]:
    """Where each character begins with what combines with it, and its folded form."""
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or not _combines(text[at]):
            folded = unicodedata.normalize("NFKC", text[start:at]).translate(_TYPOGRAPHIC)
            yield start, folded
            start = at


def _combines(char: str) -> bool:
    return unicodedata.combining(char) != 0 or "\u1160" <= char <= "\u11ff" or char in "\u200d\ufe0e\ufe0f"


class Haystack:
    """A file's text, prepared for several searches.

    Args:
        text: decoded, with its own line ends.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.old_mac = "\r" in text and "\n" not in text
        self.view = plain_lines(text, old_mac=self.old_mac)
        # Where the view's line ends were two characters: what lies behind is further on in the text.
        self._doubled = [] if self.old_mac or "\r\n" not in text else list(self._doubled_ends())

    def _doubled_ends(self) -> Iterator[int]:
        removed = 0
        at = self.text.find("\r\n")
        while at >= 0:
            yield at - removed
            removed += 1
            at = self.text.find("\r\n", at + 2)

    def offset(self, at: int) -> int:
        """The place in the text of a place in the view."""
        return at + bisect_left(self._doubled, at)

    def line_of(self, at: int) -> int:
        """The number, from 1, of the line that holds a place of the view."""
        return self.view.count("\n", 0, at) + 1

    def end_at(self, at: int) -> str:
        """The line end that stands at a place of the view."""
        start = self.offset(at)
        return "\r\n" if self.text.startswith("\r\n", start) else self.text[start : start + 1]

    def style_near(self, start: int, end: int) -> str:
        """The line end to use for new lines at a stretch of the view: the next one, else the last before, else LF."""
        after = self.view.find("\n", end)
        if after < 0:
            after = self.view.rfind("\n", 0, start)
        return self.end_at(after) if after >= 0 else "\n"

    # Finding

    def exactly(self, wanted: str) -> list[tuple[int, int]]:
        """Every place of ``wanted`` in the view, overlapping ones too."""
        found: list[tuple[int, int]] = []
        at = self.view.find(wanted)
        while at >= 0:
            found.append((at, at + len(wanted)))
            at = self.view.find(wanted, at + 1)
        return found

    def tolerantly(self, wanted: str) -> list[tuple[int, int]]:
        """Every place of the view that is ``wanted`` but for what the tolerant comparison overlooks."""
        folded = "\n".join(fold(line) for line in wanted.split("\n"))
        if not folded.strip():
            return []
        text, starts = self._folded_view
        found: list[tuple[int, int]] = []
        at = text.find(folded)
        while at >= 0:
            start, end = self._unfold(at, starts), self._unfold(at + len(folded), starts)
            if start is not None and end is not None:
                found.append((start, end))
            at = text.find(folded, at + 1)
        return found

    @cached_property
    def _lines(self) -> list[str]:
        return self.view.split("\n")

    @cached_property
    def _line_starts(self) -> list[int]:
        return list(accumulate((len(line) + 1 for line in self._lines), initial=0))

    @cached_property
    def _folded_view(self) -> tuple[str, list[int]]:
        folded = [fold(line) for line in self._lines]
        return "\n".join(folded), list(accumulate((len(line) + 1 for line in folded), initial=0))

    def _unfold(self, at: int, starts: Sequence[int]) -> int | None:
        number = bisect_right(starts, at) - 1
        column = unfolded(self._lines[number], at - starts[number])
        return None if column is None else self._line_starts[number] + column


def unfolded(line: str, column: int) -> int | None:
    """The column of ``line`` that a column of its folded form came from; None inside one character."""
    if _is_plain(line):
        return column
    done = 0
    for start, folded in _clusters(line):
        if done == column:
            return start
        done += len(folded)
    return len(line) if done == column else None


def merged_line(line: str, old: str, new: str) -> str:
    """What a file's line becomes when the model turns ``old`` into ``new`` there.

    ``line`` equals ``old`` but for what the tolerant comparison overlooks. What the model repeats unchanged at the
    beginning and the end keeps the file's own characters, white space at the end of the line too.
    """
    if line == old:
        return new
    if old == new:
        return line
    old_core, new_core = old.rstrip(_LINE_SPACE), new.rstrip(_LINE_SPACE)
    same_space = old[len(old_core) :] == new[len(new_core) :]
    most = min(len(old_core), len(new_core))
    head = 0
    while head < most and old_core[head] == new_core[head]:
        head += 1
    while head and (_splits(old_core, head) or _splits(new_core, head)):
        head -= 1
    tail = 0
    while tail < most - head and old_core[-1 - tail] == new_core[-1 - tail]:
        tail += 1
    while tail and (_splits(old_core, len(old_core) - tail) or _splits(new_core, len(new_core) - tail)):
        tail -= 1
    start = unfolded(line, len(_folded(old_core[:head])))
    end = unfolded(line, len(fold(line)) - len(_folded(old_core[len(old_core) - tail :])))
    if start is None or end is None or end < start:
        return new
    rest = line[end:] if same_space else line[end : len(line.rstrip(_LINE_SPACE))] + new[len(new_core) :]
    merged = line[:start] + new_core[head : len(new_core) - tail] + rest
    return merged if fold(merged) == fold(new) else new


def _splits(text: str, at: int) -> bool:
    return at < len(text) and _combines(text[at])
