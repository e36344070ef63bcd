"""The cheap first look: certainly nothing to redact, or worth the full pass (CON-33).

It runs on encoded bytes, once for a whole event. It may call clean text suspicious, never the reverse: for
every word that the full pass searches for, the automaton holds the longest stretch that stands letter for
letter in any escaped form of it, and the escapes that could spell that stretch differently are words too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from drawbar.stores.redaction.views import PERCENT_TRIGGERS, TRIGGERS, plain_stretch

__all__ = ["Prefilter"]

_STRETCH_BYTES: Final = 24
"""Enough to be rare; a longer word only makes the automaton larger."""
_ADDRESS: Final = "://"
# The one anchor that ordinary text is full of: only an address with an @ before its path can hold a password.
_ADDRESS_WITH_USER: Final = re.compile(rb"://[^/ ]*@")


class Prefilter:
    """The first look for one set of words; immutable.

    Args:
        words: all that the full pass searches for.
    """

    def __init__(self, words: Iterable[str]) -> None:
        from ahocorasick_rs import BytesAhoCorasick

        searched = set(words)
        stretches = {plain_stretch(word).encode()[:_STRETCH_BYTES] for word in searched if word != _ADDRESS}
        percent = {trigger.encode() for trigger in PERCENT_TRIGGERS}
        raw = {trigger.encode() for trigger in TRIGGERS}
        # What JSON makes of these in a string; and what a foreign encoder may write though it need not.
        encoded = {trigger.replace(b"\\", b"\\\\") for trigger in raw} | {b"\\/"}
        encoded |= {b"\\u00%d" % digit for digit in range(2, 8)}
        if not all(word.isascii() for word in searched):
            encoded.add(b"\\u")
        self._raw = tuple(raw)
        self._encoded = BytesAhoCorasick(sorted(stretches | percent | encoded))
        self._text = BytesAhoCorasick(sorted(stretches | percent))

    def clean(self, encoded: bytes) -> bool:
        """Whether JSON in UTF-8 surely holds none of the words in any spelling."""
        return not self._encoded.find_matches_as_indexes(encoded) and not _has_user(encoded)

    def clean_text(self, text: str) -> bool:
        """As :meth:`clean`, for one decoded string."""
        data = text.encode("utf-8", "replace")
        if self._text.find_matches_as_indexes(data) or _has_user(data):
            return False
        return b"\\" not in data or not any(trigger in data for trigger in self._raw)


def _has_user(data: bytes) -> bool:
    return b"@" in data and _ADDRESS_WITH_USER.search(data) is not None
