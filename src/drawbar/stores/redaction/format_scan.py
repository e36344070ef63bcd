"""Finds secrets by their public formats, the rows of :mod:`~drawbar.stores.redaction.formats` (CON-31)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from drawbar.stores.redaction.flow import Scan, Span, merge
from drawbar.stores.redaction.formats import RULES
from drawbar.stores.redaction.literals import Literals
from drawbar.stores.redaction.rule import Found, Rule
from drawbar.stores.redaction.views import View, Views, views

__all__ = ["FormatScanner", "format_scanner", "names_a_secret"]

_LOOKBEHIND = 16
"""Characters before an anchor that a rule may look at, and more."""


@dataclass(slots=True)
class _Candidate:
    """An anchor found: where in the text as given, and where in the view that shows it."""

    place: int
    view: View
    start: int
    word: int


class FormatScanner:
    """Searches for the formats of the table; immutable, one is enough for a process."""

    def __init__(self, rules: tuple[Rule, ...] = RULES) -> None:
        by_anchor: dict[str, list[Rule]] = {}
        for rule in rules:
            for anchor in rule.anchors:
                by_anchor.setdefault(anchor, []).append(rule)
        self._literals = Literals(by_anchor)
        self._rules = [by_anchor[word] for word in self._literals.words]

    @property
    def anchors(self) -> tuple[str, ...]:
        """The words that a match begins with, in a text or in what it decodes to."""
        return self._literals.words

    def scan(self, text: str, *, base: int, edge: int, final: bool) -> Scan:
        """See :class:`~drawbar.stores.redaction.flow.Scanner`."""
        seen = views(text, final=final)
        hold = seen.settled
        if not final:
            hold = min(hold, *(view.raw(self._literals.unfinished(view.text)) for view in seen.layers))
        candidates = self._candidates(seen, base)
        if not candidates:
            hold = seen.snap(hold)
            return Scan([], hold, hold, seen.back(hold, _LOOKBEHIND))
        return self._judge(candidates, seen, hold, edge, final=final)

    def _candidates(self, seen: Views, base: int) -> list[_Candidate]:
        found = [
            _Candidate(place, view, start, word)
            for view in seen.layers
            for word, start, _ in self._literals.find(view.text)
            if (place := seen.snap(view.raw(start))) >= base
        ]
        found.sort(key=lambda candidate: candidate.place)
        return found

    def _judge(self, candidates: list[_Candidate], seen: Views, hold: int, edge: int, *, final: bool) -> Scan:
        spans: list[Span] = []
        sure: list[tuple[int, int]] = []
        growing: list[tuple[int, int, Rule]] = []
        ends = {edge}
        for candidate in candidates:
            place, view = candidate.place, candidate.view
            if place >= hold:
                break
            for rule in self._rules[candidate.word]:
                length = len(self._literals.words[candidate.word])
                found = rule.judge(view.text, candidate.start, length, fresh=place in ends, final=final)
                if found is None:
                    continue
                if not isinstance(found, Found):
                    hold = min(hold, place)
                    continue
                start, end = seen.snap(view.raw(found.start)), view.raw(found.end)
                if end > seen.settled:
                    hold = min(hold, place)
                    continue
                end = seen.snap(end, up=True)
                spans.append((start, end, rule.kind))
                sure.append((place, start))
                ends.add(end)
                if found.growing:
                    growing.append((place, end, rule))
        # A secret that is not given out yet has to be found again from its anchor.
        for place, start in reversed(sure):
            if start >= hold:
                hold = min(hold, place)
        hold = seen.snap(hold)
        base = min([hold, *(place for place, _, _ in growing if place < hold)])
        # Only what is sure by now: an anchor at or behind the hold is looked at again.
        merged = merge(spans)
        last = merged[-1][1] if merged else -1
        quiet = growing[0][2].quiet if len(growing) == 1 and growing[0][1] == last else None
        return Scan(merged, hold, base, seen.back(base, _LOOKBEHIND), quiet)


@cache
def format_scanner() -> FormatScanner:
    """The scanner of the whole table, built when first needed (ARC-4)."""
    return FormatScanner()


_NAMES = tuple(dict.fromkeys(anchor for rule in RULES if rule.named for anchor in rule.anchors))


def names_a_secret(key: str) -> bool:
    """Whether an object's ``key`` is a field name that makes its value a secret in some format."""
    return key.endswith(_NAMES)
