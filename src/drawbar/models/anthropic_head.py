"""The part of a request that is fixed for a conversation: model, limits, tools, system prompt (PRM-3, PRM-4)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final

from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.model import RequestSettings
from drawbar.contracts.tool import ToolSpec
from drawbar.models.conversation import Head
from drawbar.models.encoding import encode_json
from drawbar.models.thinking import thinking_fields
from drawbar.models.tool_schema import tool_schema

__all__ = ["DEFAULT_MAX_TOKENS", "encode_head"]

DEFAULT_MAX_TOKENS: Final = 32000
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MARK: Final = {"cache_control": {"type": "ephemeral"}}
_STAND_IN: Final[dict[str, Any]] = {
    "name": "unavailable",
    "description": "No tool can be called in this request.",
    "input_schema": {"type": "object", "properties": {}, "additionalProperties": False},
}


def encode_head(settings: RequestSettings) -> Head:
    """Encode what is fixed; tools in order of name, so that the order they were found in changes nothing.

    Raises:
        InvalidInput: naming what is wrong with the settings.
    """
    if not settings.model.strip():
        raise InvalidInput("no model was chosen", field="model")
    max_tokens = DEFAULT_MAX_TOKENS if settings.max_output_tokens is None else settings.max_output_tokens
    if max_tokens < 1:
        raise InvalidInput(f"max_output_tokens is {max_tokens}; a reply needs at least one", field="max_output_tokens")
    tools = _tools(settings.tools)
    fields: dict[str, Any] = {
        "model": settings.model,
        "max_tokens": max_tokens,
        "stream": True,
        **thinking_fields(settings.model, settings.effort, max_tokens),
    }
    system: dict[str, Any] = {}
    if settings.system.strip():
        system = {"system": [{"type": "text", "text": settings.system, **_MARK}]}
    return Head(
        encoded=_opened({**fields, **_marked_tools(tools), **system}),
        stand_in=None
        if tools
        else _opened({**fields, "tools": [_STAND_IN], "tool_choice": {"type": "none"}, **system}),
        system_sha256=hashlib.sha256(encode_json(settings.system)).hexdigest(),
        tools_sha256=hashlib.sha256(encode_json(tools)).hexdigest(),
    )


def _tools(specs: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    names = [spec.name for spec in specs]
    for name in names:
        if not _TOOL_NAME.fullmatch(name):
            raise InvalidInput(f"the tool name {name!r} has other characters than letters, digits, _ and -", tool=name)
        if names.count(name) > 1:
            raise InvalidInput(f"two tools are called {name!r}", tool=name)
    return [
        {"name": spec.name, "description": spec.description, "input_schema": tool_schema(spec)}
        for spec in sorted(specs, key=lambda spec: spec.name)
    ]


def _marked_tools(tools: list[dict[str, Any]]) -> dict[str, Any]:
    return {"tools": [*tools[:-1], {**tools[-1], **_MARK}]} if tools else {}


def _opened(fields: dict[str, Any]) -> bytes:
    return encode_json(fields)[:-1] + b',"messages":['
