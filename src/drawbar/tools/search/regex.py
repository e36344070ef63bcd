"""The common pattern syntax of ``grep``, written out for ripgrep and for Python so that both find the same lines.

Common syntax: literals, ``.``, classes with ranges and POSIX names, ``\\d \\w \\s`` and their negations, ``^ $ \\b
\\B``, groups, ``|``, ``* + ? {n} {n,} {n,m}`` and their lazy forms, ``\\t \\xHH \\uHHHH``, a leading ``(?i)``. A brace
that doesn't form a count is a literal brace, and ``$`` also matches before a carriage return, so that Windows files
need no other pattern. Anything else raises :class:`Unsupported` by name (ENG-6).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

__all__ = ["LinePattern", "Unsupported"]

COUNT_MAX = 1000
_RUST_META = frozenset("\\.+*?()|[]{}^$#&-~")
_CONTROL_ESCAPES = {"t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\x0b\\x0c\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
# Unicode's White_Space; Python's own \s adds U+001C to U+001F.
_SPACE_SPANS = (
    (0x9, 0xD), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029),
    (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip
# Bytes that are no UTF-8 are lone surrogates here; like ripgrep, no class and no dot matches one.
_INVALID = "\\ud800-\\udfff"
# Python takes the dotless and the dotted i for cases of i, Unicode's simple case folding doesn't: where case is
# ignored, pattern and line hold these stand-ins for them.
_DOTTED = {0x130: "\U000f0130", 0x131: "\U000f0131"}
_ALPHABETIC_SYMBOLS = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))

_Token = tuple[str, str]
_Renders = dict[str, Callable[[str], str]]


class Unsupported(ValueError):
    """The pattern uses something outside the common syntax; the message names it."""


class LinePattern:
    """One parsed pattern.

    Args:
        pattern: in the common syntax, or any text when ``literal``.
        ignore_case: match letters of either case.
        literal: take ``pattern`` as it is.

    Raises:
        Unsupported: naming what the common syntax doesn't have.
    """

    def __init__(self, pattern: str, *, ignore_case: bool = False, literal: bool = False) -> None:
        if "\n" in pattern:
            raise Unsupported("a line break (a pattern matches within one line)")
        self.tokens: list[_Token] = []
        self.ignore_case = ignore_case
        if literal:
            self.tokens = [("char", c) for c in pattern]
        else:
            if pattern.startswith("(?i)"):
                self.ignore_case = True
                pattern = pattern[4:]
            _Parser(pattern, self.tokens).parse()
        self._ascii_ok = pattern.isascii()
        self._ascii: Callable[[str], object] | None = None
        self._exact: Callable[[str], object] | None = None

    @property
    def rust(self) -> str:
        """The pattern for ripgrep."""
        return "".join(_RUST[kind](value) for kind, value in self.tokens)

    def matches(self, line: str) -> bool:
        """Whether ``line`` matches: without its line feed, undecodable bytes as lone surrogates."""
        if self._ascii_ok and line.isascii():
            if self._ascii is None:
                self._ascii = self._compile(_ASCII, re.ASCII)
            return self._ascii(line) is not None
        if self._exact is None:
            self._exact = self._compile(_EXACT, 0)
        return self._exact(line.translate(_DOTTED) if self.ignore_case else line) is not None

    def _compile(self, render: _Renders, flags: int) -> Callable[[str], object]:
        source = "".join(render[kind](value) for kind, value in self.tokens)
        if self.ignore_case:
            source = source.translate(_DOTTED)
        try:
            return re.compile(source, flags | (re.IGNORECASE if self.ignore_case else 0)).search
        except (re.error, OverflowError) as error:
            raise Unsupported(f"this pattern ({error})") from error


class _Parser:
    """Reads the common syntax into tokens; knows only what both sides give the same meaning."""

    def __init__(self, pattern: str, tokens: list[_Token]) -> None:
        self.text = pattern
        self.at = 0
        self.out = tokens
        self.depth = 0
        self.repeatable = False

    def parse(self) -> None:
        while self.at < len(self.text):
            self._one(self._next())
        if self.depth:
            raise Unsupported("a group that is never closed")

    def _next(self) -> str:
        char = self.text[self.at]
        self.at += 1
        return char

    def _rest(self) -> str:
        return self.text[self.at :]

    def _add(self, kind: str, value: str = "", *, repeatable: bool = True) -> None:
        self.out.append((kind, value))
        self.repeatable = repeatable

    def _one(self, char: str) -> None:
        if char == "\\":
            self._escape()
        elif char == "[":
            self._add("set", self._set())
        elif char == "(":
            self._group()
        elif char == ")":
            if not self.depth:
                raise Unsupported("a closing parenthesis without its group")
            self.depth -= 1
            self._add("raw", ")")
        elif char == "|":
            self._add("raw", "|", repeatable=False)
        elif char == ".":
            self._add("dot")
        elif char == "^":
            self._add("raw", "^", repeatable=False)
        elif char == "$":
            self._add("end", repeatable=False)
        elif char in "*+?":
            self._quantifier(char)
        elif char == "{":
            self._brace()
        else:
            self._add("char", char)

    def _group(self) -> None:
        if self._rest().startswith("?"):
            named = re.match(r"\?P?<[A-Za-z_][A-Za-z0-9_]*>|\?:", self._rest())
            if named is None:
                around = re.match(r"\?(=|!|<=|<!)", self._rest())
                raise Unsupported("look-around" if around else "a group that starts with (?")
            self.at += named.end()
        self.depth += 1
        self._add("raw", "(?:", repeatable=False)

    def _quantifier(self, text: str) -> None:
        if not self.repeatable:
            raise Unsupported(f"a repetition ({text}) with nothing to repeat")
        if self._rest().startswith("?"):
            self.at += 1
            text += "?"
        if self._rest()[:1] in ("*", "+", "?") and self._rest():
            raise Unsupported("a repetition of a repetition")
        if re.match(r"\{\d+(,\d*)?\}", self._rest()):
            raise Unsupported("a repetition of a repetition")
        self._add("raw", text, repeatable=False)

    def _brace(self) -> None:
        count = re.match(r"(\d+)(?:(,)(\d*))?\}", self._rest())
        if count is None:
            self._add("char", "{")
            return
        low, high = int(count[1]), int(count[3]) if count[3] else None
        if max(low, high or 0) > COUNT_MAX:
            raise Unsupported(f"a count above {COUNT_MAX}")
        if high is not None and high < low:
            raise Unsupported("a count whose end is below its start")
        self.at += count.end()
        self._quantifier("{" + count[0])

    def _escape(self) -> None:
        if self.at >= len(self.text):
            raise Unsupported("a backslash at the end")
        char = self._next()
        if char in "dDwWsS":
            self._add("class", char)
        elif char in "bB":
            self._add("boundary", char, repeatable=False)
        else:
            self._add("char", self._escaped_char(char))

    def _escaped_char(self, char: str) -> str:
        if char in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[char]
        if char in "xuU":
            code = re.match(r"\{([0-9A-Fa-f]{1,8})\}", self._rest()) or re.match(
                {"x": "([0-9A-Fa-f]{2})", "u": "([0-9A-Fa-f]{4})", "U": "([0-9A-Fa-f]{8})"}[char], self._rest()
            )
            value = int(code[1], 16) if code else -1
            if code is None or value > 0x10FFFF or 0xD800 <= value <= 0xDFFF:
                raise Unsupported(f"this form of \\{char}")
            if value == 10:
                raise Unsupported("a line break (a pattern matches within one line)")
            self.at += code.end()
            return chr(value)
        if char == "n":
            raise Unsupported("a line break (a pattern matches within one line)")
        if char in "pP":
            raise Unsupported("Unicode classes (\\p)")
        if char.isdigit():
            raise Unsupported("back-references")
        if char in "<>":
            raise Unsupported(f"\\{char} (word borders are \\b)")
        if not char.isascii() or char.isalpha():
            raise Unsupported(f"\\{char}")
        return char

    def _set(self) -> str:
        """A class as ``^`` if negated, then items in Python's class syntax with ``\\d`` and the like kept."""
        negated = self._rest().startswith("^")
        self.at += negated
        items: list[str] = []
        first = True
        while True:
            if self.at >= len(self.text):
                raise Unsupported("a class that is never closed")
            char = self._next()
            if char == "]" and not first:
                break
            items.append(self._item(char))
            first = False
        return ("^" if negated else "") + "".join(items)

    def _item(self, char: str) -> str:
        if char == "[":
            posix = re.match(r":([a-z]+):\]", self._rest())
            if posix is None or posix[1] not in _POSIX:
                raise Unsupported("a class within a class")
            self.at += posix.end()
            return _POSIX[posix[1]]
        if char in "&~-" and self._rest().startswith(char):
            raise Unsupported(f"class arithmetic ({char}{char})")
        low = self._set_char(char)
        if low is None:
            return "\\" + self.text[self.at - 1]
        if self._rest().startswith("-") and self._rest()[1:2] not in ("", "]"):
            self.at += 1
            high = self._set_char(self._next())
            if high is None or high < low:
                raise Unsupported("a range that doesn't run upwards")
            stand_ins = "".join(char for code, char in _DOTTED.items() if low <= chr(code) <= high)
            return f"{_set_escape(low)}-{_set_escape(high)}{stand_ins}"
        return _set_escape(low)

    def _set_char(self, char: str) -> str | None:
        """The character that a class item stands for; None for ``\\d`` and the like."""
        if char == "[":
            raise Unsupported("a class within a class")
        if char != "\\":
            return char
        if self.at >= len(self.text):
            raise Unsupported("a class that is never closed")
        escaped = self._next()
        if escaped in "dDwWsS":
            return None
        if escaped in "bB":
            raise Unsupported("\\b in a class")
        return self._escaped_char(escaped)


