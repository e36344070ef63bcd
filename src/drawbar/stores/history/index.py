"""Where each entry lies and what it hangs on: the tree of a history in about 40 bytes an entry (SES-2, SES-4).

Entries are found by position in the file; ids are kept only as keyed 64-bit hashes. What is wrong with the
file is settled and reported here once, for every reader.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from drawbar.contracts.codec import UNSET, Record, UnsetType, as_object, decoder
from drawbar.stores.history.lines import BOM, Line, declared_ids, parse, split_damaged
from drawbar.stores.history.links import PREVIOUS, ROOT, UNREADABLE, link_parents
from drawbar.stores.history.roles import KNOWN_ROLES

__all__ = ["ASSISTANT", "CALLS", "CODES", "RESULT", "TYPE", "Index", "Repair", "code_of", "derived_id", "key_of"]

_TYPES = (
    *("message", "custom_message", "branch_summary", "compaction", "context_edit"),
    *("label", "session_info", "model_change", "thinking_level_change", "custom"),
)
CODES = {name: code for code, name in enumerate(_TYPES, start=1)}
"""Entry types that readers look for, as one byte each; every other type is 0."""
TYPE = 0x1F
ASSISTANT, CALLS, RESULT = 0x20, 0x40, 0x80
"""The bits of the type, and flags beside it: an assistant message that counts, maybe with calls; a tool result."""

_SORT_AT_ONCE = 500_000


class Repair(NamedTuple):
    """One thing that was mended in memory or skipped (SES-2, CLI-7); the file is as it was.

    ``kind`` is ``torn``, ``corrupt``, ``invalid-utf8``, ``missing-parent``, ``cycle``, ``duplicate-id``,
    ``unknown-role`` or ``missing-result``; ``line`` counts from 1; ``offset`` and ``bytes`` say where in the
    file the stretch or the entry lies.
    """

    kind: str
    line: int
    offset: int
    bytes: int


class _Message(Record):
    role: str | None = None
    stopReason: str | None = None  # noqa: N815 - Pi's name


class _Head(Record):
    """The few fields that the tree needs; everything else on the line is skipped, not built."""

    type: str | None = None
    id: str | None = None
    parentId: str | UnsetType | None = UNSET  # noqa: N815 - Pi's name
    message: _Message | None = None


_HEAD = decoder(_Head)


def key_of(entry_id: str) -> int:
    """The odd 64-bit hash that stands for an id within this process."""
    return hash(entry_id) | 1


def derived_id(offset: int) -> str:
    """The id, in memory only, of an entry that has none: its byte offset, in Pi's eight digits."""
    return f"{offset:08x}"


def code_of(kind: str | None, role: str | None, stop_reason: str | None, *, calls: bool) -> int:
    """An entry's type and flags as one byte."""
    code = CODES.get(kind or "", 0)
    if code == CODES["message"]:
        if role == "toolResult":
            code |= RESULT
        elif role == "assistant" and stop_reason not in ("error", "aborted"):
            code |= ASSISTANT | (CALLS if calls else 0)
    return code


