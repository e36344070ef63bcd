"""From history messages to Gemini's parts, each encoded once, to bytes (MDL-2, QLT-7).

The messages were repaired before (pairs and their order, ids, arguments, blank texts, sizes). Here is what this
service wants besides: its alphabet of names, results as objects, image types that it reads, and each thought
signature on the part that it came with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from drawbar.models.conversation import Images, Note
from drawbar.models.encoding import encode_json
from drawbar.models.gemini_decode import PROTOCOL
from drawbar.models.gemini_thinking import wants_signatures
from drawbar.models.image_data import admitted_image
from drawbar.models.wire_ids import WireIds

__all__ = ["RESULT_OPENING", "bare_model", "model_parts", "result_parts", "user_parts"]

RESULT_OPENING: Final = b'{"functionResponse"'
"""How the part of a result begins, and no other."""

MAX_TOOL_NAME: Final = 64
STAND_IN_SIGNATURE: Final = "skip_thought_signature_validator"
"""What the service takes for a call that none of its models made, or whose signature was lost."""

_NOT_NAME = re.compile(r"[^a-zA-Z0-9_.-]")
_SIGNATURE = re.compile(r"(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2}==|[A-Za-z0-9+/_-]{3}=)?")
_FIELD = re.compile(r"[a-z][a-zA-Z]*")
_CONTENT: Final = frozenset(
    {"text", "thought", "functionCall", "functionResponse", "inlineData", "fileData", "executableCode"}
)
"""What a part is, of which there is one; never beside it."""

Fields = Mapping[str, Any]


def bare_model(name: str) -> str:
    """A model's name without the collection that it may stand in."""
    return name.strip().removeprefix("models/").strip()


def user_parts(content: Any, images: Images, note: Note) -> list[bytes]:
    """The parts of a user's content."""
    if isinstance(content, str):
        return [encode_json({"text": content})]
    return [encode_json(_part(block, images, note)) for block in cast("Iterable[Fields]", content)]


def result_parts(message: Fields, ids: WireIds, images: Images, note: Note) -> list[bytes]:
    """One result as an object, its images as parts of their own."""
    texts: list[str] = []
    shown: list[bytes] = []
    for block in cast("Iterable[Fields]", message.get("content") or ()):
        part = _part(block, images, note)
        if "text" in part:
            texts.append(part["text"])
        else:
            texts.append("[an image, shown below]")
            shown.append(encode_json({"text": f"The image that {message.get('toolName')} gave:"}))
            shown.append(encode_json(part))
    said = "\n".join(texts) or "(no output)"
    response = {
        "id": ids.of_result(message["toolCallId"]),
        "name": _tool_name(str(message.get("toolName") or "")),
        "response": {"error" if message.get("isError") is True else "output": said},
    }
    return [encode_json({"functionResponse": response}), *shown]


def model_parts(message: Fields, ids: WireIds, note: Note, *, model: str) -> list[bytes]:
    """The parts of a reply; empty when nothing in it can be sent back.

    Args:
        message: an assistant message of any provider's making.
        ids: gives each call its id.
        note: told what was left out.
        model: whom the request is for; signatures and thoughts go back to the model that made them alone.
    """
    same_model = bare_model(str(message.get("model") or model)) == bare_model(model)
    ours = message.get("api") == PROTOCOL and same_model
    parts: list[Fields] = []
    says_something = called = False
    for block in cast("Iterable[Fields]", message["content"]):
        kind = block["type"]
        part: Fields | None
        if kind == "text":
            part = {"text": block["text"], **_beside(block, ours)}
        elif kind == "toolCall":
            beside = _beside(block, ours)
            if not called and wants_signatures(model):
                beside = {"thoughtSignature": STAND_IN_SIGNATURE, **beside}
            called = True
            part = {**_call(block, ids), **beside}
        elif kind == "thinking":
            part = _thought(block) if ours else None
        else:
            part = _provider_part(block, note)
        if part is not None:
            parts.append(part)
            says_something = says_something or kind != "thinking"
    return [encode_json(part) for part in parts] if says_something else []


def _call(block: Fields, ids: WireIds) -> dict[str, Any]:
    call = {"id": ids.of_call(block["id"]), "name": _tool_name(block["name"]), "args": block["arguments"]}
    return {"functionCall": call}


def _thought(block: Fields) -> dict[str, Any] | None:
    """A thought where it stood, or the empty text that carried nothing but a signature."""
    signature = block.get("thinkingSignature")
    signed = {"thoughtSignature": signature} if _is_signature(signature) else {}
    if block.get("redacted") is True:
        return {"text": _blank(block), **_beside(block, ours=True), **signed} if signed else None
    text = block.get("thinking")
    if not isinstance(text, str) or not (text or signed):
        return None
    return {"text": text, "thought": True, **_beside(block, ours=True), **signed}


def _blank(block: Fields) -> str:
    """The white space that the signature stood on, mostly none."""
    rest: Any = block.get("providerFields")
    text: Any = cast("Fields", rest).get("text") if isinstance(rest, Mapping) else None
    return text if isinstance(text, str) and not text.strip() else ""


def _beside(block: Fields, ours: bool) -> dict[str, Any]:
    """What a part carried besides its content, a signature above all."""
    rest: Any = block.get("providerFields")
    if not ours or not isinstance(rest, Mapping):
        return {}
    fields = {name: value for name, value in cast("Fields", rest).items() if _may_stand_beside(name)}
    if not _is_signature(fields.get("thoughtSignature")):
        fields.pop("thoughtSignature", None)
    return fields


def _may_stand_beside(name: str) -> bool:
    return _FIELD.fullmatch(name) is not None and name not in _CONTENT


def _is_signature(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and _SIGNATURE.fullmatch(value) is not None


def _provider_part(block: Fields, note: Note) -> Fields | None:
    raw = block.get("raw")
    if block.get("protocol") == PROTOCOL and isinstance(raw, Mapping) and raw:
        return cast("Fields", raw)
    note(f"left out a reply block of type {block['type']!r} that another provider made")
    return None


def _tool_name(name: str) -> str:
    plain = _NOT_NAME.sub("_", name)
    if not plain or not (plain[0].isalpha() or plain[0] == "_"):
        plain = f"_{plain}"
    return plain[:MAX_TOOL_NAME]


def _part(block: Fields, images: Images, note: Note) -> dict[str, Any]:
    if block["type"] == "text":
        return {"text": block["text"]}
    admitted = admitted_image(block, images, note)
    if isinstance(admitted, str):
        return {"text": admitted}
    media_type, data = admitted
    if media_type == "image/gif":
        note("left out a GIF image, which this provider doesn't read")
        return {"text": "[A GIF image stood here; this provider doesn't read GIF.]"}
    return {"inlineData": {"mimeType": media_type, "data": data}}
