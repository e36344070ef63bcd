"""A message with nothing in it that a provider could refuse but texts and tool calls (QLT-7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from drawbar.contracts.model import Message

__all__ = ["plain_message"]

_KEPT: Final = {
    "text": frozenset({"type", "text"}),
    "toolCall": frozenset({"type", "id", "name", "arguments"}),
}
_GONE: Final = {"type": "text", "text": "[An image stood here; the provider refused it.]"}


def plain_message(message: Message) -> Message:
    """``message`` without images, reasoning and what only one provider understands; itself if it has none.

    Args:
        message: as the repairer gives it (:class:`~drawbar.stores.history.MessageRepairer`).
    """
    content: Any = message["content"]
    if isinstance(content, str):
        return message
    blocks = cast("list[Mapping[str, Any]]", content)
    if all(block.keys() <= _KEPT.get(block["type"], frozenset()) for block in blocks):
        return message
    plain: list[Mapping[str, Any]] = []
    for block in blocks:
        kept = _KEPT.get(block["type"])
        if kept is not None:
            plain.append({key: value for key, value in block.items() if key in kept})
        elif block["type"] == "image":
            plain.append(_GONE)
    return {**message, "content": plain}
