"""Requests: their form, their cache markers, their stable prefix, their repairs."""

from __future__ import annotations

import base64
import hashlib
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.models.kit import (
    BASH,
    FIXTURES,
    READ,
    SETTINGS,
    assistant,
    body_of,
    call,
    result,
    text,
    turns_of,
    user,
)
from tests.models.sdk_types import request_faults

from drawbar.contracts.codec import Request
from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.model import EncodedRequest, RequestSettings
from drawbar.contracts.tool import ToolSpec
from drawbar.models.anthropic_builder import MAX_IMAGES, MAX_REQUEST_BYTES, AnthropicBuilder
from drawbar.stores.history import read_history
from drawbar.testing.anthropic_rules import check_request

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 40).decode()
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}


def built(*messages: Any, settings: RequestSettings = SETTINGS) -> EncodedRequest:
    builder = AnthropicBuilder(settings)
    builder.extend(messages)
    return builder.build()


def accepted(request: EncodedRequest) -> dict[str, Any]:
    """The body, after the strict rules and the official SDK's types have taken it."""
    body = b"".join(request.body)
    parsed = check_request(HEADERS, body)
    assert request_faults(parsed) == []
    assert hashlib.sha256(body).hexdigest() == request.digests["body"]
    assert request.size == len(body)
    assert request.messages == len(parsed["messages"])
    return parsed


def unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [unmarked(one) for one in value]
    if isinstance(value, dict):
        return {name: unmarked(part) for name, part in value.items() if name != "cache_control"}
    return value


def units(body: dict[str, Any]) -> list[Any]:
    """What a cache sees, in its order, markers left out."""
    fixed = [body["model"], body["tools"], body["system"]]
    return unmarked([*fixed, *[[m["role"], block] for m in body["messages"] for block in m["content"]]])


