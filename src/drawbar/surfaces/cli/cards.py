"""A tool call in one line, an edit as a diff, arguments to the letter for whoever must judge them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from drawbar.contracts.codec import as_object, encode
from drawbar.surfaces.cli.output import Look
from drawbar.surfaces.cli.text import cells, clip, counted, first_line, label, visible, visible_exact

__all__ = ["call_line", "diff_lines", "exact_arguments", "headline"]

DIFF_LINES = 24
"""Lines of a diff shown; the rest is counted."""
TOOL_COLUMNS = 5


def call_line(tool: str, arguments: Any, columns: int, look: Look) -> str:
    """``• bash   pytest -q`` within ``columns``."""
    name = label(tool)
    lead = f"{look.glyphs.bullet} {name.ljust(TOOL_COLUMNS)}  "
    rest = clip(headline(tool, arguments), max(0, columns - cells(lead)), look.glyphs.dots)
    painted = f"{look.paint(look.glyphs.bullet, 'cyan')} {look.paint(name.ljust(TOOL_COLUMNS), 'bold')}  "
    return f"{painted}{rest}".rstrip()


def headline(tool: str, arguments: Any) -> str:
    """What a call is about, in a few words of its own arguments."""
    given = as_object(arguments)
    if given is None:
        return first_line(_json(arguments)) if arguments is not None else ""
    return first_line(_about(tool, given))


def _about(tool: str, given: Mapping[str, Any]) -> str:
    path = str(given.get("path", ""))
    if tool == "bash" and "command" in given:
        return str(given["command"])
    if tool == "read" and path:
        offset, limit = given.get("offset"), given.get("limit")
        if offset is None and limit is None:
            return path
        first = offset if isinstance(offset, int) else 1
        last = f"{first + limit - 1}" if isinstance(limit, int) else ""
        return f"{path}:{first}-{last}"
    if tool == "write" and path:
        return f"{path} ({counted(len(str(given.get('content', '')).splitlines()), 'line')})"
    if tool == "edit" and path:
        edits = _items(given.get("edits"))
        return f"{path} ({counted(len(edits), 'edit')})" if edits else path
    if tool in ("grep", "find") and "pattern" in given:
        return f"{given['pattern']} in {path or '.'}"
    if tool == "ls":
        return path or "."
    if tool == "todo_write":
        return counted(len(_items(given.get("items"))), "item")
    if tool == "ask_user" and _items(given.get("questions")):
        first, *rest = (str((as_object(item) or {}).get("text", "")) for item in _items(given["questions"]))
        return f"{first_line(first)} (+{counted(len(rest), 'question')})" if rest else first
    return _json(given) if given else ""


def diff_lines(tool: str, arguments: Any, look: Look) -> list[str]:
    """The lines that an edit or a write changes, coloured, at most :data:`DIFF_LINES` with the rest counted."""
    given = as_object(arguments) or {}
    lines = [_painted(line, look) for line in _changes(tool, given)]
    if len(lines) > DIFF_LINES:
        lines = [*lines[:DIFF_LINES], look.paint(f"  {look.glyphs.dots} {len(lines) - DIFF_LINES} more lines", "dim")]
    return lines


def _changes(tool: str, given: Mapping[str, Any]) -> Iterator[str]:
    if tool == "write":
        for line in str(given.get("content", "")).splitlines():
            yield f"+ {line}"
    for number, item in enumerate(_items(given.get("edits")) if tool == "edit" else []):
        edit = as_object(item)
        if edit is None:
            continue
        if number:
            yield "  "
        old, new = (str(edit.get(key, "")).splitlines() for key in ("oldText", "newText"))
        for line in difflib.unified_diff(old, new, lineterm="", n=1):
            if not line.startswith(("---", "+++", "@@")):
                yield f"{line[0]} {line[1:]}"


def _painted(line: str, look: Look) -> str:
    shown = clip(visible(line).replace("\t", "    ").replace("\n", " "), look.width - 2, look.glyphs.dots)
    colour = {"+": "green", "-": "red"}.get(line[0], "dim")
    return f"  {look.paint(shown, colour)}"


def exact_arguments(tool: str, arguments: Any) -> list[tuple[str, list[str]]]:
    """Each argument's name and lines, complete, with everything that isn't plainly seen shown as its code.

    This is what a person says yes to, so nothing is shortened, reordered or obeyed by the terminal.
    """
    given = as_object(arguments)
    if given is None:
        return [("arguments", _exact(_json(arguments)))]
    shown: list[tuple[str, list[str]]] = []
    for name, value in given.items():
        if tool == "edit" and name == "edits" and _items(value):
            shown += [(f"edit {n}", lines) for n, lines in enumerate(_exact_edits(_items(value)), 1)]
        else:
            text = value if isinstance(value, str) else _json(value)
            shown.append((label(name), _exact(text)))
    return shown


def _exact(text: str) -> list[str]:
    """The lines, with blanks at a line's end as codes as well: nobody would see them."""
    lines = visible_exact(text).split("\n")
    return [bare + "\\x20" * (len(line) - len(bare)) for line in lines for bare in (line.rstrip(" "),)]


def _exact_edits(edits: list[Any]) -> Iterator[list[str]]:
    for item in edits:
        edit = as_object(item)
        if edit is None or set(edit) - {"oldText", "newText"}:
            yield _exact(_json(item))
            continue
        old, new = (_exact(str(edit.get(key, ""))) for key in ("oldText", "newText"))
        yield [*(f"- {line}" for line in old), *(f"+ {line}" for line in new)]


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def _json(value: Any) -> str:
    try:
        return encode(value).decode()
    except UnicodeEncodeError:
        return repr(value)
