"""From an effort level to Anthropic's thinking settings; nothing is sent when no effort was chosen."""

from __future__ import annotations

import re
from typing import Any, Final

from drawbar.contracts.errors import InvalidInput

__all__ = ["EFFORTS", "thinking_fields"]

MIN_BUDGET: Final = 1024
ANSWER_ROOM: Final = 1024
"""Output tokens that stay for the answer, whatever the budget."""

_BUDGETS: Final = {
    "minimal": 1024,
    "low": 4096,
    "medium": 10240,
    "high": 20480,
    "xhigh": 30720,
    "max": 61440,
}
EFFORTS: Final = ("off", *_BUDGETS)

# Models before this generation take a token budget; later ones refuse it and take an effort word.
_FAMILY = re.compile(r"claude-(?:opus|sonnet|haiku)-(\d+)(?:-(\d{1,2}))?(?!\d)")
_FIRST_ADAPTIVE: Final = (4, 6)
_LATER_FAMILY = re.compile(r"claude-(?!opus|sonnet|haiku|\d|instant|v\d)[a-z]+-")


def thinking_fields(model: str, effort: str | None, max_tokens: int) -> dict[str, Any]:
    """Request fields for ``effort``, empty when it is None or ``off``.

    Args:
        model: its name tells the generation; an unknown name is taken to want a budget.
        effort: one of :data:`EFFORTS`.
        max_tokens: of the reply; thinking counts towards it.

    Raises:
        InvalidInput: naming the levels, for an effort that isn't one.
    """
    if effort is None or effort in ("off", "none", ""):
        return {}
    if effort not in _BUDGETS:
        raise InvalidInput(f"effort {effort!r} is none of {', '.join(EFFORTS)}", field="effort")
    if _adaptive(model):
        level = "low" if effort == "minimal" else effort
        # These models hide their summary unless it is asked for.
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": level}}
    budget = min(_BUDGETS[effort], max_tokens - ANSWER_ROOM)
    if budget < MIN_BUDGET:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _adaptive(model: str) -> bool:
    match = _FAMILY.search(model)
    if match:
        return (int(match[1]), int(match[2] or 0)) >= _FIRST_ADAPTIVE
    return bool(_LATER_FAMILY.search(model))
