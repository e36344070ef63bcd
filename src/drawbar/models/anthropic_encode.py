"""From history messages to Anthropic's content blocks, each encoded once, to bytes (MDL-2, QLT-7).

The messages were repaired before (pairs, ids, arguments, blank texts, sizes: :class:`MessageRepairer`). Here
is what this provider wants besides: its alphabet of names, signed reasoning only, text only in failed
results, images that are what they say. What had to be left out is named to ``note``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from drawbar.models.anthropic_blocks import PROVIDER_FIELDS
from drawbar.models.anthropic_decode import PROTOCOL
from drawbar.models.conversation import Images, Note
from drawbar.models.encoding import encode_json
from drawbar.models.image_data import admitted_image

__all__ = ["assistant_blocks", "tool_result", "user_blocks"]

MAX_TOOL_NAME: Final = 128

_NOT_NAME = re.compile(r"[^a-zA-Z0-9_-]")
Fields = Mapping[str, Any]


def user_blocks(content: Any, images: Images, note: Note) -> list[bytes]:
    """The blocks of a user's content."""
    if isinstance(content, str):
        return [encode_json({"type": "text", "text": content})]
    return [encode_json(block) for block in _input(content, images, note)]


def tool_result(message: Fields, wire_id: str, images: Images, note: Note) -> bytes:
    """One result; never empty, and text only when it is an error, as the provider demands."""
    failed = message.get("isError") is True
    content = _input(message.get("content"), images, note, images_allowed=not failed)
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": wire_id,
        "content": content or [{"type": "text", "text": "(no output)"}],
    }
    if failed:
        result["is_error"] = True
    return encode_json(result)


def assistant_blocks(message: Fields, wire_id: Callable[[str], str], note: Note) -> list[bytes]:
    """The blocks of a reply; empty when nothing in it can be sent back.

    Args:
        message: an assistant message of any provider's making.
        wire_id: gives a tool call's id the form that the provider takes.
        note: told what was left out.
    """
    ours = message.get("api", PROTOCOL) == PROTOCOL
    encoded: list[bytes] = []
    length_to_last_answer = 0
    for block in cast("Iterable[Fields]", message["content"]):
        kind = block["type"]
        if kind == "text":
            raw = {"type": "text", "text": block["text"], **_rest(block, ours)}
        elif kind == "toolCall":
            raw = {
                "type": "tool_use",
                "id": wire_id(block["id"]),
                "name": _NOT_NAME.sub("_", block["name"])[:MAX_TOOL_NAME],
                "input": block["arguments"],
                **_rest(block, ours),
            }
        elif kind == "thinking":
            raw = _thinking(block) if ours else None
        else:
            raw = _provider_block(block, note)
        if raw is not None:
            encoded.append(encode_json(raw))
            if kind != "thinking":
                length_to_last_answer = len(encoded)
    # The provider refuses a reply that ends with reasoning.
    return encoded[:length_to_last_answer]


def _thinking(block: Fields) -> dict[str, Any] | None:
    """Signed reasoning verbatim; without its signature the provider would refuse it."""
    signature = block.get("thinkingSignature")
    if not isinstance(signature, str) or not signature:
        return None
    if block.get("redacted") is True:
        return {"type": "redacted_thinking", "data": signature}
    return {"type": "thinking", "thinking": block.get("thinking", ""), "signature": signature}


def _provider_block(block: Fields, note: Note) -> Fields | None:
    raw = block.get("raw")
    if block.get("protocol") == PROTOCOL and isinstance(raw, Mapping):
        return cast("Fields", raw)
    note(f"left out a reply block of type {block['type']!r} that another provider made")
    return None


def _rest(block: Fields, ours: bool) -> Fields:
    rest = block.get(PROVIDER_FIELDS)
    return cast("Fields", rest) if ours and isinstance(rest, Mapping) else {}


def _input(content: Any, images: Images, note: Note, *, images_allowed: bool = True) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for block in cast("Iterable[Fields]", content):
        if block["type"] == "text":
            blocks.append({"type": "text", "text": block["text"]})
        elif images_allowed:
            blocks.append(_image(block, images, note))
        else:
            note("left out an image of a failed tool result")
            blocks.append({"type": "text", "text": "[An image stood here; a failed result can't carry one.]"})
    return blocks


def _image(block: Fields, images: Images, note: Note) -> dict[str, Any]:
    admitted = admitted_image(block, images, note)
    if isinstance(admitted, str):
        return {"type": "text", "text": admitted}
    media_type, data = admitted
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
