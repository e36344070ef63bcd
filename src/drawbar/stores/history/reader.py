"""Reading entries of a history whose tree is known: each one from its place in the file, when it is asked for."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from drawbar.contracts.codec import as_object
from drawbar.stores.history.context import Entry, rebuild
from drawbar.stores.history.index import ASSISTANT, CALLS, CODES, RESULT, TYPE, Index, Repair, derived_id
from drawbar.stores.history.lines import parse
from drawbar.stores.history.roles import Message

__all__ = ["CURRENT", "Reader", "version_of"]

CURRENT = 3
"""The format version that is written."""


def version_of(header: Entry | None) -> int | None:
    """The format version that a header states; 1 when it states none, None when what it states is no number."""
    version: Any = (header or {}).get("version", 1 if header else CURRENT)
    if isinstance(version, str) and version.isdecimal() and version.isascii():
        return int(version)
    return int(version) if isinstance(version, int | float) and math.isfinite(version) else None


class Reader:
    """Gives entries by position and branches by leaf; holds no entry.

    Args:
        index: the tree, which may grow.
        fetch: the bytes of the entry at a position.
    """

    def __init__(self, index: Index, fetch: Callable[[int], bytes]) -> None:
        self.index = index
        self._fetch = fetch

    def raw(self, at: int) -> Entry:
        """The entry as the file has it; an unreadable one (the file changed meanwhile) has only a type."""
        try:
            return as_object(parse(self._fetch(at))) or {"type": "unreadable"}
        except ValueError:
            return {"type": "unreadable"}

    def entry(self, at: int) -> Entry:
        """The entry repaired in memory: with an id, the parent it hangs on, and version 2's role renamed."""
        parent = self.index.parents[at]
        return self._repaired(at, self.id_of(parent) if parent >= 0 else None)

    def id_of(self, at: int) -> str:
        """The id of the entry at a position."""
        return self._id(self.raw(at), at)

    def branch(self, leaf: int) -> Iterator[Entry]:
        """Entries from the root to ``leaf``, repaired."""
        above: str | None = None
        for at in self.index.path(leaf):
            entry = self._repaired(at, above)
            yield entry
            above = entry["id"]

    def messages(self, leaf: int) -> list[Message]:
        """What the model sees of the branch that ends at ``leaf``."""
        legacy = (version_of(self.index.header) or CURRENT) < 2
        return rebuild(self.index, self.index.path(leaf), self._identified, legacy=legacy)

    def last(self, kind: str, leaf: int) -> Entry | None:
        """The entry of type ``kind`` nearest to ``leaf`` on its branch; reads only candidates."""
        code = CODES.get(kind, 0)
        at = leaf
        while at >= 0:
            if self.index.codes[at] & TYPE == code:
                entry = self.entry(at)
                if entry.get("type") == kind:
                    return entry
            at = self.index.parents[at]
        return None

    def missing_results(self, leaf: int) -> list[Repair]:
        """One repair for each tool call on the branch that has no result before the next assistant message."""
        found: list[Repair] = []
        calls: dict[str, list[int]] = defaultdict(list)
        for at in self.index.path(leaf):
            code = self.index.codes[at]
            if code & ASSISTANT:
                found += self._unanswered(calls)
                calls.clear()
                for call_id in _call_ids(self.raw(at)) if code & CALLS else ():
                    calls[call_id].append(at)
            elif code & RESULT and calls:
                answered = (as_object(self.raw(at).get("message")) or {}).get("toolCallId")
                waiting = calls.get(answered if isinstance(answered, str) else "")
                if waiting:
                    waiting.pop()
        return found + self._unanswered(calls)

    def _unanswered(self, calls: dict[str, list[int]]) -> list[Repair]:
        index = self.index
        places = Counter(at for waiting in calls.values() for at in waiting)
        return [
            Repair("missing-result", index.lines[at], index.offsets[at], index.sizes[at]) for at in places.elements()
        ]

    def _repaired(self, at: int, parent: str | None) -> Entry:
        return {**self._identified(at), "parentId": parent}

    def _identified(self, at: int) -> Entry:
        entry = self.raw(at)
        entry["id"] = self._id(entry, at)
        message = as_object(entry.get("message"))
        if message is not None and message.get("role") == "hookMessage":
            message["role"] = "custom"
        return entry

    def _id(self, entry: Entry, at: int) -> str:
        own = entry.get("id")
        return own if isinstance(own, str) and own else derived_id(self.index.offsets[at])


def _call_ids(entry: Entry) -> list[str]:
    content: Any = (as_object(entry.get("message")) or {}).get("content")
    blocks = [as_object(block) or {} for block in content] if isinstance(content, list) else []  # pyright: ignore[reportUnknownVariableType]
    ids = [block.get("id") for block in blocks if block.get("type") == "toolCall"]
    return [call_id if isinstance(call_id, str) else "" for call_id in ids]
