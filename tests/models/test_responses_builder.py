"""Responses: any history makes a request that the strict server takes; what came goes back as it came."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.kit import SETTINGS, assistant, call, result, text, user
from tests.models.test_builder_total import histories as any_histories

from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.model import Account, RequestSettings
from drawbar.models.responses import ResponsesWire
from drawbar.models.responses_builder import ResponsesBuilder
from drawbar.testing.responses_rules import check_responses_request
from drawbar.testing.speech import ApiError

HEADERS = {"authorization": "Bearer k"}
API = "openai-responses"
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 20).decode()
offers = st.sampled_from([SETTINGS, RequestSettings(model="m", system="")])


def thought(item_id: str = "rs_1", **fields: Any) -> dict[str, Any]:
    item = {"type": "reasoning", "id": item_id, "summary": [], "encrypted_content": "opaque"} | fields
    return {"type": "thinking", "thinking": "", "thinkingSignature": json.dumps(item)}


def raw(**item: Any) -> dict[str, Any]:
    return {"type": "providerBlock", "protocol": API, "raw": item}


def with_id(block: dict[str, Any], item_id: Any, **fields: Any) -> dict[str, Any]:
    return {**block, "providerFields": {"id": item_id, **fields}}


# What this protocol's own replies leave behind: whole, twice in a history, or with something missing.
own_blocks = st.sampled_from(
    [
        thought(),
        thought("rs_2"),
        thought(encrypted_content=None),
        thought("rs_3", encrypted_content=None, content=[{"type": "reasoning_text", "text": "Hm."}])
        | {"thinkingSignature": "{broken"},
        {"type": "thinking", "thinking": "a further part"},
        text("said"),
        with_id(text("said"), "msg_1", phase="commentary"),
        with_id(text("ab"), "msg_2", content=[{"type": "output_text", "text": "ab", "annotations": []}]),
        with_id(text("ab"), "msg_3", content=[{"type": "output_text", "text": "other"}], phase="unknown"),
        with_id(text("said"), "item_1"),
        with_id(text("said"), 7),
        with_id(call("call_1", command="ls"), "fc_1"),
        with_id(call("call_1"), "fc_1", namespace="n", caller={"type": "direct"}),
        with_id(call("call_2", input="free text"), "ctc_1", type="custom_tool_call"),
        with_id(call("call_2", input=5), "ctc_1", type="custom_tool_call"),
        raw(type="web_search_call", id="ws_1", status="completed", action={"type": "search", "query": "x"}),
        raw(type="local_shell_call", id="lsh_1", call_id="c", status="completed", action={}),
        raw(type="message", id="msg_9", role="assistant", content=[{"type": "refusal", "refusal": "No."}]),
        raw(type="message", id="msg_9", role="assistant", content=[]),
        raw(type="function_call_output", call_id="x", output="y"),
        raw(type="item_reference", id="rs_1"),
        raw(id="x"),
        raw(type="web_search_call", id=["not", "text"]),
    ]
)
own_replies = st.fixed_dictionaries(
    {
        "role": st.just("assistant"),
        "content": st.lists(own_blocks, max_size=5),
        "api": st.just(API),
        "model": st.sampled_from(["m", SETTINGS.model, "another"]),
        "stopReason": st.sampled_from(["stop", "toolUse", "length", "error"]),
    }
)
own_results = st.sampled_from([result("call_1"), result("call_2", failed=True), result("call_1", "")])
histories = any_histories | st.lists(own_replies | own_results | st.just(user("Go on.")), max_size=12)


def check(builder: ResponsesBuilder) -> dict[str, Any]:
    request = builder.build()
    body = b"".join(request.body)
    assert request.digests["body"] == hashlib.sha256(body).hexdigest()
    return check_responses_request(HEADERS, body)


def sent(*messages: dict[str, Any], model: str = "m", **rest: Any) -> dict[str, Any]:
    builder = ResponsesBuilder(RequestSettings(model=model, system="Be brief.", tools=SETTINGS.tools, **rest))
    builder.extend(messages)
    return check(builder)


@pytest.mark.clause("QLT-7", "MDL-2")
@settings(max_examples=600, deadline=None)
@given(histories, offers)
def test_any_history_makes_a_request_that_is_accepted(history: list[Any], offered: RequestSettings) -> None:
    builder = ResponsesBuilder(offered)
    builder.reset(history)
    check(builder)
    builder.simplify()
    plain = check(builder)
    assert {item["type"] for item in plain["input"]} <= {"message", "function_call", "function_call_output"}


@pytest.mark.clause("QLT-7", "MDL-13", "PRM-3")
@settings(max_examples=200, deadline=None)
@given(histories, st.lists(st.booleans(), min_size=14, max_size=14), offers)
def test_a_request_at_any_time_is_accepted_and_changes_nothing_later(
    history: list[Any], built_after: list[bool], offered: RequestSettings
) -> None:
    step_by_step, at_once = ResponsesBuilder(offered), ResponsesBuilder(offered)
    for message, build in zip(history, built_after, strict=False):
        step_by_step.extend([message])
        if build:
            check(step_by_step)
    at_once.extend(history)
    assert check(step_by_step) == check(at_once)


@pytest.mark.clause("PRM-3", "MDL-13")
def test_each_request_is_the_one_before_and_more() -> None:
    builder = ResponsesBuilder(SETTINGS)
    before = b""
    for at in range(6):
        builder.extend([user(f"Question {at}")])
        body = b"".join(builder.build().body)
        assert body.startswith(before.removesuffix(b"]}"))
        before = body
        builder.extend([assistant(thought(f"rs_{at}"), with_id(text(f"Answer {at}"), f"msg_{at}"), api=API)])


@pytest.mark.clause("MDL-2", "CON-19")
def test_nothing_is_stored_and_what_reasoning_holds_is_asked_for() -> None:
    quiet = sent(user("Hi."))
    assert (quiet["store"], quiet["stream"], quiet["instructions"]) == (False, True, "Be brief.")
    assert quiet["include"] == ["reasoning.encrypted_content"]
    assert "reasoning" not in quiet
    assert sent(user("Hi."), effort="high")["reasoning"] == {"effort": "high", "summary": "detailed"}
    assert "reasoning" not in sent(user("Hi."), effort="off")
    assert "include" not in sent(user("Hi."), model="gpt-4.1-mini")
    assert sent(user("Hi."), max_output_tokens=3)["max_output_tokens"] == 16
    assert [tool["strict"] for tool in quiet["tools"]] == [False, False]


@pytest.mark.clause("MDL-2")
def test_a_reply_goes_back_item_by_item_to_the_model_that_made_it() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    cited = [{"type": "url_citation", "start_index": 0, "end_index": 1, "title": "t", "url": "https://example.org"}]
    reply = assistant(
        thought(),
        {"type": "thinking", "thinking": "The summary's second part."},
        raw(**search),
        with_id(text("Found."), "msg_1", annotations=cited, phase="commentary"),
        with_id(call("call_1", command="ls"), "fc_1"),
        stop="toolUse",
        api=API,
    )
    messages = (user("Look."), {**reply, "model": "m"}, result("call_1", "a"))
    made = sent(*messages)["input"]
    assert made[1] == json.loads(thought()["thinkingSignature"])
    assert made[2] == search
    part = {"type": "output_text", "text": "Found.", "annotations": cited}
    assert made[3] == {
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part],
        "phase": "commentary",
    }  # fmt: skip
    assert made[4]["id"] == "fc_1"
    assert made[5] == {"type": "function_call_output", "call_id": "call_1", "output": "a"}
    other = sent(user("Look."), {**reply, "model": "another"}, result("call_1", "a"))["input"]
    assert [item["type"] for item in other] == ["message", "message", "function_call", "function_call_output"]
    assert not any("id" in item for item in other)


@pytest.mark.clause("QLT-7")
def test_ids_stay_away_where_the_reasoning_before_them_cannot_go_back() -> None:
    reply = assistant(thought(encrypted_content=None), with_id(call("call_1"), "fc_1"), stop="toolUse", api=API)
    made = sent(user("Go."), reply, result("call_1"))["input"]
    assert [item["type"] for item in made] == ["message", "function_call", "function_call_output"]
    assert "id" not in made[1]


@pytest.mark.clause("MDL-2")
def test_results_hold_their_images_and_a_custom_tool_gets_its_own_form() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": PNG}
    custom = with_id(call("call_2", input="2 ** 8"), "ctc_1", type="custom_tool_call")
    seen = {**result("call_1"), "content": [text("A picture:"), image]}
    reply = assistant(call("call_1"), custom, stop="toolUse", api=API)
    made = sent(user("Look."), reply, seen, result("call_2"), user("And?"))["input"]
    assert [item["type"] for item in made] == [
        "message", "function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output", "message",
    ]  # fmt: skip
    assert made[2]["input"] == "2 ** 8"
    assert [part["type"] for part in made[3]["output"]] == ["input_text", "input_image"]


@pytest.mark.clause("MDL-2")
@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("https://api.openai.com/v1", "/v1/responses"),
        ("https://api.openai.com", "/v1/responses"),
        ("https://gateway.example/paas/v4", "/responses"),
    ],
)
def test_the_path_follows_the_address(base: str, path: str) -> None:
    wire = ResponsesWire(Account(id="a", protocol=API, base_url=base, secret="k"))
    assert wire.path("m") == path
    assert wire.headers(Account(id="a", protocol=API, base_url=base, secret=" k ")) == {"authorization": "Bearer k"}


@pytest.mark.clause("MDL-11")
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ({"invented": 1}, "Unknown parameter: 'invented'"),
        ({"input": []}, "must be provided"),
        ({"max_output_tokens": 3}, "Expected a value >= 16"),
        ({"include": ["everything"]}, "Supported values are"),
        ({"model": "gpt-4o-mini", "include": ["reasoning.encrypted_content"]}, "not supported with this model"),
        (
            {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]},
            "without its required following item|persisted",
        ),
        ({"input": [{"type": "item_reference", "id": "rs_1"}]}, "Items are not persisted"),
        (
            {"input": [{"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}]},
            "No tool output found",
        ),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": ""}]}, "No tool call found"),
        (
            {"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
            "Supported values are: 'input_text'",
        ),
        ({"input": [{"role": "assistant", "content": "x", "id": "fc_1"}]}, "begins with 'msg'"),
        ({"tools": [{"type": "function", "name": "n", "parameters": {}}]}, "strict mode"),
    ],
)
def test_the_server_refuses_what_the_service_refuses(spoil: dict[str, Any], said: str) -> None:
    with pytest.raises(ApiError, match=said):
        check_responses_request(HEADERS, json.dumps({"model": "m", "input": "x", "store": False, **spoil}).encode())


@pytest.mark.parametrize(
    "wrong",
    [
        RequestSettings(model=" ", system=""),
        RequestSettings(model="m", system="", max_output_tokens=0),
        RequestSettings(model="m", system="", effort="huge"),
        RequestSettings(model="m", system="", tools=(SETTINGS.tools[0], SETTINGS.tools[0])),
    ],
)
@pytest.mark.clause("QLT-7")
def test_settings_that_no_request_could_be_made_from_are_refused(wrong: RequestSettings) -> None:
    with pytest.raises(InvalidInput):
        ResponsesBuilder(wrong)
