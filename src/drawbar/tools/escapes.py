r"""Output as a person would read it: without what a terminal acts on or doesn't show (CON-32, QLT-20).

A program that colours its output puts codes into the middle of words, and so into the middle of a secret:
``\x1b[31mhunt\x1b[mer2`` reads as the secret and is not equal to it. Output is therefore made plain *before* it is
redacted. What goes are escape sequences, with seven bits or with eight, the control characters other than tab, line
feed and carriage return, and characters without width. Joiners between characters beyond ASCII stay, because
emoji and many scripts are written with them.
"""

from __future__ import annotations

import re
from typing import Any, Final

__all__ = ["PlainText", "plain_text", "plain_value"]

_JOINERS: Final = "\u200c\u200d"
_ALONE: Final = (
    "\x00-\x06\x08\x0b\x0c\x0e-\x17\x19\x1c-\x1f\x7f"  # C0 that neither begin nor end a sequence, DEL
    "\x80-\x8f\x91-\x97\x99\x9a\u00ad"  # C1 alike, soft hyphen
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"  # no width: spaces, directions, operators
)
_EDGES: Final = "\x07\x18\x1a\x1b\x90\x98\x9b-\x9f"
_SPECIAL: Final = re.compile(f"[{_ALONE}{_EDGES}{_JOINERS}]")
_SINGLE: Final = re.compile(f"[{_ALONE}]+")
# The first of a run that stands between two characters beyond ASCII is captured, to be kept.
_JOINED: Final = re.compile(rf"(?<=[^\x00-\x7f])([{_JOINERS}])[{_JOINERS}]*+(?=[^\x00-\x7f])|[{_JOINERS}]+")
# An eight-bit introducer after a character of Latin-1 is the rest of UTF-8 that was decoded as Latin-1 ("â€\x9d"
# for a quotation mark), and would take the line with it. A string ends with its line at the latest: a stray
# introducer in binary output must not hide all that follows.
_SEQUENCE: Final = re.compile(
    r"(?P<control>(?:\x1b++\[|(?<![\xa0-\xff])\x9b)[ -?]*+)(?P<final>[@-~])?"
    r"|(?P<string>(?:\x1b++[\]PX^_]|(?<![\xa0-\xff])[\x90\x98\x9d-\x9f])[^\x07\x18\x1a\x1b\x9c\n]*+)"
    r"|(?P<escape>\x1b++)(?P<between>[ -/]*+)(?P<end>[0-~])?"
    r"|[\x07\x18\x1a\x9c]+|[\x90\x98\x9b\x9d-\x9f]"
)


class PlainText:
    """Makes one text plain that arrives in pieces; the joined pieces equal :func:`plain_text` of the whole.

    Nothing that shows is held back, so there is no end to announce: a sequence that never ends shows nothing, and
    neither does a joiner with nothing after it. What is kept between two pieces is at most four characters.
    """

    __slots__ = ("_last", "_open")

    def __init__(self) -> None:
        self._last = ""
        self._open = ""

    def feed(self, text: str) -> str:
        """What shows of the next piece; the same object when all of it does."""
        if not self._open and not _SPECIAL.search(text):
            self._last = text[-1:] or self._last
            return text
        known = len(self._last)
        seen, after = _without_sequences(self._last + self._open + _SINGLE.sub("", text))
        shown = seen.rstrip(_JOINERS)
        self._open = seen[len(shown) :][:1] + after
        shown = _JOINED.sub(r"\1", shown)
        self._last = shown[-1:]
        return shown[known:]


def plain_text(text: str) -> str:
    """What shows of ``text``; the same object when all of it does."""
    return PlainText().feed(text)


def plain_value(value: Any) -> Any:
    """A JSON value with every string in it plain, keys included; the same object when there was nothing to do.

    Keys that become equal get a number, so that no entry is lost.
    """
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, (list, tuple)):
        items: list[Any] = [plain_value(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, dict):
        entries: dict[Any, Any] = {}
        same = True
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            plain_key, plain_item = plain_value(key), plain_value(item)
            same = same and plain_key is key and plain_item is item
            entries[_free(plain_key, entries)] = plain_item
        return value if same else entries  # pyright: ignore[reportUnknownVariableType]
    return value


def _free(key: Any, taken: dict[Any, Any]) -> Any:
    free, number = key, 2
    while free in taken:
        free, number = f"{key}~{number}", number + 1
    return free


def _without_sequences(text: str) -> tuple[str, str]:
    """``text`` without its sequences, and the shortest text that has the effect of one that stands at its end."""
    parts: list[str] = []
    at = 0
    after = ""
    for found in _SEQUENCE.finditer(text):
        parts.append(text[at : found.start()])
        at = found.end()
        if at == len(text):
            after = _effect(found)
    parts.append(text[at:])
    return "".join(parts), after


def _effect(found: re.Match[str]) -> str:
    """What to put before the next piece for it to be understood as it would be after ``found``."""
    if found["control"] and not found["final"]:
        return "\x1b["
    if found["string"]:
        return "\x1b]"
    if found["escape"] and not found["end"]:
        return "\x1b" + found["between"][:1]
    return "\x18"
