"""Text that somebody else wrote, made safe and fitted for a terminal: controls shown, never obeyed; columns counted.

A model, a tool or a file may hold any character. Sent as it is, an escape sequence could redraw an approval,
fill the clipboard or hide half of a command; so nothing foreign reaches a terminal but through here.
"""

from __future__ import annotations

import unicodedata

__all__ = [
    "cells",
    "clip",
    "counted",
    "duration",
    "escaped_json",
    "first_line",
    "folder_short",
    "label",
    "size",
    "visible",
    "visible_exact",
    "wrapped",
]

_KEPT = frozenset("\n\t")
# Joiners, variation selectors and plain direction marks shape emoji and scripts; in running text they are meant.
_SHAPING = frozenset("\u200c\u200d\u200e\u200f\u061c\ufe0e\ufe0f")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def visible(text: str) -> str:
    """``text`` for reading: line ends and tabs work, every other control or direction mark is shown as its code."""
    text = text.replace("\r\n", "\n")
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(c if c in _KEPT or c in _SHAPING or not _hidden(c) else _code(c) for c in text)


def visible_exact(text: str) -> str:
    """``text`` for judging: whatever isn't plainly seen is shown as its code, tabs and odd spaces included.

    Only line ends are kept, because a command of several lines is read line by line.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(c if c == "\n" or not (_hidden(c, "Cn") or _blank(c) or _marks(c)) else _code(c) for c in text)


def label(text: str) -> str:
    """A name (a path, a tool, an id) as :func:`visible_exact`, in one line."""
    return visible_exact(text).replace("\n", "\\n")


def escaped_json(data: bytes) -> bytes:
    """JSON for a terminal: the same value, with every control, format and private character as ``\\uXXXX``.

    Line ends are kept, since within a string JSON has them escaped already. What is no UTF-8 becomes U+FFFD.
    """
    text = data.decode("utf-8", "replace")
    if text.replace("\n", "").isprintable() and "\ufffd" not in text:
        return data
    return "".join(c if c == "\n" or not _hidden(c, "Cn") else _json_code(c) for c in text).encode()


def _json_code(char: str) -> str:
    pair = char.encode("utf-16-be")
    return "".join(f"\\u{pair[place]:02x}{pair[place + 1]:02x}" for place in range(0, len(pair), 2))


def _hidden(char: str, also: str = "") -> bool:
    if char.isprintable():
        return False
    category = unicodedata.category(char)
    return category in _UNSEEN or category == also


def _blank(char: str) -> bool:
    return char != " " and (unicodedata.category(char) == "Zs" or char in "\u115f\u1160\u3164\uffa0\u2800")


def _marks(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"


def _code(char: str) -> str:
    number = ord(char)
    if char == "\t":
        return "\\t"
    if char == "\r":
        return "\\r"
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def cells(text: str) -> int:
    """How many columns ``text`` takes on a terminal; wide East Asian characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_cell(char) for char in text)


def _cell(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, columns: int, more: str = "…") -> str:
    """``text`` cut to ``columns``, with ``more`` at the cut."""
    if cells(text) <= columns:
        return text
    room = max(0, columns - cells(more))
    used = 0
    for position, char in enumerate(text):
        used += _cell(char)
        if used > room:
            return (text[:position] + more)[: max(columns, 0)]
    return text


def wrapped(text: str, columns: int, *, words: bool = False) -> list[str]:
    """One line cut into pieces of at most ``columns``, with ``words`` behind a blank; nothing is left out or added."""
    pieces: list[str] = []
    start = used = 0
    for position, char in enumerate(text):
        wide = _cell(char)
        if used + wide > columns and position > start:
            blank = text.rfind(" ", start, position) + 1 if words else 0
            cut = blank if blank > start else position
            pieces.append(text[start:cut])
            start, used = cut, cells(text[cut:position])
        used += wide
    return [*pieces, text[start:]]


def first_line(text: str) -> str:
    """The first line that says something, with how many follow."""
    lines = [line for line in visible(text).strip().splitlines() if line.strip()]
    if not lines:
        return ""
    first = lines[0].replace("\t", " ").strip()
    return first if len(lines) == 1 else f"{first} (+{len(lines) - 1} lines)"


def counted(number: int, what: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def duration(seconds: float) -> str:
    """``12 ms``, ``1.2 s``, ``2 m 05 s``, ``1 h 02 m``."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} m"


def size(number: int) -> str:
    """A count for people: ``950``, ``12.3k``, ``4.5M``."""
    if number < 1000:
        return str(number)
    if number < 999_950:
        return f"{number / 1000:.1f}k"
    return f"{number / 1_000_000:.1f}M"


def folder_short(path: str, home: str | None) -> str:
    """``path`` with the home folder written as ``~``."""
    if home and home != "/" and (path == home or path.startswith(home.rstrip("/") + "/")):
        return "~" + path[len(home.rstrip("/")) :]
    return path
