"""Chat completions: any history makes a request that the strict server takes, and each habit of a server is met."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.kit import SETTINGS, assistant, call, result, text, user
from tests.models.test_builder_total import histories

from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.model import Account, RequestSettings
from drawbar.models.chat import ChatWire
from drawbar.models.chat_builder import ChatBuilder, ChatHabits
from drawbar.testing.chat_rules import check_chat_request

HEADERS = {"authorization": "Bearer k"}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 20).decode()
offers = st.sampled_from([SETTINGS, RequestSettings(model="m", system="")])


def check(builder: ChatBuilder, *, lenient: bool = True) -> dict[str, Any]:
    request = builder.build()
    body = b"".join(request.body)
    assert request.digests["body"] == hashlib.sha256(body).hexdigest()
    return check_chat_request(HEADERS, body, lenient=lenient)


def sent(*messages: dict[str, Any], habits: ChatHabits | None = None, model: str = "m") -> list[dict[str, Any]]:
    builder = ChatBuilder(RequestSettings(model=model, system="Be brief.", tools=SETTINGS.tools), habits)
    builder.extend(messages)
    return json.loads(b"".join(builder.build().body))["messages"]


@pytest.mark.clause("QLT-7", "MDL-2")
@settings(max_examples=400, deadline=None)
@given(histories, offers)
def test_any_history_makes_a_request_that_is_accepted(history: list[Any], offered: RequestSettings) -> None:
    builder = ChatBuilder(offered)
    builder.reset(history)
    check(builder)
    builder.simplify()
    check(builder, lenient=False)


@pytest.mark.clause("QLT-7", "MDL-13", "PRM-3")
@settings(max_examples=150, deadline=None)
@given(histories, st.lists(st.booleans(), min_size=14, max_size=14), offers)
def test_a_request_at_any_time_is_accepted_and_changes_nothing_later(
    history: list[Any], built_after: list[bool], offered: RequestSettings
) -> None:
    step_by_step, at_once = ChatBuilder(offered), ChatBuilder(offered)
    for message, build in zip(history, built_after, strict=False):
        step_by_step.extend([message])
        if build:
            check(step_by_step)
    at_once.extend(history)
    assert check(step_by_step) == check(at_once)


@pytest.mark.clause("PRM-3", "MDL-13")
def test_each_request_is_the_one_before_and_more() -> None:
    builder = ChatBuilder(SETTINGS)
    before = b""
    for at in range(6):
        builder.extend([user(f"Question {at}")])
        body = b"".join(builder.build().body)
        assert body.startswith(before.removesuffix(b"]}"))
        before = body
        builder.extend([assistant(text(f"Answer {at}"), api="openai-chat")])


@pytest.mark.clause("MDL-2")
def test_results_come_right_after_their_calls_and_images_after_those() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": PNG}
    seen = {**result("a"), "content": [image]}
    asked = assistant(call("a"), call("b"), stop="toolUse", api="openai-chat")
    roles = [message["role"] for message in sent(user("Look."), asked, seen, result("b"))]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user"]


@pytest.mark.clause("MDL-2")
def test_reasoning_goes_back_where_it_came_from_and_to_its_own_model_alone() -> None:
    details = [{"type": "reasoning.encrypted", "data": "x", "index": 0}]
    thought = {
        "type": "thinking",
        "thinking": "Hm.",
        "thinkingSignature": "reasoning",
        "providerFields": {"reasoning_details": details},
    }
    said = {**assistant(thought, text("Yes."), api="openai-chat"), "model": "m"}
    reply = sent(user("Is it?"), said, user("Sure?"))[2]
    assert (reply["reasoning"], reply["reasoning_details"]) == ("Hm.", details)
    other = sent(user("Is it?"), {**said, "model": "another"}, user("Sure?"))[2]
    assert set(other) == {"role", "content"}


@pytest.mark.clause("MDL-2")
def test_ids_have_the_form_that_the_server_takes() -> None:
    long = "call_" + "x" * 80
    messages = (user("Go."), assistant(call(long), stop="toolUse", api="openai-chat"), result(long), user("On."))
    made = sent(*messages)
    assert made[2]["tool_calls"][0]["id"] == made[3]["tool_call_id"]
    assert len(made[3]["tool_call_id"]) <= 40
    nine = sent(*messages, habits=ChatHabits(exact_id=9))
    assert len(nine[3]["tool_call_id"]) == 9
    assert nine[3]["tool_call_id"].isalnum()


@pytest.mark.clause("PRM-4")
def test_cache_breakpoints_stand_where_a_gateway_has_them() -> None:
    made = sent(user("One."), assistant(text("1"), api="openai-chat"), user("Two."), habits=ChatHabits(marks=True))
    marked = [message["role"] for message in made if "cache_control" in json.dumps(message)]
    assert marked == ["system", "user", "user"]
    plain = sent(user("One."))
    assert "cache_control" not in json.dumps(plain)


@pytest.mark.clause("MDL-2", "MDL-14")
@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("https://api.openai.com/v1", "/v1/chat/completions"),
        ("https://api.openai.com", "/v1/chat/completions"),
        ("https://openrouter.ai/api/v1", "/v1/chat/completions"),
        ("http://127.0.0.1:11434/v1/", "/v1/chat/completions"),
        ("https://gateway.example/paas/v4", "/chat/completions"),
    ],
)
def test_the_path_follows_the_address(base: str, path: str) -> None:
    wire = ChatWire(Account(id="a", protocol="openai-chat", base_url=base, secret="k"))
    assert wire.path("m") == path


@pytest.mark.clause("MDL-2")
def test_the_output_limit_has_the_name_that_the_server_knows() -> None:
    settings = RequestSettings(model="m", system="", max_output_tokens=10)
    for base, name in (("https://api.openai.com", "max_completion_tokens"), ("http://127.0.0.1:8000", "max_tokens")):
        builder = ChatWire(Account(id="a", protocol="openai-chat", base_url=base, secret="k")).builder(settings)
        builder.extend([user("Hi.")])
        assert json.loads(b"".join(builder.build().body))[name] == 10


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
        ChatBuilder(wrong)
