"""From an effort level to Gemini's thinking settings, by the generation that a model's name tells.

Generation 2.5 takes a budget of tokens, later ones a level, earlier ones nothing. A summary of the thoughts is
asked for wherever a model thinks, which changes no effort (CON-19).
"""

from __future__ import annotations

import re
from typing import Any, Final

from drawbar.contracts.errors import InvalidInput

__all__ = ["EFFORTS", "thinking_config", "wants_signatures"]

_BUDGETS: Final = {"minimal": 512, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 24576}
EFFORTS: Final = ("off", *_BUDGETS)

_LEAST_OF_PRO: Final = 128
"""A ``pro`` of generation 2.5 can't be told not to think."""

_VERSION: Final = re.compile(r"gemini-(\d+)(?:[.-](\d)(?!\d))?")
_LATEST: Final = re.compile(r"gemini-[a-z-]*latest")
_NO_THINKING: Final = re.compile(r"image|tts|embedding|live|audio")
_NEWEST: Final = (99, 0)


def thinking_config(model: str, effort: str | None) -> dict[str, Any]:
    """The request's ``thinkingConfig``, empty for a model that isn't known to think.

    Args:
        model: its name, with or without ``models/``.
        effort: one of :data:`EFFORTS`; None leaves the amount to the model. One that the model doesn't have
            becomes the nearest that it has.

    Raises:
        InvalidInput: naming the levels, for an effort that isn't one.
    """
    if effort in ("", "none"):
        effort = "off" if effort else None
    if effort is not None and effort not in EFFORTS:
        raise InvalidInput(f"effort {effort!r} is none of {', '.join(EFFORTS)}", field="effort")
    version = _version(model)
    if version < (2, 5) or _NO_THINKING.search(model):
        return {}
    if effort is None:
        return {"includeThoughts": True}
    amount = _budget(model, effort) if version < (3, 0) else _level(model, version, effort)
    return amount if effort == "off" else {"includeThoughts": True, **amount}


def wants_signatures(model: str) -> bool:
    """Whether the model refuses a call of the turn under way that lacks its thought signature (from 3 on)."""
    return _version(model) >= (3, 0)


def _version(model: str) -> tuple[int, int]:
    if _LATEST.search(model):
        return _NEWEST
    match = _VERSION.search(model)
    return (int(match[1]), int(match[2] or 0)) if match else (0, 0)


def _budget(model: str, effort: str) -> dict[str, Any]:
    if effort != "off":
        return {"thinkingBudget": _BUDGETS[effort]}
    return {"thinkingBudget": _LEAST_OF_PRO if "pro" in model else 0}


def _level(model: str, version: tuple[int, int], effort: str) -> dict[str, Any]:
    level = {"off": "MINIMAL", "xhigh": "HIGH", "max": "HIGH"}.get(effort, effort.upper())
    if "pro" in model:
        level = "LOW" if level == "MINIMAL" else level
        # The first of this generation has two levels alone.
        level = "HIGH" if level == "MEDIUM" and version == (3, 0) else level
    return {"thinkingLevel": level}
