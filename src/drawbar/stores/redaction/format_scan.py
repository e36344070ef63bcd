"""Finds secrets by their public formats, the rows of :mod:`~drawbar.stores.redaction.formats` (CON-31)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from drawbar.stores.redaction.flow import Scan, merge
from drawbar.stores.redaction.formats import RULES
from drawbar.stores.redaction.literals import Literals
from drawbar.stores.redaction.rule import Found, Rule
from drawbar.stores.redaction.views import Views, views

__all__ = ["FormatScanner", "format_scanner", "names_a_secret"]

_LOOKBEHIND = 24
"""Characters before an anchor that a rule may look at, and more."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An anchor found: where in the text as given, and where in the layer that shows it."""

    place: int
    layer: int
    start: int
    word: int


@dataclass(frozen=True, slots=True)
class _Secret:
    """A secret found from the anchor at ``place``; ``growing`` while more text may belong to it."""

    place: int
    start: int
    end: int
    rule: Rule
    growing: bool


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
        if (hold := self._literals.absent(text, final=final)) is not None:
            hold = hold if final else _word_start(text, hold, base)
            return Scan([], hold, hold, max(0, hold - _LOOKBEHIND), edge)
        seen = views(text, final=final)
        hold = seen.settled
        if not final:
            hold = min(hold, *(view.raw(self._literals.unfinished(view.text)) for view in seen.layers))
        secrets, hold = self._secrets(seen, hold, base, edge, final=final)
        hold = hold if final else _word_start(text, hold, base)
        # A secret that isn't given out yet has to be found again from its anchor.
        for secret in reversed(secrets):
            if secret.start >= hold:
                hold = min(hold, secret.place)
        hold = seen.snap(hold)
        # So has one that goes on behind the hold: what lies inside it is judged with it.
        again = min([hold, *(s.place for s in secrets if s.place < hold and (s.growing or s.end > hold))])
        spans = merge([(secret.start, secret.end, secret.rule.kind) for secret in secrets])
        growing = [secret for secret in secrets if secret.growing]
        quiet = growing[0].rule.quiet if len(growing) == 1 and growing[0].end == spans[-1][1] else None
        edge = max([edge, *(secret.end for secret in secrets if secret.place < again)])
        return Scan(spans, hold, again, seen.back(again, _LOOKBEHIND), edge, quiet)

    def _candidates(self, seen: Views, base: int) -> list[_Candidate]:
        found = [
            _Candidate(place, layer, start, word)
            for layer, view in enumerate(seen.layers)
            for word, start, _ in self._literals.find(view.text)
            if (place := seen.snap(view.raw(start))) >= base
        ]
        found.sort(key=lambda candidate: candidate.place)
        return found

    def _secrets(self, seen: Views, hold: int, base: int, edge: int, *, final: bool) -> tuple[list[_Secret], int]:
        """The secrets whose anchors stand before the hold, and the hold, maybe moved to an undecided anchor."""
        secrets: list[_Secret] = []
        covered: dict[tuple[int, Rule], int] = {}
        reach, place, fresh = edge, -1, False
        for candidate in self._candidates(seen, base):
            if candidate.place >= hold:
                break
            if candidate.place != place:
                place = candidate.place
                fresh = place == reach
            view = seen.layers[candidate.layer]
            length = len(self._literals.words[candidate.word])
            for rule in self._rules[candidate.word]:
                # Inside a secret of this very format another one can't reach further, but would cost a look.
                if candidate.start < covered.get((candidate.layer, rule), 0):
                    continue
                found = rule.judge(view.text, candidate.start, length, fresh=fresh, final=final)
                if found is None:
                    continue
                if not isinstance(found, Found) or view.raw(found.end) > seen.settled:
                    hold = min(hold, place)
                    continue
                covered[candidate.layer, rule] = found.end
                start, end = seen.span(candidate.layer, found.start, found.end)
                secrets.append(_Secret(place, start, end, rule, found.growing))
                reach = max(reach, end)
        return secrets, hold


def _word_start(text: str, hold: int, base: int) -> int:
    """``hold``, or where the word begins that it would cut or leave without its end.

    What is given out in pieces is looked at again piece by piece when it is written to an event log; a piece
    that began inside a word could then read as a token where the whole text doesn't (CON-32: the completed text
    equals the joined deltas).
    """
    least = max(base, hold - _LOOKBEHIND)
    while hold > least and text[hold - 1].isascii() and text[hold - 1].isalnum():
        hold -= 1
    return hold


@cache
def format_scanner() -> FormatScanner:
    """The scanner of the whole table, built when first needed (ARC-4)."""
    return FormatScanner()


_NAMES = tuple(dict.fromkeys(anchor for rule in RULES if rule.named for anchor in rule.anchors))


def names_a_secret(key: str) -> bool:
    """Whether an object's ``key`` is a field name that makes its value a secret in some format."""
    return key.endswith(_NAMES)
