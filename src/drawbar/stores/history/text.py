"""Text and JSON values made fit to be sent: well-formed, bounded, never split inside a character (SES-14)."""

from __future__ import annotations

from typing import Any

__all__ = ["DEEPEST", "cut_text", "well_formed", "well_formed_text"]

DEEPEST = 200
"""Levels of nesting that are kept; no provider and no tool reads deeper JSON."""


def well_formed_text(text: str) -> str:
    """``text`` with every lone surrogate replaced by U+FFFD; the same object when there is none."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def well_formed(value: Any, _level: int = 0) -> Any:
    """A JSON value with every string well-formed, keys included; the same object when nothing changed.

    What is nested deeper than :data:`DEEPEST` is replaced by a note, and what is no JSON by its text.
    """
    if isinstance(value, str):
        return well_formed_text(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if not isinstance(value, dict | list | tuple):
        return well_formed_text(str(value))
    if _level >= DEEPEST:
        return "[nested too deep]"
    changed = isinstance(value, tuple)
    if isinstance(value, dict):
        table: dict[str, Any] = {}
        for key, old in value.items():  # pyright: ignore[reportUnknownVariableType]
            name = well_formed_text(key if isinstance(key, str) else str(key))  # pyright: ignore[reportUnknownArgumentType]
            new = well_formed(old, _level + 1)
            changed = changed or new is not old or name is not key
            table[name] = new
        return table if changed else value  # pyright: ignore[reportUnknownVariableType]
    items: list[Any] = []
    for old in value:  # pyright: ignore[reportUnknownVariableType]
        new = well_formed(old, _level + 1)
        changed = changed or new is not old
        items.append(new)
    return items if changed else value  # pyright: ignore[reportUnknownVariableType]


def cut_text(text: str, limit: int) -> str:
    """``text`` in at most ``limit`` characters: head and tail, and between them how much was left out."""
    if len(text) <= limit:
        return text
    note = f"\n[… {len(text) - limit} of {len(text)} characters left out here …]\n"
    room = max(limit - len(note), 0)
    head = room - room // 2
    return (text[:head] + note + text[len(text) - room // 2 :])[:limit]
