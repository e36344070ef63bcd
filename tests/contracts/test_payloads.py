"""The table of event payloads: complete, declared, strict where it must be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbar.contracts.codec import decode, encode, json_schema
from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.events import PAYLOADS, RETIRED, Event, payload_type
from drawbar.contracts.events.human import QuestionRequested, sketch_fits
from drawbar.contracts.events.progress import TodoUpdated, todo_of
from drawbar.contracts.events.usage import RequestUsage
from drawbar.contracts.methods import METHODS

NAMED = [
    "started",
    "context.snapshot",
    "message.delta",
    "message.completed",
    "message.steered",
    "tool.started",
    "tool.completed",
    "tool.refused",
    "retry.started",
    "retry.ended",
    "compaction.started",
    "compaction.ended",
    "approval.requested",
    "approval.resolved",
    "question.requested",
    "question.answered",
    "extension.notice",
    "reaction.added",
    "agent.message",
    "todo.updated",
    "checkpoint",
    "heartbeat",
    "artifact.added",
    "file.changed",
    "usage.updated",
    "account.status",
    "status.changed",
    "failed",
    "completed",
    "tool.delta",
    "message.queued",
    "message.dropped",
    "goal.changed",
    "network.decided",
    "sandbox.changed",
]


@pytest.mark.clause("CON-9", "CON-10")
def test_every_named_type_has_one_schema_and_no_other_exists() -> None:
    assert sorted(PAYLOADS) == sorted(NAMED)
    for tag, kind in PAYLOADS.items():
        assert kind.event == tag


@pytest.mark.clause("CON-9")
def test_the_older_todo_name_is_read_but_not_written() -> None:
    assert RETIRED == {"checklist.updated": "todo.updated"}
    assert "checklist.updated" not in PAYLOADS
    assert payload_type("checklist.updated") is TodoUpdated
    assert payload_type("no.such.type") is None


@pytest.mark.clause("CON-16")
def test_schemas_of_events_and_methods_can_be_generated() -> None:
    schemas, components = json_schema([*PAYLOADS.values(), *(m.input for m in METHODS.values())])
    assert len(schemas) == len(PAYLOADS) + len(METHODS)
    assert "ToolStarted" in components


def todo_event(seq: int, tag: str, *texts: str) -> Event:
    items = [{"text": text, "status": "pending"} for text in texts]
    line = encode({"seq": seq, "at": "", "type": tag, "payload": {"items": items}})
    return decode(line, Event, what="event")


@pytest.mark.clause("CON-21", "CON-9")
def test_the_latest_todo_list_replaces_every_earlier_one() -> None:
    events = [todo_event(0, "checklist.updated", "a", "b"), todo_event(1, "todo.updated", "c")]
    assert [item.text for item in todo_of(events)] == ["c"]
    assert [item.text for item in todo_of(events[:1])] == ["a", "b"]
    assert todo_of([]) == []
    damaged = decode(b'{"seq":2,"at":"","type":"todo.updated","payload":{"items":7}}', Event, what="event")
    assert [item.text for item in todo_of([*events, damaged])] == ["c"]


@pytest.mark.clause("CON-21")
def test_a_todo_list_holds_at_most_fifty_items() -> None:
    items = [{"text": str(i), "status": "pending"} for i in range(51)]
    assert len(decode(encode({"items": items[:50]}), TodoUpdated, what="todo").items) == 50
    with pytest.raises(InvalidInput, match=r"items"):
        decode(encode({"items": items}), TodoUpdated, what="todo")


@pytest.mark.clause("CON-19")
def test_a_reasoning_summary_is_bounded() -> None:
    assert decode(encode({"reasoning_summary": "x" * 4000}), RequestUsage, what="usage").reasoning_summary
    with pytest.raises(InvalidInput, match="reasoning_summary"):
        decode(encode({"reasoning_summary": "x" * 4001}), RequestUsage, what="usage")


@pytest.mark.clause("CON-17")
def test_an_unstated_counter_is_unknown_and_not_zero() -> None:
    usage = decode(b'{"input_tokens": 3}', RequestUsage, what="usage")
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (3, None, None)


def question(sketches: list[str | None], ui_sketch: bool) -> bytes:
    choices = [{"label": "x"} if sketch is None else {"label": "x", "sketch": sketch} for sketch in sketches]
    body = {"question_id": "q_1", "questions": [{"text": "which?", "choices": choices}]}
    return encode(body | ({"ui_sketch": True} if ui_sketch else {}))


@pytest.mark.clause("CON-22")
def test_sketches_come_with_every_choice_or_with_none() -> None:
    assert decode(question(["+--+", "|  |"], True), QuestionRequested, what="q").ui_sketch
    assert not decode(question([None, None], False), QuestionRequested, what="q").ui_sketch
    for sketches, flag in ((["+--+", None], True), (["+--+"], False), ([None], True)):
        with pytest.raises(InvalidInput, match="sketch"):
            decode(question(sketches, flag), QuestionRequested, what="q")


@pytest.mark.clause("CON-22")
@pytest.mark.parametrize(
    ("sketch", "fits"),
    [
        ("x", True),
        (" x ", True),
        ("x\n\n  y  ", True),
        ("\n".join(["#" * 80] * 24), True),
        ("\n".join(["#" * 80] * 25), False),
        ("#" * 81, False),
        ("", False),
        ("   \n  ", False),
        ("a\tb", False),
        ("a\r\nb", False),
        ("\x1b[31mred", False),
        ("─", False),
        ("x\x00", False),
    ],
)
def test_a_sketch_is_printable_ascii_of_bounded_size(sketch: str, fits: bool) -> None:
    assert sketch_fits(sketch) is fits
    if fits:
        assert len(sketch) <= 1943
        kept = decode(question([sketch], True), QuestionRequested, what="q")
        assert kept.questions[0].choices[0].sketch == sketch


@pytest.mark.clause("CON-22")
@given(st.text(max_size=200))
def test_no_text_outside_the_rules_fits(text: str) -> None:
    lines = text.split("\n")
    allowed = all(len(line) <= 80 and all(" " <= c <= "~" for c in line) for line in lines)
    visible = any(c not in " \n" for c in text)
    assert sketch_fits(text) is (len(lines) <= 24 and allowed and visible)


@pytest.mark.clause("CON-8")
def test_readers_take_newer_fields_and_older_lines() -> None:
    newer = decode(b'{"items": [], "colour": "blue"}', TodoUpdated, what="todo")
    assert newer.items == []
    older = decode(b"{}", PAYLOADS["heartbeat"], what="heartbeat")
    assert older.steps == 0  # pyright: ignore[reportAttributeAccessIssue]
