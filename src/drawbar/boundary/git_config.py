"""One git configuration file as its entries, read as git reads it and refused where git might read it otherwise.

The tolerant reader of single values is in :mod:`drawbar.boundary.git_folders`; this one decides what may stay in a
file that a command wrote, so it takes nothing that it doesn't fully understand. No program runs (QLT-3).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["ConfigUnreadable", "Entry", "filtered", "parse", "rewritten"]

_HEADER: Final = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\\n\0]|\\[^\n\0])*)")?\]')
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_ESCAPES: Final = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}
_BLANK: Final = " \t\r\v\f"


class ConfigUnreadable(ValueError):
    """The text isn't a configuration file that git and this module surely read alike."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting: ``section`` and ``key`` in lower case, ``subsection`` as written, ``value`` None for a bare key."""

    section: str
    subsection: str | None
    key: str
    value: str | None

    @property
    def name(self) -> str:
        """As ``git config`` shows it."""
        middle = "" if self.subsection is None else f"{self.subsection}."
        return f"{self.section}.{middle}{self.key}"


@dataclass(frozen=True, slots=True)
class _Placed:
    entry: Entry
    start: int
    end: int


def parse(text: str) -> list[Entry]:
    """Every entry of a file, in order.

    Raises:
        ConfigUnreadable: for anything that this module doesn't know how git reads.
    """
    return [placed.entry for placed in _places(text)]


def filtered(text: str, keep: Callable[[Entry], bool]) -> tuple[str, list[Entry]]:
    """The text without the entries that ``keep`` refuses, and those; everything else stays byte for byte.

    Raises:
        ConfigUnreadable: as :func:`parse`.
    """
    out: list[str] = []
    dropped: list[Entry] = []
    at = 0
    for placed in _places(text):
        if keep(placed.entry):
            continue
        dropped.append(placed.entry)
        start, end = _whole_line(text, placed.start, placed.end)
        out.append(text[at:start])
        at = end
    return "".join((*out, text[at:])), dropped


def rewritten(text: str, wanted: Sequence[Entry], owned: Callable[[Entry], bool]) -> str:
    """The text with its ``owned`` entries made those of ``wanted``, all others as they are.

    Raises:
        ConfigUnreadable: as :func:`parse`.
    """
    missing = Counter(wanted)

    def keep(entry: Entry) -> bool:
        if not owned(entry):
            return True
        if missing[entry] > 0:
            missing[entry] -= 1
            return True
        return False

    kept, dropped = filtered(text, keep)
    for header in {_header(entry) for entry in dropped}:
        # Git too takes a section away with its last setting.
        kept = re.sub(rf"^{re.escape(header)}(?=\[|\Z)", "", kept, flags=re.MULTILINE)
    added = list(_in_order(wanted, missing))
    if not added:
        return kept
    lines: list[str] = [] if not kept or kept.endswith("\n") else ["\n"]
    header = None
    for entry in added:
        if header != (entry.section, entry.subsection):
            header = (entry.section, entry.subsection)
            lines.append(_header(entry))
        lines.append(f"\t{entry.key}\n" if entry.value is None else f"\t{entry.key} = {_quoted(entry.value)}\n")
    return kept + "".join(lines)


def _whole_line(text: str, start: int, end: int) -> tuple[int, int]:
    """The span with its indentation and line end, when nothing else is on its line."""
    before = text.rfind("\n", 0, start) + 1
    if text[before:start].strip(_BLANK) or text[end : end + 1] not in ("", "\n"):
        return start, end
    return before, min(end + 1, len(text))


def _in_order(wanted: Iterable[Entry], missing: Counter[Entry]) -> Iterable[Entry]:
    for entry in wanted:
        if missing[entry] > 0:
            missing[entry] -= 1
            yield entry


def _header(entry: Entry) -> str:
    if entry.subsection is None:
        return f"[{entry.section}]\n"
    escaped = entry.subsection.replace("\\", "\\\\").replace('"', '\\"')
    return f'[{entry.section} "{escaped}"]\n'


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'.replace("\b", "\\b")


def _places(text: str) -> list[_Placed]:
    if "\0" in text or text.startswith("\ufeff"):
        raise ConfigUnreadable("a zero byte or byte order mark")
    found: list[_Placed] = []
    section: str | None = None
    subsection: str | None = None
    at = 0
    while at < len(text):
        character = text[at]
        if character in _BLANK or character == "\n":
            at += 1
        elif character in "#;":
            at = _line_end(text, at)
        elif character == "[":
            header = _HEADER.match(text, at)
            if header is None:
                raise ConfigUnreadable(f"section header at {at}")
            section, subsection = _named(header[1].lower(), header[2])
            at = header.end()
        else:
            word = _KEY.match(text, at)
            if word is None or section is None:
                raise ConfigUnreadable(f"neither key nor section at {at}")
            value, end = _after_key(text, word.end())
            found.append(_Placed(Entry(section, subsection, word[0].lower(), value), at, end))
            at = end
    return found


def _named(section: str, quoted: str | None) -> tuple[str, str | None]:
    if quoted is not None:
        return section, re.sub(r"\\(.)", r"\1", quoted)
    head, dot, rest = section.partition(".")
    return head, rest if dot else None


def _after_key(text: str, at: int) -> tuple[str | None, int]:
    while at < len(text) and text[at] in " \t":
        at += 1
    if at >= len(text) or text[at] == "\n" or text.startswith("\r\n", at):
        return None, at
    if text[at] != "=":
        raise ConfigUnreadable(f"no = after a key at {at}")
    return _value(text, at + 1)


def _value(text: str, at: int) -> tuple[str, int]:
    """As git's own reader: a quote protects blanks and comment signs, a backslash escapes or joins lines."""
    out: list[str] = []
    kept = 0
    quoted = False
    while at < len(text) and text[at] != "\n" and not text.startswith("\r\n", at):
        character = text[at]
        at += 1
        if character in "#;" and not quoted:
            return "".join(out[:kept]), _line_end(text, at)
        if character == '"':
            quoted = not quoted
            kept = len(out)
        elif character == "\\":
            if text.startswith("\r\n", at):
                at += 2
                continue
            escaped = text[at : at + 1]
            at += 1
            if escaped == "\n":
                continue
            if escaped not in _ESCAPES:
                raise ConfigUnreadable(f"escape at {at}")
            out.append(_ESCAPES[escaped])
            kept = len(out)
        elif quoted or character not in _BLANK:
            out.append(character)
            kept = len(out)
        elif out:
            out.append(character)
    if quoted:
        raise ConfigUnreadable("a quote without end")
    return "".join(out[:kept]), at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
