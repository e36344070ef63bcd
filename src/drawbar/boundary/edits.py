"""Exact replacements in a file's bytes: only what an edit says changes (QLT-10, ENG-6).

Every replacement is found in the original, exactly or else tolerantly, and must be found once. Line ends, byte
order mark and encoding stay; every line that the model repeats unchanged keeps its own bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Final

from drawbar.boundary.diffs import line_changes, unified_diff
from drawbar.boundary.edit_match import Haystack, fold, merged_line, plain_lines
from drawbar.boundary.text_files import TextFile, UndecodableText, read_text
from drawbar.contracts.errors import DrawbarError

__all__ = ["EditFailed", "EditOutcome", "edit_bytes"]

_SHOWN_LINES: Final = 8
_SHOWN_PLACES: Final = 10
_MAX_CANDIDATES: Final = 5_000


class EditFailed(DrawbarError):
    """An edit that can't be carried out as it was given; nothing was changed.

    ``facts`` holds ``reason`` (``empty``, ``no_change``, ``not_found``, ``several``, ``overlap``, ``encoding``) and
    ``edit``, the number of the edit from 0.
    """

    code = "edit_failed"


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """The new bytes, the unified diff to them, how many replacements were made and how many needed tolerance."""

    data: bytes
    diff: str
    replaced: int
    tolerant: int
    first_changed_line: int


@dataclass(frozen=True, slots=True)
class _Match:
    number: int
    start: int
    end: int
    old: str
    new: str
    tolerant: bool


def edit_bytes(old: bytes, edits: Sequence[tuple[str, str]], *, path: str = "file") -> EditOutcome:
    """Replace each old text by its new text.

    Args:
        old: the file's bytes.
        edits: ``(old text, new text)`` pairs, all found in ``old`` as it is.
        path: for messages and the diff's header.

    Raises:
        EditFailed: an old text is empty, isn't there, or is there more than once; two overlap; nothing changes; or
            the new text can't be kept in the file's encoding. The message says what to send instead.
    """
    if not edits:
        raise EditFailed("`edits` is empty; send at least one replacement", reason="empty", edit=0)
    try:
        file = read_text(old)
    except UndecodableText as error:
        raise EditFailed(f"{path} can't be edited as text: {error}", reason="encoding", edit=0) from error
    haystack = Haystack(file.text)
    matches = [_find(haystack, number, edit, len(edits), path) for number, edit in enumerate(edits)]
    matches.sort(key=lambda match: (match.start, match.end))
    _refuse_overlaps(haystack, matches, len(edits), path)
    text = _spliced(haystack, matches)
    data = _encoded(file, text, matches, path)
    if data == old:
        raise EditFailed(
            f"the edit changes nothing in {path}: the new text is what is there already", reason="no_change", edit=0
        )
    return EditOutcome(
        data=data,
        diff=unified_diff(old, data, path=path),
        replaced=len(matches),
        tolerant=sum(match.tolerant for match in matches),
        first_changed_line=haystack.line_of(matches[0].start) + _equal_head(matches[0]),
    )


def _find(haystack: Haystack, number: int, edit: tuple[str, str], total: int, path: str) -> _Match:
    old, new = (plain_lines(text, old_mac=haystack.old_mac) for text in edit)
    which = f"edit {number + 1} of {total}: " if total > 1 else ""
    facts: dict[str, Any] = {"edit": number}
    if not old:
        raise EditFailed(f"{which}oldText is empty; send the text to replace", reason="empty", **facts)
    if old == new:
        raise EditFailed(f"{which}oldText and newText are the same", reason="no_change", **facts)
    found, tolerant = haystack.exactly(old), False
    if not found:
        found, tolerant = haystack.tolerantly(old), True
    if not found:
        raise EditFailed(
            f"{which}oldText was not found in {path}. {_nearest(haystack, old)}", reason="not_found", **facts
        )
    if len(found) > 1:
        lines = ", ".join(str(haystack.line_of(start)) for start, _end in found[:_SHOWN_PLACES])
        more = ", …" if len(found) > _SHOWN_PLACES else ""
        raise EditFailed(
            f"{which}oldText is in {path} {len(found)} times (lines {lines}{more}); send more of the lines around the "
            "one that you mean",
            reason="several",
            count=len(found),
            **facts,
        )
    (start, end) = found[0]
    return _Match(number, start, end, old, new, tolerant)


def _equal_head(match: _Match) -> int:
    pairs = zip(match.old.split("\n"), match.new.split("\n"), strict=False)
    return next((number for number, (old, new) in enumerate(pairs) if old != new), 0)


def _refuse_overlaps(haystack: Haystack, matches: Sequence[_Match], total: int, path: str) -> None:
    for first, second in pairwise(matches):
        if second.start < first.end:
            raise EditFailed(
                f"edits {first.number + 1} and {second.number + 1} of {total} overlap at line "
                f"{haystack.line_of(second.start)} of {path}; send them as one",
                reason="overlap",
                edit=second.number,
            )


def _spliced(haystack: Haystack, matches: Sequence[_Match]) -> str:
    parts: list[str] = []
    done = 0
    for match in matches:
        parts.append(haystack.text[done : haystack.offset(match.start)])
        parts.append(_replacement(haystack, match))
        done = haystack.offset(match.end)
    parts.append(haystack.text[done:])
    return "".join(parts)


def _replacement(haystack: Haystack, match: _Match) -> str:
    """The new text with the file's own line ends, and its own characters wherever the model repeats them."""
    there = haystack.view[match.start : match.end].split("\n")
    old, new = match.old.split("\n"), match.new.split("\n")
    ends = _line_ends(haystack, match.start, there)
    style = haystack.style_near(match.start, match.end)
    out: list[str] = []
    last_end = ends[0] if ends else style
    for line, place in _paired(old, new):
        out.append(line if place is None else merged_line(there[place], old[place], line))
        if place is not None:
            last_end = ends[place] if place < len(ends) else style
        out.append(last_end)
    return "".join(out[:-1])


