"""Arguments of a tool that only a JSON Schema describes: an object, held to the plain part of that schema (PRO-3).

Types, enums, required and unknown fields are checked, so that the model hears at once what is wrong. Patterns and
combinations aren't: a pattern of somebody else's may take a century, and whoever serves the tool checks again anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from drawbar.contracts.codec import Request
from drawbar.contracts.errors import InvalidInput

__all__ = ["OpenArguments", "read_open_arguments"]

_DEEPEST: Final = 64
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class OpenArguments(Request):
    """What was given, as it was given."""

    values: dict[str, Any]


def read_open_arguments(arguments: Any, schema: Mapping[str, Any], *, what: str) -> OpenArguments:
    """Check arguments against a schema without references.

    Raises:
        InvalidInput: naming the tool, the field and what it should be.
    """
    if not isinstance(arguments, dict):
        raise InvalidInput(f"{what}: the arguments must be an object", field="arguments")
    values = cast("dict[str, Any]", arguments)
    fault = _fault(values, schema, "", 0)
    if fault is not None:
        raise InvalidInput(f"{what}: {fault}", field="arguments")
    return OpenArguments(values=values)


def _fault(value: Any, schema: Any, where: str, depth: int) -> str | None:
    if not isinstance(schema, dict):
        return None
    here = where or "the arguments"
    if depth > _DEEPEST:
        return f"{here} is nested too deeply"
    rules = cast("dict[str, Any]", schema)
    known = _known_types(rules.get("type"))
    if known and not any(_is(value, name) for name in known):
        return f"{here} must be {' or '.join(known)}, not {_name(value)}"
    choices = rules.get("enum")
    if isinstance(choices, list) and not any(_same(value, choice) for choice in cast("list[Any]", choices)):
        shown = ", ".join(repr(choice) for choice in cast("list[Any]", choices)[:20])
        return f"{here} must be one of {shown}"
    if isinstance(value, dict):
        return _object_fault(cast("dict[str, Any]", value), rules, where, depth)
    if isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            fault = _fault(item, rules.get("items"), f"{where}[{number}]", depth + 1)
            if fault is not None:
                return fault
    return None


def _object_fault(value: dict[str, Any], rules: Mapping[str, Any], where: str, depth: int) -> str | None:
    given = rules.get("properties")
    fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    required = rules.get("required")
    for name in cast("Sequence[Any]", required) if isinstance(required, list) else ():
        if isinstance(name, str) and name not in value:
            return f"{_field(where, name)} is missing"
    for name, item in value.items():
        if name in fields:
            fault = _fault(item, fields[name], _field(where, name), depth + 1)
        elif rules.get("additionalProperties") is False and "patternProperties" not in rules:
            fault = f"there is no field {_field(where, name)}"
        else:
            fault = _fault(item, rules.get("additionalProperties"), _field(where, name), depth + 1)
        if fault is not None:
            return fault
    return None


def _known_types(named: Any) -> list[str]:
    """The types that a schema allows; none where it names one that doesn't exist."""
    names = cast("list[Any]", named) if isinstance(named, list) else [named]
    return cast("list[str]", names) if all(isinstance(name, str) and name in _TYPES for name in names) else []


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _same(value: Any, choice: Any) -> bool:
    return isinstance(value, bool) == isinstance(choice, bool) and value == choice


def _name(value: Any) -> str:
    return next(
        name for name in ("boolean", "integer", "number", "string", "array", "object", "null") if _is(value, name)
    )


def _field(where: str, name: str) -> str:
    return f"{where}.{name}" if where else f"`{name[:80]}`"
