"""Tool call ids are unique and clean within a conversation, whatever a provider sends (SES-16, QLT-20).

Records are keyed by them and never redact them, so an id that holds a secret is replaced, and so is a tool
name, which a model may make up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from drawbar.contracts.codec import as_object
from drawbar.contracts.engine import Redactor
from drawbar.contracts.ids import new_id
from drawbar.contracts.model import Completed, Message, ToolCallBlock

__all__ = ["DistinctCalls"]


class DistinctCalls:
    """Gives a call whose id is empty, or was used before, one of its own; the call and its block alike.

    Args:
        messages: the conversation so far.
        redactor: what ids and names must pass unchanged.
    """

    def __init__(self, messages: Iterable[Message], redactor: Redactor) -> None:
        self._redactor = redactor
        self._used = {str(block.get("id")) for message in messages for block in _calls(message)}

    def apply(self, completed: Completed) -> Completed:
        """``completed`` with ids that this conversation has not seen; the same object when they all are new."""
        calls = [self._mended(call) for call in completed.calls]
        if calls == list(completed.calls):
            return completed
        mended = iter(calls)
        content: list[Any] = []
        for block in completed.message["content"]:
            call = next(mended, None) if block.get("type") == "toolCall" else None
            content.append(block if call is None else {**block, "id": call.id, "name": call.name})
        return replace(completed, message={**completed.message, "content": content}, calls=tuple(calls))

    def _mended(self, call: ToolCallBlock) -> ToolCallBlock:
        known = call.id if call.id and call.id not in self._used and self._redactor.text(call.id) == call.id else None
        name = self._redactor.text(call.name)
        call_id = known or new_id("call")
        self._used.add(call_id)
        return call if (call_id, name) == (call.id, call.name) else replace(call, id=call_id, name=name)


def _calls(message: Message) -> Iterable[dict[str, Any]]:
    content: Any = message.get("content")
    for block in map(as_object, content if isinstance(content, list) else ()):  # pyright: ignore[reportUnknownArgumentType]
        if block is not None and block.get("type") == "toolCall":
            yield block
