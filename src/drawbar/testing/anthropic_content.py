"""The block-level half of Anthropic's rules: which blocks a message may hold and what each must look like."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast

__all__ = ["CACHE_MARKERS", "Checker", "check_blocks", "check_text", "refuse"]

CACHE_MARKERS: Final = 4
MAX_IMAGE_BYTES: Final = 5 * 1024 * 1024
MAX_IMAGES: Final = 100
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_SIGNS: Final = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
# Blocks of the provider's own tools: only their presence in a reply is checked.
_PROVIDER_BLOCK = re.compile(r"server_tool_use|mcp_tool_use|\w+_tool_result|compaction|container_upload")


def refuse(message: str) -> NoReturn:
    """Refuse the request; the caller turns this into the service's answer."""
    raise ValueError(message)


@dataclass(slots=True)
class Checker:
    """What is counted over a whole request."""

    tools: list[str]
    markers: int = 0
    images: int = 0

    def fields(self, item: Any, where: str, known: set[str]) -> dict[str, Any]:
        """``item`` as an object with no other fields than ``known``."""
        if not isinstance(item, dict):
            refuse(f"{where}: Input should be a valid dictionary or object")
        fields = cast("dict[str, Any]", item)
        for name in fields:
            if name not in known:
                refuse(f"{where}.{name}: Extra inputs are not permitted")
        if fields.get("cache_control") is not None:
            self.check_marker(fields["cache_control"], where)
            self.markers += 1
        return fields

    @staticmethod
    def check_marker(marker: Any, where: str) -> None:
        fields = cast("dict[str, Any]", marker) if isinstance(marker, dict) else {}
        if fields.get("type") != "ephemeral" or fields.get("ttl", "5m") not in ("5m", "1h"):
            refuse(f"{where}.cache_control: Input should be an ephemeral cache marker")

    @staticmethod
    def is_tool_name(name: str) -> bool:
        return _TOOL_NAME.fullmatch(name) is not None


def check_text(text: Any, where: str, whole: str) -> None:
    """A text that the service takes: not empty, not blank."""
    if not isinstance(text, str):
        refuse(f"{where}.text: Input should be a valid string")
    if not text:
        refuse(f"{whole}: text content blocks must be non-empty")
    if not text.strip():
        refuse(f"{whole}: text content blocks must contain non-whitespace text")


def check_blocks(content: Any, role: str, where: str, checker: Checker) -> list[dict[str, Any]]:
    """The blocks of one message, each checked."""
    if isinstance(content, str):
        check_text(content, f"{where}.content", "messages")
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        refuse(f"{where}.content: Input should be a valid string or list")
    if not content:
        refuse(f"{where}: {role} messages must have non-empty content")
    items = cast("list[Any]", content)
    return [_check_block(item, role, f"{where}.content.{at}", checker) for at, item in enumerate(items)]


def _check_block(item: Any, role: str, where: str, checker: Checker) -> dict[str, Any]:
    kind = cast("dict[str, Any]", item).get("type") if isinstance(item, dict) else None
    if not isinstance(kind, str):
        refuse(f"{where}.type: Field required")
    if kind == "text":
        block = checker.fields(item, where, {"type", "text", "cache_control", "citations"})
        check_text(block.get("text"), where, "messages")
        return block
    if role == "user" and kind == "image":
        return _check_image(item, where, checker)
    if role == "user" and kind == "tool_result":
        return _check_result(item, where, checker)
    if role == "assistant" and kind == "tool_use":
        return _check_use(item, where, checker)
    if role == "assistant" and kind == "thinking":
        return _check_thinking(item, where, checker)
    if role == "assistant" and kind == "redacted_thinking":
        block = checker.fields(item, where, {"type", "data"})
        if not isinstance(block.get("data"), str) or not block["data"]:
            refuse(f"{where}.redacted_thinking.data: Field required")
        return block
    if role == "assistant" and _PROVIDER_BLOCK.fullmatch(kind):
        return cast("dict[str, Any]", item)
    refuse(
        f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags of a {role} message"
    )


