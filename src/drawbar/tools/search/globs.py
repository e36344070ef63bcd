"""Glob patterns as regular expressions: the syntax that ripgrep, fd and ignore files share.

``*`` and ``?`` stop at ``/``, ``**`` doesn't, ``[a-z]`` and ``[!a-z]`` are classes, ``{a,b}`` are alternatives, a
backslash takes the next character as it is.
"""

from __future__ import annotations

import re
from re import Pattern

__all__ = ["BadGlob", "glob_regex", "name_bytes"]


class BadGlob(ValueError):
    """The glob uses something that it can't have; the message names it."""


def name_bytes(path: str) -> str:
    """The bytes of ``path``, one character each: ignore files and ``grep``'s glob count bytes."""
    return path.encode("utf-8", "surrogateescape").decode("latin-1")


def glob_regex(glob: str) -> Pattern[str]:
    """The expression that a whole path must match.

    Raises:
        BadGlob: a class or alternative that is never closed, alternatives within alternatives, or a backslash
            at the end.
    """
    if glob == "**":
        return re.compile(r"(?s).*")
    return re.compile("(?s)" + "".join(_Reader(glob).parts()) + r"\Z")


class _Reader:
    def __init__(self, glob: str) -> None:
        self.glob = glob
        self.at = 0
        self.in_braces = False

    def parts(self) -> list[str]:
        out: list[str] = []
        while self.at < len(self.glob):
            char = self.glob[self.at]
            self.at += 1
            if char == "*":
                self._star(out)
            elif char == "?":
                out.append("[^/]")
            elif char == "[":
                out.append(self._set())
            elif char == "{":
                if self.in_braces:
                    raise BadGlob("alternatives within alternatives")
                self.in_braces = True
                out.append("(?:")
            elif char == "}" and self.in_braces:
                self.in_braces = False
                out.append(")")
            elif char == "," and self.in_braces:
                out.append("|")
            elif char == "\\":
                if self.at == len(self.glob):
                    raise BadGlob("a backslash at the end")
                out.append(re.escape(self.glob[self.at]))
                self.at += 1
            else:
                out.append(re.escape(char))
        if self.in_braces:
            raise BadGlob("alternatives that are never closed")
        return out

    def _star(self, out: list[str]) -> None:
        if self.glob[self.at : self.at + 1] != "*":
            out.append("[^/]*")
            return
        self.at += 1
        before = self.glob[self.at - 3 : self.at - 2] if self.at >= 3 else ""
        after = self.glob[self.at : self.at + 1]
        starts = before in ("", "/") or (self.in_braces and before in (",", "{"))
        ends = after in ("", "/") or (self.in_braces and after in (",", "}"))
        if not (starts and ends):
            out.append("[^/]*")
        elif before != "/":
            # A leading "**/" also stands for no folder at all.
            self.at += after == "/"
            out.append("(?:.*/)?" if after == "/" else ".*")
        elif after == "/":
            self.at += 1
            out.append("(?:.*/)?")
        else:
            out.append(".+")

    def _set(self) -> str:
        negated = self.glob[self.at : self.at + 1] in ("!", "^") and self.at < len(self.glob)
        self.at += negated
        end = self.glob.find("]", self.at + 1)
        if end < 0:
            raise BadGlob("a class that is never closed")
        body = self.glob[self.at : end]
        self.at = end + 1
        items: list[str] = []
        at = 0
        while at < len(body):
            if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
                if body[at + 2] < body[at]:
                    raise BadGlob("a range that doesn't run upwards")
                items.append(f"{_escape(body[at])}-{_escape(body[at + 2])}")
                at += 3
            else:
                items.append(_escape(body[at]))
                at += 1
        # A class never crosses a folder border.
        return ("(?!/)[^" if negated else "(?!/)[") + "".join(items) + "]"


def _escape(char: str) -> str:
    return "\\" + char if char in "\\]^[-&~|" else char
