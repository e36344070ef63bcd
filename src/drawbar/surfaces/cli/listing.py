"""Tables and key-value lists that fit the terminal: what doesn't fit is cut, least wanted columns go first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from drawbar.surfaces.cli.output import Look
from drawbar.surfaces.cli.text import cells, clip, label

__all__ = ["age", "pairs", "table"]

GAP = 2


def table(look: Look, head: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[int] = ()) -> list[str]:
    """Rows under a dim head; the last column takes what is left of the width.

    Args:
        look: for width and colours.
        head: the columns' names.
        rows: cells of foreign text; they are made safe here.
        optional: columns to leave out when the terminal is narrow, the first one first.
    """
    safe = [[label(cell) for cell in row] for row in rows]
    kept = list(range(len(head)))
    widths = [max([cells(head[c]), *(cells(row[c]) for row in safe)]) for c in kept]
    for column in optional:
        if sum(widths[c] + GAP for c in kept[:-1]) + cells(head[kept[-1]]) <= look.width:
            break
        kept.remove(column)
    used = sum(widths[c] + GAP for c in kept[:-1])
    widths[kept[-1]] = max(cells(head[kept[-1]]), look.width - used)
    lines = [look.paint(_row([head[c] for c in kept], [widths[c] for c in kept], look), "dim")]
    return lines + [_row([row[c] for c in kept], [widths[c] for c in kept], look) for row in safe]


def _row(texts: Sequence[str], widths: Sequence[int], look: Look) -> str:
    fitted = [clip(text, width, look.glyphs.dots) for text, width in zip(texts, widths, strict=True)]
    padded = [text + " " * (width - cells(text)) for text, width in zip(fitted[:-1], widths[:-1], strict=True)]
    return (" " * GAP).join([*padded, fitted[-1]]).rstrip()


def pairs(look: Look, items: Sequence[tuple[str, str | None]]) -> list[str]:
    """``name  value`` lines; a pair without a value is left out."""
    shown = [(name, label(value)) for name, value in items if value]
    width = max((cells(name) for name, _ in shown), default=0)
    return [f"{look.paint(name.ljust(width), 'dim')}  {value}" for name, value in shown]


def age(at: str | None, now: datetime | None = None) -> str:
    """How long ago a recorded time was: ``12 s``, ``5 m``, ``3 h``, ``9 d``; empty when it can't be read."""
    if at is None:
        return ""
    try:
        seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(at)).total_seconds()
    except (ValueError, TypeError):
        return ""
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"
