"""Texts as they read once their escapes are undone, with the way back to where each character stands.

A secret can stand in a text under any mix of JSON, shell and URL escapes, some layers deep: tool arguments
are JSON, a command inside them may be JSON again, and an address inside that is percent-encoded. Rather than
list every spelling, a scanner looks at the text and at what it decodes to, layer by layer, and maps what it
finds back. ``TRIGGERS`` are the escapes that may stand for *any* character; without one of them in a text, a
plain stretch of a secret stands in it letter for letter, which is what the cheap first look relies on
(CON-33).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache
from typing import Final

__all__ = ["PERCENT_TRIGGERS", "TRIGGERS", "View", "Views", "plain_stretch", "scannable", "views"]

TRIGGERS: Final = ("\\u", "\\x", "\\/")
"""Backslash escapes that may spell an ordinary character, as they stand in a text."""
PERCENT_TRIGGERS: Final = ("%2", "%3", "%4", "%5", "%6", "%7")
"""Beginnings of percent-encoded ASCII."""

_BACKSLASH: Final = "backslash"
_PERCENT: Final = "percent"
_LAYERS: Final = (_BACKSLASH, _BACKSLASH, _BACKSLASH, _PERCENT, _BACKSLASH)
"""In the order they are undone: a JSON file in a JSON string in a tool's arguments, then an address or form in it."""

# What a shell or a JSON encoder may put a backslash before. Letters, digits and %+,-.:=@_ never need one.
_ESCAPABLE: Final = " !\"#$&'()*;<>?[\\]^`{|}~"
_SHORT: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SURROGATE: Final = "\ud800-\udfff"


