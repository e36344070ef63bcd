"""Bounds on what a result may hold: 2,000 lines or 50 KiB, whole lines where possible, never half a character (ENG-6).

Text is counted in UTF-8 bytes, the way a request carries it. A cut never falls inside a character, and text that
holds half a surrogate pair is made whole before it goes anywhere (SES-14).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["MAX_BYTES", "MAX_LINES", "Cut", "clip", "count", "head", "size", "tail", "well_formed"]

MAX_LINES: Final = 2000
MAX_BYTES: Final = 50 * 1024
_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Cut:
    """What is left of a text.

    ``lines`` are shown of ``total_lines``; ``whole`` says that nothing is missing; ``partial`` that the line at
    the cut itself had to be cut because it alone is over the limit.
    """

    text: str
    lines: int
    total_lines: int
    total_bytes: int
    whole: bool
    partial: bool = False


def _split(text: str) -> list[str]:
    """Lines with their line feeds; a final line feed starts no further line."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def head(text: str, *, lines: int = MAX_LINES, limit: int = MAX_BYTES) -> Cut:
    """The beginning of ``text``: whole lines, at most ``lines`` of them and ``limit`` bytes.

    A first line over the limit is cut at a character.
    """
    return _cut(text, _split(text), lines, limit, from_end=False)


def tail(text: str, *, lines: int = MAX_LINES, limit: int = MAX_BYTES) -> Cut:
    """The end of ``text``, as :func:`head`; a last line over the limit keeps its end."""
    return _cut(text, _split(text), lines, limit, from_end=True)


def _cut(text: str, split: list[str], lines: int, limit: int, *, from_end: bool) -> Cut:
    total = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if len(split) <= lines and total <= limit:
        return Cut(text, len(split), len(split), total, whole=True)
    kept: list[str] = []
    used = 0
    for line in reversed(split) if from_end else split:
        cost = len(line) if line.isascii() else len(line.encode("utf-8", "surrogatepass"))
        if len(kept) == lines or used + cost > limit:
            break
        kept.append(line)
        used += cost
    if not kept and lines > 0:
        line = split[-1] if from_end else split[0]
        return Cut(_bytes_of(line, limit, from_end=from_end), 1, len(split), total, whole=False, partial=True)
    if from_end:
        kept.reverse()
    return Cut("".join(kept), len(kept), len(split), total, whole=False)


def _bytes_of(line: str, limit: int, *, from_end: bool) -> str:
    raw = line.encode("utf-8", "surrogatepass")
    if not from_end:
        end = limit
        while end > 0 and raw[end] & 0xC0 == 0x80:
            end -= 1
        return raw[:end].decode("utf-8", "surrogatepass")
    start = len(raw) - limit
    while start < len(raw) and raw[start] & 0xC0 == 0x80:
        start += 1
    return raw[start:].decode("utf-8", "surrogatepass")


def clip(text: str, chars: int) -> str:
    """At most ``chars`` characters of ``text``, with an ellipsis where something is left out."""
    return text if len(text) <= chars else text[: chars - 1] + "…"


def well_formed(value: Any) -> Any:
    """``value`` with every string in it well-formed Unicode.

    Two halves of a pair become their character, a lone half becomes U+FFFD. The same object comes back when
    there was nothing to mend.
    """
    if isinstance(value, str):
        if value.isascii() or not _LONE.search(value):
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        items: list[Any] = [well_formed(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, dict):
        return {well_formed(key): well_formed(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value  # pyright: ignore[reportUnknownVariableType]


def size(count_of_bytes: int) -> str:
    """A size for people: ``340 bytes``, ``12.0 KB``, ``3.4 MB``."""
    if count_of_bytes < 1024:
        return count(count_of_bytes, "byte")
    value = float(count_of_bytes)
    for unit in ("KB", "MB", "GB"):
        value /= 1024
        if value < 1024 or unit == "GB":
            return f"{value:.1f} {unit}"
    raise AssertionError


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``1 line``, ``2,000 lines``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
