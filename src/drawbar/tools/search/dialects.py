"""How each piece of the common pattern syntax is written: for ripgrep, for ASCII lines, for any line.

Python and ripgrep differ on what a word character, a space or a case of a letter is; what is written here is
ripgrep's meaning, spelled out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from itertools import chain

__all__ = ["ASCII", "DOTTED", "EXACT", "RUST", "Renders", "set_escape"]

Renders = dict[str, Callable[[str], str]]

_RUST_META = frozenset("\\.+*?()|[]{}^$#&-~")
# Unicode's White_Space; Python's own \s adds U+001C to U+001F.
_SPACE_SPANS = (
    (0x9, 0xD), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029),
    (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip
# Bytes that are no UTF-8 are lone surrogates here; like ripgrep, no class and no dot matches one.
_INVALID = "\\ud800-\\udfff"
# Python takes the dotless and the dotted i for cases of i, Unicode's simple case folding doesn't: where case is
# ignored, pattern and line hold these stand-ins for them.
DOTTED = {0x130: "\U000f0130", 0x131: "\U000f0131"}
_ALPHABETIC_SYMBOLS = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))


def set_escape(char: str) -> str:
    """``char`` as it stands inside a class, in Python's spelling."""
    if char.isascii() and (char.isalnum() or char in "_ !\"%',/:;<=>@`"):
        return char
    code = ord(char)
    if code in DOTTED:
        return char
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _rust_char(char: str) -> str:
    if char in _RUST_META:
        return "\\" + char
    return f"\\x{ord(char):02x}" if ord(char) < 0x20 or ord(char) == 0x7F else char


def _ranges(spans: list[tuple[int, int]]) -> str:
    return "".join(f"{set_escape(chr(low))}-{set_escape(chr(high))}" for low, high in spans)


def _is_word(code: int) -> bool:
    category = unicodedata.category(chr(code))
    return (
        category[0] in "LM"
        or category in ("Nd", "Nl", "Pc")
        or code in (0x200C, 0x200D)
        or chr(code) in DOTTED.values()
        or any(low <= code <= high for low, high in _ALPHABETIC_SYMBOLS)
    )


def _is_digit(code: int) -> bool:
    return unicodedata.category(chr(code)) == "Nd"


# Where Unicode has letters, marks and digits; looking at every code would take four times as long.
_ASSIGNED = (range(0x40000), range(0xE0000, 0xE1000), range(0xF0130, 0xF0132))


def _collect(belongs: Callable[[int], bool]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for code in chain(*_ASSIGNED):
        if belongs(code):
            if spans and spans[-1][1] == code - 1:
                spans[-1] = (spans[-1][0], code)
            else:
                spans.append((code, code))
    return spans


@cache
def _exact_class(name: str) -> str:
    """What stands inside a class for ``\\d`` and the like; the negated ones hold no undecodable byte."""
    small = name.lower()
    spans = list(_SPACE_SPANS) if small == "s" else _collect(_is_digit if small == "d" else _is_word)
    if name.isupper():
        gaps: list[tuple[int, int]] = []
        after = 0
        for low, high in sorted([(0xD800, 0xDFFF), *spans, (0x110000, 0x110000)]):
            if after < low:
                gaps.append((after, low - 1))
            after = high + 1
        spans = gaps
    return _ranges(spans)


def _exact_set(value: str) -> str:
    negated = value.startswith("^")
    body = re.sub(r"(\\\\)|\\([dDwWsS])", lambda m: m[1] or _exact_class(m[2]), value[negated:])
    return f"[^{body}{_INVALID}]" if negated else f"[{body}]"


def _ascii_set(value: str) -> str:
    ascii_space = "\\t\\n\\x0b\\x0c\\r "
    ascii_rest = "\\x00-\\x08\\x0e-\\x1f!-\\x7f"
    plain = {"s": ascii_space, "S": ascii_rest}
    return "[" + re.sub(r"\\([sS])", lambda m: plain[m[1]], value) + "]"


def _boundary(name: str, word: str) -> str:
    on, off = f"(?<=[{word}])", f"(?<![{word}])"
    ahead, none = f"(?=[{word}])", f"(?![{word}])"
    return f"(?:{on}{none}|{off}{ahead})" if name == "b" else f"(?:{on}{ahead}|{off}{none})"


def _rust_set(value: str) -> str:
    return "[" + re.sub(r"\\[uU]([0-9a-f]{4,8})", r"\\x{\1}", value) + "]"


RUST: Renders = {
    "char": _rust_char,
    "raw": lambda value: value,
    "dot": lambda _: ".",
    "end": lambda _: "(?:\\r?$)",
    "class": lambda value: "\\" + value,
    "boundary": lambda value: "\\" + value,
    "set": _rust_set,
}
ASCII: Renders = {
    "char": lambda value: re.escape(value),
    "raw": lambda value: value,
    "dot": lambda _: ".",
    "end": lambda _: "(?:\\r?\\Z)",
    "class": lambda value: _ascii_set("\\" + value),
    "boundary": lambda value: _boundary(value, "0-9A-Za-z_"),
    "set": _ascii_set,
}
EXACT: Renders = {
    "char": lambda value: re.escape(value),
    "raw": lambda value: value,
    "dot": lambda _: f"[^\\n{_INVALID}]",
    "end": lambda _: "(?:\\r?\\Z)",
    "class": lambda value: f"[{_exact_class(value)}]",
    "boundary": lambda value: _boundary(value, _exact_class("w")),
    "set": _exact_set,
}
