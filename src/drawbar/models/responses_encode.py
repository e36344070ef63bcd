"""From history messages to the input items of a response, each encoded once, to bytes (MDL-2, QLT-7).

A reply goes back item by item as it came, ids and encrypted reasoning included, when its own model reads it and all
of it can go back. Else it goes back as plain texts and calls: the service ties an item that it knows by its id to
the reasoning before it, and refuses the one without the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from drawbar.contracts import codec
from drawbar.models.conversation import Images, Note
from drawbar.models.encoding import encode_json
from drawbar.models.image_data import admitted_image
from drawbar.models.responses_items import PROTOCOL
from drawbar.models.wire_ids import WireIds

__all__ = ["OUTPUT", "CallIds", "assistant_items", "call_output", "user_parts"]

MAX_TOOL_NAME: Final = 64
MAX_ID: Final = 64
OUTPUT: Final = (b'{"type":"function_call_output"', b'{"type":"custom_tool_call_output"')
"""How an encoded result begins, which stands among the items and not in a message."""

_NOT_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_WANT_OUTPUT: Final = frozenset({"computer_call", "local_shell_call", "shell_call", "apply_patch_call"})
"""Calls of the provider's own that a client has to answer, which this one never asks for."""
_MODELLED: Final = frozenset(
    {"reasoning", "function_call", "function_call_output", "custom_tool_call", "item_reference"}
)

Fields = Mapping[str, Any]


class CallIds(WireIds):
    """Call ids, and what else has to be known of the items before.

    Attributes:
        custom: ids of calls to custom tools, whose results have a form of their own.
        sent: ids of items, none of which may come twice.
    """

    def __init__(self) -> None:
        super().__init__(MAX_ID)
        self.custom: set[str] = set()
        self.sent: set[str] = set()

    def copy(self) -> CallIds:
        """One that goes on from here without changing this one."""
        other = CallIds()
        other._taken, other._latest = set(self._taken), dict(self._latest)
        other.custom, other.sent = set(self.custom), set(self.sent)
        return other


def user_parts(content: Any, images: Images, note: Note) -> list[bytes]:
    """The parts of a user's content."""
    if isinstance(content, str):
        return [encode_json({"type": "input_text", "text": content})]
    return [encode_json(_part(block, images, note)) for block in cast("Iterable[Fields]", content)]


def call_output(message: Fields, ids: CallIds, images: Images, note: Note) -> bytes:
    """One result: its text, or its texts and images."""
    wire_id = ids.of_result(message["toolCallId"])
    parts = [_part(block, images, note) for block in cast("Iterable[Fields]", message.get("content") or ())]
    said: Any = parts
    if all(part["type"] == "input_text" for part in parts):
        said = "\n".join(part["text"] for part in parts) or "(no output)"
    kind = "custom_tool_call_output" if wire_id in ids.custom else "function_call_output"
    return encode_json({"type": kind, "call_id": wire_id, "output": said})


def assistant_items(message: Fields, ids: CallIds, note: Note, *, model: str) -> list[bytes]:
    """The items of a reply; empty when nothing in it can be sent back.

    Args:
        message: an assistant message of any provider's making.
        ids: gives each call its id.
        note: told what was left out.
        model: whom the request is for; reasoning goes back only to the model that thought it.
    """
    blocks = cast("list[Fields]", message["content"])
    ours = message.get("api") == PROTOCOL and message.get("model", model) == model
    whole = ours and all(_returnable(block, blocks) for block in blocks) and _all_new(blocks, ids)
    items: list[Fields] = []
    for block in blocks:
        kind = block["type"]
        if kind == "text":
            items.append(_message(block, whole=whole))
        elif kind == "toolCall":
            items.append(_call(block, ids, ours=ours, whole=whole))
        elif kind != "thinking":
            item = _provider_block(block, blocks) if ours else None
            if item is None or item.get("id") in ids.sent:
                note(f"left out a reply block of type {_name(block)!r} that can't be sent back")
            else:
                items.append(item)
                ids.sent.update(filter(None, [item.get("id")]))
        elif whole and (item := _reasoning(block)) is not None:
            items.append(item)
    while items and items[-1]["type"] == "reasoning":
        items.pop()  # reasoning that nothing follows is refused
    ids.sent.update(item["id"] for item in items if isinstance(item.get("id"), str))
    return [encode_json(item) for item in items]


def _returnable(block: Fields, blocks: Iterable[Fields]) -> bool:
    if block["type"] == "thinking":
        # A further part of a summary has no signature of its own: the first part's holds the whole.
        return not block.get("thinkingSignature") or _reasoning(block) is not None
    return block["type"] in ("text", "toolCall") or _provider_block(block, blocks) is not None


def _all_new(blocks: Iterable[Fields], ids: CallIds) -> bool:
    """Whether no item of a reply was sent before: a history may hold a reply twice, a request may not."""
    named = [_item_id(block) for block in blocks]
    named = [one for one in named if one is not None]
    return len(set(named)) == len(named) and ids.sent.isdisjoint(named)


