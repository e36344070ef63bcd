"""Payloads are redacted by what their schemas declare: free text, never identifiers or opaque values (CON-35)."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from drawbar.contracts.codec import (
    Free,
    FreeJson,
    Ident,
    Meta,
    Opaque,
    OpaqueJson,
    Record,
    decode,
    encode,
    inspect,
    loads,
)
from drawbar.contracts.events import PAYLOADS
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.human import Choice, Question, QuestionRequested, sketch_fits
from drawbar.contracts.events.usage import MAX_SUMMARY, RequestUsage, Usage, UsageUpdated
from drawbar.stores.redaction import SecretRedactor, redact_payload
from drawbar.stores.redaction.payloads import undeclared

SECRET = "hunter2pw99"
HIDDEN = "[redacted:pw]"
REDACTOR = SecretRedactor([(SECRET, "pw")])


def planted(inspected: Any) -> Any:
    """A value of a type with the secret in every string of it."""
    match inspected:
        case inspect.Metadata():
            return planted(inspected.type)
        case inspect.StrType():
            return SECRET
        case inspect.AnyType():
            return {SECRET: [f"x {SECRET}"]}
        case inspect.LiteralType():
            return inspected.values[0]
        case inspect.ListType():
            return [planted(inspected.item_type)]
        case inspect.UnionType():
            return planted(inspected.types[0])
        case inspect.StructType():
            return {field.encode_name: planted(field.type) for field in inspected.fields}
        case inspect.BoolType():
            return True
        case _:
            return 1


def declared(inspected: Any, kind: str | None = None) -> Any:
    """The sort of each string of ``planted``, in the same shape."""
    match inspected:
        case inspect.Metadata():
            extra = inspected.extra_json_schema or {}
            return declared(inspected.type, extra.get("x-redaction", kind))
        case inspect.StrType() | inspect.AnyType():
            return kind
        case inspect.ListType():
            return [declared(inspected.item_type, kind)]
        case inspect.UnionType():
            return declared(inspected.types[0], kind)
        case inspect.StructType():
            return {field.encode_name: declared(field.type) for field in inspected.fields}
        case _:
            return None


def compare(kind: Any, before: Any, after: Any, place: str) -> None:
    if isinstance(kind, dict) and before is not None:
        assert list(before) == list(after)
        for name, inner in kind.items():
            compare(inner, before.get(name), after.get(name), f"{place}.{name}")
    elif isinstance(kind, list):
        assert len(before) == len(after) == 1
        compare(kind[0], before[0], after[0], f"{place}[]")
    elif kind == "free":
        assert SECRET not in encode(after).decode(), place
        assert HIDDEN in encode(after).decode(), place
    else:
        assert after == before, place


@pytest.mark.clause("CON-35")
@pytest.mark.parametrize("tag", sorted(PAYLOADS))
def test_every_field_that_holds_text_says_of_what_sort(tag: str) -> None:
    assert undeclared(PAYLOADS[tag]) == []


class Inner(Record):
    any_value: Any = None


class Outer(Payload):
    declared: Free = ""
    plain: str = ""
    maybe: str | None = None
    many: list[str] = []
    inner: list[Inner] = []
    number: int = 0


@pytest.mark.clause("CON-35")
def test_an_undeclared_field_would_be_found() -> None:
    assert undeclared(Outer) == ["Outer.plain", "Outer.maybe", "Outer.many", "Outer.inner.any_value"]


@pytest.mark.clause("CON-35", "QLT-20")
@pytest.mark.parametrize("tag", sorted(PAYLOADS))
def test_free_text_is_redacted_and_nothing_else(tag: str) -> None:
    kind = PAYLOADS[tag]
    inspected = inspect.type_info(kind)
    payload = decode(encode(planted(inspected)), kind, what=tag)
    before = loads(encode(payload))
    after = redact_payload(payload, REDACTOR)
    compare(declared(inspected), before, loads(encode(after)), tag)
    # What was given is not changed, and twice is once.
    assert loads(encode(payload)) == before
    assert redact_payload(after, REDACTOR) is after
    # The first look agrees.
    assert after is payload or not REDACTOR.clean(encode(payload))


class Nested(Payload):
    free: Free | None = None
    many: list[Free] = []
    pairs: dict[str, Free] = {}
    named: dict[Free, int] = {}
    json: FreeJson = None
    ident: Ident = ""
    opaque: Opaque = ""
    opaque_json: OpaqueJson = None
    optional: list[Free] | None = None
    inner: Choice | None = None
    capped: Annotated[str, Meta(max_length=20, extra_json_schema={"x-redaction": "free"})] = ""


@pytest.mark.clause("CON-35")
def test_lists_objects_and_optional_fields_are_walked() -> None:
    payload = Nested(
        free=SECRET, many=["a", SECRET], pairs={SECRET: SECRET}, named={SECRET: 1}, json=[SECRET], ident=SECRET,
        opaque=SECRET, opaque_json=[SECRET], optional=[SECRET], inner=Choice(label=SECRET), capped="1234567 " + SECRET,
    )  # fmt: skip
    after = redact_payload(payload, REDACTOR)
    assert after == Nested(
        free=HIDDEN, many=["a", HIDDEN], pairs={SECRET: HIDDEN}, named={HIDDEN: 1}, json=[HIDDEN], ident=SECRET,
        opaque=SECRET, opaque_json=[SECRET], optional=[HIDDEN], inner=Choice(label=HIDDEN),
        capped=("1234567 " + HIDDEN)[:20],
    )  # fmt: skip
    clean = Nested(free="x", many=["y"], json={"k": "v"})
    assert redact_payload(clean, REDACTOR) is clean


@pytest.mark.clause("CON-35")
def test_limits_hold_although_placeholders_are_longer_than_secrets() -> None:
    redactor = SecretRedactor([(SECRET, "a-kind-with-quite-a-long-name-indeed")])
    summary = (SECRET + " ") * (MAX_SUMMARY // (len(SECRET) + 1))
    used = UsageUpdated(totals=Usage(), requests=1, request=RequestUsage(reasoning_summary=summary))
    after = redact_payload(used, redactor)
    assert decode(encode(after), UsageUpdated, what="usage").request.reasoning_summary
    assert SECRET not in encode(after).decode()


@pytest.mark.clause("CON-35", "CON-22")
def test_a_sketch_stays_one_that_readers_accept() -> None:
    lines = "\n".join(f"{'x' * 68} {SECRET}" for _ in range(24))
    asked = QuestionRequested(
        question_id="q", ui_sketch=True, questions=[Question(text="?", choices=[Choice(label="a", sketch=lines)])]
    )
    after = redact_payload(asked, REDACTOR)
    sketch = decode(encode(after), QuestionRequested, what="question").questions[0].choices[0].sketch
    assert sketch_fits(sketch)
    assert sketch is not None
    assert SECRET not in sketch
