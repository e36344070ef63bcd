"""Who hangs on whom, whatever the ids in the file say: a forest without cycles, from any input (SES-2).

A parent id means the nearest entry before that carries it, so that a duplicated id can't pull in a later
stranger; an entry that stands before its parent is accepted. What the file leaves open is settled so that
earlier turns stay on the branch:

- a parent that isn't in the file: what a damaged line still declares, else the entry before, with a gap;
- a cycle: opened at a link that was guessed, else at its first entry in the file, likewise with a gap;
- no parent field at all (version 1): the entry before, and no gap.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

__all__ = ["PREVIOUS", "ROOT", "UNREADABLE", "Links", "link_parents"]

ROOT, PREVIOUS, UNREADABLE = 0, 2, 4
"""What stands in for a parent's key: none, no such field, no string. Keys of ids are odd."""

_UNRESOLVED = -2
_LOSSES_FOLLOWED = 1000


@dataclass(slots=True)
class Links:
    """What had to be guessed, as positions: unknown parents, opened cycles, and both together as gaps."""

    missing: list[int] = field(default_factory=list[int])
    cycles: list[int] = field(default_factory=list[int])
    gaps: set[int] = field(default_factory=set[int])


def link_parents(
    ids: array[int],
    wanted: array[int],
    parents: array[int],
    *,
    lost: Mapping[int, int],
    headers: Collection[int],
) -> Links:
    """Append to ``parents`` the position of each new entry's parent, -1 at a root.

    Args:
        ids: keys of all entries, in file order.
        wanted: the parents' keys of the new entries, which are the last ones of ``ids``.
        parents: settled positions of the entries before those; extended in place.
        lost: parent keys that damaged entries still declare, by their own key.
        headers: keys of header lines; an entry that names one as its parent is a root.
    """
    start = len(parents)
    links = Links()
    sought: set[int] = set()
    for at, want in enumerate(wanted, start):
        if want == ROOT:
            parents.append(-1)
        elif want == PREVIOUS or (at and want == ids[at - 1]):  # the linear case needs no look-up at all
            parents.append(at - 1)
        else:
            parents.append(_UNRESOLVED)
            sought.add(want)
    if sought:
        exits = {want: _past_losses(want, lost) for want in sought}
        _look_back(ids, wanted, parents, start, exits, headers, links)
        _look_ahead(ids, wanted, parents, start, sought, links)
        _break_cycles(parents, start, links)
    return links


def _past_losses(key: int, lost: Mapping[int, int]) -> int:
    """Where the chain of damaged entries that begins with ``key`` comes out: a key, or :data:`ROOT`."""
    for _ in range(min(len(lost), _LOSSES_FOLLOWED)):
        if key not in lost:
            break
        key = lost[key]
    return key


def _look_back(
    ids: array[int],
    wanted: array[int],
    parents: array[int],
    start: int,
    exits: Mapping[int, int],
    headers: Collection[int],
    links: Links,
) -> None:
    relevant = {*exits, *exits.values()}
    latest: dict[int, int] = {}
    for at, key in enumerate(ids):
        if at >= start and parents[at] == _UNRESOLVED:
            want = wanted[at - start]
            beyond = exits[want]
            if want in latest:
                parents[at] = latest[want]
            elif want in headers:
                parents[at] = -1
            elif beyond != want and (beyond == ROOT or beyond in latest):
                _guess(at, latest.get(beyond, -1), parents, links)
        if key in relevant:
            latest[key] = at


def _look_ahead(
    ids: array[int], wanted: array[int], parents: array[int], start: int, sought: set[int], links: Links
) -> None:
    nearest: dict[int, int] = {}
    for at in range(len(ids) - 1, start - 1, -1):
        if parents[at] == _UNRESOLVED:
            want = wanted[at - start]
            if want == ids[at]:
                parents[at] = at
            elif want in nearest:
                parents[at] = nearest[want]
            else:
                _guess(at, at - 1, parents, links)
        if ids[at] in sought:
            nearest[ids[at]] = at


def _guess(at: int, parent: int, parents: array[int], links: Links) -> None:
    links.missing.append(at)
    links.gaps.add(at)
    parents[at] = parent


def _break_cycles(parents: array[int], start: int, links: Links) -> None:
    """Colour the forest; only an entry whose parent doesn't stand before it can close a cycle."""
    if all(parents[at] < at for at in range(start, len(parents))):
        return
    done = bytearray(len(parents))
    for first in range(len(parents)):
        trail: dict[int, None] = {}
        at = first
        while at >= 0 and not done[at] and at not in trail:
            trail[at] = None
            at = parents[at]
        if at >= 0 and not done[at]:
            steps = list(trail)
            _open(steps[steps.index(at) :], first - 1, parents, links)
        for at in trail:
            done[at] = 1


def _open(cycle: list[int], instead: int, parents: array[int], links: Links) -> None:
    guessed = [at for at in cycle if at in links.gaps]
    at = min(guessed or cycle)
    if not guessed:
        links.cycles.append(at)
        links.gaps.add(at)
    parents[at] = instead
