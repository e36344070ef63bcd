"""The common pattern syntax of ``grep``, written out for ripgrep and for Python so that both find the same lines.

Common syntax: literals, ``.``, classes with ranges and POSIX names, ``\\d \\w \\s`` and their negations, ``^ $ \\b
\\B``, groups, ``|``, ``* + ? {n} {n,} {n,m}`` and their lazy forms, ``\\t \\xHH \\uHHHH``, a leading ``(?i)``. A brace
that doesn't form a count is a literal brace, and ``$`` also matches before a carriage return, so that Windows files
need no other pattern. Anything else raises :class:`Unsupported` by name (ENG-6).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from drawbar.tools.search.dialects import ASCII, DOTTED, EXACT, RUST, Renders, set_escape

__all__ = ["LinePattern", "Unsupported"]

COUNT_MAX = 1000
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

_Token = tuple[str, str]


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
        return "".join(RUST[kind](value) for kind, value in self.tokens)

    def matches(self, line: str) -> bool:
        """Whether ``line`` matches: without its line feed, undecodable bytes as lone surrogates."""
        if self._ascii_ok and line.isascii():
            if self._ascii is None:
                self._ascii = self._compile(ASCII, re.ASCII)
            return self._ascii(line) is not None
        if self._exact is None:
            self._exact = self._compile(EXACT, 0)
        return self._exact(line.translate(DOTTED) if self.ignore_case else line) is not None

    def _compile(self, render: Renders, flags: int) -> Callable[[str], object]:
        source = "".join(render[kind](value) for kind, value in self.tokens)
        if self.ignore_case:
            source = source.translate(DOTTED)
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
            stand_ins = "".join(char for code, char in DOTTED.items() if low <= chr(code) <= high)
            return f"{set_escape(low)}-{set_escape(high)}{stand_ins}"
        return set_escape(low)

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