def _check_thinking(item: Any, where: str, checker: Checker) -> dict[str, Any]:
    block = checker.fields(item, where, {"type", "thinking", "signature"})
    if not isinstance(block.get("thinking"), str):
        refuse(f"{where}.thinking.thinking: Field required")
    if not isinstance(block.get("signature"), str):
        refuse(f"{where}.thinking.signature: Field required")
    if not block["signature"]:
        refuse(f"{where}: Invalid `signature` in `thinking` block")
    return block


def _check_use(item: Any, where: str, checker: Checker) -> dict[str, Any]:
    if not checker.tools:
        refuse("Requests which include `tool_use` or `tool_result` blocks must define tools")
    block = checker.fields(item, where, {"type", "id", "name", "input", "cache_control", "caller"})
    if not isinstance(block.get("id"), str) or not _ID.fullmatch(block["id"]):
        refuse(f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not isinstance(block.get("name"), str) or not _TOOL_NAME.fullmatch(block["name"]):
        refuse(f"{where}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    if not isinstance(block.get("input"), dict):
        refuse(f"{where}.tool_use.input: Input should be a valid dictionary")
    return block


def _check_result(item: Any, where: str, checker: Checker) -> dict[str, Any]:
    if not checker.tools:
        refuse("Requests which include `tool_use` or `tool_result` blocks must define tools")
    block = checker.fields(item, where, {"type", "tool_use_id", "content", "is_error", "cache_control"})
    if not isinstance(block.get("tool_use_id"), str) or not _ID.fullmatch(block["tool_use_id"]):
        refuse(f"{where}.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    failed = block.get("is_error", False)
    if type(failed) is not bool:
        refuse(f"{where}.tool_result.is_error: Input should be a valid boolean")
    content = block.get("content", [])
    if failed and not content:
        refuse(f"{where}.tool_result: content cannot be empty if `is_error` is true")
    if isinstance(content, str):
        return block
    if not isinstance(content, list):
        refuse(f"{where}.tool_result.content: Input should be a valid string or list")
    for at, inner in enumerate(cast("list[Any]", content)):
        inside = f"{where}.tool_result.content.{at}"
        kind = cast("dict[str, Any]", inner).get("type") if isinstance(inner, dict) else None
        if kind == "text":
            check_text(checker.fields(inner, inside, {"type", "text", "cache_control"}).get("text"), inside, "messages")
        elif kind != "image":
            refuse(f"{inside}: Input tag '{kind}' does not match any of the expected tags: 'text', 'image'")
        elif failed:
            refuse(f"{where}.tool_result: all content must be type `text` if `is_error` is true")
        else:
            _check_image(inner, inside, checker)
    return block


def _check_image(item: Any, where: str, checker: Checker) -> dict[str, Any]:
    block = checker.fields(item, where, {"type", "source", "cache_control"})
    source = checker.fields(block.get("source"), f"{where}.image.source", {"type", "media_type", "data"})
    media_type, data = source.get("media_type"), source.get("data")
    if source.get("type") != "base64" or media_type not in _SIGNS:
        refuse(f"{where}.image.source.base64.media_type: Input should be {', '.join(map(repr, _SIGNS))}")
    if not isinstance(data, str) or not data:
        refuse(f"{where}.image.source.base64.data: Field required")
    if len(data) > MAX_IMAGE_BYTES:
        refuse(f"{where}.image.source.base64: image exceeds 5 MB maximum: {len(data)} bytes > {MAX_IMAGE_BYTES} bytes")
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        refuse(f"{where}.image.source.base64.data: Invalid base64 data")
    if not base64.b64decode(data[:16]).startswith(_SIGNS[media_type]):
        refuse(f"{where}.image.source.base64: The image does not appear to be a {media_type} image")
    checker.images += 1
    if checker.images > MAX_IMAGES:
        refuse(f"messages: Too many images and documents: {checker.images} > {MAX_IMAGES}")
    return block
