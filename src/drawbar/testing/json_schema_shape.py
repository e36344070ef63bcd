"""Whether a value has the shape of a JSON Schema (draft 2020-12), as far as tool definitions use it."""

from __future__ import annotations

from typing import Any, Final, cast

__all__ = ["schema_fault"]

_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_ONE: Final = frozenset({"items", "not", "if", "then", "else", "contains", "additionalProperties", "propertyNames"})
_MANY: Final = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_COUNTS: Final = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"}
)
_NUMBERS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})


def schema_fault(schema: Any, where: str = "$") -> str | None:
    """What is wrong with ``schema`` and where, or None."""
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, dict):
        return f"{where} is no schema"
    for key, value in cast("dict[str, Any]", schema).items():
        fault = _keyword_fault(key, value, f"{where}.{key}")
        if fault:
            return fault
    return None


def _keyword_fault(key: str, value: Any, where: str) -> str | None:
    if key == "type":
        words = cast("list[Any]", value) if isinstance(value, list) else [value]
        return None if words and all(word in _TYPES for word in words) else f"{where} is no type"
    if key in _ONE:
        return schema_fault(value, where)
    if key in _MANY:
        return (
            _each(cast("Any", value), where) if isinstance(value, list) and value else f"{where} is no list of schemas"
        )
    if key in _NAMED:
        return _each(cast("Any", value), where) if isinstance(value, dict) else f"{where} is no object of schemas"
    if key == "required":
        names = cast("list[Any]", value) if isinstance(value, list) else [None]
        valid = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
        return None if valid else f"{where} is no list of different names"
    if key == "enum":
        return None if isinstance(value, list) else f"{where} is no list"
    if key in _COUNTS:
        return None if type(value) is int and value >= 0 else f"{where} is no count"
    if key in _NUMBERS:
        return None if type(value) in (int, float) else f"{where} is no number"
    if key in ("description", "title", "pattern", "format", "$ref", "$id", "$schema"):
        return None if isinstance(value, str) else f"{where} is no text"
    return None


def _each(schemas: dict[str, Any] | list[Any], where: str) -> str | None:
    pairs = schemas.items() if isinstance(schemas, dict) else enumerate(schemas)
    return next((fault for name, schema in pairs if (fault := schema_fault(schema, f"{where}.{name}"))), None)
