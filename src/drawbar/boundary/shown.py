"""Untrusted text as a person may safely see it: whatever isn't plainly seen is spelled out.

A command with a cursor movement or a direction override in it must not be able to redraw the question that asks
about it, write a clipboard, or hide its real words. Nor may two texts that look alike be two commands: ``rm a b`` with
a no-break space is another than with a plain one.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["shown"]

# What Unicode's categories can't say: letters, marks and a symbol that have no ink of their own (fillers, variation
# selectors, joiners), most of them default-ignorable code points.
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_BREAKS: Final = frozenset("\n\t")


def shown(text: str, *, one_line: bool = False) -> str:
    """``text`` with every character that isn't plainly seen as an escape such as ``\\x1b``.

    One rule from Unicode's categories: controls, formats, surrogates, private and unassigned ones, separators and
    every space but the plain one; and what has no ink although its category says otherwise.

    Args:
        text: anything, also half surrogates (an undecodable byte of a file name is shown as that byte).
        one_line: line feeds and tabs are escaped as well.
    """
    if text.isascii() and text.isprintable():
        return text
    safe = "".join(char if _plainly_seen(char) or char in _BREAKS else _escape(char) for char in text)
    return safe.replace("\n", "\\n").replace("\t", "\\t") if one_line else safe


def _plainly_seen(char: str) -> bool:
    # Python calls printable what is in none of the categories C* and Z*, and the plain space.
    return char.isprintable() and _BLANK.match(char) is None


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
