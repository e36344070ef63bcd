"""``drawbar schema``: what is published is what validates, and only ever grows (CON-16, ARC-7)."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.cli.kit import call, events
from tests.cli.test_shell import drawbar

from drawbar.contracts.codec import encode
from drawbar.contracts.events import PAYLOADS
from drawbar.contracts.methods import METHODS
from drawbar.contracts.run import RunRecord
from drawbar.surfaces.cli.schema import published_schema

GOLDEN = Path(__file__).parent.parent / "golden" / "schema.json"
WORDS = {"title", "description", "summary", "default", "examples", "$schema"}
"""What may be said better at any time."""
LIMITS = {"required", "enum", "maxLength", "maxItems", "minItems", "minimum", "maximum", "pattern"}


def losses(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """What ``old`` promised and ``new`` doesn't: removed, retyped, or made stricter."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key in WORDS:
                continue
            if key not in new:
                yield f"{path}/{key} is gone"
            else:
                yield from losses(value, new[key], f"{path}/{key}")
        grown = set(new) - set(old) - WORDS
        if "type" in old or "properties" in old:
            for key in grown & {
                "required",
                "enum",
                "maxLength",
                "maxItems",
                "minItems",
                "minimum",
                "maximum",
                "pattern",
            }:
                yield f"{path}/{key} is a new limit"
    elif isinstance(old, list) and isinstance(new, list):
        if path.endswith("/required"):
            for name in sorted(set(new) ^ set(old)):
                yield f"{path}: {name} is {'now' if name in new else 'no longer'} required"
        else:
            kept = [json.dumps(item, sort_keys=True) for item in new]
            for item in old:
                if json.dumps(item, sort_keys=True) not in kept:
                    yield f"{path} lost {json.dumps(item)[:80]}"
    elif old != new:
        yield f"{path} was {old!r}, is {new!r}"


@pytest.mark.clause("CON-16")
def test_the_command_prints_record_events_and_methods() -> None:
    printed = json.loads(drawbar("schema").stdout)
    assert printed == json.loads(encode(published_schema()))
    assert set(printed["payloads"]) == set(PAYLOADS)
    assert set(printed["methods"]) == set(METHODS)
    jsonschema.Draft202012Validator.check_schema({"$defs": printed["$defs"]})


@pytest.mark.clause("CON-16")
@pytest.mark.parametrize("name", ["record", "event", "tool.started", "runs.list"])
def test_one_schema_stands_alone(name: str) -> None:
    one = json.loads(drawbar("schema", name).stdout)
    text = json.dumps(one)
    for reference in {part.split('"')[0] for part in text.split("#/$defs/")[1:]}:
        assert reference in one["$defs"]


@pytest.mark.clause("CON-16", "CON-10")
def test_the_schema_validates_what_the_harness_writes() -> None:
    started, ended = call("c_1", "bash", {"command": "ls"}, exit_code=0)
    for payload, event in zip((started, ended), events(started, ended), strict=True):
        whole = published_schema()
        schema = {**json.loads(encode(whole["payloads"][event.type])), "$defs": json.loads(encode(whole["$defs"]))}
        value = json.loads(encode(payload))
        jsonschema.validate(value, schema)
        del value["call_id"]
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(value, schema)
    record = json.loads(drawbar("schema", "record").stdout)
    jsonschema.validate(json.loads(encode(RunRecord(id="r_1"))), record)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"id": "r_1", "status": "asleep"}, record)


@pytest.mark.clause("CON-35")
def test_every_text_of_an_event_says_how_it_is_redacted() -> None:
    whole = json.loads(encode(published_schema()))

    def texts(node: Any, path: str) -> Iterator[str]:
        if isinstance(node, dict):
            if node.get("type") == "string" and "x-redaction" not in node and "enum" not in node:
                yield path
            for key, value in node.items():
                yield from texts(value, f"{path}/{key}")
        elif isinstance(node, list):
            for value in node:
                yield from texts(value, path)

    for name in PAYLOADS:
        one = json.loads(drawbar("schema", name).stdout) if name == "tool.started" else whole["payloads"][name]
        assert list(texts(one, name)) == []


@pytest.mark.clause("CON-16", "ARC-7")
def test_published_schemas_only_grow() -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_bytes(drawbar("schema").stdout)
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert list(losses(golden, json.loads(encode(published_schema())))) == []


@pytest.mark.clause("ARC-7")
def test_a_loss_would_be_found() -> None:
    old = json.loads(encode(published_schema()))

    def changed(change: Any) -> list[str]:
        new = copy.deepcopy(old)
        change(new["$defs"]["ToolCompleted"])
        return list(losses(old, new))

    assert changed(lambda s: s["properties"].pop("exit_code")) == ["/$defs/ToolCompleted/properties/exit_code is gone"]
    assert changed(lambda s: s["properties"]["preview"].update(type="integer"))
    assert changed(lambda s: s["required"].append("preview"))
    assert changed(lambda s: s["required"].remove("call_id"))
    assert changed(lambda s: s["properties"]["cause"]["enum"].remove("ok"))
    assert changed(lambda s: s["properties"]["preview"].update(maxLength=3))
    assert changed(lambda s: s.update(description="better said")) == []
    assert changed(lambda s: s["properties"].update(more={"type": "string"})) == []
    assert changed(lambda s: s["properties"]["cause"]["enum"].append("late")) == []
    without = copy.deepcopy(old)
    del without["methods"]["runs.list"]
    assert list(losses(old, without)) == ["/methods/runs.list is gone"]
