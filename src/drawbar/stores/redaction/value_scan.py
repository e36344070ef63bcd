"""Finds the secret values that this process knows, in every encoding they are searched for (CON-31)."""

from __future__ import annotations

from collections.abc import Mapping

from drawbar.stores.redaction.encodings import spellings
from drawbar.stores.redaction.flow import Scan, Span, merge
from drawbar.stores.redaction.literals import Literals
from drawbar.stores.redaction.views import views

__all__ = ["ValueScanner"]


class ValueScanner:
    """Searches for the spellings of known values; immutable.

    Args:
        known: value to kind, kinds as shown.
        kinds: every kind that a placeholder may show.
    """

    def __init__(self, known: Mapping[str, str], kinds: frozenset[str]) -> None:
        self._kinds: dict[str, str] = {}
        for value, kind in known.items():
            for form in spellings(value, kinds):
                self._kinds.setdefault(form, kind)
        self._literals = Literals(self._kinds)

    @property
    def forms(self) -> tuple[str, ...]:
        """What is searched for, in a text and in what it decodes to."""
        return self._literals.words

    def scan(self, text: str, *, base: int, edge: int, final: bool) -> Scan:
        """See :class:`~drawbar.stores.redaction.flow.Scanner`."""
        literals = self._literals
        if (hold := literals.absent(text, final=final)) is not None:
            return Scan([], hold, hold, hold)
        seen = views(text, final=final)
        hold = seen.settled
        if not final:
            hold = min(hold, *(view.raw(literals.unfinished(view.text)) for view in seen.layers))
        spans: list[Span] = []
        for layer, view in enumerate(seen.layers):
            for index, first, last in literals.find(view.text):
                if view.raw(last) > seen.settled:
                    hold = min(hold, view.raw(first))
                    continue
                start, end = seen.span(layer, first, last)
                if start >= base:
                    spans.append((start, end, self._kinds[literals.words[index]]))
        hold = seen.snap(hold)
        return Scan(merge(spans), hold, hold, hold)
