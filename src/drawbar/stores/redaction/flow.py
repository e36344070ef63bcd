"""One stage of redaction over a text that arrives in pieces; a whole text is the case of one piece.

A scanner says what it found in the text so far and up to where that can't change any more. A flow gives out
what is settled, keeps the rest, and asks again with the next piece. Because a whole text takes the same way,
the joined pieces equal the text redacted at once, however it was cut (CON-32).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Protocol

from drawbar.stores.redaction.encodings import placeholder

__all__ = ["SWALLOW", "Flow", "Scan", "Scanner", "Span", "merge", "whole"]

SWALLOW: Final = 16 * 1024
"""Characters that an open-ended secret takes at most (CON-32)."""

Span = tuple[int, int, str]
"""Start, end and kind of a stretch of text to replace."""


@dataclass(slots=True)
class Scan:
    """What a scanner found in a text.

    Args:
        spans: ascending, none overlapping another.
        hold: up to here nothing that follows can change what was found; later spans count next time.
        base: what begins from here on has to be looked at again, at most ``hold``.
        keep: what the next look needs of the text, at most ``base``.
        edge: where the last secret that begins before ``base`` ends, or less than 0.
        quiet: when the last span is open and takes in the rest of the text: pieces that match this whole
            only make it longer.
    """

    spans: list[Span]
    hold: int
    base: int
    keep: int
    edge: int = -1
    quiet: re.Pattern[str] | None = None


class Scanner(Protocol):
    """Finds secrets of one sort."""

    def scan(self, text: str, *, base: int, edge: int, final: bool) -> Scan:
        """What is in ``text``.

        Args:
            text: without lone surrogates.
            base: what begins before here was dealt with; the text before it is only context.
            edge: as given by the last look, in this text: what stands before is as good as gone.
            final: whether the text is complete.
        """
        ...


def merge(spans: list[Span]) -> list[Span]:
    """``spans`` in order, overlapping ones as one of the first's kind; of two at one place the longer is first."""
    spans.sort(key=lambda span: (span[0], -span[1]))
    merged: list[Span] = []
    for start, end, kind in spans:
        if merged and start < merged[-1][1]:
            first, last, named = merged[-1]
            merged[-1] = (first, max(last, end), named)
        else:
            merged.append((start, end, kind))
    return merged


def whole(scanner: Scanner, text: str, seen: str) -> str:
    """``text`` redacted at once; ``seen`` is what the scanner may look at, of the same length."""
    scan = scanner.scan(seen, base=0, edge=-1, final=True)
    if not scan.spans:
        return text
    parts: list[str] = []
    at = 0
    for start, end, kind in scan.spans:
        parts += (text[at:start], placeholder(kind))
        at = end
    parts.append(text[at:])
    return "".join(parts)


@dataclass(slots=True)
class Flow:
    """The state of one stage between two pieces: the text kept, and how much of it was given out."""

    _text: str = ""
    _base: int = 0
    _done: int = 0
    _edge: int = -1
    _quiet: re.Pattern[str] | None = None
    _waiting: list[str] = field(default_factory=list[str])
    _room: int = 0

    def push(self, scanner: Scanner, piece: str, *, final: bool = False) -> str:
        """Take ``piece`` (without lone surrogates) and give out what is settled; all of it when ``final``."""
        if self._quiet is not None and not final and len(piece) < self._room and self._quiet.fullmatch(piece):
            # Swallowed without another look: a key block of many small pieces costs no more than one of few.
            self._waiting.append(piece)
            self._room -= len(piece)
            return ""
        if self._waiting:
            self._text += "".join(self._waiting)
            self._waiting.clear()
        text = self._text + piece
        if self._done == len(text):
            return ""
        scan = scanner.scan(text, base=self._base, edge=self._edge, final=final)
        # What waited belongs to the open span, whose end is found again from its beginning.
        at = self._done
        if not scan.spans and at < scan.hold:
            settled = text[at : scan.hold]
            self._keep(text, scan, scan.hold)
            return settled
        parts: list[str] = []
        for start, end, kind in scan.spans:
            if start >= scan.hold:
                break
            if start >= at:
                parts += (text[at:start], placeholder(kind))
            elif end <= at:
                continue
            at = end
        if at < scan.hold:
            parts.append(text[at : scan.hold])
            at = scan.hold
        self._keep(text, scan, at)
        return "".join(parts)

    def _keep(self, text: str, scan: Scan, done: int) -> None:
        """Put aside what the next look needs."""
        keep = scan.keep
        self._text = text[keep:]
        self._base = scan.base - keep
        self._done = done - keep
        self._edge = scan.edge - keep
        self._quiet = scan.quiet if done == len(text) else None
        self._room = SWALLOW - len(self._text)
