"""Untrusted text as a person may safely see it: controls, direction marks and invisible characters spelled out.

A command with a cursor movement or a direction override in it must not be able to redraw the question that
asks about it, write a clipboard, or hide its real words.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["shown"]

_HIDDEN: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and line feed, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # fillers and invisible marks
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"  # zero width, line separators, direction
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # shorthand, music, tags
    "\ud800-\udfff"
    "]"
)


def shown(text: str, *, one_line: bool = False) -> str:
    """``text`` with every control, direction and invisible character as an escape such as ``\\x1b``.

    Args:
        text: anything, also half surrogates (an undecodable byte of a file name is shown as that byte).
        one_line: line feeds and tabs are escaped as well.
    """
    safe = _HIDDEN.sub(_escape, text)
    return safe.replace("\n", "\\n").replace("\t", "\\t") if one_line else safe


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
