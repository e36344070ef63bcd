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
    edits = _edits(path, types, entry)
    messages: list[Message] = []
    first = 0
    if CODES["compaction"] in types:
        cut = len(types) - 1 - types[::-1].index(CODES["compaction"])
        compaction = entry(path[cut])
        summary = compaction.get("summary")
        messages.append(compaction_message(summary if isinstance(summary, str) else ""))
        first = _first_kept(index, path[:cut], compaction, legacy=legacy)
        first = cut if first is None else first
    for step in range(first, len(path)):
        if path[step] in index.gaps:
            messages.append(gap_message())
        if types[step] in _SEEN and (message := _message(entry(path[step]), edits)) is not None:
            messages.append(message)
    return messages


def _edits(path: Sequence[int], types: Sequence[int], entry: Callable[[int], Entry]) -> dict[str, Any]:
    """The newest replacement of each edited entry; None takes it out."""
    edits: dict[str, Any] = {}
    for at, kind in zip(path, types, strict=True):
        if kind == CODES["context_edit"]:
            edit = entry(at)
            target = edit.get("targetId")
            if isinstance(target, str) and "replacement" in edit:
                edits[target] = as_object(edit["replacement"])
    return edits


def _first_kept(index: Index, before: Sequence[int], compaction: Entry, *, legacy: bool) -> int | None:
    """The step of the first entry that a compaction keeps; None keeps none, as an unknown id does in Pi."""
    kept = compaction.get("firstKeptEntryId")
    if isinstance(kept, str):
        key = key_of(kept)
        return next((step for step, at in enumerate(before) if index.ids[at] == key), None)
    place = compaction.get("firstKeptEntryIndex")
    if legacy and isinstance(place, int) and place > 0:  # counts the header too
        return next((step for step, at in enumerate(before) if at == place - 1), None)
    return None


def _message(entry: Entry, edits: dict[str, Any]) -> Message | None:
    kind = entry.get("type")
    if kind == "branch_summary":
        summary = entry.get("summary")
        message = branch_summary_message(summary) if isinstance(summary, str) and summary else None
    elif kind == "custom_message":
        message = custom_message(entry.get("content"))
    else:
        message = visible_message(as_object(entry.get("message")) or {})
    target = entry.get("id")
    if message is None or not isinstance(target, str) or target not in edits:
        return message
    replacement = edits[target]
    return None if replacement is None else {**message, "content": replacement.get("content")}
