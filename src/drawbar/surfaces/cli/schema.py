"""``drawbar schema``: JSON Schema of the run record, every event payload and every method (CON-16)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from drawbar.contracts.errors import NotFound
from drawbar.surfaces.cli.shell import Command

__all__ = ["published_schema", "schema"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def published_schema() -> dict[str, Any]:
    """The whole schema, made from the very definitions that validate.

    ``{$schema, record, event, payloads: {type: schema}, retired, methods: {name: {summary, input, output,
    errors}}, $defs}``; every schema in it refers to ``#/$defs/…``.
    """
    from drawbar.contracts.codec import json_schema
    from drawbar.contracts.events import PAYLOADS, RETIRED, Event
    from drawbar.contracts.methods import METHODS
    from drawbar.contracts.run import RunRecord

    payloads = list(PAYLOADS.values())
    inputs = [method.input for method in METHODS.values()]
    outputs = [method.output for method in METHODS.values()]
    schemas, shared = json_schema([RunRecord, Event, *payloads, *inputs, *outputs])
    record, event, *rest = schemas
    first, second = len(payloads), len(payloads) + len(inputs)
    return {
        "$schema": DIALECT,
        "record": record,
        "event": event,
        "payloads": dict(zip(PAYLOADS, rest[:first], strict=True)),
        "retired": dict(RETIRED),
        "methods": {
            method.name: {"summary": method.summary, "input": given, "output": taken, "errors": list(method.errors)}
            for method, given, taken in zip(METHODS.values(), rest[first:second], rest[second:], strict=True)
        },
        "$defs": shared,
    }


def one_schema(whole: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The schema of one record, event type or method with the definitions that it refers to.

    Raises:
        NotFound: nothing is called that.
    """
    found = whole["payloads"].get(name) or whole["methods"].get(name)
    if name in ("record", "event"):
        found = whole[name]
    if found is None:
        known = ", ".join(["record", "event", *whole["payloads"], *whole["methods"]])
        raise NotFound(f"no schema {name!r}; there are {known}", name=name)
    needed: dict[str, Any] = {}
    _collect(found, whole["$defs"], needed)
    return {"$schema": DIALECT, **found, "$defs": dict(sorted(needed.items()))}


def _collect(node: Any, shared: Mapping[str, Any], needed: dict[str, Any]) -> None:
    if isinstance(node, dict):
        reference: Any = node.get("$ref")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(reference, str):
            name = reference.rpartition("/")[2]
            if name not in needed:
                needed[name] = shared[name]
                _collect(shared[name], shared, needed)
        for value in node.values():  # pyright: ignore[reportUnknownVariableType]
            _collect(value, shared, needed)
    elif isinstance(node, list):
        for value in node:  # pyright: ignore[reportUnknownVariableType]
            _collect(value, shared, needed)


@click.command(cls=Command, epilog="Example: drawbar schema tool.started")
@click.argument("name", required=False)
@click.option("--json", is_flag=True, expose_value=False, help="The same: a schema is JSON.")
def schema(name: str | None) -> int:
    """Print the JSON Schema of the run record, every event and every method, or of the one called NAME."""
    from drawbar.contracts.codec import encode, indent

    whole = published_schema()
    sys.stdout.buffer.write(indent(encode(whole if name is None else one_schema(whole, name))) + b"\n")
    return 0
