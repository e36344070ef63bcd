"""Stand-ins for secrets must not be written where the secrets were: the model sees the one, the file holds the other.

A model reads a file redacted (CON-38). Were it to write back what it saw, a working key would become the text that
hides it; so a native change that would bring a stand-in into an existing file is refused (QLT-10).
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["new_placeholder"]

_PLACEHOLDER: Final = re.compile(r"\[redacted:[a-z0-9-]{1,80}\]")


def new_placeholder(text: str, before: bytes) -> str | None:
    """The first stand-in in ``text`` that the file doesn't hold to the letter itself; None when there is none."""
    for found in _PLACEHOLDER.finditer(text):
        if found[0].encode() not in before:
            return found[0]
    return None
