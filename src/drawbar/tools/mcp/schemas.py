"""A server's JSON Schema as every provider takes it: one bounded object without references (PRO-3).

References are written out in place; where one leads into itself, or nowhere, anything goes from there on. The words
that only some providers take at the top (``anyOf`` and its like) go: the server checks its arguments anyway.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from drawbar.boundary.shown import shown
from drawbar.contracts.codec import encode, loads

__all__ = ["SchemaRefused", "portable_schema"]

_MOST_BYTES: Final = 32 * 1024
_DEEPEST: Final = 32
_MOST_NODES: Final = 4_000
_TEXT: Final = 2_000
_DROPPED: Final = frozenset(
    {"$schema", "$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$comment", "$defs", "definitions", "$vocabulary"}
)
_NOT_AT_THE_TOP: Final = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const"})
_BY_NAME: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_TEXTS: Final = frozenset({"description", "title"})
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_FIELD: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMAS: Final = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
     "unevaluatedItems", "unevaluatedProperties"}
)  # fmt: skip


class SchemaRefused(Exception):
    """A schema that can't be offered to a model; the message says why."""


def portable_schema(raw: Any) -> dict[str, Any]:
    """The schema to offer.

    Raises:
        SchemaRefused: it describes no object, or is too large or too deep.
    """
    if not isinstance(raw, dict):
        raise SchemaRefused("its input schema is no object")
    whole = cast("dict[str, Any]", raw)
    flat = _Writer(whole).written(whole, (), 0)
    if flat.get("type", "object") != "object":
        raise SchemaRefused("its input schema describes no object")
    top = {key: value for key, value in flat.items() if key not in _NOT_AT_THE_TOP}
    top["type"] = "object"
    odd = next((name for name in top.setdefault("properties", {}) if not _FIELD.fullmatch(name)), None)
    if odd is not None:
        raise SchemaRefused(f"its field {shown(odd[:80], one_line=True)!r} has a name that models can't be given")
    try:
        written = encode(top)
    except (UnicodeEncodeError, ValueError, TypeError, RecursionError) as error:
        raise SchemaRefused("its input schema can't be written as JSON") from error
    if len(written) > _MOST_BYTES:
        raise SchemaRefused(f"its input schema takes {len(written):,} bytes, more than {_MOST_BYTES:,}")
    # As it will be read back, so that what was kept and what is listed anew can be compared.
    return cast("dict[str, Any]", loads(written))


class _Writer:
    """Writes one schema out; what it has written is counted, since references multiply."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole = whole
        self._nodes = 0

    def written(self, node: Any, inside: tuple[str, ...], depth: int) -> dict[str, Any]:
        self._nodes += 1
        if depth > _DEEPEST or self._nodes > _MOST_NODES:
            raise SchemaRefused("its input schema is too deep or too large")
        if not isinstance(node, dict):
            return {"not": {}} if node is False else {}
        fields = cast("dict[str, Any]", node)
        reference = fields.get("$ref")
        if reference is not None:
            return self._referred(reference, fields, inside, depth)
        return {key: self._value(key, value, inside, depth) for key, value in fields.items() if _kept(key, value)}

    def _referred(
        self, reference: Any, fields: Mapping[str, Any], inside: tuple[str, ...], depth: int
    ) -> dict[str, Any]:
        beside = {key: value for key, value in fields.items() if key != "$ref"}
        target = None if reference in inside else self._target(reference)
        if target is None:
            return self.written(beside, inside, depth + 1)
        return self.written({**target, **beside}, (*inside, str(reference)), depth + 1)

    def _target(self, reference: Any) -> dict[str, Any] | None:
        """What a pointer into this very schema leads to; None for any other reference."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found: Any = self._whole
        for part in reference.removeprefix("#").split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
        return cast("dict[str, Any]", found) if isinstance(found, dict) else None

    def _value(self, key: str, value: Any, inside: tuple[str, ...], depth: int) -> Any:
        if key in _BY_NAME:
            parts = cast("dict[str, Any]", value)
            return {name: self.written(part, inside, depth + 1) for name, part in parts.items()}
        if key in _LISTS:
            return [self.written(part, inside, depth + 1) for part in cast("list[Any]", value)]
        if key in _SCHEMAS:
            return value if isinstance(value, bool) else self.written(value, inside, depth + 1)
        if key in _TEXTS:
            return shown(value[:_TEXT])[:_TEXT]
        if key == "required":
            return [name for name in cast("list[Any]", value) if isinstance(name, str)]
        return value


def _kept(key: str, value: Any) -> bool:
    if key in _DROPPED:
        return False
    if key in _BY_NAME:
        return isinstance(value, dict)
    if key == "required":
        return isinstance(value, list) and any(isinstance(name, str) for name in cast("list[Any]", value))
    if key in _LISTS or key == "enum":
        return isinstance(value, list) and len(cast("list[Any]", value)) > 0
    if key in _SCHEMAS:
        return isinstance(value, dict | bool)
    if key in _TEXTS:
        return isinstance(value, str)
    if key == "type":
        names = cast("list[Any]", value) if isinstance(value, list) else [value]
        return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)
    return True
