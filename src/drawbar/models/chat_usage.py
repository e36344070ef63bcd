"""From the many shapes of a chat completion's usage to disjoint counters (CON-17, QLT-17).

``prompt_tokens`` includes what came from the cache and what was written to it, ``completion_tokens`` the
reasoning: so OpenAI has it. The exceptions of others show in their own totals, and are read from those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from drawbar.contracts.events.usage import RequestUsage

__all__ = ["chat_usage"]

Fields = Mapping[str, Any]


def chat_usage(usage: Fields, *, model: str | None, ok: bool) -> RequestUsage:
    """The counters of one request; None where the provider says nothing.

    Args:
        usage: the last that the provider sent; earlier ones are replaced by it.
        model: as the reply names it.
        ok: whether the attempt succeeded.
    """
    prompt, completion, total = (_count(usage, f"{name}_tokens") for name in ("prompt", "completion", "total"))
    details = _part(usage, "prompt_tokens_details")
    read = _first(
        _count(details, "cached_tokens"),
        _count(usage, "prompt_cache_hit_tokens"),
        _count(usage, "num_cached_tokens"),
        _count(usage, "cached_tokens"),
    )
    written = _first(_count(details, "cache_write_tokens"), _count(usage, "cache_creation_input_tokens"))
    reasoning = _count(_part(usage, "completion_tokens_details"), "reasoning_tokens")
    return RequestUsage(
        input_tokens=_uncached(prompt, read, written),
        cache_read_tokens=read,
        cache_write_tokens=written,
        # Where speech was heard, it is what a total counts beyond the sum.
        output_tokens=completion if _heard(usage, details) else _output(prompt, completion, total, reasoning),
        reasoning_tokens=reasoning,
        model=model,
        ok=ok,
        raw=dict(usage),
    )


def _uncached(prompt: int | None, read: int | None, written: int | None) -> int | None:
    if prompt is None:
        return None
    read, written = read or 0, written or 0
    if read > prompt:
        return prompt  # what was cached isn't counted in the prompt here
    if read + written > prompt:
        return prompt - read  # what was read was written anew, so the two overlap
    return prompt - read - written


def _output(prompt: int | None, completion: int | None, total: int | None, reasoning: int | None) -> int | None:
    if completion is None or prompt is None or total is None:
        return completion
    beyond = total - prompt - completion
    # A total above the sum shows output that the completion leaves out: reasoning, named or hidden.
    if beyond > 0 and (reasoning is None or beyond == reasoning):
        return completion + beyond
    return completion


def _heard(usage: Fields, details: Fields) -> bool:
    return usage.get("prompt_audio_seconds") is not None or bool(_count(details, "audio_tokens"))


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)


def _count(fields: Fields, name: str) -> int | None:
    value = fields.get(name)
    return value if type(value) is int and value >= 0 else None


def _part(fields: Fields, name: str) -> Fields:
    value = fields.get(name)
    return cast("Fields", value) if isinstance(value, Mapping) else {}