@pytest.mark.clause("MDL-2")
def test_a_conversation_in_the_providers_form() -> None:
    body = accepted(
        built(
            user("Begin."),
            assistant(
                {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "c2ln"},
                text("Looking."),
                call("c1", command="ls"),
                call("c2", "read", path="a"),
                stop="toolUse",
            ),
            result("c1", "a\nb"),
            {**result("c2", "bad", failed=True), "details": {"diff": "never sent"}},
            {"role": "user", "content": "And now?"},
        )
    )
    assert unmarked(body["messages"]) == [
        {"role": "user", "content": [{"type": "text", "text": "Begin."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "c2", "name": "read", "input": {"path": "a"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a\nb"}]},
                {
                    "type": "tool_result",
                    "tool_use_id": "c2",
                    "content": [{"type": "text", "text": "bad"}],
                    "is_error": True,
                },
                {"type": "text", "text": "And now?"},
            ],
        },
    ]
    assert body["max_tokens"] == 32000
    assert body["stream"] is True
    assert "thinking" not in body
    assert [tool["name"] for tool in body["tools"]] == ["bash", "read"]


@pytest.mark.clause("PRM-4")
def test_cache_markers_sit_after_system_after_tools_and_at_the_last_two_user_turns() -> None:
    builder = AnthropicBuilder(SETTINGS)
    seen: list[list[str]] = []
    for messages in turns_of(4):
        builder.extend(messages)
        body = accepted(builder.build())
        marked = [f"tool {t['name']}" for t in body["tools"] if "cache_control" in t]
        marked += ["system" for block in body["system"] if "cache_control" in block]
        for at, message in enumerate(body["messages"]):
            for block in message["content"]:
                if "cache_control" in block:
                    assert block is message["content"][-1]
                    marked.append(f"message {at - len(body['messages'])}")
        seen.append(marked)
    assert seen[0] == ["tool read", "system", "message -1"]
    assert seen[1:] == [["tool read", "system", "message -3", "message -1"]] * 4


@pytest.mark.clause("PRM-3", "MDL-13")
def test_each_request_is_the_one_before_and_new_items() -> None:
    builder = AnthropicBuilder(SETTINGS)
    before: dict[str, Any] | None = None
    bytes_before = b""
    for messages in turns_of(6):
        builder.extend(messages)
        request = builder.build()
        body = accepted(request)
        if before is not None:
            old, new = units(before), units(body)
            assert new[: len(old)] == old
            assert len(new) > len(old)
        # Byte for byte, in the part that was encoded for good.
        settled = b"".join(request.body[:2])
        assert settled.startswith(bytes_before)
        before, bytes_before = body, settled


@pytest.mark.clause("PRM-3")
def test_a_request_that_failed_and_one_with_more_to_say_keep_the_prefix() -> None:
    builder = AnthropicBuilder(SETTINGS)
    builder.extend([user("Begin.")])
    first = accepted(builder.build())
    again = accepted(builder.build())
    builder.extend([user("Are you there?")])
    second = accepted(builder.build())
    assert first == again
    assert units(second) == [*units(first), ["user", {"type": "text", "text": "Are you there?"}]]
    assert len(second["messages"]) == 1


@pytest.mark.clause("PRM-3")
@pytest.mark.bug("USE-07")
def test_tools_found_in_another_order_give_the_same_bytes() -> None:
    one = built(user("x"), settings=RequestSettings(model="m", system="s", tools=(BASH, READ)))
    other = built(user("x"), settings=RequestSettings(model="m", system="s", tools=(READ, BASH)))
    assert one.body == other.body
    assert one.digests == other.digests


@pytest.mark.clause("PRM-3", "MDL-13")
def test_what_was_extended_step_by_step_and_what_was_reset_are_the_same_bytes() -> None:
    messages = [message for turn in turns_of(5) for message in turn]
    builder = AnthropicBuilder(SETTINGS)
    for message in messages:
        builder.extend([message])
    builder.build()
    other = AnthropicBuilder(SETTINGS)
    other.extend([user("something else")])
    other.reset(messages)
    assert b"".join(builder.build().body) == b"".join(other.build().body)


@pytest.mark.clause("MDL-13")
def test_a_turn_encodes_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    from drawbar.models import anthropic_encode

    encoded: list[Any] = []
    plain = anthropic_encode.encode_json
    monkeypatch.setattr(anthropic_encode, "encode_json", lambda value: encoded.append(value) or plain(value))
    builder = AnthropicBuilder(SETTINGS)
    counts = []
    for messages in turns_of(60):
        encoded.clear()
        builder.extend(messages)
        builder.build()
        counts.append(len(encoded))
    assert counts[0] == 1
    assert set(counts[1:]) == {2}


@pytest.mark.clause("CON-34")
def test_the_digests_name_each_part() -> None:
    builder = AnthropicBuilder(SETTINGS)
    builder.extend([user("Begin.")])
    one = builder.build().digests
    builder.extend([assistant(call("c1", command="ls"), stop="toolUse"), result("c1")])
    two = builder.build().digests
    assert set(one) == {"system", "tools", "last_message", "body"}
    assert (one["system"], one["tools"]) == (two["system"], two["tools"])
    assert one["last_message"] != two["last_message"]
    other = built(user("Begin."), settings=RequestSettings(model="m", system="Else.", tools=(BASH, READ))).digests
    assert other["tools"] == one["tools"]
    assert other["system"] != one["system"]
    assert other["last_message"] == one["last_message"]


def test_without_system_and_tools_neither_is_sent() -> None:
    body = accepted(built(user("x"), settings=RequestSettings(model="m", system=" \n")))
    assert set(body) == {"model", "max_tokens", "stream", "messages"}


@pytest.mark.clause("QLT-7")
def test_a_conversation_with_calls_but_no_tools_gets_a_definition_nobody_can_call() -> None:
    settings = RequestSettings(model="m", system="Summarise.")
    builder = AnthropicBuilder(settings)
    for messages in turns_of(3):
        builder.extend(messages)
    body = accepted(builder.build())
    assert body["tool_choice"] == {"type": "none"}
    assert len(body["tools"]) == 1


@pytest.mark.clause("QLT-7")
@pytest.mark.parametrize(
    ("messages", "last"),
    [
        ([], "[Continue.]"),
        ([user("a"), assistant(text("b"))], "[Continue.]"),
        ([assistant(text("b"))], "[Continue.]"),
        ([user("a"), user("   ")], "a"),
        ([user("a"), assistant(text("  ")), user("c")], "c"),
    ],
)
def test_there_is_always_something_to_answer(messages: list[Any], last: str) -> None:
    body = accepted(built(*messages))
    assert body["messages"][-1]["content"][-1]["text"] == last


@pytest.mark.clause("QLT-7", "PRM-3")
def test_what_a_request_needed_besides_gives_way_to_the_real_continuation() -> None:
    builder = AnthropicBuilder(SETTINGS)
    builder.extend([user("a"), assistant(call("c1", command="ls"), stop="toolUse")])
    request = builder.build()
    stopped = accepted(request)
    answer = stopped["messages"][-1]["content"][0]
    assert (answer["tool_use_id"], answer["is_error"]) == ("c1", True)
    assert any("no result" in repair for repair in request.repairs)
    builder.extend([result("c1", "a\nb")])
    request = builder.build()
    resumed = accepted(request)
    assert request.repairs == ()
    assert resumed["messages"][-1]["content"][0]["content"][0]["text"] == "a\nb"
    assert unmarked(resumed["messages"][:2]) == unmarked(stopped["messages"][:2])


@pytest.mark.clause("QLT-7")
def test_each_repair_is_told_once() -> None:
    builder = AnthropicBuilder(SETTINGS)
    builder.extend([user("a"), assistant(call("", command="x"), stop="toolUse"), result("")])
    assert len(builder.build().repairs) == 1
    assert builder.build().repairs == ()
    builder.extend([{"role": "toolResult", "toolCallId": "gone", "content": [text("late")], "isError": False}])
    assert len(builder.build().repairs) == 1


def test_many_repairs_are_told_in_few_words() -> None:
    messages = [assistant(call("", command=str(at)), stop="toolUse") for at in range(500)]
    repairs = built(user("a"), *messages).repairs
    assert len(repairs) == 20
    assert repairs[-1].startswith("and 9")


@pytest.mark.clause("QLT-7")
@pytest.mark.bug("SES-16")
def test_ids_of_any_alphabet_are_sent_in_the_providers_and_pairs_stay_matched() -> None:
    ids = ["call_1|fc_ä/b", "call_1|fc_ä.b", "a.b", "a_b", "a b", "x" * 300, "x" * 301, "🚀"]
    messages: list[Any] = [user("go")]
    for call_id in ids:
        messages += [assistant(call(call_id, command=call_id), stop="toolUse"), result(call_id, f"of {call_id}")]
    body = accepted(built(*messages))
    sent: list[str] = []
    for reply, answer in zip(body["messages"][1::2], body["messages"][2::2], strict=True):
        use, got = reply["content"][0], answer["content"][0]
        assert use["id"] == got["tool_use_id"]
        assert got["content"][0]["text"] == f"of {use['input']['command']}"
        sent.append(use["id"])
    assert len(set(sent)) == len(ids)
    assert max(map(len, sent)) <= 64


def test_tool_names_of_other_providers_are_put_into_the_providers_alphabet() -> None:
    body = accepted(built(user("a"), assistant(call("c1", "web.run/x"), stop="toolUse"), result("c1")))
    assert body["messages"][1]["content"][0]["name"] == "web_run_x"


@pytest.mark.clause("MDL-2")
def test_reasoning_and_blocks_of_other_providers_are_left_out() -> None:
    foreign = {"type": "providerBlock", "protocol": "openai-responses", "raw": {"type": "reasoning"}}
    thought = {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "rs_1"}
    unsigned = {"type": "thinking", "thinking": "Hm."}
    request = built(
        user("a"),
        assistant(thought, foreign, text("b"), api="openai-responses"),
        user("c"),
        assistant(unsigned, text("d")),
        user("e"),
        assistant(unsigned),
    )
    body = accepted(request)
    assert [block["text"] for message in body["messages"] for block in message["content"]] == [*"abcde"]
    assert any("another provider" in repair for repair in request.repairs)


def test_a_reply_that_ends_with_reasoning_is_sent_without_its_end() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "c2ln"}
    body = accepted(built(user("a"), assistant(thought, text("b"), thought), user("c")))
    assert [block["type"] for block in body["messages"][1]["content"]] == ["thinking", "text"]


@pytest.mark.clause("QLT-7")
@pytest.mark.bug("PRV-11")
def test_an_empty_reply_is_never_sent_back() -> None:
    body = accepted(built(user("a"), assistant(), user("b")))
    assert [message["role"] for message in body["messages"]] == ["user"]


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_a_failed_or_stopped_reply_is_not_sent_back(stop: str) -> None:
    body = accepted(built(user("a"), assistant(text("half"), call("c1", command="rm"), stop=stop), user("b")))
    assert "half" not in json.dumps(body)
    assert "rm" not in json.dumps(body["messages"])


# -- images -------------------------------------------------------------------------------------------


def image(data: str = PNG, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "mimeType": kind, "data": data}


def encoded(head: bytes, size: int = 64) -> str:
    return base64.b64encode(head + b"\0" * size).decode()


@pytest.mark.clause("QLT-7")
def test_images_are_sent_as_what_their_bytes_say() -> None:
    gif, webp, jpeg = encoded(b"GIF89a"), encoded(b"RIFF\0\0\0\0WEBPVP8 "), encoded(b"\xff\xd8\xff\xe0")
    request = built(
        {"role": "user", "content": [image(gif), image(webp, "x"), image(jpeg), image("!!"), image(encoded(b"BM"))]}
    )
    blocks = accepted(request)["messages"][0]["content"]
    sources = [block["source"]["media_type"] for block in blocks if block["type"] == "image"]
    assert sources == ["image/gif", "image/webp", "image/jpeg"]
    assert [block["type"] for block in blocks[3:]] == ["text", "text"]
    assert "no PNG, JPEG, GIF or WebP" in request.repairs[0]


@pytest.mark.clause("QLT-7")
def test_a_failed_result_carries_text_only_and_an_empty_one_says_so() -> None:
    failed = {"role": "toolResult", "toolCallId": "c1", "content": [image()], "isError": True}
    shown = {"role": "toolResult", "toolCallId": "c2", "content": [image()], "isError": False}
    empty = {"role": "toolResult", "toolCallId": "c3", "content": [], "isError": True}
    calls = assistant(call("c1"), call("c2"), call("c3"), stop="toolUse")
    answers = accepted(built(user("a"), calls, failed, shown, empty))["messages"][2]["content"]
    assert [[part["type"] for part in answer["content"]] for answer in answers] == [["text"], ["image"], ["text"]]
    assert answers[2]["content"][0]["text"] == "(no output)"


@pytest.mark.clause("QLT-7")
@pytest.mark.bug("SES-17")
def test_an_image_over_the_limit_does_not_poison_later_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["make.py", str(tmp_path)])
    runpy.run_path(str(FIXTURES / "SES-17" / "make.py"))
    request = built(*read_history(tmp_path / "session.jsonl").messages())
    body = accepted(request)
    assert "plain text, no image" in json.dumps(body)
    assert request.size < 100_000
    assert any("image" in repair and "5.2 MiB" in repair for repair in request.repairs)


