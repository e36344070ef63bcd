"""What an image in a history really is, by its first bytes: providers compare them with what they are told."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from drawbar.models.conversation import Images, Note

__all__ = ["admitted_image", "media_type"]

_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def media_type(data: str) -> str | None:
    """The media type of base64 ``data``; None when it is no PNG, JPEG, GIF or WebP."""
    try:
        binascii.a2b_base64(data, strict_mode=True)
        head = base64.b64decode(data[:16])
    except ValueError:
        return None
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((name for magic, name in _MAGIC if head.startswith(magic)), None)


def admitted_image(block: Mapping[str, Any], images: Images, note: Note) -> tuple[str, str] | str:
    """``(media type, base64 data)`` of an image block, or the text to send in its place that says why (SES-20)."""
    data: str = block["data"]
    kind = media_type(data)
    if kind is None:
        note(f"left out an image ({block['mimeType']}) that is no PNG, JPEG, GIF or WebP")
        return "[An image stood here; it is no PNG, JPEG, GIF or WebP.]"
    if not images.admit(len(data)):
        return "[An image stood here; later ones fill the request.]"
    return kind, data