def _paired(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, int | None]]:
    """Each new line with the old line whose place it takes, if there is one."""
    pairs: list[tuple[str, int | None]] = []
    for _kind, old_start, old_end, new_start, new_end in line_changes(old, new):
        for step in range(new_end - new_start):
            place = old_start + step
            pairs.append((new[new_start + step], place if place < old_end else None))
    return pairs


def _line_ends(haystack: Haystack, start: int, lines: Sequence[str]) -> list[str]:
    ends: list[str] = []
    for line in lines[:-1]:
        start += len(line)
        ends.append(haystack.end_at(start))
        start += 1
    return ends


def _encoded(file: TextFile, text: str, matches: Sequence[_Match], path: str) -> bytes:
    if not file.clean:
        for match in matches:
            if not match.new.isascii() and set(match.new) - set(match.old) - set(map(chr, range(128))):
                raise EditFailed(
                    f"{path} isn't UTF-8, and newText holds characters whose bytes in it aren't known; keep to ASCII "
                    "or change it with a program that knows the encoding",
                    reason="encoding",
                    edit=match.number,
                )
    try:
        return file.encode(text)
    except UnicodeEncodeError as error:
        raise EditFailed(
            f"newText can't be kept in the encoding of {path} ({file.encoding})", reason="encoding", edit=0
        ) from error


def _nearest(haystack: Haystack, wanted: str) -> str:
    """Where the text that was meant may be, so that the model can look instead of guessing."""
    lines = haystack.view.split("\n")
    needle = [fold(line).strip() for line in wanted.split("\n")]
    start = _best_start([fold(line).strip() for line in lines], needle)
    if start is None:
        return "Nothing like it is there; read the file again"
    size = min(len(needle), _SHOWN_LINES)
    there = "\n".join(lines[start : start + size])
    return f"The nearest is at line {start + 1}:\n{there}"


def _best_start(lines: Sequence[str], needle: Sequence[str]) -> int | None:
    places: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        if line:
            places.setdefault(line, []).append(number)
    votes: dict[int, int] = {}
    for offset, line in enumerate(needle):
        for number in places.get(line, ())[:_MAX_CANDIDATES]:
            start = max(0, number - offset)
            votes[start] = votes.get(start, 0) + 1
    if votes:
        return max(votes, key=lambda start: (votes[start], -start))
    first = next((line for line in needle if line), None)
    if first is None:
        return None
    close = get_close_matches(first, list(places)[:_MAX_CANDIDATES], n=1)
    return places[close[0]][0] if close else None
