"""Gemini's words for a conversation (MDL-2): contents of parts; its cache needs no markers (PRM-4)."""

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
from drawbar.models.gemini_encode import RESULT_OPENING, bare_model, model_parts, result_parts, user_parts
from drawbar.models.gemini_thinking import thinking_config
from drawbar.models.tool_schema import tool_schema
from drawbar.models.wire_ids import WireIds

__all__ = ["MAX_REQUEST_BYTES", "GeminiBuilder", "GeminiDialect"]

MAX_REQUEST_BYTES: Final = 20 * 1024 * 1024
MAX_IMAGES: Final = 3000
_TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")


class GeminiDialect:
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
        return WireIds()

    def user(self, message: Message, images: Images, note: Note) -> list[bytes]:
        return user_parts(message["content"], images, note)

    def assistant(self, message: Message, ids: WireIds, note: Note) -> list[bytes]:
        return model_parts(message, ids, note, model=self.model)

    def result(self, message: Message, ids: WireIds, images: Images, note: Note) -> list[bytes]:
        return result_parts(message, ids, images, note)

    def go_on(self) -> bytes:
        return encode_json({"text": "[Continue.]"})

    def turn(self, side: Side, pieces: Sequence[bytes], *, marked: bool) -> bytes:
        if side == "assistant":
            return b'{"role":"model","parts":[%s]}' % b",".join(pieces)
        # Results stand in the order of their calls, and nothing stands before them.
        results = [piece for piece in pieces if piece.startswith(RESULT_OPENING)]
        others = [piece for piece in pieces if not piece.startswith(RESULT_OPENING)]
        return b'{"role":"user","parts":[%s]}' % b",".join([*results, *others])


class GeminiBuilder(ConversationBuilder):
    """A :class:`~drawbar.contracts.model.RequestBuilder` for generateContent.

    Args:
        settings: of the conversation.

    Raises:
        InvalidInput: for settings that no request could be made from.
    """

    def __init__(self, settings: RequestSettings) -> None:
        super().__init__(GeminiDialect(settings))


def _head(settings: RequestSettings) -> Head:
    if not bare_model(settings.model):
        raise InvalidInput("no model was chosen", field="model")
    fields: dict[str, Any] = {}
    if settings.system.strip():
        fields["systemInstruction"] = {"parts": [{"text": settings.system}]}
    declarations = _declarations(settings.tools)
    if declarations:
        fields["tools"] = [{"functionDeclarations": declarations}]
    generation = _generation(settings)
    if generation:
        fields["generationConfig"] = generation
    opening = encode_json(fields)[:-1] + (b"," if fields else b"") + b'"contents":['
    return Head(
        encoded=opening,
        stand_in=None,
        system_sha256=hashlib.sha256(encode_json(settings.system)).hexdigest(),
        tools_sha256=hashlib.sha256(encode_json(declarations)).hexdigest(),
    )


def _generation(settings: RequestSettings) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if settings.max_output_tokens is not None:
        if settings.max_output_tokens < 1:
            raise InvalidInput(
                f"max_output_tokens is {settings.max_output_tokens}; a reply needs at least one",
                field="max_output_tokens",
            )
        found["maxOutputTokens"] = settings.max_output_tokens
    thinking = thinking_config(bare_model(settings.model), settings.effort)
    if thinking:
        found["thinkingConfig"] = thinking
    return found


def _declarations(specs: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    names = [spec.name for spec in specs]
    for name in names:
        if not _TOOL_NAME.fullmatch(name):
            raise InvalidInput(
                f"the tool name {name!r} is not a letter or _ and up to 63 letters, digits, _, . and -", tool=name
            )
        if names.count(name) > 1:
            raise InvalidInput(f"two tools are called {name!r}", tool=name)
    return [
        # As plain JSON Schema: the service's own schema type lacks much of it, and refuses what it lacks.
        {"name": spec.name, "description": spec.description, "parametersJsonSchema": tool_schema(spec)}
        for spec in sorted(specs, key=lambda spec: spec.name)
    ]
