"""What a model is told when its arguments don't fit: the fields that the tool takes, by name and type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from drawbar.contracts.codec import json_schema
from drawbar.contracts.tool import ToolSpec

__all__ = ["argument_help"]

_Schema = Mapping[str, Any]


def argument_help(spec: ToolSpec) -> str:
    """One sentence such as ``Send {"path": string, "limit"?: integer}``."""
    schemas, components = ([spec.schema], {}) if spec.schema is not None else json_schema([spec.input])
    whole = _resolved(schemas[0], components)
    required = set(cast("list[str]", whole.get("required", [])))
    fields = ", ".join(
        f'"{name}"{"" if name in required else "?"}: {_kind(field, components)}'
        for name, field in cast("dict[str, _Schema]", whole.get("properties", {})).items()
    )
    return f"Send {{{fields}}}"


def _resolved(schema: _Schema, components: _Schema) -> _Schema:
    reference = schema.get("$ref")
    return components[cast("str", reference).rsplit("/", 1)[-1]] if reference else schema


def _kind(schema: _Schema, components: _Schema) -> str:
    schema = _resolved(schema, components)
    if "enum" in schema:
        return " | ".join(f'"{value}"' for value in schema["enum"] if value is not None)
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "anyOf" in schema:
        kinds = [_kind(option, components) for option in schema["anyOf"]]
        return " | ".join(kind for kind in dict.fromkeys(kinds) if kind != "null")
    if schema.get("type") == "array":
        return f"[{_kind(schema.get('items', {}), components)}, …]"
    if schema.get("type") == "object" and "properties" in schema:
        names = ", ".join(
            f'"{name}": {_kind(field, components)}'
            for name, field in cast("dict[str, _Schema]", schema["properties"]).items()
        )
        return f"{{{names}}}"
    return str(schema.get("type", "any"))
