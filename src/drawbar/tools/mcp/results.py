"""What a server answered, as a tool's result: bounded, and the rest kept for the person (QLT-12, ENG-6)."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

from drawbar.contracts.codec import encode
from drawbar.contracts.tool import ToolContext, ToolResult
from drawbar.tools.escapes import plain_text
from drawbar.tools.truncation import MAX_BYTES, MAX_LINES, head, size, well_formed

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["result_of"]

_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MOST_PICTURES: Final = 8
_LARGEST_PICTURE: Final = 4 << 20


def result_of(answer: CallToolResult, server: str, context: ToolContext) -> ToolResult:
    """The one result of a call.

    A text over the limit is cut, and says its size, the limit and what to do: what was cut lies in the run's folder,
    which the model can't read (MCP-03).
    """
    texts: list[str] = []
    pictures: list[dict[str, Any]] = []
    for block in answer.content:
        if block.type == "text":
            texts.append(block.text)
        elif block.type == "image" and len(pictures) < _MOST_PICTURES and _picture(block.data, block.mime_type):
            pictures.append({"type": "image", "data": block.data, "mimeType": block.mime_type})
        else:
            texts.append(_other(block))
    if not answer.content and answer.structured_content is not None:
        texts.append(encode(answer.structured_content).decode())
    whole = plain_text(well_formed("\n".join(texts)))
    context.on_output(whole)
    shown = head(whole, lines=MAX_LINES, limit=MAX_BYTES)
    text, artifact = shown.text, None
    if not shown.whole:
        artifact = context.keep_output()
        total = len(whole.encode())
        text += (
            f"\n[The answer of {server} was {size(total)}; at most {size(MAX_BYTES)} of one are shown, and the rest "
            "can't be read later. Ask for less: a narrower query, a page, fewer fields.]"
        )
    if not text and not pictures:
        text = f"[{server} answered with nothing]"
    content = ([{"type": "text", "text": text}] if text else []) + pictures
    failed = bool(answer.is_error)
    return ToolResult(content=content, is_error=failed, cause="error" if failed else "ok", artifact=artifact)


def _picture(data: str, kind: str) -> bool:
    if kind not in _PICTURES or len(data) > _LARGEST_PICTURE * 4 // 3:
        return False
    try:
        return bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False


def _other(block: Any) -> str:
    """What a block says that can't be passed on as it is."""
    if block.type == "resource":
        text = getattr(block.resource, "text", None)
        where = str(block.resource.uri)[:500]
        return f"{where}:\n{text}" if isinstance(text, str) else f"[{where}: binary content, which isn't shown]"
    if block.type == "resource_link":
        return f"[a link: {str(block.uri)[:500]} {(block.description or '')[:500]}]"
    return f"[{block.type} of type {str(block.mime_type)[:80]}, which can't be shown]"