def _item_id(block: Fields) -> str | None:
    if block["type"] == "thinking":
        found: Any = (_reasoning(block) or {}).get("id")
    else:
        found = _raw(block).get("id") or _rest(block).get("id")
    return found if isinstance(found, str) else None


def _message(block: Fields, *, whole: bool) -> dict[str, Any]:
    rest = _rest(block)
    item_id, phase = rest.get("id"), rest.get("phase")
    labelled: dict[str, Any] = {"phase": phase} if whole and phase in ("commentary", "final_answer") else {}
    if not (whole and _is_id(item_id, "msg")):
        return {"type": "message", "role": "assistant", "content": block["text"], **labelled}
    parts = rest.get("content")
    if not isinstance(parts, list) or _said(cast("list[Any]", parts)) != block["text"]:
        found = rest.get("annotations")
        annotations = cast("list[Any]", found) if isinstance(found, list) else []
        parts = [{"type": "output_text", "text": block["text"], "annotations": annotations}]
    head = {"type": "message", "id": item_id, "role": "assistant", "status": "completed"}
    return {**head, "content": parts, **labelled}


def _said(parts: list[Any]) -> str | None:
    """The text of a message's parts; None when one of them isn't what it should be."""
    said: list[str] = []
    for part in parts:
        fields = _fields(part)
        kind = fields.get("type")
        text = fields.get("text" if kind == "output_text" else "refusal")
        if kind not in ("output_text", "refusal") or not isinstance(text, str):
            return None
        if kind == "output_text":
            said.append(text)
    return "".join(said)


def _call(block: Fields, ids: CallIds, *, ours: bool, whole: bool) -> dict[str, Any]:
    call_id = ids.of_call(block["id"])
    name = _NOT_NAME.sub("_", block["name"])[:MAX_TOOL_NAME]
    rest = _fields(_rest(block) if ours else None)
    given = cast("Fields", block["arguments"]).get("input")
    if rest.get("type") == "custom_tool_call" and isinstance(given, str):
        ids.custom.add(call_id)
        item: dict[str, Any] = {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": given}
        prefix = "ctc"
    else:
        arguments = encode_json(block["arguments"]).decode()
        item = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        prefix = "fc"
    if isinstance(rest.get("namespace"), str):
        item["namespace"] = rest["namespace"]
    if isinstance(rest.get("caller"), Mapping):
        item["caller"] = rest["caller"]
    if whole and _is_id(rest.get("id"), prefix):
        item["id"] = rest["id"]
    return item


def _reasoning(block: Fields) -> Fields | None:
    """Reasoning verbatim, if it holds its content: nothing is stored that its id alone could name."""
    signature = block.get("thinkingSignature")
    if not isinstance(signature, str) or not signature.startswith("{"):
        return None
    try:
        item: Any = codec.loads(signature.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    fields = codec.as_object(item) or {}
    if fields.get("type") != "reasoning" or not _is_id(fields.get("id"), ""):
        return None
    if not isinstance(fields.get("summary"), list):
        fields["summary"] = []
    encrypted, content = fields.get("encrypted_content"), fields.get("content")
    return fields if (isinstance(encrypted, str) and encrypted) or (isinstance(content, list) and content) else None


def _provider_block(block: Fields, blocks: Iterable[Fields]) -> Fields | None:
    raw = _raw(block)
    kind = raw.get("type")
    named = isinstance(raw.get("id", ""), str)
    if block.get("protocol") != PROTOCOL or not isinstance(kind, str) or kind in _MODELLED or not named:
        return None
    if kind == "message":
        content = raw.get("content")
        if not _is_id(raw.get("id"), "msg") or not isinstance(content, list) or not content:
            return None
        return raw if raw.get("role") == "assistant" and _said(cast("list[Any]", content)) is not None else None
    if kind in _WANT_OUTPUT and not any(_answers(_raw(other), raw) for other in blocks):
        return None
    return raw


def _answers(output: Fields, call: Fields) -> bool:
    return output.get("type") == f"{call.get('type')}_output" and output.get("call_id") == call.get("call_id")


def _raw(block: Fields) -> Fields:
    return _fields(block.get("raw")) if block["type"] == "providerBlock" else {}


def _rest(block: Fields) -> Fields:
    return _fields(block.get("providerFields"))


def _fields(value: Any) -> Fields:
    nothing: Fields = {}
    return cast("Fields", value) if isinstance(value, Mapping) else nothing


def _name(block: Fields) -> str:
    return str(_raw(block).get("type") or block["type"])


def _is_id(value: Any, prefix: str) -> bool:
    return isinstance(value, str) and 0 < len(value) <= (MAX_ID if prefix else 512) and value.startswith(prefix)


def _part(block: Fields, images: Images, note: Note) -> dict[str, Any]:
    if block["type"] == "text":
        return {"type": "input_text", "text": block["text"]}
    admitted = admitted_image(block, images, note)
    if isinstance(admitted, str):
        return {"type": "input_text", "text": admitted}
    media_type, data = admitted
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{media_type};base64,{data}"}
