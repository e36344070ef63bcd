"""What may count as a tool call's arguments and id, for protocols that send arguments as text (QLT-14)."""

from __future__ import annotations

from typing import Any, cast

from drawbar.contracts import codec

__all__ = ["strict_object", "unique_id"]


def strict_object(text: str) -> tuple[dict[str, Any], str | None]:
    """``(arguments, fault)``: arguments only if the whole text is an object; no text at all is an empty one."""
    if not text.strip():
        return {}, None
    try:
        arguments = codec.loads(text.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        return {}, f"its arguments are not valid JSON ({error})"
    if not isinstance(arguments, dict):
        return {}, "its arguments are no JSON object"
    return cast("dict[str, Any]", arguments), None


def unique_id(call_id: str, taken: set[str]) -> str:
    """``call_id``, or a new one when this reply has used it already or it is empty: pairs must stay matched."""
    name = call_id or "call"
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    taken.add(candidate)
    return candidate
