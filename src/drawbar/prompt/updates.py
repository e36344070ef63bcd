"""What changes within a conversation travels as a message, and only when it changed (PRM-1).

One update holds the facts that are new or different and names the ones that no longer apply. What the history
carries so far is read back from its updates, so nothing needs to be remembered beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from drawbar.contracts.errors import InvalidInput

__all__ = ["CONTEXT_NOTE", "carried", "carried_by", "context_update"]

CONTEXT_NOTE: Final = "drawbar-context"
"""The custom type of an update's history entry."""

_OPEN: Final = "<context-update>"
_CLOSE: Final = "</context-update>"
_INTRO: Final = "Facts about now, from the harness. They replace what an earlier update says under the same name."
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*")
_ITEM: Final = re.compile(r"<([a-z][a-z0-9_-]*)>\n(.*?)\n</\1>|<([a-z][a-z0-9_-]*) withdrawn/>", re.DOTALL)


def context_update(previous: Mapping[str, str] | None, current: Mapping[str, str | None]) -> str | None:
    """The update that brings a conversation from what it carries to what is so now; None when nothing changed.

    Args:
        previous: what the history carries, by name; None or empty for a new conversation.
        current: what is so now; None or blank text means that there is no such fact.

    Raises:
        InvalidInput: a name that isn't a plain lower-case word.
    """
    before = previous or {}
    now = {name: text.strip() for name, text in current.items() if text is not None and text.strip()}
    for name in now:
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"prompt: {name!r} can't name a context fact", field="name")
    changed = [
        f"<{name}>\n{_shielded(name, text)}\n</{name}>" for name, text in now.items() if before.get(name) != text
    ]
    gone = [f"<{name} withdrawn/>" for name in before if name not in now]
    if not changed and not gone:
        return None
    return "\n".join((_OPEN, _INTRO, *changed, *gone, _CLOSE))


def carried(updates: Iterable[str]) -> dict[str, str]:
    """What a conversation carries after ``updates``, oldest first; other text is passed over."""
    facts: dict[str, str] = {}
    for update in updates:
        if not (update.startswith(_OPEN) and update.endswith(_CLOSE)):
            continue
        for name, text, withdrawn in _ITEM.findall(update[len(_OPEN) : -len(_CLOSE)]):
            if withdrawn:
                facts.pop(withdrawn, None)
            else:
                facts[name] = _unshielded(name, text)
    return facts


def carried_by(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """What the history's entries carry, given in order and as they are sent: after a compaction, from its cut on."""
    return carried(
        str(entry.get("content"))
        for entry in entries
        if entry.get("type") == "custom_message" and entry.get("customType") == CONTEXT_NOTE
    )


def _shielded(name: str, text: str) -> str:
    """What could end its own element has one backslash more than the text, so that it can be taken off again."""
    return re.sub(rf"<(\\*)/{name}>", rf"<\1\\/{name}>", text)


def _unshielded(name: str, text: str) -> str:
    return re.sub(rf"<(\\*)\\/{name}>", rf"<\1/{name}>", text)
