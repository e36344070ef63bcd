"""From Gemini's ``usageMetadata`` to disjoint counters (CON-17, QLT-17)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drawbar.contracts.events.usage import MAX_SUMMARY, RequestUsage

__all__ = ["counts_anything", "gemini_usage"]

Fields = Mapping[str, Any]


def counts_anything(usage: Fields) -> bool:
    """Whether ``usage`` holds a count; what comes with early pieces may name the kind of traffic alone."""
    return any(_count(usage, name) is not None for name in usage)


def gemini_usage(usage: Fields, *, model: str | None, summary: str, ok: bool) -> RequestUsage:
    """The counters of one request; None where the provider says nothing.

    The prompt includes what came from the cache, the candidates leave the thoughts out, and what the provider's
    own tools put into the prompt is counted apart.

    Args:
        usage: the last that the provider sent; each is of the whole request so far.
        model: as the reply names it.
        summary: of the thoughts, as far as the provider gave one (CON-19).
        ok: whether the attempt succeeded.
    """
    prompt, cached = _count(usage, "promptTokenCount"), _count(usage, "cachedContentTokenCount")
    said, thoughts = _count(usage, "candidatesTokenCount"), _count(usage, "thoughtsTokenCount")
    by_tools = _count(usage, "toolUsePromptTokenCount") or 0
    return RequestUsage(
        input_tokens=None if prompt is None else max(0, prompt - (cached or 0)) + by_tools,
        cache_read_tokens=cached,
        output_tokens=None if said is None and thoughts is None else (said or 0) + (thoughts or 0),
        reasoning_tokens=thoughts,
        model=model,
        ok=ok,
        reasoning_summary=summary[:MAX_SUMMARY] or None,
        raw=dict(usage),
    )


def _count(fields: Fields, name: str) -> int | None:
    value = fields.get(name)
    return value if type(value) is int and value >= 0 else None
