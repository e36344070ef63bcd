"""The request side: from any messages at all, a conversation that a strict provider takes, growing at its end."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.history.kit import Record, check_conversation, texts

from drawbar.contracts.codec import encode
from drawbar.stores.history import MessageRepairer, SizeLimits, repair_messages, well_formed
from drawbar.stores.history.repair import INTERRUPTED, OPENING

IDS = st.sampled_from(["", "t1", "t2", "t1-2", "call", "call-1", "a|x", "a|y", "|x", "\ud83d"]) | st.none() | st.just(7)
LOOSE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("\udc00")
JSON = st.recursive(
    LOOSE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
TEXT = st.sampled_from(["", " ", "hi", "lone \ud83d", "x" * 400, "\n"])


def shaped(**fields: st.SearchStrategy[Any] | str) -> st.SearchStrategy[Record]:
    """Objects with these fields, each from its strategy."""
    return st.fixed_dictionaries(
        {name: st.just(value) if isinstance(value, str) else value for name, value in fields.items()}
    )


BLOCKS = st.one_of(
    shaped(type="text", text=TEXT | JSON),
    shaped(
        type="toolCall",
        id=IDS,
        name=st.sampled_from(["bash", "read", "", None]),
        arguments=JSON | st.just('{"path": "a"}'),
    ),
    shaped(type="thinking", thinking=TEXT, thinkingSignature=JSON),
    shaped(type="image", data=st.sampled_from(["aGk=", "", "A" * 900, None]), mimeType="image/png"),
    st.just({"type": "providerBlock", "raw": {"a": 1}}),
    JSON,
)
CONTENT = st.lists(BLOCKS, max_size=4) | TEXT | JSON
STOPS = st.sampled_from(["stop", "toolUse", "length", "error", "aborted", None])
MESSAGES = st.one_of(
    shaped(role="assistant", content=CONTENT, stopReason=STOPS),
    shaped(role="toolResult", toolCallId=IDS, toolName="bash", content=CONTENT, isError=JSON),
    shaped(role=st.sampled_from(["user", "custom", "tool", "system", None]), content=CONTENT),
    shaped(role="bashExecution", command=TEXT, output=TEXT, excludeFromContext=st.booleans()),
    shaped(role="compactionSummary", summary=TEXT | JSON),
    st.dictionaries(st.sampled_from(["role", "content", "x"]), JSON, max_size=3),
)
SMALL = SizeLimits(result_characters=300, image_characters=500)
often = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.clause("QLT-7")
@pytest.mark.bug("SES-08", "SES-09", "SES-14", "SES-16", "SES-17", "SES-19")
@given(st.lists(MESSAGES, max_size=14))
@often
def test_any_messages_become_a_conversation_that_a_strict_provider_takes(messages: list[Any]) -> None:
    before = copy.deepcopy(messages)
    repaired, _ = repair_messages(messages, SMALL)
    assert repr(messages) == repr(before), "the input is left alone"
    encode(repaired)
    check_conversation(json.loads(encode(repaired)))
    again, reports = repair_messages(repaired, SMALL)
    assert (encode(again), reports) == (encode(repaired), []), "a fixed point"
    for message in repaired:
        if message["role"] == "toolResult":
            assert sum(len(text) for text in texts([message])) <= 300


@pytest.mark.clause("QLT-7", "MDL-13")
@given(st.lists(MESSAGES, max_size=14))
@often
def test_message_by_message_gives_the_same_and_what_was_given_never_changes(messages: list[Any]) -> None:
    repairer = MessageRepairer(SMALL)
    settled: list[Record] = []
    for at, message in enumerate(messages, 1):
        settled += repairer.feed(message)
        kept = encode(settled)
        pending = repairer.pending()
        assert encode(pending) == encode(repairer.pending()), "asking changes nothing"
        whole, reports = repair_messages(messages[:at], SMALL)
        assert encode(settled + pending) == encode(whole)
        assert repairer.reports() == reports
        assert encode(settled) == kept


def user(text: str) -> Record:
    return {"role": "user", "content": text}


def calls(*ids: str, **fields: Any) -> Record:
    content = [{"type": "toolCall", "id": own, "name": "read", "arguments": {"path": own}} for own in ids]
    return {"role": "assistant", "content": content, "stopReason": "toolUse", **fields}


def result(call: str, text: str, **fields: Any) -> Record:
    content = [{"type": "text", "text": text}]
    return {
        "role": "toolResult",
        "toolCallId": call,
        "toolName": "read",
        "content": content,
        "isError": False,
        **fields,
    }


def answer(text: str, **fields: Any) -> Record:
    return {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop", **fields}


@pytest.mark.clause("QLT-7", "PRM-3")
def test_a_sound_conversation_is_sent_as_it_is() -> None:
    sound = [user("go"), calls("t1", "t2"), result("t1", "A"), result("t2", "B"), answer("done"), user("more")]
    repaired, reports = repair_messages(sound)
    assert (repaired, reports) == (sound, [])


@pytest.mark.clause("QLT-7")
def test_results_go_directly_after_their_calls_in_call_order_and_what_came_between_follows() -> None:
    repaired, _ = repair_messages(
        [user("go"), calls("t1", "t2"), user("steered"), result("t2", "B"), result("t1", "A")]
    )
    assert texts(repaired) == ["go", "<toolCall><toolCall>", "A", "B", "steered"]


@pytest.mark.clause("QLT-7", "QLT-8")
def test_a_call_without_a_result_is_unknown_and_an_answer_after_the_next_reply_is_text() -> None:
    repaired, reports = repair_messages([user("go"), calls("t1"), answer("next"), result("t1", "too late")])
    assert texts(repaired)[:4] == ["go", "<toolCall>", INTERRUPTED, "next"]
    assert repaired[2]["isError"] is True
    assert "too late" in texts(repaired)[4]
    assert repaired[4]["role"] == "user"
    assert len(reports) == 2


@pytest.mark.clause("QLT-7")
@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_a_failed_reply_is_left_out_with_its_calls_as_in_pi(stop: str) -> None:
    repaired, reports = repair_messages([user("go"), calls("t1", stopReason=stop), user("again"), answer("ok")])
    assert (texts(repaired), reports) == (["go", "again", "ok"], [])


@pytest.mark.clause("QLT-7")
def test_a_failed_reply_between_a_call_and_its_result_parts_nothing() -> None:
    repaired, reports = repair_messages(
        [user("go"), calls("t1"), answer("", stopReason="error"), result("t1", "A"), answer("done")]
    )
    assert (texts(repaired), reports) == (["go", "<toolCall>", "A", "done"], [])


@pytest.mark.clause("QLT-7")
def test_a_doubled_result_is_sent_once_and_a_differing_one_stays_readable() -> None:
    repaired, _ = repair_messages(
        [user("go"), calls("t1"), result("t1", "A"), result("t1", "A"), result("t1", "other")]
    )
    assert texts(repaired)[2] == "A"
    assert len(repaired) == 4
    assert "other" in texts(repaired)[3]


@pytest.mark.clause("QLT-7")
@pytest.mark.parametrize(
    ("given_arguments", "sent"),
    [
        (None, {}),
        ("", {}),
        ('{"a": 1}', {"a": 1}),
        ("[1]", {"input": "[1]"}),
        ("ls -l", {"input": "ls -l"}),
        ([1, 2], {"input": [1, 2]}),
        (7, {"input": 7}),
    ],
)
def test_arguments_are_always_an_object(given_arguments: Any, sent: Record) -> None:
    turn = calls("t1")
    turn["content"][0]["arguments"] = given_arguments
    repaired, reports = repair_messages([user("go"), turn, result("t1", "A")])
    assert repaired[1]["content"][0]["arguments"] == sent
    assert reports


@pytest.mark.clause("QLT-7", "MDL-2")
def test_blocks_of_the_provider_and_signed_thinking_go_back_untouched() -> None:
    content = [
        {"type": "thinking", "thinking": "", "thinkingSignature": "c2ln", "redacted": True},
        {"type": "providerBlock", "raw": {"type": "server_tool_use"}},
        {"type": "text", "text": "done", "textSignature": "x"},
    ]
    reply = {"role": "assistant", "content": content, "stopReason": "stop"}
    assert repair_messages([user("go"), reply]) == ([user("go"), reply], [])


@pytest.mark.clause("QLT-7")
@pytest.mark.bug("SES-17", "SES-19")
def test_what_is_too_large_for_a_request_is_cut_and_said() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "A" * (5 * 2**20 + 4)}
    big = "+line of a snapshot diff\n" * (12 * 2**20 // 25)
    repaired, reports = repair_messages(
        [{"role": "user", "content": [{"type": "text", "text": "look"}, image]}, calls("t1"), result("t1", big)]
    )
    assert "5.0 MiB" in texts(repaired)[0]
    assert len(encode(repaired)) < 400_000
    assert texts(repaired)[2].startswith("+line of a snapshot diff\n+line")
    assert f"of {len(big)} characters left out" in texts(repaired)[2]
    assert len(reports) == 2


@pytest.mark.clause("QLT-7")
def test_a_conversation_that_lost_its_beginning_still_begins_with_the_user() -> None:
    assert texts(repair_messages([answer("hello")])[0]) == [OPENING, "hello"]


@pytest.mark.clause("QLT-7")
def test_two_calls_of_one_provider_item_keep_distinct_call_parts() -> None:
    """Some ids have two parts, and the provider compares only the first."""
    repaired, _ = repair_messages([user("go"), calls("c|fc1", "c|fc2"), result("c|fc2", "B"), result("c|fc1", "A")])
    assert [block["id"] for block in repaired[1]["content"]] == ["c|fc1", "c-2"]
    assert texts(repaired)[2:] == ["A", "B"]


@pytest.mark.clause("QLT-7")
def test_json_nested_deeper_than_any_reader_is_cut_and_never_breaks_the_request() -> None:
    deep: Any = "end"
    for _ in range(700):
        deep = [deep]
    turn = calls("t1")
    turn["content"][0]["arguments"] = {"deep": deep}
    repaired, reports = repair_messages([user("go"), turn])
    check_conversation(repaired)
    assert reports


@pytest.mark.clause("QLT-7")
def test_what_needs_no_mending_is_passed_on_as_the_same_object() -> None:
    value = {"a": ["text", {"b": "«ü»"}], "c": 1.5}
    assert well_formed(value) is value
    assert well_formed({"\ud83d\ude00": "\ude00"}) == {"\U0001f600": "\ufffd"}
