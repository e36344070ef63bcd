"""What a Gemini model's name tells the scripted server: its generation (MDL-11)."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["generation_of"]

_NUMBERS: Final = re.compile(r"gemini-(\d+)(?:\.(\d+))?-")


def generation_of(model: str) -> tuple[int, int]:
    """Major and minor; the newest there is for an alias that says ``latest``, zeros for other names."""
    if model.startswith("gemini-") and model.endswith("-latest"):
        return (3, 9)
    match = _NUMBERS.match(f"{model}-")
    return (int(match[1]), int(match[2] or 0)) if match else (0, 0)