@pytest.mark.clause("QLT-7")
def test_too_many_images_lose_the_oldest_and_once_in_a_while_only() -> None:
    builder = AnthropicBuilder(SETTINGS)
    changes = 0
    for at in range(2 * MAX_IMAGES):
        builder.extend([{"role": "user", "content": [text(f"picture {at}"), image()]}])
        request = builder.build()
        kinds = [block["type"] for block in body_of(request)["messages"][0]["content"]]
        assert kinds[-1] == "image"
        assert kinds.count("image") <= MAX_IMAGES
        changes += bool(request.repairs)
    accepted(request)
    assert kinds[:2] == ["text", "text"]
    assert 3 <= changes <= 5, "the prefix changes seldom"


@pytest.mark.clause("QLT-7")
def test_images_that_are_too_large_together_lose_the_oldest() -> None:
    large = encoded(b"\x89PNG\r\n\x1a\n", 3_700_000)
    builder = AnthropicBuilder(SETTINGS)
    for at in range(10):
        builder.extend([{"role": "user", "content": [text(f"picture {at}"), image(large)]}, assistant(text("Seen."))])
    builder.extend([user("Which one?")])
    request = builder.build()
    assert request.size <= MAX_REQUEST_BYTES
    blocks = [block for message in accepted(request)["messages"] for block in message["content"]]
    assert sum(block["type"] == "image" for block in blocks) >= 4
    assert any("oldest images" in repair for repair in request.repairs)


