"""The JSON Schema of a tool's input as providers take it: one flat object, no references, nothing extra allowed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, cast

from drawbar.contracts import codec
from drawbar.contracts.codec import Request
from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.tool import ToolSpec

__all__ = ["tool_schema"]

_REF: Final = "#/$defs/"
# Words of the schema library that no provider needs; a struct's own docstring is for readers of the code.
_DROPPED: Final = frozenset({"title", "discriminator"})


def tool_schema(spec: ToolSpec) -> dict[str, Any]:
    """The schema of ``spec.input``: ``type: object`` with every nested struct written out in place.

    A connector brings its own (``spec.schema``), which is passed on as it is.

    Descriptions come from the fields' ``Meta(description=…)``; every object refuses unknown fields.

    Raises:
        InvalidInput: naming the tool, when its input is recursive and so can't be written out.
    """
    return _schema(spec.name, spec.input) if spec.schema is None else dict(spec.schema)


@lru_cache(maxsize=256)
def _schema(name: str, kind: type[Request]) -> dict[str, Any]:
    (schema,), components = codec.json_schema([kind])
    return _flat(schema, components, (), name)


def _flat(node: Any, components: dict[str, Any], inside: tuple[str, ...], tool: str) -> Any:
    if isinstance(node, list):
        return [_flat(item, components, inside, tool) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    fields = cast("dict[str, Any]", node)
    reference = fields.get("$ref")
    if isinstance(reference, str):
        target = reference.removeprefix(_REF)
        if target in inside:
            raise InvalidInput(f"the input of tool {tool!r} is recursive ({target}); make it a tree", tool=tool)
        beside = {key: value for key, value in fields.items() if key != "$ref"}
        # The docstring of a nested struct gives way to the description of the field that holds it.
        return _flat({**_undocumented(components[target]), **beside}, components, (*inside, target), tool)
    flat: dict[str, Any] = {}
    for key, value in fields.items():
        if key in _DROPPED or key.startswith("x-"):
            continue
        if key == "properties":
            flat[key] = {field: _flat(part, components, inside, tool) for field, part in value.items()}
        elif key in ("default", "const", "enum"):
            flat[key] = value
        else:
            flat[key] = _flat(value, components, inside, tool)
    if flat.get("type") == "object" and "properties" in flat:
        flat.setdefault("additionalProperties", False)
    return flat


def _undocumented(struct: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in struct.items() if key != "description"}
