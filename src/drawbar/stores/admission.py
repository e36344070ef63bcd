"""What an event must pass before it may be written: its schema, and redaction (CON-10, CON-12, CON-35)."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from drawbar.contracts.codec import Record, decode, decoder, encode, field_names
from drawbar.contracts.engine import Redactor
from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.lifecycle import ExtensionNotice
from drawbar.contracts.events.table import PAYLOADS
from drawbar.stores.log_lines import well_formed

__all__ = ["Unfit", "admit", "payload_of", "refusal"]

_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_MISSING = re.compile(r"Object missing required field `(.+?)`")
_FAULT_CHARS = 300
_NAMED = re.compile(r"([A-Za-z_.]+): ")


class Unfit(Exception):
    """An event that its schema refuses.

    Attributes:
        field: the field that doesn't fit; empty when the event as a whole is unknown.
        fault: what is wrong with it.
    """

    def __init__(self, field: str, fault: str) -> None:
        super().__init__(f"{field}: {fault}" if field else fault)
        self.field = field
        self.fault = fault


@functools.cache
def _strict(kind: type[Payload]) -> Callable[[bytes], Payload] | None:
    """Decodes one type; None for a class that the table doesn't have."""
    return decoder(kind).decode if PAYLOADS.get(kind.event) is kind else None


def admit(payload: Payload, redactor: Redactor) -> bytes:
    """``payload`` as the JSON that is written: encoded once, strictly decoded by its type, redacted.

    The redactor's full pass is taken only where its first look finds something. Halves of surrogate pairs
    (odd file names, text cut in an emoji) are replaced rather than refused.

    Raises:
        Unfit: naming the field.
    """
    kind = type(payload)
    strict = _strict(kind)
    if strict is None:
        raise Unfit("", f"{kind.event or kind.__name__!r} is no event type of this release")
    try:
        body = encode(payload)
        strict(body)
    except UnicodeEncodeError:
        body, payload = _mended(payload, strict)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise _unfit(error) from error
    if redactor.clean(body):
        return body
    from drawbar.stores.redaction import redact_payload

    return encode(redact_payload(payload, redactor))


def payload_of(tag: str, fields: Mapping[str, Any]) -> Payload:
    """The typed payload of an event given as plain values; strict, since a caller's spare field is a mistake.

    Raises:
        Unfit: an unknown type, a field that doesn't fit, or one that the schema doesn't have.
    """
    kind = PAYLOADS.get(tag)
    if kind is None:
        raise Unfit("", f"{tag!r} is no event type of this release")
    try:
        plain = well_formed(dict(fields))
        typed = decode(encode(plain), kind, what=tag)
    except InvalidInput as error:
        raise _unfit(error.__cause__ or error) from error
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise _unfit(error) from error
    spare = _spare_field(plain, typed)
    if spare is not None:
        raise Unfit(spare, f"{tag} has no such field")
    return typed


def refusal(tag: str, error: Unfit) -> ExtensionNotice:
    """What is recorded in place of an event that doesn't fit, so that it is never silent (CON-10)."""
    place = f" in the field {error.field}" if error.field else ""
    return ExtensionNotice(
        code="event_refused",
        message=f"An event {tag!r} was not recorded: it doesn't fit its schema{place}: {error.fault}",
        details={"type": tag, "field": error.field, "fault": error.fault},
    )


def _mended(payload: Payload, strict: Callable[[bytes], Payload]) -> tuple[bytes, Payload]:
    try:
        body = encode(well_formed(_plain(payload)))
        return body, strict(body)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise _unfit(error) from error


def _plain(value: Any) -> Any:
    """Structs as dicts, all the way down; other values as they are."""
    if isinstance(value, Record):
        names = zip(field_names(type(value)), type(value).__struct_fields__, strict=True)
        return {encoded: _plain(getattr(value, name)) for encoded, name in names}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in cast("list[Any]", value)]
    return value


def _unfit(error: BaseException) -> Unfit:
    text = str(error)
    place = _PLACE.search(text)
    path = place[1] if place else ""
    fault = (text[: place.start()] if place else text)[:_FAULT_CHARS]
    missing = _MISSING.match(fault)
    if missing:
        return Unfit(f"{path}.{missing[1]}".lstrip("."), "is missing")
    named = _NAMED.match(fault) if not path else None
    if named:
        return Unfit(named[1], fault[named.end() :])
    return Unfit(path, fault)


def _spare_field(given: Any, typed: Any, at: str = "") -> str | None:
    """The first key of ``given`` that its struct doesn't have, as a path."""
    if isinstance(typed, Record) and isinstance(given, dict):
        fields = cast("dict[str, Any]", given)
        names = dict(zip(field_names(type(typed)), type(typed).__struct_fields__, strict=True))
        for key, value in fields.items():
            if key not in names:
                return f"{at}{key}"
            if (found := _spare_field(value, getattr(typed, names[key]), f"{at}{key}.")) is not None:
                return found
    if isinstance(typed, list) and isinstance(given, list):
        for number, pair in enumerate(zip(cast("list[Any]", given), cast("list[Any]", typed), strict=False)):
            if (found := _spare_field(*pair, f"{at.removesuffix('.')}[{number}].")) is not None:
                return found
    return None