@cache
def _pattern(layer: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What one whole escape of a layer looks like, and what a text may end with that could become one."""
    if layer == _PERCENT:
        return re.compile(r"%[0-7][0-9A-Fa-f]"), re.compile(r"%[0-7]?\Z")
    high, low = r"u[dD][89abAB][0-9A-Fa-f]{2}", r"\\u[dD][c-fC-F][0-9A-Fa-f]{2}"
    whole = rf"\\(?:{high}(?:{low})?|u[0-9A-Fa-f]{{4}}|x[0-7][0-9A-Fa-f]|[bfnrt/{re.escape(_ESCAPABLE)}])"
    half = rf"{high}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9A-Fa-f]?)?)?)?)?"
    return re.compile(whole), re.compile(rf"\\(?:{half}|u[0-9A-Fa-f]{{0,3}}|x[0-7]?)?\Z")


def _character(escape: str) -> str:
    """The one character that a whole escape stands for; a lone surrogate reads as U+FFFD."""
    if escape[0] == "%":
        return chr(int(escape[1:], 16))
    letter = escape[1]
    if letter == "u":
        unit = int(escape[2:6], 16)
        if len(escape) > 6:
            return chr(0x10000 + ((unit - 0xD800) << 10) + int(escape[8:12], 16) - 0xDC00)
        return "\ufffd" if 0xD800 <= unit <= 0xDFFF else chr(unit)
    if letter == "x":
        return chr(int(escape[2:], 16))
    return _SHORT.get(letter, letter)


@dataclass(slots=True)
class View:
    """One layer undone. ``starts``/``ends`` are the escapes in the text below, ``tops`` their characters here."""

    text: str
    below: View | None = None
    starts: list[int] = field(default_factory=list[int])
    ends: list[int] = field(default_factory=list[int])
    tops: list[int] = field(default_factory=list[int])

    def raw(self, index: int) -> int:
        """Where the character at ``index`` begins in the text as given."""
        view: View = self
        while view.below is not None:
            at = bisect_right(view.tops, index) - 1
            if at >= 0:
                top = view.tops[at]
                index = view.starts[at] if index == top else view.ends[at] + index - top - 1
            view = view.below
        return index

    def rise(self, index: int, *, up: bool) -> int:
        """The index here of a place in the text below; a place inside an escape goes to its start or end."""
        at = bisect_right(self.starts, index) - 1
        if at < 0:
            return index
        if index == self.starts[at]:
            return self.tops[at]
        if index < self.ends[at]:
            return self.tops[at] + up
        return self.tops[at] + 1 + index - self.ends[at]


@dataclass(slots=True)
class Views:
    """A text and its layers; ``settled`` is where an escape begins that the text leaves unfinished.

    ``escaped`` is the layer of the text's own backslash escapes, if it has any.
    """

    layers: list[View]
    settled: int
    escaped: View | None

    def snap(self, index: int) -> int:
        """The nearest place at or before ``index`` that cuts no escape of any layer: the text may be parted there."""
        top = index
        for view, below in zip(self.layers[1:], self.layers, strict=False):
            top = view.rise(min(top, len(below.text)), up=False)
        deepest = self.layers[-1]
        return deepest.raw(min(top, len(deepest.text)))

    def span(self, layer: int, first: int, last: int) -> tuple[int, int]:
        """Where a stretch of one layer stands in the text as given.

        A stretch of the text itself is widened to whole backslash escapes, so that JSON in which it stands by
        chance, with half an escape at its edge, stays JSON.
        """
        view = self.layers[layer]
        if layer == 0 and self.escaped is not None:
            view = self.escaped
            first, last = view.rise(first, up=False), view.rise(last, up=True)
        return view.raw(first), view.raw(last)

    def back(self, index: int, count: int) -> int:
        """The place ``count`` characters of the deepest layer before ``index``."""
        top = index
        for view in self.layers[1:]:
            top = view.rise(top, up=False)
        return self.layers[-1].raw(max(0, top - count))


def views(text: str, *, final: bool) -> Views:
    """``text`` and what it decodes to, layer by layer.

    Args:
        text: without lone surrogates (see :func:`scannable`).
        final: whether the text is complete; if not, an escape that its end leaves unfinished is cut off the
            decoded layers, because what it will stand for isn't known yet.
    """
    layers = [View(text)]
    settled = len(text)
    escaped: View | None = None
    for layer in _LAYERS:
        below = layers[-1]
        if ("%" if layer == _PERCENT else "\\") not in below.text:
            continue
        view, cut = _undo(below, layer, final=final)
        if cut is not None:
            settled = min(settled, cut)
        if view.starts or cut is not None:
            layers.append(view)
            if below.below is None and layer == _BACKSLASH:
                escaped = view
    return Views(layers, settled, escaped)


def _undo(below: View, layer: str, *, final: bool) -> tuple[View, int | None]:
    whole, partial = _pattern(layer)
    text = below.text
    cut: int | None = None
    matches = list(whole.finditer(text))
    if not final:
        cut = _unfinished(text, matches, partial)
        if cut is not None:
            while matches and matches[-1].start() >= cut:
                matches.pop()
    end = len(text) if cut is None else cut
    parts: list[str] = []
    view = View("", below)
    at = size = 0
    for match in matches:
        start, stop = match.span()
        parts.append(text[at:start])
        parts.append(_character(match.group()))
        size += start - at
        view.starts.append(start)
        view.ends.append(stop)
        view.tops.append(size)
        size += 1
        at = stop
    parts.append(text[at:end])
    view.text = "".join(parts)
    return view, None if cut is None else below.raw(cut)


def _unfinished(text: str, matches: list[re.Match[str]], partial: re.Pattern[str]) -> int | None:
    """Where the escape begins that the end of ``text`` leaves unfinished, if there is one."""
    begin = 0
    if matches:
        # Half of a surrogate pair is whole by itself, yet the other half may follow.
        if partial.match(text, matches[-1].start()):
            return matches[-1].start()
        begin = matches[-1].end()
    # An escape is at most twelve characters, so the unfinished one lies in the last eleven.
    found = partial.search(text, max(begin, len(text) - 11))
    return found.start() if found else None


def scannable(text: str) -> str:
    """``text`` with each lone surrogate as U+FFFD: the same length, and fit for a matcher of well-formed text."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return re.sub(f"[{_SURROGATE}]", "\ufffd", text)
    return text


def plain_stretch(literal: str) -> str:
    """The longest part of ``literal`` that stands in a text letter for letter, whatever escapes surround it.

    Holds for every text without one of the triggers, and for its JSON encoding: the part has no character
    that may be escaped in another way.
    """
    best = max(re.split(rf"[\x00-\x1f\ufffd{re.escape(_ESCAPABLE)}]+", literal), key=len)
    # Nothing but punctuation: one character of it stands there, or at least the escape that JSON needs for it.
    return best or next((c for c in literal if c not in '"\\\ufffd' and c >= " "), "\\")
