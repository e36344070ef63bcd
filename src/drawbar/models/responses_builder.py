"""The words of responses for a conversation; nothing is stored there, and caching needs no marker (MDL-2, PRM-4)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final

from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.model import Message, RequestSettings
from drawbar.contracts.tool import ToolSpec
from drawbar.models.conversation import ConversationBuilder, Head, Images, Note, Side
from drawbar.models.encoding import encode_json
from drawbar.models.responses_encode import OUTPUT, CallIds, assistant_items, call_output, user_parts
from drawbar.models.tool_schema import tool_schema
from drawbar.models.wire_ids import WireIds

__all__ = ["MAX_REQUEST_BYTES", "ResponsesBuilder", "ResponsesDialect"]

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
MAX_IMAGES: Final = 100
MIN_OUTPUT_TOKENS: Final = 16
"""The least that the provider takes as a limit; a smaller one is raised to it."""
EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh", "max")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_WITHOUT_REASONING = re.compile(r"(?:.*/)?(?:gpt-[34]|chatgpt-4)")
"""Models that refuse to be asked for encrypted reasoning, because they have none."""


class ResponsesDialect:
    """A :class:`~drawbar.models.conversation.Dialect`.

    Raises:
        InvalidInput: for settings that no request could be made from.
    """

    end = b"]}"

    def __init__(self, settings: RequestSettings) -> None:
        self.model = settings.model
        self.head = _head(settings)
        self.max_request_bytes = MAX_REQUEST_BYTES
        self.max_images = MAX_IMAGES

    def ids(self) -> WireIds:
        return CallIds()

    def user(self, message: Message, images: Images, note: Note) -> list[bytes]:
        return user_parts(message["content"], images, note)

    def assistant(self, message: Message, ids: WireIds, note: Note) -> list[bytes]:
        assert isinstance(ids, CallIds)
        return assistant_items(message, ids, note, model=self.model)

    def result(self, message: Message, ids: WireIds, images: Images, note: Note) -> list[bytes]:
        assert isinstance(ids, CallIds)
        return [call_output(message, ids, images, note)]

    def go_on(self) -> bytes:
        return encode_json({"type": "input_text", "text": "[Continue.]"})

    def turn(self, side: Side, pieces: Sequence[bytes], *, marked: bool) -> bytes:
        if side == "assistant":
            return b",".join(pieces)
        items = [piece for piece in pieces if piece.startswith(OUTPUT)]
        parts = [piece for piece in pieces if not piece.startswith(OUTPUT)]
        if parts:
            items.append(b'{"type":"message","role":"user","content":[%s]}' % b",".join(parts))
        return b",".join(items)


class ResponsesBuilder(ConversationBuilder):
    """A :class:`~drawbar.contracts.model.RequestBuilder` for responses.

    Args:
        settings: of the conversation.

    Raises:
        InvalidInput: for settings that no request could be made from.
    """

    def __init__(self, settings: RequestSettings) -> None:
        super().__init__(ResponsesDialect(settings))


def _head(settings: RequestSettings) -> Head:
    if not settings.model.strip():
        raise InvalidInput("no model was chosen", field="model")
    fields: dict[str, Any] = {"model": settings.model, "stream": True, "store": False}
    if not _WITHOUT_REASONING.match(settings.model):
        # Where nothing is stored, reasoning can go back only if its content comes with it.
        fields["include"] = ["reasoning.encrypted_content"]
    fields |= _limits(settings)
    tools = _tools(settings.tools)
    if tools:
        fields["tools"] = tools
    if settings.system.strip():
        fields["instructions"] = settings.system
    return Head(
        encoded=encode_json(fields)[:-1] + b',"input":[',
        stand_in=None,
        system_sha256=hashlib.sha256(encode_json(settings.system)).hexdigest(),
        tools_sha256=hashlib.sha256(encode_json(tools)).hexdigest(),
    )


def _limits(settings: RequestSettings) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if settings.max_output_tokens is not None:
        if settings.max_output_tokens < 1:
            raise InvalidInput(
                f"max_output_tokens is {settings.max_output_tokens}; a reply needs at least one",
                field="max_output_tokens",
            )
        found["max_output_tokens"] = max(MIN_OUTPUT_TOKENS, settings.max_output_tokens)
    if settings.effort not in (None, "", "off", "none"):
        if settings.effort not in EFFORTS:
            known = ", ".join(("off", *EFFORTS))
            raise InvalidInput(f"effort {settings.effort!r} is none of {known}", field="effort")
        found["reasoning"] = {"effort": settings.effort, "summary": "detailed"}
    return found


def _tools(specs: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    names = [spec.name for spec in specs]
    for name in names:
        if not _TOOL_NAME.fullmatch(name):
            raise InvalidInput(f"the tool name {name!r} is not 1 to 64 letters, digits, _ and -", tool=name)
        if names.count(name) > 1:
            raise InvalidInput(f"two tools are called {name!r}", tool=name)
    return [
        {
            "type": "function",
            "name": spec.name,
            "description": spec.description,
            "parameters": tool_schema(spec),
            # Left out, it would be taken as true, which demands every field of every object.
            "strict": False,
        }
        for spec in sorted(specs, key=lambda spec: spec.name)
    ]
