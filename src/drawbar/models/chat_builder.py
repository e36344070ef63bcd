"""Chat completions' words for a conversation (MDL-2); caching needs no marker but where a gateway has them (PRM-4)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.model import Message, RequestSettings
from drawbar.contracts.tool import ToolSpec
from drawbar.models.chat_encode import assistant_message, text_of_part, tool_messages, user_parts
from drawbar.models.conversation import ConversationBuilder, Head, Images, Note, Side
from drawbar.models.encoding import encode_json
from drawbar.models.tool_schema import tool_schema
from drawbar.models.wire_ids import WireIds

__all__ = ["MAX_REQUEST_BYTES", "ChatBuilder", "ChatDialect", "ChatHabits"]

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
MAX_IMAGES: Final = 100
EFFORTS: Final = {
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "xhigh",
}
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MARK: Final = b',"cache_control":{"type":"ephemeral"}}'


@dataclass(frozen=True, slots=True)
class ChatHabits:
    """In what a server of this protocol departs from others.

    Attributes:
        limit_field: the name of the output limit.
        longest_id: the most characters of a call's id.
        exact_id: the only length that a call's id may have, None where any will do.
        marks: whether cache breakpoints are understood.
    """

    limit_field: str = "max_tokens"
    longest_id: int = 40
    exact_id: int | None = None
    marks: bool = False


class ChatDialect:
    """A :class:`~drawbar.models.conversation.Dialect`.

    Raises:
        InvalidInput: for settings that no request could be made from.
    """

    end = b"]}"

    def __init__(self, settings: RequestSettings, habits: ChatHabits) -> None:
        self.model = settings.model
        self.head = _head(settings, habits)
        self.max_request_bytes = MAX_REQUEST_BYTES
        self.max_images = MAX_IMAGES
        self._habits = habits

    def ids(self) -> WireIds:
        return WireIds(self._habits.longest_id, exact=self._habits.exact_id)

    def user(self, message: Message, images: Images, note: Note) -> list[bytes]:
        return user_parts(message["content"], images, note)

    def assistant(self, message: Message, ids: WireIds, note: Note) -> list[bytes]:
        return assistant_message(message, ids, note, model=self.model)

    def result(self, message: Message, ids: WireIds, images: Images, note: Note) -> list[bytes]:
        return tool_messages(message, ids, images, note)

    def go_on(self) -> bytes:
        return encode_json({"type": "text", "text": "[Continue.]"})

    def turn(self, side: Side, pieces: Sequence[bytes], *, marked: bool) -> bytes:
        if side == "assistant":
            return b",".join(pieces)
        results = [piece for piece in pieces if piece.startswith(b'{"role"')]
        parts = [piece for piece in pieces if not piece.startswith(b'{"role"')]
        if not parts:
            return b",".join(results)
        return b",".join([*results, self._user(parts, marked=marked and self._habits.marks)])

    @staticmethod
    def _user(parts: list[bytes], *, marked: bool) -> bytes:
        if marked:
            parts = [*parts[:-1], parts[-1][:-1] + _MARK]
        elif len(parts) == 1 and (text := text_of_part(parts[0])) is not None:
            # The one form that every server takes.
            return encode_json({"role": "user", "content": text})
        return b'{"role":"user","content":[%s]}' % b",".join(parts)


class ChatBuilder(ConversationBuilder):
    """A :class:`~drawbar.contracts.model.RequestBuilder` for chat completions.

    Args:
        settings: of the conversation.
        habits: of the server.

    Raises:
        InvalidInput: for settings that no request could be made from.
    """

    def __init__(self, settings: RequestSettings, habits: ChatHabits | None = None) -> None:
        super().__init__(ChatDialect(settings, habits or ChatHabits()))


def _head(settings: RequestSettings, habits: ChatHabits) -> Head:
    if not settings.model.strip():
        raise InvalidInput("no model was chosen", field="model")
    fields: dict[str, Any] = {
        "model": settings.model,
        "stream": True,
        "stream_options": {"include_usage": True},
        **_limits(settings, habits),
    }
    tools = _tools(settings.tools)
    if tools:
        fields["tools"] = tools
    opening = encode_json(fields)[:-1] + b',"messages":['
    if settings.system.strip():
        opening += _system(settings.system, habits) + b","
    return Head(
        encoded=opening,
        stand_in=None,
        system_sha256=hashlib.sha256(encode_json(settings.system)).hexdigest(),
        tools_sha256=hashlib.sha256(encode_json(tools)).hexdigest(),
    )


def _system(text: str, habits: ChatHabits) -> bytes:
    if not habits.marks:
        return encode_json({"role": "system", "content": text})
    part = encode_json({"type": "text", "text": text})[:-1] + _MARK
    return b'{"role":"system","content":[%s]}' % part


def _limits(settings: RequestSettings, habits: ChatHabits) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if settings.max_output_tokens is not None:
        if settings.max_output_tokens < 1:
            raise InvalidInput(
                f"max_output_tokens is {settings.max_output_tokens}; a reply needs at least one",
                field="max_output_tokens",
            )
        found[habits.limit_field] = settings.max_output_tokens
    if settings.effort not in (None, "", "off", "none"):
        if settings.effort not in EFFORTS:
            known = ", ".join(("off", *EFFORTS))
            raise InvalidInput(f"effort {settings.effort!r} is none of {known}", field="effort")
        found["reasoning_effort"] = EFFORTS[settings.effort]
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
            "function": {"name": spec.name, "description": spec.description, "parameters": tool_schema(spec)},
        }
        for spec in sorted(specs, key=lambda spec: spec.name)
    ]