def _set_escape(char: str) -> str:
    if char.isascii() and (char.isalnum() or char in "_ !\"%',/:;<=>@`"):
        return char
    code = ord(char)
    if code in _DOTTED:
        return char
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _rust_char(char: str) -> str:
    if char in _RUST_META:
        return "\\" + char
    return f"\\x{ord(char):02x}" if ord(char) < 0x20 or ord(char) == 0x7F else char


def _ranges(spans: list[tuple[int, int]]) -> str:
    return "".join(f"{_set_escape(chr(low))}-{_set_escape(chr(high))}" for low, high in spans)


def _is_word(code: int) -> bool:
    category = unicodedata.category(chr(code))
    return (
        category[0] in "LM"
        or category in ("Nd", "Nl", "Pc")
        or code in (0x200C, 0x200D)
        or chr(code) in _DOTTED.values()
        or any(low <= code <= high for low, high in _ALPHABETIC_SYMBOLS)
    )


def _is_digit(code: int) -> bool:
    return unicodedata.category(chr(code)) == "Nd"


def _collect(belongs: Callable[[int], bool]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for code in range(0x110000):
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


_RUST: _Renders = {
    "char": _rust_char,
    "raw": lambda value: value,
    "dot": lambda _: ".",
    "end": lambda _: "(?:\\r?$)",
    "class": lambda value: "\\" + value,
    "boundary": lambda value: "\\" + value,
    "set": _rust_set,
}
_ASCII: _Renders = {
    "char": lambda value: re.escape(value),
    "raw": lambda value: value,
    "dot": lambda _: ".",
    "end": lambda _: "(?:\\r?\\Z)",
    "class": lambda value: _ascii_set("\\" + value),
    "boundary": lambda value: _boundary(value, "0-9A-Za-z_"),
    "set": _ascii_set,
}
_EXACT: _Renders = {
    "char": lambda value: re.escape(value),
    "raw": lambda value: value,
    "dot": lambda _: f"[^\\n{_INVALID}]",
    "end": lambda _: "(?:\\r?\\Z)",
    "class": lambda value: f"[{_exact_class(value)}]",
    "boundary": lambda value: _boundary(value, _exact_class("w")),
    "set": _exact_set,
}
