"""What may enter a conversation: every message is redacted once, here, before anything keeps it (CON-38).

After admission the history, the events and the requests hold the same bytes, so the request prefix stays
stable (PRM-3). Tools alone get what the model really wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drawbar.contracts.codec import as_object
from drawbar.contracts.engine import Redactor

SIGNED_FIELDS = ("thinkingSignature", "textSignature", "thoughtSignature")


@dataclass(frozen=True, slots=True)
class Admitted:
    """``stored`` goes to the history, ``sent`` into requests while this session lives; mostly the same object."""

    stored: dict[str, Any]
    sent: dict[str, Any]


def admit_assistant(message: Mapping[str, Any], streamed: Mapping[int, str], redactor: Redactor) -> Admitted:
    """Redact a completed assistant message.

    Args:
        message: as the provider client built it.
        streamed: the redacted text of each text block as it was streamed, by block index; the completed
            text is that, to the letter (CON-32).

    A signed block that holds a secret can't be changed without breaking its signature: it is sent back
    verbatim while the session lives and stored without the signature, which request builders leave out.
    """
    stored: list[Any] = []
    sent: list[Any] = []
    for index, block in enumerate(_blocks(message)):
        kind = block.get("type")
        if kind == "text" and streamed:
            clean = {**redactor.value(block), "text": streamed.get(index, "")}
        elif kind == "toolCall":
            clean = {**redactor.value(block), "id": block.get("id")}
        elif kind == "providerBlock" or any(field in block for field in SIGNED_FIELDS):
            clean = _signed(block, redactor)
            stored.append(clean)
            sent.append(block)
            continue
        else:
            clean = redactor.value(block)
        stored.append(clean)
        sent.append(clean)
    rest = {key: value for key, value in message.items() if key != "content"}
    return Admitted(stored={**rest, "content": stored}, sent={**rest, "content": sent})


def _signed(block: Mapping[str, Any], redactor: Redactor) -> Any:
    signatures = {field: block[field] for field in SIGNED_FIELDS if field in block}
    clear = {key: value for key, value in block.items() if key not in signatures}
    redacted = redactor.value(clear)
    if redacted == clear:
        return block
    return {"type": "thinking", "thinking": "", "redacted": True} if block["type"] == "providerBlock" else redacted


def text_of(message: Mapping[str, Any]) -> str:
    """The visible text of a message: its text blocks, joined."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(str(block.get("text", "")) for block in _blocks(message) if block.get("type") == "text")


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content: Any = message.get("content")
    return [block for block in map(as_object, content if isinstance(content, list) else ()) if block is not None]  # pyright: ignore[reportUnknownArgumentType]
