"""From history messages to chat completion messages, each encoded once, to bytes (MDL-2, QLT-7).

A user's side of a turn is made of two kinds of pieces: whole ``tool`` messages, and content parts that become one
``user`` message after them, since nothing may stand between a call and its results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from drawbar.contracts import codec
from drawbar.models.chat_decode import PROTOCOL
from drawbar.models.chat_reply import REASONING_FIELDS
from drawbar.models.conversation import Images, Note
from drawbar.models.encoding import encode_json
from drawbar.models.image_data import admitted_image
from drawbar.models.wire_ids import WireIds

__all__ = ["assistant_message", "tool_messages", "user_parts"]

MAX_TOOL_NAME: Final = 64
_NOT_NAME = re.compile(r"[^a-zA-Z0-9_-]")

Fields = Mapping[str, Any]


def user_parts(content: Any, images: Images, note: Note) -> list[bytes]:
    """The parts of a user's content."""
    if isinstance(content, str):
        return [encode_json({"type": "text", "text": content})]
    return [encode_json(_part(block, images, note)) for block in cast("Iterable[Fields]", content)]


def tool_messages(message: Fields, ids: WireIds, images: Images, note: Note) -> list[bytes]:
    """One result as a ``tool`` message of text, its images as parts of the user message that follows."""
    wire_id = ids.of_result(message["toolCallId"])
    texts: list[str] = []
    parts: list[bytes] = []
    for block in cast("Iterable[Fields]", message.get("content") or ()):
        if block["type"] == "text":
            texts.append(block["text"])
            continue
        part = _part(block, images, note)
        if part["type"] == "text":
            texts.append(part["text"])
        else:
            texts.append("[an image, shown below]")
            parts.append(encode_json({"type": "text", "text": f"The image that {message.get('toolName')} gave:"}))
            parts.append(encode_json(part))
    said = "\n".join(texts) or "(no output)"
    return [encode_json({"role": "tool", "tool_call_id": wire_id, "content": said}), *parts]


def assistant_message(message: Fields, ids: WireIds, note: Note, *, model: str) -> list[bytes]:
    """The reply as one message; empty when nothing in it can be sent back.

    Args:
        message: an assistant message of any provider's making.
        ids: gives each call its id.
        note: told what was left out.
        model: whom the request is for; reasoning goes back only to the model that thought it.
    """
    ours = message.get("api") == PROTOCOL and message.get("model", model) == model
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    reasoning: dict[str, Any] = {}
    for block in cast("Iterable[Fields]", message["content"]):
        kind = block["type"]
        if kind == "text":
            texts.append(block["text"])
        elif kind == "toolCall":
            arguments = encode_json(block["arguments"]).decode()
            name = _NOT_NAME.sub("_", block["name"])[:MAX_TOOL_NAME]
            function = {"name": name, "arguments": arguments}
            calls.append({"id": ids.of_call(block["id"]), "type": "function", "function": function})
        elif kind == "thinking":
            reasoning |= _reasoning(block) if ours else {}
        else:
            note(f"left out a reply block of type {kind!r} that another provider made")
    if not texts and not calls:
        return []
    encoded: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None, **reasoning}
    if calls:
        encoded["tool_calls"] = calls
    return [encode_json(encoded)]


def _reasoning(block: Fields) -> dict[str, Any]:
    """Reasoning where it came from: some servers want it back, and none but its own knows the field."""
    found: dict[str, Any] = {}
    where = block.get("thinkingSignature")
    if where in REASONING_FIELDS and block.get("thinking"):
        found[where] = block["thinking"]
    rest: Any = block.get("providerFields")
    details: Any = cast("Fields", rest).get("reasoning_details") if isinstance(rest, Mapping) else None
    if isinstance(details, list):
        found["reasoning_details"] = details
    return found


def _part(block: Fields, images: Images, note: Note) -> dict[str, Any]:
    if block["type"] == "text":
        return {"type": "text", "text": block["text"]}
    admitted = admitted_image(block, images, note)
    if isinstance(admitted, str):
        return {"type": "text", "text": admitted}
    media_type, data = admitted
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}


def text_of_part(part: bytes) -> str | None:
    """The text of an encoded part; None for an image."""
    return codec.loads(part).get("text") if part.startswith(b'{"type":"text"') else None
