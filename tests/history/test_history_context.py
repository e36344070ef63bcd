"""What the model sees of a branch, entry type by entry type, as Pi rebuilds it (SES-1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.history.kit import Record, chain, entry, said, texts, write

from drawbar.stores.history import read_history


def seen(tmp_path: Path, records: list[Record]) -> list[Record]:
    return read_history(write(tmp_path / "s.jsonl", records)).messages()


def of_message(tmp_path: Path, **message: Any) -> list[Record]:
    return seen(tmp_path, [entry("message", "a", None, message=message)])


@pytest.mark.clause("SES-1")
def test_messages_are_passed_on_with_every_field(tmp_path: Path) -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    message = {"role": "user", "content": [image], "timestamp": 7, "unknown": [1]}
    assert of_message(tmp_path, **message) == [message]


@pytest.mark.clause("SES-1")
def test_text_that_was_put_in_is_the_users(tmp_path: Path) -> None:
    note = entry("custom_message", "a", None, customType="note", content="from outside", display=False)
    assert seen(tmp_path, [note]) == [{"role": "user", "content": [{"type": "text", "text": "from outside"}]}]
    assert texts(of_message(tmp_path, role="hookMessage", content="old hook")) == ["old hook"]


@pytest.mark.clause("SES-1")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"output": "hi\n", "exitCode": 0}, "Ran `ls`\n```\nhi\n\n```"),
        ({"output": "", "exitCode": 0}, "Ran `ls`\n(no output)"),
        ({"output": "x", "exitCode": 3}, "Ran `ls`\n```\nx\n```\nIt exited with code 3."),
        ({"output": "x", "cancelled": True, "exitCode": 1}, "Ran `ls`\n```\nx\n```\n(the command was cancelled)"),
        (
            {"output": "x", "truncated": True, "fullOutputPath": "/log"},
            "Ran `ls`\n```\nx\n```\n[The output was cut. All of it: /log]",
        ),
    ],
)
def test_a_command_of_the_users_own_is_told(tmp_path: Path, fields: Record, expected: str) -> None:
    found = of_message(tmp_path, role="bashExecution", command="ls", timestamp=7, **fields)
    assert found == [{"role": "user", "content": [{"type": "text", "text": expected}], "timestamp": 7}]


@pytest.mark.clause("SES-1")
def test_what_is_kept_from_the_model_is_not_shown(tmp_path: Path) -> None:
    assert of_message(tmp_path, role="bashExecution", command="ls", output="x", excludeFromContext=True) == []
    assert of_message(tmp_path, role="system", content="You are Pi") == []
    quiet = [
        entry("custom", "a", None, customType="x", data=1),
        entry("label", "b", "a", targetId="a", label="x"),
        entry("session_info", "c", "b", name="x"),
        entry("usage", "d", "c", usage={"input": 1}),
    ]
    assert seen(tmp_path, quiet) == []


@pytest.mark.clause("SES-1", "SES-2")
def test_a_role_that_nobody_knows_stays_readable(tmp_path: Path) -> None:
    assert texts(of_message(tmp_path, role="tool", content="the answer")) == [
        "[A message of the unknown role 'tool']\nthe answer"
    ]
    assert of_message(tmp_path, role="tool", content=None) == []


@pytest.mark.clause("SES-1", "SES-15")
@pytest.mark.parametrize(
    ("kept", "rest"),
    [("m2", ["text 2", "text 3"]), ("m0", [f"text {at}" for at in range(4)]), ("gone", []), ("cut", [])],
)
def test_a_compaction_stands_for_what_it_does_not_keep(tmp_path: Path, kept: str, rest: list[str]) -> None:
    cut = entry("compaction", "cut", "m3", summary="the gist", firstKeptEntryId=kept, tokensBefore=9)
    found = texts(seen(tmp_path, [*chain(4), cut, said("z", "cut", "user", "after")]))
    assert "<summary>\nthe gist\n</summary>" in found[0]
    assert found[1:] == [*rest, "after"]


@pytest.mark.clause("SES-1")
def test_only_the_last_compaction_of_the_branch_counts(tmp_path: Path) -> None:
    first = entry("compaction", "c1", "m1", summary="first", firstKeptEntryId="m1", tokensBefore=9)
    second = entry("compaction", "c2", "x", summary="second", firstKeptEntryId="x", tokensBefore=9)
    aside = entry("compaction", "c3", "m0", summary="on another branch", firstKeptEntryId="m0", tokensBefore=9)
    records = [*chain(2), first, said("x", "c1", "user", "kept"), aside, second, said("z", "c2", "user", "after")]
    found = texts(seen(tmp_path, records))
    assert "second" in found[0]
    assert found[1:] == ["kept", "after"]


@pytest.mark.clause("SES-1")
def test_edits_of_the_context_apply_to_the_request_and_the_last_one_wins(tmp_path: Path) -> None:
    content = [{"type": "text", "text": "instead"}]
    edits = [
        entry("context_edit", "e0", "m3", targetId="m0", replacement={"content": content}),
        entry("context_edit", "e1", "e0", targetId="m1", replacement={"content": content}),
        entry("context_edit", "e2", "e1", targetId="m1", replacement=None),
        entry("context_edit", "e3", "e2", targetId="nobody", replacement=None),
        entry("context_edit", "e4", "e3", targetId="m2"),
    ]
    assert texts(seen(tmp_path, [*chain(4), *edits])) == ["instead", "text 2", "text 3"]


@pytest.mark.clause("SES-1")
def test_a_branch_that_was_left_is_summed_up_where_it_was_left(tmp_path: Path) -> None:
    summary = entry("branch_summary", "s", "m0", fromId="m3", summary="tried in vain")
    found = texts(seen(tmp_path, [*chain(4), summary, said("z", "s", "user", "again")]))
    assert (found[0], found[2]) == ("text 0", "again")
    assert "tried in vain" in found[1]
