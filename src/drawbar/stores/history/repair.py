"""Any messages made into a conversation that a provider accepts, growing only at its end (QLT-7, MDL-13).

What the output always holds, from any input:

- each tool call has exactly one result, directly after its assistant message, in the order of the calls;
- call ids are non-empty and used once in the conversation (before a ``|``, too, where an id has two parts);
- arguments are objects, text is well-formed, no message and no text block is empty, sizes are bounded;
- the first message is the user's.

A call without a result gets one that says so. A result without a call stays readable as user text. Failed
and aborted assistant messages are left out with their calls, as in Pi. An output is a fixed point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drawbar.contracts.codec import as_object
from drawbar.stores.history.blocks import SizeLimits, assistant_content, coerced_arguments, input_content
from drawbar.stores.history.roles import KNOWN_ROLES, Message, plain_text, user_text, visible_message
from drawbar.stores.history.text import cut_text, well_formed

__all__ = ["INTERRUPTED", "MessageRepairer", "repair_messages"]

INTERRUPTED = (
    "interrupted: outcome unknown. No result of this call was recorded; it may have run, in part or whole. "
    "Look before running it again."
)
OPENING = "[The conversation begins here; what was said before is not available.]"


@dataclass(slots=True)
class _Call:
    original: str
    id: str
    name: str
    result: Message | None = None


@dataclass(slots=True)
class _Turn:
    """An assistant message with calls, held until its results are in or the next reply begins."""

    reply: Message
    calls: list[_Call]
    after: list[Message] = field(default_factory=list[Message])


def repair_messages(
    messages: Sequence[Mapping[str, Any]], limits: SizeLimits | None = None
) -> tuple[list[Message], list[str]]:
    """The whole conversation repaired, and what had to be mended in words; pure and total.

    Args:
        messages: Pi messages, or anything at all that was read from a history.
        limits: sizes; the defaults suit every provider.
    """
    repairer = MessageRepairer(limits)
    repaired = [kept for message in messages for kept in repairer.feed(message)]
    return repaired + repairer.pending(), repairer.reports()


class MessageRepairer:
    """As :func:`repair_messages`, message by message, so that a caller can keep what it encoded (MDL-13).

    All that :meth:`feed` returned, followed by :meth:`pending`, is what :func:`repair_messages` makes of the
    messages fed so far.
    """

    def __init__(self, limits: SizeLimits | None = None) -> None:
        self._limits = limits or SizeLimits()
        self._used: set[str] = set()
        self._turn: _Turn | None = None
        self._begun = False
        self._reports: list[str] = []
        self._recent: list[_Call] = []

    def feed(self, message: Mapping[str, Any]) -> list[Message]:
        """Take the next message; returns what no later message can change any more."""
        ready = self._led(self._accept(message))
        self._begun = self._begun or bool(ready)
        return ready

    def pending(self) -> list[Message]:
        """What still waits for results, as it would be sent now; changes nothing."""
        return self._led(_settled(self._turn)) if self._turn else []

    def reports(self) -> list[str]:
        """What was mended so far, in words, with what :meth:`pending` mends now."""
        return self._reports + (_unanswered(self._turn) if self._turn else [])

    # -- one message --------------------------------------------------------------------------------

    def _accept(self, message: Mapping[str, Any]) -> list[Message]:
        original = as_object(message) or (dict(message) if isinstance(message, Mapping) else None)  # pyright: ignore[reportUnnecessaryIsInstance]
        if original is None:
            self._reports.append("something that is no message was left out")
            return []
        clean = well_formed(original)
        if clean is not original:
            self._reports.append(f"a {clean.get('role')} message held text that is no valid Unicode")
        if not (isinstance(clean.get("role"), str) and clean["role"] in KNOWN_ROLES):
            self._reports.append(f"a message of the unknown role {clean.get('role')!r} was sent as a note, if at all")
        seen = visible_message(clean)
        if seen is None:
            return []
        if seen["role"] == "assistant":
            return self._reply(seen)
        content = input_content(seen, self._limits, self._reports.append)
        if seen["role"] == "toolResult":
            return self._result({**seen, "content": content, "isError": bool(seen.get("isError"))})
        return self._note(seen if content is seen.get("content") else {**seen, "content": content})

    def _reply(self, message: Message) -> list[Message]:
        if message.get("stopReason") in ("error", "aborted"):
            return []
        blocks = assistant_content(message, self._reports.append)
        if not blocks:
            return []
        ready = self._close()
        calls: list[_Call] = []
        content = [self._call(block, calls) if block["type"] == "toolCall" else block for block in blocks]
        reply = {**message, "content": content}
        if not calls:
            return [*ready, reply]
        self._turn = _Turn(reply, calls)
        return ready

    def _call(self, block: Message, calls: list[_Call]) -> Message:
        original = _id(block.get("id"))
        name = block.get("name")
        if not isinstance(name, str) or not name.strip():
            self._reports.append(f"call {original!r} named no tool")
            name = "unknown_tool"
        own = self._unique(original)
        calls.append(_Call(original, own, name))
        arguments = coerced_arguments(block.get("arguments"), own, self._reports.append)
        if (own, name) == (block.get("id"), block.get("name")) and arguments is block.get("arguments"):
            return block
        return {**block, "id": own, "name": name, "arguments": arguments}

    def _unique(self, original: str) -> str:
        base = original.partition("|")[0]
        if base and base not in self._used:
            self._used.add(base)
            return original
        stem, number = base or "call", 2 if base else 1
        while (own := f"{stem}-{number}") in self._used:
            number += 1
        self._reports.append(
            f"call id {original!r} was used before; renamed {own}" if base else f"empty call id: {own}"
        )
        self._used.add(own)
        return own

    def _result(self, message: Message) -> list[Message]:
        original = _id(message.get("toolCallId"))
        turn = self._turn
        for call in turn.calls if turn else ():
            if call.original == original and call.result is None:
                call.result = {**message, "toolCallId": call.id, "toolName": call.name}
                return self._close() if all(call.result for call in turn.calls) else []  # pyright: ignore[reportOptionalMemberAccess]
        known = turn.calls if turn else self._recent
        if any(call.original == original and _same(call.result, message) for call in known):
            self._reports.append(f"a second copy of the result of call {original!r} was left out")
            return []
        return self._note(self._orphan(message, original))

    def _orphan(self, message: Message, original: str) -> Message:
        self._reports.append(f"a result without its call ({original!r}) was sent as text")
        name = message.get("toolName")
        tool = f" of {name}" if isinstance(name, str) and name else ""
        said = cut_text(plain_text(message["content"]) or "(no output)", self._limits.result_characters)
        note = user_text(f"[A tool result{tool} whose call is not in this conversation any more:]\n{said}")
        note["content"] += [block for block in message["content"] if block["type"] == "image"]
        return note

    def _note(self, message: Message) -> list[Message]:
        if not message["content"]:
            return []
        if self._turn is not None:
            self._turn.after.append(message)
            return []
        return [message]

    # -- one turn -----------------------------------------------------------------------------------

    def _close(self) -> list[Message]:
        if self._turn is None:
            return []
        turn, self._turn = self._turn, None
        self._reports += _unanswered(turn)
        self._recent = turn.calls
        return _settled(turn)

    def _led(self, messages: list[Message]) -> list[Message]:
        if self._begun or not messages or messages[0]["role"] == "user":
            return messages
        return [user_text(OPENING), *messages]


def _settled(turn: _Turn) -> list[Message]:
    results = [call.result or _interrupted(call) for call in turn.calls]
    return [turn.reply, *results, *turn.after]


def _interrupted(call: _Call) -> Message:
    return {
        "role": "toolResult",
        "toolCallId": call.id,
        "toolName": call.name,
        "content": [{"type": "text", "text": INTERRUPTED}],
        "isError": True,
    }


def _unanswered(turn: _Turn) -> list[str]:
    return [
        f"call {call.id} ({call.name}) has no result: answered as interrupted" for call in turn.calls if not call.result
    ]


def _id(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _same(result: Message | None, message: Message) -> bool:
    return result is not None and result["content"] == message["content"] and result["isError"] == message["isError"]
