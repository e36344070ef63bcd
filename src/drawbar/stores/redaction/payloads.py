"""Redaction of event payloads: only what its schema declares free text (CON-35).

The walk of each type is worked out once from its declarations. Identifiers and opaque values are never
looked at, so that a secret's letters inside a digest or a signature change nothing (QLT-20).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any, TypeVar

from drawbar.contracts.codec import Struct, inspect, redaction_kind
from drawbar.contracts.engine import Redactor
from drawbar.contracts.events.human import SKETCH_COLUMNS, Choice

__all__ = ["payload_redactor", "redact_payload", "undeclared"]

S = TypeVar("S", bound=Struct)

_Walk = Callable[[Any, Redactor], Any]


def redact_payload(payload: S, redactor: Redactor) -> S:
    """``payload`` with its free text redacted; the same object when nothing matched."""
    return payload_redactor(type(payload))(payload, redactor)


@cache
def payload_redactor(kind: type[S]) -> Callable[[S, Redactor], S]:
    """The walk of one payload type."""
    return _of_struct(kind) or _unchanged


def undeclared(kind: type[Struct]) -> list[str]:
    """Fields of ``kind``, nested ones included, that hold text without saying of what sort (CON-35)."""
    return [f"{kind.__name__}.{place}" for place in _undeclared(inspect.type_info(kind), "")]


def _undeclared(inspected: Any, place: str) -> list[str]:
    if isinstance(inspected, inspect.Metadata):
        return [] if redaction_kind(inspected) else _undeclared(inspected.type, place)
    if isinstance(inspected, (inspect.StrType, inspect.AnyType, inspect.BytesType, inspect.RawType)):
        return [place]
    if isinstance(inspected, inspect.StructType):
        fields = inspected.fields
        return [at for field in fields for at in _undeclared(field.type, f"{place}.{field.name}".lstrip("."))]
    return [at for part in _parts(inspected) for at in _undeclared(part, place)]


def _parts(inspected: Any) -> tuple[Any, ...]:
    """The types that a composed type is made of."""
    if isinstance(inspected, inspect.UnionType):
        return inspected.types
    if isinstance(inspected, inspect.TupleType):
        return inspected.item_types
    if isinstance(inspected, inspect.DictType):
        return inspected.key_type, inspected.value_type
    item: Any = getattr(inspected, "item_type", None)
    return () if item is None else (item,)


def _of(inspected: Any) -> _Walk | None:
    """The walk of a field's type; None where there is nothing to redact."""
    if isinstance(inspected, inspect.Metadata):
        kind = redaction_kind(inspected)
        if kind == "free":
            return _capped(inspected.type)
        return None if kind else _of(inspected.type)
    if isinstance(inspected, inspect.StructType):
        return _of_struct(inspected.cls)
    if isinstance(inspected, (inspect.ListType, inspect.VarTupleType)):
        return _of_items(inspected.item_type)
    if isinstance(inspected, inspect.DictType):
        return _of_entries(inspected)
    if isinstance(inspected, inspect.UnionType):
        return _of_union(inspected)
    return None


def _of_struct(kind: type[Struct]) -> _Walk | None:
    struct = inspect.type_info(kind)
    assert isinstance(struct, inspect.StructType)
    walks: list[tuple[str, _Walk]] = [(field.name, found) for field in struct.fields if (found := _of(field.type))]
    if kind is Choice:
        walks = [(name, _sketch if name == "sketch" else of_field) for name, of_field in walks]
    if not walks:
        return None

    def walk(value: Any, redactor: Redactor) -> Any:
        changed: Any = None
        for name, of_field in walks:
            before = getattr(value, name)
            if before is None:
                continue
            after = of_field(before, redactor)
            if after is not before:
                if changed is None:
                    # Not `structs.replace`: what a type checks about its input was checked before (CON-35).
                    changed = copy(value)
                setattr(changed, name, after)
        return value if changed is None else changed

    return walk


def _of_items(item: Any) -> _Walk | None:
    of_item = _of(item)
    if of_item is None:
        return None

    def walk(value: Any, redactor: Redactor) -> Any:
        items = [of_item(item, redactor) for item in value]
        same = all(after is before for after, before in zip(items, value, strict=True))
        return value if same else type(value)(items)

    return walk


def _of_entries(inspected: inspect.DictType) -> _Walk | None:
    of_key, of_value = _of(inspected.key_type), _of(inspected.value_type)
    if of_key:
        return _whole
    if of_value is None:
        return None

    def walk(value: Any, redactor: Redactor) -> Any:
        entries = {key: of_value(item, redactor) for key, item in value.items()}
        return value if all(entries[key] is item for key, item in value.items()) else entries

    return walk


def _of_union(inspected: inspect.UnionType) -> _Walk | None:
    walks = [walk for part in inspected.types if (walk := _of(part))]
    if not walks:
        return None
    assert len(walks) == 1, "a field is one sort of text or none (CON-35)"
    return walks[0]


def _capped(inspected: Any) -> _Walk:
    """Free text or JSON; a placeholder longer than its secret is cut back to the field's limit."""
    limit: int | None = getattr(inspected, "max_length", None)
    if limit is None:
        return _text if isinstance(inspected, inspect.StrType) else _whole

    def walk(value: Any, redactor: Redactor) -> Any:
        after = redactor.text(value)
        return after if after is value or len(after) <= limit else after[:limit]

    return walk


def _text(value: Any, redactor: Redactor) -> Any:
    return redactor.text(value)


def _whole(value: Any, redactor: Redactor) -> Any:
    return redactor.value(value)


def _sketch(value: Any, redactor: Redactor) -> Any:
    """A sketch keeps its shape for the readers that check it (CON-22)."""
    after = redactor.text(value)
    return value if after is value else "\n".join(line[:SKETCH_COLUMNS] for line in after.split("\n"))


def _unchanged(value: Any, _redactor: Redactor) -> Any:
    return value
