"""What the model sees of a branch: summary, kept entries and what came after, edits applied (SES-1).

The rules are Pi's. Nothing here knows of files: a branch is a sequence of positions and a way to get entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from drawbar.contracts.codec import as_object
from drawbar.stores.history.index import CODES, TYPE, Index, key_of
from drawbar.stores.history.roles import (
    Message,
    branch_summary_message,
    compaction_message,
    custom_message,
    gap_message,
    visible_message,
)

__all__ = ["Entry", "rebuild"]

Entry = dict[str, Any]
"""One entry of a history, as its JSON object."""

_SEEN = frozenset(CODES[kind] for kind in ("message", "custom_message", "branch_summary"))


def rebuild(index: Index, path: Sequence[int], entry: Callable[[int], Entry], *, legacy: bool) -> list[Message]:
    """The messages of a branch, as Pi rebuilds them: only user, assistant and toolResult roles.

    Only entries that are seen are read: with a compaction, none before its first kept one.

    Args:
        index: the tree.
        path: the branch's positions, from the root.
        entry: gives the entry at a position.
        legacy: a file of version 1, where a compaction names a place in the file instead of an id.
    """
    types = [index.codes[at] & TYPE for at in path]
    edits = _edits(index, path, types, entry)
    messages: list[Message] = []
    first, hidden = 0, -1
    if CODES["compaction"] in types:
        cut = len(types) - 1 - types[::-1].index(CODES["compaction"])
        compaction = entry(path[cut])
        summary = compaction.get("summary")
        messages.append(compaction_message(summary if isinstance(summary, str) else ""))
        first = _first_kept(index, path[:cut], compaction, legacy=legacy)
        first = hidden = cut if first is None else first  # a gap just before belongs to what was summarised
    for step in range(first, len(path)):
        if path[step] in index.gaps and step != hidden:
            messages.append(gap_message())
        if types[step] not in _SEEN or (message := _message(entry(path[step]))) is None:
            continue
        if step not in edits:
            messages.append(message)
        elif (replacement := edits[step]) is not None:
            messages.append({**message, "content": replacement.get("content")})
    return messages


def _edits(
    index: Index, path: Sequence[int], types: Sequence[int], entry: Callable[[int], Entry]
) -> dict[int, dict[str, Any] | None]:
    """The newest replacement of each edited step; None takes it out."""
    edits: dict[int, dict[str, Any] | None] = {}
    if CODES["context_edit"] not in types:
        return edits
    steps: dict[int, int] = {}
    for step, at in enumerate(path):
        if types[step] == CODES["context_edit"]:
            edit = entry(at)
            target = edit.get("targetId")
            if isinstance(target, str) and "replacement" in edit and key_of(target) in steps:
                edits[steps[key_of(target)]] = as_object(edit["replacement"])
        steps[index.ids[at]] = step
    return edits


def _first_kept(index: Index, before: Sequence[int], compaction: Entry, *, legacy: bool) -> int | None:
    """The step of the first entry that a compaction keeps; None keeps none, as an unknown id or its own does."""
    kept = compaction.get("firstKeptEntryId")
    if kept == compaction.get("id"):
        return None
    if isinstance(kept, str):
        key = key_of(kept)
        return next((step for step in range(len(before) - 1, -1, -1) if index.ids[before[step]] == key), None)
    place = compaction.get("firstKeptEntryIndex")
    if legacy and isinstance(place, int) and place > 0:  # counts the header too
        return next((step for step, at in enumerate(before) if at == place - 1), None)
    return None


def _message(entry: Entry) -> Message | None:
    kind = entry.get("type")
    if kind == "branch_summary":
        summary = entry.get("summary")
        return branch_summary_message(summary) if isinstance(summary, str) and summary else None
    if kind == "custom_message":
        return custom_message(entry.get("content"))
    return visible_message(as_object(entry.get("message")) or {})
