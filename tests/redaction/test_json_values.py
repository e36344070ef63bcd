"""Redaction of JSON values works on decoded strings and keeps their shape (CON-33, QLT-20)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.redaction.planting import redactors, texts, unhurried

from drawbar.contracts.codec import encode, loads
from drawbar.stores.redaction import SecretRedactor

BUGS = Path(__file__).parent.parent / "fixtures" / "bugs"


def shape(value: Any) -> Any:
    """``value`` without its strings: kinds, sizes and order."""
    if isinstance(value, dict):
        return [shape(item) for item in value.values()]
    if isinstance(value, list):
        return [shape(item) for item in value], "list"
    return type(value) if isinstance(value, str) else value


@st.composite
def json_values(draw: st.DrawFn, known: list[str]) -> Any:
    text = texts(known)
    leaves = st.one_of(text, st.none(), st.booleans(), st.integers(-9, 9), st.just(1.5))
    return draw(
        st.recursive(
            leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=8
        )
    )


@pytest.mark.clause("CON-33", "QLT-20")
@pytest.mark.bug("SEC-03")
def test_lines_with_secrets_in_odd_places_stay_json_of_the_same_shape() -> None:
    folder = BUGS / "SEC-03"
    wanted = json.loads((folder / "expect.json").read_text())
    redactor = SecretRedactor([('zq7"Not4Real0001abcd', "demo"), ("x1y2z3y9", "x"), ("12345678", "n")])
    lines = (folder / "lines.jsonl").read_text().splitlines()
    for line in lines:
        before = json.loads(line)
        after = loads(encode(redactor.value(before)))
        assert after["tail"] == wanted["every_line_has_tail"]
        assert shape(after) == shape(before)
    assert redactor.value(json.loads(lines[4]))["cmd"] == 'export TOKEN="[redacted:demo]" && run'


@pytest.mark.clause("CON-33", "QLT-20")
@unhurried
@given(st.data())
def test_any_value_keeps_its_shape_and_stays_json(data: st.DataObject) -> None:
    redactor, known = data.draw(redactors())
    before = data.draw(json_values(known))
    after = redactor.value(before)
    assert shape(after) == shape(before)
    assert loads(encode(after)) == after
    assert not [value for value in known if value in "".join(strings(after))] or any("[" in value for value in known)


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, "\0", *strings(item))]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value, "\0"] if isinstance(value, str) else []


@pytest.mark.clause("CON-33")
@unhurried
@given(st.data())
def test_twice_is_once_and_a_clean_value_is_the_same_object(data: st.DataObject) -> None:
    redactor, known = data.draw(redactors())
    once = redactor.value(data.draw(json_values(known)))
    assert redactor.value(once) is once


@pytest.mark.clause("CON-33")
def test_keys_that_become_equal_keep_their_entries() -> None:
    redactor = SecretRedactor([("hunter2pw99", "pw"), ("hunter3pw99", "pw")])
    before = {"hunter2pw99": 1, "[redacted:pw]": 2, "hunter3pw99": {"hunter2pw99": 3}, "[redacted:pw]~2": 4}
    after = redactor.value(before)
    assert list(after.values()) == [1, 2, {"[redacted:pw]": 3}, 4]
    assert list(after) == ["[redacted:pw]~3", "[redacted:pw]", "[redacted:pw]~4", "[redacted:pw]~2"]


@pytest.mark.clause("CON-33")
def test_depth_is_no_obstacle() -> None:
    redactor = SecretRedactor([("hunter2pw99", "pw")])
    deep: Any = "hunter2pw99"
    for level in range(sys.getrecursionlimit() * 3):
        deep = {"k": deep} if level % 2 else [deep]
    after = redactor.value(deep)
    while not isinstance(after, str):
        after = after["k"] if isinstance(after, dict) else after[0]
    assert after == "[redacted:pw]"


@pytest.mark.clause("CON-33")
def test_what_is_no_text_stays() -> None:
    redactor = SecretRedactor([("12345678901", "n")])
    value = [None, True, 12345678901, 1.5, {"k": []}, ()]
    assert redactor.value(value) is value
    assert redactor.value(("12345678901", 1)) == ["[redacted:n]", 1]
    assert redactor.value({7: "12345678901"}) == {7: "[redacted:n]"}
