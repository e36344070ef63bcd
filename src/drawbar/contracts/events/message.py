"""Payloads of what was said: streamed text, completed messages, queued messages."""

from __future__ import annotations

from typing import ClassVar, Literal

from drawbar.contracts.codec import Free, Ident
from drawbar.contracts.events.base import Payload


class MessageDelta(Payload):
    """Streamed text, coalesced; the joined deltas of a block are its completed text (CON-32)."""

    event: ClassVar[str] = "message.delta"
    message_id: Ident
    block: int
    kind: Literal["text", "reasoning", "tool_input"]
    text: Free


class MessageCompleted(Payload):
    """A whole message, once its entry is in the native history (SES-21)."""

    event: ClassVar[str] = "message.completed"
    message_id: Ident
    entry_id: Ident
    role: Ident
    text: Free
    stop_reason: Ident | None = None


class MessageQueued(Payload):
    event: ClassVar[str] = "message.queued"
    message_id: Ident
    entry_id: Ident | None = None
    text: Free | None = None
    reason: Ident | None = None


class MessageSteered(Payload):
    """A steer was consumed at a tool boundary (RUN-11)."""

    event: ClassVar[str] = "message.steered"
    message_id: Ident
    entry_id: Ident | None = None
    text: Free | None = None
    reason: Ident | None = None


class MessageDropped(Payload):
    event: ClassVar[str] = "message.dropped"
    message_id: Ident
    entry_id: Ident | None = None
    text: Free | None = None
    reason: Ident | None = None
