"""The schema of a tool's input is one flat object that says what the struct says."""

from __future__ import annotations

from typing import Annotated, Literal

import jsonschema
import pytest

from drawbar.contracts.codec import Free, Meta, Request, convert
from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.tool import ToolSpec
from drawbar.models.tool_schema import tool_schema
from drawbar.testing.json_schema_shape import schema_fault


class Edit(Request):
    """For readers of the code."""

    oldText: Annotated[str, Meta(description="What is there now", min_length=1)]  # noqa: N815
    newText: str = ""  # noqa: N815


class EditInput(Request):
    """Not for the model."""

    path: Annotated[Free, Meta(description="The file")]
    edits: Annotated[list[Edit], Meta(description="In order", min_length=1)]
    mode: Literal["strict", "tolerant"] = "strict"
    first: Annotated[Edit | None, Meta(description="Or one alone")] = None
    title: str | None = None


class Node(Request):
    children: list[Node] = []


def spec(kind: type[Request]) -> ToolSpec:
    return ToolSpec(name="edit", description="Edit.", input=kind, kind="write")


@pytest.mark.clause("MDL-2")
def test_a_nested_input_is_written_out() -> None:
    edit = {
        "type": "object",
        "properties": {
            "oldText": {"type": "string", "description": "What is there now", "minLength": 1},
            "newText": {"type": "string", "default": ""},
        },
        "required": ["oldText"],
        "additionalProperties": False,
    }
    schema = tool_schema(spec(EditInput))
    assert schema == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file"},
            "edits": {"type": "array", "items": edit, "description": "In order", "minItems": 1},
            "mode": {"enum": ["strict", "tolerant"], "default": "strict"},
            "first": {"anyOf": [edit, {"type": "null"}], "description": "Or one alone", "default": None},
            "title": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["path", "edits"],
        "additionalProperties": False,
    }
    assert schema_fault(schema) is None
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    "value",
    [
        {"path": "a", "edits": [{"oldText": "x"}]},
        {"path": "a", "edits": [{"oldText": "x", "extra": 1}]},
        {"path": "a", "edits": []},
        {"path": "a"},
        {"path": 1, "edits": [{"oldText": "x"}]},
        {"path": "a", "edits": [{"oldText": "x"}], "more": 1},
        {"path": "a", "edits": [{"oldText": ""}]},
        {"path": "a", "edits": [{"oldText": "x"}], "first": {"oldText": "y"}, "mode": "tolerant"},
        {"path": "a", "edits": [{"oldText": "x"}], "mode": "other"},
    ],
)
def test_the_schema_and_the_struct_agree(value: object) -> None:
    try:
        convert(value, EditInput, what="input")
        fits = True
    except InvalidInput:
        fits = False
    assert jsonschema.Draft202012Validator(tool_schema(spec(EditInput))).is_valid(value) is fits


def test_a_recursive_input_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="'edit' is recursive"):
        tool_schema(spec(Node))
