"""What a row of the table of secret formats means: where a secret begins, what belongs to it, when it is sure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from drawbar.stores.redaction.flow import SWALLOW

__all__ = ["HEAD", "OPEN", "Found", "Rule"]

HEAD: Final = 512
"""Characters within which a format must show itself; a token is held back that long at most (CON-32)."""

_WORD_BOUNDARY: Final = "word"

OPEN: Final = "open"
"""The text ends while it could still be a secret or not."""


@dataclass(frozen=True, slots=True)
class Found:
    """A stretch to hide; ``growing`` when more text may belong to it."""

    start: int
    end: int
    growing: bool


@dataclass(frozen=True, eq=False)
class Rule:
    """One format.

    Args:
        kind: shown in the placeholder.
        anchors: a match begins with one of these.
        pattern: what must follow the anchor. A group ``secret`` is what is hidden, else all from the anchor on.
        run: what may follow the anchor while the match is undecided: a text that ends inside ``run`` is held
            back. It must take in all that ``pattern`` can match, and every beginning of it.
        more: the characters that go on belonging to a secret that fills :data:`HEAD`.
        before: what must stand before the anchor; ``word`` is: no letter or digit.
        end: for blocks: up to the end of this, or :data:`SWALLOW` characters.
        check: a last look at the match. It may only get truer as a match gets longer.
        named: whether the anchor is a field's name, which as a key of an object applies to its value.
    """

    kind: str
    anchors: tuple[str, ...]
    pattern: str
    run: str
    more: str = ""
    before: str = ""
    end: str = ""
    check: Callable[[re.Match[str]], bool] | None = None
    named: bool = False

    def judge(self, text: str, start: int, length: int, *, fresh: bool, final: bool) -> Found | Literal["open"] | None:
        """Whether a secret begins at the anchor at ``start``.

        Args:
            text: the text, or the part of it seen so far.
            start: where an anchor stands.
            length: of that anchor.
            fresh: whether what stands before was replaced, so that no word runs into the anchor.
            final: whether the text is complete.
        """
        if not self._placed(text, start, fresh=fresh):
            return None
        behind, limit = start + length, start + HEAD
        # A block shows itself early and is replaced at once; a token may still turn out longer.
        undecided = not final and len(text) < limit and _reach(self._run, text, behind, len(text)) == len(text)
        match = self._pattern.match(text, behind, limit) if self.end or not undecided else None
        if match is None or (self.check is not None and not self.check(match)):
            return OPEN if undecided else None
        first, end = match.span("secret") if "secret" in match.groupdict() else (start, match.end())
        most = start + SWALLOW
        if self.end:
            closing = self._end.search(text, behind, most)
            end = closing.end() if closing else min(len(text), most)
            return Found(first, end, growing=not final and closing is None and end < most)
        if self.more and end == limit:
            end = _reach(self._more, text, end, most)
            return Found(first, end, growing=not final and end == len(text) and end < most)
        return Found(first, end, growing=False)

    def _placed(self, text: str, start: int, *, fresh: bool) -> bool:
        if self.before != _WORD_BOUNDARY:
            return not self.before or self._before.match(text, start) is not None
        before = text[max(0, start - 2) : start]
        if fresh or not before or not (before[-1].isascii() and before[-1].isalnum()):
            return True
        # A terminal's colour code ends with a letter that belongs to no word.
        return before[-1] == "m" and before[0].isdigit()

    @cached_property
    def quiet(self) -> re.Pattern[str]:
        """Pieces that surely only lengthen a secret that has begun."""
        return re.compile(r"[^-%\\]*" if self.end else f"[{self.more}]*")

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    @cached_property
    def _run(self) -> re.Pattern[str]:
        return re.compile(self.run)

    @cached_property
    def _more(self) -> re.Pattern[str]:
        return re.compile(f"[{self.more}]*")

    @cached_property
    def _before(self) -> re.Pattern[str]:
        return re.compile(f"(?<={self.before})")

    @cached_property
    def _end(self) -> re.Pattern[str]:
        return re.compile(self.end)


def _reach(pattern: re.Pattern[str], text: str, start: int, end: int) -> int:
    """How far ``pattern`` goes from ``start``; nowhere if it doesn't match at all."""
    match = pattern.match(text, start, end)
    return match.end() if match else start
