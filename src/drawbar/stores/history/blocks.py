"""Message contents as providers take them: known blocks, whole, non-empty, within their sizes (QLT-7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drawbar.contracts.codec import as_object
from drawbar.stores.history.lines import parse
from drawbar.stores.history.roles import Message
from drawbar.stores.history.text import cut_text

__all__ = ["SizeLimits", "assistant_content", "coerced_arguments", "input_content"]

Block = dict[str, Any]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """What one message may weigh in a request, whatever the history holds (SES-17, SES-19).

    Attributes:
        result_characters: of a tool result's text; head and tail of a longer one are sent.
        image_characters: of one image in base64; a larger one is replaced by a note.
    """

    result_characters: int = 200_000
    image_characters: int = 5 * 2**20


def input_content(message: Message, limits: SizeLimits, report: Report) -> str | list[Block]:
    """The content of a user message or a tool result: text and image blocks, or a user's plain text.

    Empty when nothing is left. An unknown block with text becomes text.
    """
    content: Any = message.get("content")
    role = str(message.get("role"))
    if isinstance(content, str) and role == "user":
        return content if content.strip() else []
    blocks: list[Block] = []
    for block in _listed(content):
        kind = block.get("type")
        if kind == "image":
            blocks.append(_image(block, limits, report))
        elif isinstance(block.get("text"), str):
            if block["text"].strip():
                blocks.append(block if kind == "text" else {"type": "text", "text": block["text"]})
        else:
            report(f"a block of type {kind!r} in a {role} message was left out")
    return blocks if role == "user" else _bounded(blocks, limits.result_characters, report)


def assistant_content(message: Message, report: Report) -> list[Block]:
    """The content of an assistant message: text, thinking, calls, and provider blocks as they were (MDL-2)."""
    blocks: list[Block] = []
    for block in _listed(message.get("content")):
        match block.get("type"):
            case "text":
                if isinstance(block.get("text"), str) and block["text"].strip():
                    blocks.append(block)
            case "thinking":
                if (kept := _thinking(block)) is not None:
                    blocks.append(kept)
            case "toolCall":
                blocks.append(block)
            case str(kind) if kind != "image":
                blocks.append(block)
            case kind:
                report(f"a block of type {kind!r} in an assistant message was left out")
    return blocks


def coerced_arguments(arguments: Any, call: str, report: Report) -> dict[str, Any]:
    """Tool arguments as an object: JSON text is parsed, anything else goes under ``input``."""
    if (table := as_object(arguments)) is not None:
        return table
    report(f"the arguments of call {call} were no object")
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        try:
            parsed = as_object(parse(arguments.encode()))
        except ValueError:
            parsed = None
        if parsed is not None:
            return parsed
        return {"input": arguments} if arguments.strip() else {}
    return {"input": arguments}


def _listed(content: Any) -> list[Block]:
    if content is None:
        return []
    items: list[Any] = content if isinstance(content, list) else [content]  # pyright: ignore[reportUnknownVariableType]
    texts_as_blocks = [{"type": "text", "text": item} if isinstance(item, str) else as_object(item) for item in items]
    return [block for block in texts_as_blocks if block is not None]


def _thinking(block: Block) -> Block | None:
    signed = isinstance(block.get("thinkingSignature"), str) and block["thinkingSignature"]
    thinking = block.get("thinking")
    if isinstance(thinking, str):
        return block if thinking.strip() or signed else None
    return {**block, "thinking": ""} if signed else None


def _image(block: Block, limits: SizeLimits, report: Report) -> Block:
    data, kind = block.get("data"), block.get("mimeType")
    if not isinstance(data, str) or not data or not isinstance(kind, str) or not kind:
        report("an image without data was left out")
        return {"type": "text", "text": "[An image stood here; its data is missing.]"}
    if len(data) > limits.image_characters:
        size, most = len(data) / 2**20, limits.image_characters / 2**20
        report(f"an image of {size:.1f} MiB ({kind}) was left out: at most {most:.1f} MiB can be sent")
        return {"type": "text", "text": f"[An image of {size:.1f} MiB stood here; it is too large to be sent.]"}
    return block


def _bounded(blocks: list[Block], limit: int, report: Report) -> list[Block]:
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    total = sum(map(len, texts))
    if total <= limit:
        return blocks
    report(f"a tool result of {total} characters was cut to {limit}")
    cut = {"type": "text", "text": cut_text("\n".join(texts), limit)}
    return [cut, *(block for block in blocks if block["type"] != "text")]
