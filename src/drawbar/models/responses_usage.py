"""From a response's usage to disjoint counters (CON-17, QLT-17).

``input_tokens`` includes what came from the cache and what was written to it; ``output_tokens`` the reasoning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from drawbar.contracts.events.usage import RequestUsage

__all__ = ["responses_usage"]

Fields = Mapping[str, Any]


def responses_usage(usage: Fields, *, model: str | None, ok: bool) -> RequestUsage:
    """The counters of one request; None where the provider says nothing.

    Args:
        usage: as the provider sent it last.
        model: as the reply names it.
        ok: whether the attempt succeeded.
    """
    whole = _count(usage, "input_tokens")
    details = _part(usage, "input_tokens_details")
    read, written = _count(details, "cached_tokens"), _count(details, "cache_write_tokens")
    return RequestUsage(
        input_tokens=None if whole is None else max(0, whole - (read or 0) - (written or 0)),
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=_count(usage, "output_tokens"),
        reasoning_tokens=_count(_part(usage, "output_tokens_details"), "reasoning_tokens"),
        model=model,
        ok=ok,
        raw=dict(usage),
    )


def _count(fields: Fields, name: str) -> int | None:
    value = fields.get(name)
    return value if type(value) is int and value >= 0 else None


def _part(fields: Fields, name: str) -> Fields:
    value = fields.get(name)
    return cast("Fields", value) if isinstance(value, Mapping) else {}
