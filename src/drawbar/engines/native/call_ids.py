"""Tool call ids are unique within a conversation, whatever a provider sends: records are keyed by them (SES-16)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from drawbar.contracts.codec import as_object
from drawbar.contracts.ids import new_id
from drawbar.contracts.model import Completed, Message, ToolCallBlock

__all__ = ["DistinctCalls"]


class DistinctCalls:
    """Gives a call whose id is empty, or was used before, one of its own; the call and its block alike.

    Args:
        messages: the conversation so far.
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        self._used = {str(block.get("id")) for message in messages for block in _calls(message)}

    def apply(self, completed: Completed) -> Completed:
        """``completed`` with ids that this conversation has not seen; the same object when they all are new."""
        ids = [call.id for call in completed.calls]
        if len(set(ids)) == len(ids) and all(ids) and self._used.isdisjoint(ids):
            self._used.update(ids)
            return completed
        calls: list[ToolCallBlock] = []
        fresh: list[str] = []
        for call in completed.calls:
            name = call.id if call.id and call.id not in self._used else new_id("call")
            self._used.add(name)
            fresh.append(name)
            calls.append(replace(call, id=name))
        names = iter(fresh)
        content: list[Any] = [
            {**block, "id": next(names, block.get("id"))} if block.get("type") == "toolCall" else block
            for block in completed.message["content"]
        ]
        return replace(completed, message={**completed.message, "content": content}, calls=tuple(calls))


def _calls(message: Message) -> Iterable[dict[str, Any]]:
    content: Any = message.get("content")
    for block in map(as_object, content if isinstance(content, list) else ()):  # pyright: ignore[reportUnknownArgumentType]
        if block is not None and block.get("type") == "toolCall":
            yield block
