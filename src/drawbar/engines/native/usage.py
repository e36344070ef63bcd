"""Cumulative usage of one run: disjoint counters, unknown is not zero (CON-17, QLT-17)."""

from __future__ import annotations

from typing import Any

from drawbar.contracts.events.usage import RequestUsage, Usage, UsageUpdated

_FIELDS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


class UsageMeter:
    """Adds up the requests of a run, each once, failed and aborted ones included."""

    def __init__(self) -> None:
        self._totals: dict[str, int | None] = dict.fromkeys(_FIELDS)
        self._requests = 0

    def add(self, request: RequestUsage) -> UsageUpdated:
        """Count one request; a counter stays unknown until some request states it."""
        self._requests += 1
        request.request = self._requests
        for name in _FIELDS:
            value = getattr(request, name)
            if value is not None:
                self._totals[name] = (self._totals[name] or 0) + value
        sizes = (request.input_tokens, request.cache_read_tokens, request.cache_write_tokens)
        known = [size for size in sizes if size is not None]
        return UsageUpdated(
            totals=Usage(**self._totals),
            requests=self._requests,
            request=request,
            context_tokens=sum(known) + (request.output_tokens or 0) if known else None,
        )


def native_usage(usage: RequestUsage) -> dict[str, Any]:
    """The history's own usage object (SES-1). It has no word for unknown: an unstated counter is 0 there."""
    spent = usage.input_tokens or 0
    read = usage.cache_read_tokens or 0
    written = usage.cache_write_tokens or 0
    output = usage.output_tokens or 0
    return {
        "input": spent,
        "output": output,
        "cacheRead": read,
        "cacheWrite": written,
        "totalTokens": spent + read + written + output,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
    }
