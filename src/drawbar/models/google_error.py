"""What the details of a Google error say of waits and quotas (MDL-5).

Its 429 has one status and one text for a minute's limit and for a day's; only the details tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, cast

__all__ = ["quota_verdict", "stated_delay_s"]

_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_LONG: Final = re.compile(r"per_?(?:day|month)", re.IGNORECASE)

Fields = Mapping[str, Any]


def quota_verdict(error: Fields) -> Literal["quota", "rate_limit"] | None:
    """``quota`` when a limit that was passed lasts a day or is zero, ``rate_limit`` for others; None: not said.

    Args:
        error: the object below ``error``.
    """
    violations = [one for detail in _details(error, "QuotaFailure") for one in _objects(detail.get("violations"))]
    if not violations:
        return None
    lasting = any(_LONG.search(str(one.get("quotaId", ""))) or one.get("quotaValue") == "0" for one in violations)
    return "quota" if lasting else "rate_limit"


def stated_delay_s(error: Fields) -> float | None:
    """The wait that the details state, in seconds."""
    for detail in _details(error, "RetryInfo"):
        delay = detail.get("retryDelay")
        match = _SECONDS.fullmatch(delay) if isinstance(delay, str) else None
        if match:
            return float(match[1])
    return None


def _details(error: Fields, kind: str) -> list[Fields]:
    return [one for one in _objects(error.get("details")) if str(one.get("@type", "")).endswith(f"google.rpc.{kind}")]


def _objects(value: Any) -> Iterable[Fields]:
    if not isinstance(value, list):
        return ()
    return (cast("Fields", one) for one in cast("list[Any]", value) if isinstance(one, Mapping))
