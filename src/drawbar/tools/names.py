"""How a file's name is shown to a model and read back: exact where it can be, quoted where it must be.

A name that is ordinary text is shown as it is, accents, quotes and spaces included. One that holds a control
character, a byte that is no UTF-8, or a character that can't be seen is shown in double quotes with escapes
(``"a\\nb"``, ``"caf\\xe9"``), and every path argument takes that form back. So each name has one spelling, and
whatever a listing shows can be used in the next call.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["given_path", "shown"]

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
_NAMED_BACK = {value[1]: key for key, value in _NAMED.items()}
# Invisible, or able to reorder what follows: marks of direction, line separators, odd spaces, the byte order mark.
_UNSEEN = frozenset("\u200b\u200e\u200f\u2060\ufeff\u00ad") | frozenset(
    map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A)))
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|(.))", re.DOTALL)


def shown(path: str) -> str:
    """``path`` for a model to read and to use again.

    Args:
        path: as the operating system gave it, undecodable bytes as lone surrogates.
    """
    if not _needs_quotes(path):
        return path
    return '"' + "".join(_escaped(char) for char in path) + '"'


def given_path(text: str) -> str:
    """The path that a model means by ``text``; the inverse of :func:`shown`.

    A quoted form that doesn't parse is taken as it stands.
    """
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    raw = bytearray()
    at, end = 1, len(text) - 1
    while at < end:
        if text[at] == '"':
            return text
        if text[at] != "\\":
            raw += text[at].encode("utf-8", "surrogateescape")
            at += 1
            continue
        escape = _ESCAPE.match(text, at, end)
        if escape is None:
            return text
        byte, code, named = escape.groups()
        if byte:
            raw.append(int(byte, 16))
        elif code and not 0xD800 <= int(code, 16) <= 0xDFFF:
            raw += chr(int(code, 16)).encode()
        elif named in _NAMED_BACK:
            raw += _NAMED_BACK[named].encode()
        else:
            return text
        at = escape.end()
    return bytes(raw).decode("utf-8", "surrogateescape")


def _needs_quotes(path: str) -> bool:
    if path.isascii() and path.isprintable():
        return path.startswith('"') or path != path.strip()
    return path.startswith('"') or path != path.strip() or any(map(_odd, path))


def _odd(char: str) -> bool:
    if char in _UNSEEN:
        return True
    category = unicodedata.category(char)
    return category in ("Cc", "Cs", "Zl", "Zp") or (category == "Zs" and char != " ")


def _escaped(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    if not _odd(char):
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}"
