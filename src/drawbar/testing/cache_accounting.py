"""Prompt caching as a provider bills it: by the longest common prefix with what earlier requests wrote (MDL-11).

A request is a sequence of units (tools, system blocks, content blocks). What lies before its last cache
marker is cacheable: the part that some earlier request wrote is read, the rest of it is written, and what
follows the marker is plain input. The three add up to the whole request. Two simplifications: a provider's
minimum size for caching doesn't apply, and a prefix is found wherever it ends, not only at a marker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["BYTES_PER_TOKEN", "CacheLedger", "CacheUsage", "Unit", "tokens_of"]

BYTES_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Unit:
    """One cacheable piece, in canonical bytes without its marker; ``marked`` when a marker stands after it."""

    data: bytes
    marked: bool = False


@dataclass(frozen=True, slots=True)
class CacheUsage:
    """Input tokens of one request, disjoint."""

    uncached: int
    read: int
    written: int

    @property
    def total(self) -> int:
        return self.uncached + self.read + self.written


class CacheLedger:
    """What has been written so far, a model apart."""

    def __init__(self) -> None:
        self._written: dict[str, set[bytes]] = {}

    def account(self, model: str, units: Sequence[Unit]) -> CacheUsage:
        """Bill a request and remember what it wrote."""
        written = self._written.setdefault(model, set())
        end = max((at + 1 for at, unit in enumerate(units) if unit.marked), default=0)
        prefix = hashlib.sha256()
        size = read_size = cacheable_size = 0
        for at, unit in enumerate(units):
            size += len(unit.data)
            if at >= end:
                continue
            prefix.update(b"%d:" % len(unit.data))
            prefix.update(unit.data)
            key = prefix.digest()
            # A prefix's digest covers all of it, so the last one that is known is the longest common prefix.
            if key in written:
                read_size = size
            written.add(key)
            cacheable_size = size
        total, cacheable, read = (tokens_of(amount) for amount in (size, cacheable_size, read_size))
        return CacheUsage(uncached=total - cacheable, read=read, written=cacheable - read)


def tokens_of(size: int) -> int:
    """Tokens of ``size`` bytes, by one fixed ratio."""
    return -(-size // BYTES_PER_TOKEN)
