"""HTML to readable Markdown in one pass: linear in the page, whatever its author made of it.

The standard library's parser isn't used: the pages come from anybody, and on some inputs its releases before the
middle of 2025 take time that grows with the square of the page.
"""

from __future__ import annotations

import html
import re
from typing import Final
from urllib.parse import urljoin

__all__ = ["html_to_text"]

_TAG: Final = re.compile(
    r"<(/?)([a-zA-Z][a-zA-Z0-9:-]{0,40}+)((?:[^<>\"']|\"[^\"]{0,8192}+\"|'[^']{0,8192}+'){0,4096}+)>"
)
_ATTRIBUTE: Final = re.compile(r"([a-zA-Z-]{1,20})\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")
_SPACE: Final = re.compile(r"[ \t\r\n\f]+")
_DROPPED: Final = frozenset(
    {"script", "style", "noscript", "template", "svg", "iframe", "object", "textarea", "select"}
)
_ENDS: Final = {name: re.compile(rf"</{name}\b", re.IGNORECASE) for name in _DROPPED}
_BLOCKS: Final = frozenset(
    {
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "center",
            "dd",
            "details",
            "div",
            "dl",
            "dt",
            "fieldset",
        ),
        *("figcaption", "figure", "footer", "form", "head", "header", "hr", "main", "nav", "ol", "p", "section"),
        *("summary", "table", "title", "tr", "ul"),
    }
)
_HEADINGS: Final = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_MANY_BREAKS: Final = re.compile(r"\n{3,}")


def html_to_text(page: str, base: str) -> str:
    """The page's words as Markdown: headings, lists, links with their whole address, code as it is.

    Args:
        page: HTML, well-formed or not.
        base: the page's own URL, for relative links.
    """
    writer = _Writer(base)
    position = 0
    while position < len(page):
        start = page.find("<", position)
        if start < 0:
            start = len(page)
        if start > position:
            writer.text(page[position:start])
        if start == len(page):
            break
        position = _markup(page, start, writer)
    return writer.finished()


def _markup(page: str, start: int, writer: _Writer) -> int:
    """Deal with what begins at ``start``; where to go on."""
    if page.startswith("<!--", start):
        end = page.find("-->", start + 4)
        return len(page) if end < 0 else end + 3
    if page.startswith(("<!", "<?"), start):
        end = page.find(">", start)
        return len(page) if end < 0 else end + 1
    found = _TAG.match(page, start)
    if found is None:
        writer.text("<")
        return start + 1
    name = found[2].lower()
    if name in _DROPPED and not found[1]:
        if found[3].endswith("/"):
            return found.end()
        closing = _ENDS[name].search(page, found.end())
        return len(page) if closing is None else closing.start()
    if found[1]:
        writer.close(name)
    else:
        writer.open(name, found[3])
    return found.end()


class _Writer:
    def __init__(self, base: str) -> None:
        self._base = base
        self._out: list[str] = []
        self._pre = 0
        self._links: list[tuple[str, int]] = []
        self._lists: list[int | None] = []
        self._at_start = True

    def text(self, raw: str) -> None:
        words = html.unescape(raw)
        if self._pre:
            self._out.append(words)
            self._at_start = words.endswith("\n")
            return
        words = _SPACE.sub(" ", words)
        if self._at_start:
            words = words.lstrip(" ")
        if words:
            self._out.append(words)
            self._at_start = words.endswith(" ")

    def open(self, name: str, attributes: str) -> None:
        if name in _HEADINGS:
            self._break(2)
            self._mark(_HEADINGS[name])
        elif name == "a":
            self._links.append((_attribute(attributes, "href"), len(self._out)))
        elif name == "pre":
            self._break(2)
            self._mark("```\n")
            self._pre += 1
        elif name in ("code", "kbd") and not self._pre:
            self._out.append("`")
            self._at_start = False
        elif name == "br":
            self._break(1)
        elif name == "img":
            self.text(_attribute(attributes, "alt"))
        elif name == "li":
            self._break(1)
            self._mark("  " * max(len(self._lists) - 1, 0) + self._bullet())
        elif name in ("td", "th"):
            if not self._at_start:
                self._mark("| ")
        elif name in _BLOCKS:
            if name in ("ul", "ol"):
                self._lists.append(0 if name == "ol" else None)
            self._break(1 if name in ("tr", "ul", "ol") else 2)
            if name == "hr":
                self._mark("---")
                self._break(2)

    def close(self, name: str) -> None:
        if name == "a" and self._links:
            target, since = self._links.pop()
            self._link(target, since)
        elif name == "pre" and self._pre:
            self._pre -= 1
            self._out.append("" if self._out[-1].endswith("\n") else "\n")
            self._mark("```")
            self._break(2)
        elif name in ("code", "kbd") and not self._pre:
            self._out.append("`")
            self._at_start = False
        elif name in _HEADINGS or name in _BLOCKS:
            if name in ("ul", "ol") and self._lists:
                self._lists.pop()
            self._break(1 if name in ("tr", "li") else 2)

    def finished(self) -> str:
        text = "".join(self._out)
        lines = [line.rstrip(" ") for line in text.split("\n")]
        return _MANY_BREAKS.sub("\n\n", "\n".join(lines)).strip("\n")

    def _bullet(self) -> str:
        if self._lists and (number := self._lists[-1]) is not None:
            self._lists[-1] = number + 1
            return f"{number + 1}. "
        return "- "

    def _link(self, target: str, since: int) -> None:
        words = "".join(self._out[since:])
        if self._pre or not words.strip() or not target or target.startswith(("#", "javascript:", "data:")):
            return
        try:
            whole = urljoin(self._base, target)
        except ValueError:
            return
        trailing = " " if words.endswith(" ") else ""
        self._out[since:] = [f"[{words.strip()}]({whole}){trailing}"]
        self._at_start = bool(trailing)

    def _mark(self, mark: str) -> None:
        self._out.append(mark)
        self._at_start = True

    def _break(self, lines: int) -> None:
        if self._pre:
            self._out.append("\n")
        elif self._out:
            self._out.append("\n" * lines)
        self._at_start = True


def _attribute(attributes: str, wanted: str) -> str:
    for found in _ATTRIBUTE.finditer(attributes):
        if found[1].lower() == wanted:
            return html.unescape(found[2] or found[3] or found[4] or "").strip()
    return ""