class Index:
    """The tree of one history, built by :meth:`extend` from its lines and by :meth:`add` from own appends.

    Attributes:
        offsets, sizes, lines: where each entry lies; an entry not yet written has offset -1.
        parents: position of each entry's parent, -1 at a root.
        codes: type and flags, see :func:`code_of`.
        gaps: positions whose link to the parent was guessed, so that something may be missing before them.
        header: the first header line, or None.
        name: of the newest ``session_info``; empty when cleared, None when there is none.
        repairs: what was found while reading, in file order.
        end, ragged, next_line: bytes read, whether the last line lacks its end, the number of the next line.
        shaped: entries that carry Pi's own ``id`` and ``parentId``.
    """

    def __init__(self) -> None:
        self.ids = array("q")
        self.offsets = array("q")
        self.sizes = array("I")
        self.lines = array("I")
        self.parents = array("i")
        self.codes = array("B")
        self.gaps: set[int] = set()
        self.header: dict[str, Any] | None = None
        self.name: str | None = None
        self.repairs: list[Repair] = []
        self.end = 0
        self.ragged = False
        self.next_line = 1
        self.shaped = 0
        self._wanted = array("q")
        self._lost: dict[int, int] = {}
        self._headers: set[int] = set()
        self._sorted = array("q")
        self._fresh: set[int] = set()

    def __len__(self) -> int:
        return len(self.ids)

    # -- building -----------------------------------------------------------------------------------

    def extend(self, lines: Iterable[Line]) -> None:
        """Take in ``lines``, which follow what was read before."""
        start = len(self.ids)
        decode = _HEAD.decode
        for line in lines:
            data = line.data
            if data is None:
                self._report("corrupt" if line.ended else "torn", line, line.offset, line.size)
            elif data and not data.isspace():
                self._take(line, data, decode)
            self.end = line.offset + line.size + line.ended
            self.ragged = not line.ended
            self.next_line = line.number + 1
        self._link(start)
        self.repairs.sort(key=lambda repair: (repair.line, repair.offset))

    def add(self, entry_id: str, parent: int, code: int) -> int:
        """A new own entry, not yet written; returns its position."""
        self._fresh.add(key_of(entry_id))
        self._push(key_of(entry_id), -1, 0, 0, code)
        self.parents.append(parent)
        return len(self.ids) - 1

    def place(self, at: int, offset: int, size: int) -> None:
        """The own entry ``at`` now lies at ``offset``, ``size`` bytes long, with its line end."""
        self.offsets[at], self.sizes[at], self.lines[at] = offset, size, self.next_line
        self.next_line += 1
        self.end = offset + size + 1
        self.ragged = False

    def _take(self, line: Line, data: bytes, decode: Any) -> None:
        offset = line.offset
        if offset == 0 and data.startswith(BOM):
            data, offset = data[3:], 3
        try:
            head: _Head = decode(data)
        except (ValueError, RecursionError):
            self._take_odd(line, data, offset)
            return
        kind = head.type
        if kind in ("session", "session_info"):
            self._take_odd(line, data, offset)
            return
        if not _is_utf8(data):
            self._report("invalid-utf8", line, offset, len(data))
        message = head.message
        role, stop = (message.role, message.stopReason) if message is not None else (None, None)
        calls = role == "assistant" and b'"toolCall"' in data
        parent = head.parentId
        wanted = PREVIOUS if parent is UNSET else key_of(parent) if isinstance(parent, str) and parent else ROOT
        self._enter(line, offset, len(data), head.id, wanted, code_of(kind, role, stop, calls=calls))
        if kind == "message" and role not in KNOWN_ROLES:
            self._report("unknown-role", line, offset, len(data))

    def _take_odd(self, line: Line, data: bytes, offset: int) -> None:
        try:
            record = as_object(parse(data))
        except ValueError:
            record = None
        if record is not None:
            if not _is_utf8(data):
                self._report("invalid-utf8", line, offset, len(data))
            self._take_record(line, offset, len(data), record)
            return
        pieces = split_damaged(data, offset)
        for piece in pieces:
            if piece.record is not None:
                self._take_record(line, piece.offset, piece.size, piece.record)
                continue
            torn = not line.ended and piece is pieces[-1]
            self._report("torn" if torn else "corrupt", line, piece.offset, piece.size)
            fragment = data[piece.offset - offset :][: piece.size]
            if (declared := declared_ids(fragment)) is not None:
                own, parent = declared
                self._lost[key_of(own)] = key_of(parent) if parent else ROOT

    def _take_record(self, line: Line, offset: int, size: int, record: dict[str, Any]) -> None:
        kind, own = record.get("type"), record.get("id")
        if kind == "session":
            if isinstance(own, str):
                self._headers.add(key_of(own))
            if self.header is None:
                self.header = record
            return
        if kind == "session_info":
            name = record.get("name")
            self.name = name if isinstance(name, str) else ""
        message = as_object(record.get("message")) or {}
        role, stop = message.get("role"), message.get("stopReason")
        parent = record.get("parentId", UNSET)
        if parent is UNSET:
            wanted = PREVIOUS
        elif isinstance(parent, str):
            wanted = key_of(parent) if parent else ROOT
        else:
            wanted = ROOT if parent is None else UNREADABLE
        code = code_of(
            kind if isinstance(kind, str) else None,
            role if isinstance(role, str) else None,
            stop if isinstance(stop, str) else None,
            calls=role == "assistant",
        )
        self._enter(line, offset, size, own if isinstance(own, str) else None, wanted, code)
        if kind == "message" and not (isinstance(role, str) and role in KNOWN_ROLES):
            self._report("unknown-role", line, offset, size)

    def _enter(self, line: Line, offset: int, size: int, own: str | None, wanted: int, code: int) -> None:
        if own and wanted != PREVIOUS:
            self.shaped += 1
        self._push(key_of(own or derived_id(offset)), offset, size, line.number, code)
        self._wanted.append(wanted)

    def _push(self, key: int, offset: int, size: int, line: int, code: int) -> None:
        self.ids.append(key)
        self.offsets.append(offset)
        self.sizes.append(size)
        self.lines.append(line)
        self.codes.append(code)

    def _report(self, kind: str, line: Line, offset: int, size: int) -> None:
        self.repairs.append(Repair(kind, line.number, offset, size))

    def _report_entry(self, kind: str, at: int) -> None:
        self.repairs.append(Repair(kind, self.lines[at], self.offsets[at], self.sizes[at]))

    # -- settling the tree --------------------------------------------------------------------------

    def _link(self, start: int) -> None:
        links = link_parents(self.ids, self._wanted, self.parents, lost=self._lost, headers=self._headers)
        self.gaps |= links.gaps
        for kind, found in (("missing-parent", links.missing), ("cycle", links.cycles)):
            for at in found:
                self._report_entry(kind, at)
        self._wanted = array("q")
        self._index_ids(start)

    def _index_ids(self, start: int) -> None:
        """Sort the keys, for the look-up of new ids and to find ids used twice.

        In slices of the key space, so that sorting millions of them stays within the memory bound.
        """
        slices = len(self.ids) // _SORT_AT_ONCE + 1
        ordered = array("q")
        width = 2**64 // slices + 1
        for low in range(-(2**63), 2**63, width):
            part = self.ids if slices == 1 else [key for key in self.ids if low <= key < low + width]
            ordered.extend(sorted(part))
        self._sorted, self._fresh = ordered, set()
        twice = {a for a, b in pairwise(ordered) if a == b}
        if not twice:
            return
        seen: set[int] = set()
        for at, key in enumerate(self.ids):
            if key in twice:
                if key in seen and at >= start:
                    self._report_entry("duplicate-id", at)
                seen.add(key)

    # -- asking -------------------------------------------------------------------------------------

    def has_id(self, entry_id: str) -> bool:
        """Whether some entry, written or not, carries this id."""
        key = key_of(entry_id)
        at = bisect_left(self._sorted, key)
        return key in self._fresh or (at < len(self._sorted) and self._sorted[at] == key)

    def find(self, entry_id: str) -> int | None:
        """The last entry with this id."""
        key = key_of(entry_id)
        if not self.has_id(entry_id):
            return None
        return next((at for at in range(len(self.ids) - 1, -1, -1) if self.ids[at] == key), None)

    def path(self, leaf: int) -> array[int]:
        """Positions from the root to ``leaf``; empty for -1."""
        path = array("i")
        while leaf >= 0:
            path.append(leaf)
            leaf = self.parents[leaf]
        path.reverse()
        return path


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
