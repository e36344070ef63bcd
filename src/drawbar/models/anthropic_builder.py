"""Anthropic's words for a conversation: content blocks, and cache markers after the last two user turns (PRM-4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drawbar.contracts.model import Message, RequestSettings
from drawbar.models.anthropic_encode import assistant_blocks, tool_result, user_blocks
from drawbar.models.anthropic_head import encode_head
from drawbar.models.conversation import ConversationBuilder, Images, Note, Side
from drawbar.models.encoding import encode_json
from drawbar.models.wire_ids import WireIds

__all__ = ["MAX_IMAGES", "MAX_REQUEST_BYTES", "AnthropicBuilder", "AnthropicDialect"]

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
MAX_IMAGES: Final = 100

CACHE_MARK: Final = b',"cache_control":{"type":"ephemeral"}}'


class AnthropicDialect:
    """A :class:`~drawbar.models.conversation.Dialect`.

    Raises:
        InvalidInput: for settings that no request could be made from.
    """

    end = b"]}"

    def __init__(self, settings: RequestSettings) -> None:
        self.model = settings.model
        self.head = encode_head(settings)
        self.max_request_bytes = MAX_REQUEST_BYTES
        self.max_images = MAX_IMAGES

    def ids(self) -> WireIds:
        return WireIds()

    def user(self, message: Message, images: Images, note: Note) -> list[bytes]:
        return user_blocks(message["content"], images, note)

    def assistant(self, message: Message, ids: WireIds, note: Note) -> list[bytes]:
        return assistant_blocks(message, ids.of_call, note)

    def result(self, message: Message, ids: WireIds, images: Images, note: Note) -> list[bytes]:
        return [tool_result(message, ids.of_result(message["toolCallId"]), images, note)]

    def go_on(self) -> bytes:
        return encode_json({"type": "text", "text": "[Continue.]"})

    def turn(self, side: Side, pieces: Sequence[bytes], *, marked: bool) -> bytes:
        if marked:
            pieces = [*pieces[:-1], pieces[-1][:-1] + CACHE_MARK]
        return b'{"role":"%s","content":[%s]}' % (side.encode(), b",".join(pieces))


class AnthropicBuilder(ConversationBuilder):
    """A :class:`~drawbar.contracts.model.RequestBuilder` for Anthropic Messages.

    Args:
        settings: of the conversation.

    Raises:
        InvalidInput: for settings that no request could be made from.
    """

    def __init__(self, settings: RequestSettings) -> None:
        super().__init__(AnthropicDialect(settings))