# -- reported histories -------------------------------------------------------------------------------


@pytest.mark.clause("QLT-7")
@pytest.mark.bug("SES-14")
def test_half_a_surrogate_pair_in_a_history_makes_a_valid_request() -> None:
    body = accepted(built(*read_history(FIXTURES / "SES-14" / "session.jsonl").messages()))
    assert "progress \ufffd" in body["messages"][-1]["content"][-1]["content"][0]["text"]


@pytest.mark.clause("QLT-7")
@pytest.mark.bug("SES-16")
def test_ids_used_twice_in_a_history_keep_their_pairs() -> None:
    expect = json.loads((FIXTURES / "SES-16" / "expect.json").read_text())
    body = accepted(built(*read_history(FIXTURES / "SES-16" / "session.jsonl").messages()))
    answered = [
        [block["content"][0]["text"] for block in message["content"] if block["type"] == "tool_result"]
        for message in body["messages"][2::2]
    ]
    assert answered == list(expect["pairs_kept"].values())


def test_a_system_prompt_with_broken_text_is_mended() -> None:
    body = accepted(built(user("x"), settings=RequestSettings(model="m", system="a\ud800b")))
    assert body["system"][0]["text"] == "a\ufffdb"


# -- settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (RequestSettings(model=" ", system=""), "model"),
        (RequestSettings(model="m", system="", max_output_tokens=0), "max_output_tokens"),
        (RequestSettings(model="m", system="", tools=(BASH, BASH)), "bash"),
        (RequestSettings(model="m", system="", tools=(ToolSpec("a.b", "", Request, "read"),)), "a.b"),
        (RequestSettings(model="m", system="", effort="enormous"), "enormous"),
    ],
)
def test_settings_that_no_request_could_be_made_from_are_refused(settings: RequestSettings, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        AnthropicBuilder(settings)


@pytest.mark.parametrize(
    ("model", "effort", "max_tokens", "fields"),
    [
        ("claude-sonnet-4-5-20250929", None, None, {}),
        ("claude-sonnet-4-5-20250929", "off", None, {}),
        ("claude-sonnet-4-5-20250929", "low", None, {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
        ("claude-sonnet-4-20250514", "medium", None, {"thinking": {"type": "enabled", "budget_tokens": 10240}}),
        ("claude-3-7-sonnet-20250219", "high", 8192, {"thinking": {"type": "enabled", "budget_tokens": 7168}}),
        ("a-gateways-own-name", "minimal", None, {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ("claude-haiku-4-5", "high", 2000, {}),
        *[
            (
                model,
                "high",
                None,
                {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}},
            )
            for model in ("claude-opus-4-7", "claude-sonnet-5", "vendor/claude-opus-4-8", "claude-fable-5-2")
        ],
    ],
)
def test_effort_becomes_what_the_model_takes(
    model: str, effort: str | None, max_tokens: int | None, fields: dict[str, Any]
) -> None:
    settings = RequestSettings(model=model, system="s", effort=effort, max_output_tokens=max_tokens)
    body = accepted(built(user("x"), settings=settings))
    assert {name: body[name] for name in ("thinking", "output_config") if name in body} == fields
