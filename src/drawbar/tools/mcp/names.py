"""What a server's tool is called here: ``mcp__<server>__<tool>``, within what every provider takes (PRO-3)."""

from __future__ import annotations

import hashlib
import re
from typing import Final

__all__ = ["tool_name"]

LONGEST: Final = 64
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")
_MARK: Final = 8


def tool_name(server: str, tool: str) -> str:
    """The name for the model.

    Where a character has to go, or the name is too long, a digest of the server's own name makes it unique; which
    other tools there are plays no part, so that a name stays what it was.
    """
    prefix = f"mcp__{server}__"
    clean = _ODD.sub("_", tool)
    room = LONGEST - len(prefix)
    if clean == tool and clean and len(clean) <= room:
        return prefix + clean
    mark = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]
    return f"{prefix}{clean[: room - _MARK - 1]}_{mark}"
