"""A fixed set of words: where they stand in a text, and whether the text's end could be the start of one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

__all__ = ["Literals"]

_HEAD = 3
_STEM = 16
"""Characters of a word that the automaton knows; the rest is compared. A long secret takes no more memory."""


class Literals:
    """Finds words in texts, all of them, also where they overlap.

    Args:
        words: at least :data:`_HEAD` characters each, without lone surrogates.
    """

    __slots__ = ("_all", "_find", "_heads", "_longest", "_short", "_with_stem", "words")

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(dict.fromkeys(words))
        self._all = sorted(self.words)
        self._longest = max(map(len, self.words), default=0)
        self._short = {word[:size] for word in self.words for size in range(1, _HEAD)}
        stems: dict[str, list[int]] = {}
        for index, word in enumerate(self.words):
            stems.setdefault(word[:_STEM], []).append(index)
        self._with_stem = list(stems.values())
        self._find = self._heads = None
        if self.words:
            # Not at import: the process may never need it (ARC-4).
            from ahocorasick_rs import AhoCorasick

            self._find = AhoCorasick(list(stems))
            # All heads are of one size, so that none hides another; they lead to the places worth a look.
            self._heads = AhoCorasick(sorted({word[:_HEAD] for word in self.words}))

    def find(self, text: str) -> list[tuple[int, int, int]]:
        """Every occurrence as ``(index into words, start, end)``."""
        if self._find is None:
            return []
        return [
            (index, start, start + len(self.words[index]))
            for stem, start, _ in self._find.find_matches_as_indexes(text, overlapping=True)
            for index in self._with_stem[stem]
            if text.startswith(self.words[index], start)
        ]

    def absent(self, text: str, *, final: bool) -> int | None:
        """Where a word could begin at the end of ``text``, if it has none and no escape that could hide one.

        The quick answer for ordinary text; None if it takes a closer look. The end of ``text`` if ``final``.
        """
        if "\\" in text or "%" in text or (self._find and self._find.find_matches_as_indexes(text)):
            return None
        return len(text) if final else self.unfinished(text)

    def unfinished(self, text: str) -> int:
        """Where the longest end of ``text`` begins that more text could turn into a word; its length if none."""
        if self._heads is None:
            return len(text)
        size = len(text)
        window = max(0, size - self._longest + 1)
        for _, start, _ in self._heads.find_matches_as_indexes(text[window:] if window else text, overlapping=True):
            if self._begins(text[window + start :]):
                return window + start
        for length in range(min(_HEAD - 1, size), 0, -1):
            if text[-length:] in self._short:
                return size - length
        return size

    def _begins(self, part: str) -> bool:
        """Whether a word begins with ``part`` and goes on after it: such words sort directly behind it."""
        at = bisect_right(self._all, part)
        return at < len(self._all) and self._all[at].startswith(part)
