"""The only module that touches the serialisation library (ARC-3): strict for requests, lenient for files.

Structs declared from :class:`Record` read older and newer files alike: a missing field takes its
default and an unknown one is ignored by the typed view (the raw line keeps it, CON-8). Structs declared
from :class:`Request` refuse unknown fields, because a request that says more than we understand must not
be half obeyed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, inspect

from drawbar.contracts.errors import InvalidInput

__all__ = [
    "UNSET",
    "Free",
    "FreeJson",
    "FrozenRecord",
    "Ident",
    "Meta",
    "Opaque",
    "OpaqueJson",
    "Raw",
    "Record",
    "Request",
    "Struct",
    "UnsetType",
    "as_object",
    "convert",
    "decode",
    "decoder",
    "encode",
    "field_names",
    "indent",
    "inspect",
    "json_schema",
    "loads",
    "redaction_kind",
    "struct_field_types",
    "values_of",
]

T = TypeVar("T")

REDACTION = "x-redaction"

# CON-35: how a payload field is treated by redaction is part of its type.
Free = Annotated[str, Meta(extra_json_schema={REDACTION: "free"})]
"""Free text written by a person, a model or a program: redacted."""
Ident = Annotated[str, Meta(extra_json_schema={REDACTION: "ident"})]
"""A name, id, code, path-free key or digest that the harness chose: never redacted."""
Opaque = Annotated[str, Meta(extra_json_schema={REDACTION: "opaque"})]
"""Validated binary text (base64, signatures): never redacted."""
FreeJson = Annotated[Any, Meta(extra_json_schema={REDACTION: "free"})]
"""Any JSON value whose strings (keys included) are free text."""
OpaqueJson = Annotated[Any, Meta(extra_json_schema={REDACTION: "opaque"})]
"""Any JSON value that is passed through untouched (numbers, vendor counters)."""


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Base of what is read from and written to files: lenient on reading (CON-8)."""


class FrozenRecord(msgspec.Struct, kw_only=True, frozen=True):
    """A value that is digested: immutable, every field written out."""


class Request(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of what a caller or a model sends: strict (ARC-3)."""


_ENCODER = msgspec.json.Encoder()
_SORTED = msgspec.json.Encoder(order="deterministic")
_ANY = msgspec.json.Decoder()


def encode(value: Any, *, canonical: bool = False) -> bytes:
    """Compact UTF-8 JSON of ``value``; ``canonical`` sorts keys, for digests.

    Raises:
        UnicodeEncodeError: if a string holds a lone surrogate (clean text before it gets here).
    """
    return _SORTED.encode(value) if canonical else _ENCODER.encode(value)


def loads(data: bytes | str) -> Any:
    """Any JSON value; raises :class:`ValueError` (``msgspec.DecodeError``) on what is not JSON."""
    return _ANY.decode(data)


def indent(encoded: bytes) -> bytes:
    """The same JSON with one key a line, for files that people read."""
    return msgspec.json.format(encoded, indent=2)


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """A reusable decoder for ``kind``; build once, it is the expensive part."""
    return msgspec.json.Decoder(kind)


def decode(data: bytes | str, kind: type[T], *, what: str) -> T:
    """Decode strictly by type.

    Args:
        data: JSON text.
        kind: the struct to decode into.
        what: named in the error, such as ``"config"``.

    Raises:
        InvalidInput: naming the field that does not fit.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{what}: {error}", what=what) from error


def convert(value: Any, kind: type[T], *, what: str) -> T:
    """As :func:`decode`, from already parsed JSON values."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{what}: {error}", what=what) from error


def as_object(value: Any) -> dict[str, Any] | None:
    """``value`` when it is a JSON object, else None: for data whose shape nobody promised."""
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def values_of(value: msgspec.Struct, *, leave_out: Container[str] = ()) -> dict[str, Any]:
    """A struct's fields by name, as they are, but for those to leave out."""
    return {name: getattr(value, name) for name in value.__struct_fields__ if name not in leave_out}


def field_names(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The encoded field names of a struct."""
    return kind.__struct_encode_fields__


def struct_field_types(kind: type[msgspec.Struct]) -> list[tuple[str, Any]]:
    """``(encoded name, inspected type)`` of each field, for walkers such as redaction."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return [(field.encode_name, field.type) for field in info.fields]


def redaction_kind(inspected: Any) -> str | None:
    """``free``, ``ident``, ``opaque`` or None for an inspected type (see :func:`struct_field_types`)."""
    extra = getattr(inspected, "extra_json_schema", None)
    return extra.get(REDACTION) if extra else None


def json_schema(kinds: Iterable[type[Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """JSON Schemas of ``kinds`` and their shared components (CON-16)."""
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    return list(schemas), components
