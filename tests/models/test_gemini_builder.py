"""Gemini: any history makes a request that the strict server takes, and signatures go back where they came from."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.gemini_oracle import body_faults
from tests.models.kit import SETTINGS, assistant, call, result, text, user
from tests.models.test_builder_total import histories, record
from tests.models.test_builder_total import replies as any_replies
from tests.models.test_builder_total import results as any_results

from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.model import Account, RequestSettings
from drawbar.models.gemini import GeminiWire
from drawbar.models.gemini_builder import GeminiBuilder
from drawbar.models.gemini_encode import STAND_IN_SIGNATURE
from drawbar.models.gemini_thinking import EFFORTS
from drawbar.stores.accounts import Accounts
from drawbar.stores.redaction import SecretRedactor
from drawbar.testing.gemini_rules import check_gemini_request
from drawbar.testing.speech import ApiError

HEADERS = {"x-goog-api-key": "k"}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 20).decode()
GIF = base64.b64encode(b"GIF89a" + b"\0" * 20).decode()
SIGNED = "c2lnbmVk"
MODELS = ["gemini-2.0-flash", "gemini-2.5-pro", "models/gemini-2.5-flash", "gemini-3-flash-preview", "gemini-3.1-pro"]

signatures = st.sampled_from([SIGNED, "", "no base64!", None])
beside = st.fixed_dictionaries({}, optional={"thoughtSignature": signatures})


def carrying(blocks: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Blocks with what a provider may have put beside them, or something that it can't have."""
    rest = beside | st.none() | st.just({"": 1, "text": "x", "functionCall": {}})
    return st.builds(lambda block, fields: {**block, "providerFields": fields}, blocks, rest)


own_blocks = (
    carrying(record(type=st.just("text"), text=st.sampled_from(["a", " ", "\ud83d"])))
    | carrying(
        record(
            type=st.just("toolCall"),
            id=st.sampled_from(["a", "b", ""]),
            name=st.sampled_from(["bash", "1", "ä.b"]),
            arguments=st.just({"x": 1}),
        )
    )
    | record(type=st.just("thinking"), thinking=st.sampled_from(["", "Hm."]), thinkingSignature=signatures)
    | carrying(
        st.builds(lambda signed: {"type": "thinking", "redacted": True, "thinkingSignature": signed}, signatures)
    )
    | st.sampled_from(
        [
            {"type": "providerBlock", "protocol": "gemini", "raw": {"executableCode": {"language": "PYTHON"}}},
            {"type": "providerBlock", "protocol": "gemini", "raw": {}},
        ]
    )
)
own_replies = record(
    role=st.just("assistant"),
    content=st.lists(own_blocks, max_size=4),
    api=st.just("gemini"),
    model=st.sampled_from(MODELS),
    stopReason=st.sampled_from(["stop", "toolUse"]),
)
all_histories = histories | st.lists(own_replies | any_results | own_replies | any_replies, max_size=14)
offers = st.builds(
    lambda model, tools: RequestSettings(model=model, system="Work." if tools else "", tools=tools),
    st.sampled_from(MODELS),
    st.sampled_from([SETTINGS.tools, ()]),
)


def check(builder: GeminiBuilder, model: str) -> dict[str, Any]:
    request = builder.build()
    body = b"".join(request.body)
    assert request.digests["body"] == hashlib.sha256(body).hexdigest()
    return check_gemini_request(HEADERS, body, model=model.removeprefix("models/"))


def body_for(*messages: dict[str, Any], model: str = "gemini-2.5-flash", **rest: Any) -> dict[str, Any]:
    made = RequestSettings(model=model, system="Be brief.", tools=SETTINGS.tools, **rest)
    builder = GeminiBuilder(made)
    builder.extend(messages)
    check(builder, model)
    return json.loads(b"".join(builder.build().body))


def sent(*messages: dict[str, Any], model: str = "gemini-2.5-flash") -> list[dict[str, Any]]:
    return body_for(*messages, model=model)["contents"]


def said(*blocks: dict[str, Any], model: str = "gemini-2.5-flash", stop: str = "stop") -> dict[str, Any]:
    return {**assistant(*blocks, api="gemini", stop=stop), "model": model}


@pytest.mark.clause("QLT-7", "MDL-2")
@settings(max_examples=400, deadline=None)
@given(all_histories, offers)
def test_any_history_makes_a_request_that_is_accepted(history: list[Any], offered: RequestSettings) -> None:
    builder = GeminiBuilder(offered)
    builder.reset(history)
    check(builder, offered.model)
    builder.simplify()
    check(builder, offered.model)


@pytest.mark.clause("QLT-7", "MDL-13", "PRM-3")
@settings(max_examples=150, deadline=None)
@given(all_histories, st.lists(st.booleans(), min_size=14, max_size=14), offers)
def test_a_request_at_any_time_is_accepted_and_changes_nothing_later(
    history: list[Any], built_after: list[bool], offered: RequestSettings
) -> None:
    step_by_step, at_once = GeminiBuilder(offered), GeminiBuilder(offered)
    for message, build in zip(history, built_after, strict=False):
        step_by_step.extend([message])
        if build:
            check(step_by_step, offered.model)
    at_once.extend(history)
    assert check(step_by_step, offered.model) == check(at_once, offered.model)


@pytest.mark.clause("QLT-7")
@settings(max_examples=100, deadline=None)
@given(all_histories, offers, st.sampled_from([None, *EFFORTS]))
def test_the_official_types_know_every_field(history: list[Any], offered: RequestSettings, effort: str | None) -> None:
    made = RequestSettings(
        model=offered.model, system=offered.system, tools=offered.tools, effort=effort, max_output_tokens=9
    )
    builder = GeminiBuilder(made)
    builder.extend(history)
    assert body_faults(check(builder, offered.model)) == []


@pytest.mark.clause("PRM-3", "MDL-13")
def test_each_request_is_the_one_before_and_more() -> None:
    builder = GeminiBuilder(RequestSettings(model="gemini-2.5-flash", system="Work.", tools=SETTINGS.tools))
    before = b""
    for at in range(6):
        builder.extend([user(f"Question {at}")])
        body = b"".join(builder.build().body)
        assert body.startswith(before.removesuffix(b"]}"))
        before = body
        builder.extend([assistant(text(f"Answer {at}"), api="gemini")])


@pytest.mark.clause("MDL-2")
def test_results_are_objects_in_the_order_of_their_calls_before_anything_else() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": PNG}
    asked = said(call("a"), call("b", "read"), stop="toolUse")
    seen = {**result("b", failed=True), "toolName": "read"}
    parts = sent(user("Look."), asked, seen, {**result("a"), "content": [image]}, user("Well?"))[2]["parts"]
    assert [one["functionResponse"] for one in parts[:2]] == [
        {"id": "a", "name": "bash", "response": {"output": "[an image, shown below]"}},
        {"id": "b", "name": "read", "response": {"error": "ok"}},
    ]
    assert [next(iter(one)) for one in parts[2:]] == ["text", "inlineData", "text"]
    assert parts[3]["inlineData"] == {"mimeType": "image/png", "data": PNG}
    nothing = sent(user("Go."), said(call("a"), stop="toolUse"), result("a", ""))[2]["parts"][0]
    assert nothing["functionResponse"]["response"] == {"output": "(no output)"}


@pytest.mark.clause("MDL-2", "QLT-7")
def test_an_image_that_the_service_does_not_read_is_said_in_words() -> None:
    image = {"type": "image", "mimeType": "image/gif", "data": GIF}
    (part,) = sent({"role": "user", "content": [image]})[0]["parts"]
    assert "GIF" in part["text"]


@pytest.mark.clause("MDL-2")
def test_a_signature_goes_back_on_its_own_part_and_to_its_own_model_alone() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "providerFields": {}}
    signed_call = {**call("a", command="ls"), "providerFields": {"thoughtSignature": SIGNED}}
    lone = {"type": "thinking", "thinking": "", "thinkingSignature": SIGNED, "redacted": True}
    history = (
        user("Do."),
        said(thought, signed_call, call("b"), stop="toolUse", model="models/gemini-3-flash"),
        result("a"),
        result("b"),
        said(text("Done."), lone, model="gemini-3-flash"),
        user("On."),
    )
    made = sent(*history, model="gemini-3-flash")
    assert made[1]["parts"] == [
        {"text": "Hm.", "thought": True},
        {"functionCall": {"id": "a", "name": "bash", "args": {"command": "ls"}}, "thoughtSignature": SIGNED},
        {"functionCall": {"id": "b", "name": "bash", "args": {}}},
    ]
    assert made[3]["parts"] == [{"text": "Done."}, {"text": "", "thoughtSignature": SIGNED}]
    other = sent(*history, model="gemini-3.1-pro")
    assert other[1]["parts"][0]["thoughtSignature"] == STAND_IN_SIGNATURE
    assert SIGNED not in json.dumps(other)
    assert "houghtSignature" not in json.dumps(sent(*history, model="gemini-2.5-flash"))


@pytest.mark.clause("MDL-2", "QLT-7")
def test_calls_that_another_provider_made_are_taken_by_a_model_that_wants_signatures() -> None:
    asked = assistant(call("toolu_1"), call("toolu_2"), stop="toolUse")
    made = sent(user("Go."), asked, result("toolu_1"), result("toolu_2"), model="gemini-3-flash-preview")
    assert ["thoughtSignature" in part for part in made[1]["parts"]] == [True, False]


@pytest.mark.clause("MDL-2")
def test_what_is_not_modelled_goes_back_unchanged_to_this_protocol_alone() -> None:
    raw = {"toolCall": {"id": "s", "toolType": "GOOGLE_SEARCH_WEB", "args": {}}, "thoughtSignature": SIGNED}
    block = {"type": "providerBlock", "protocol": "gemini", "raw": raw}
    foreign = {"type": "providerBlock", "protocol": "anthropic-messages", "raw": {"type": "x"}}
    assert sent(user("Go."), said(block, text("Found."), foreign), user("On."))[1]["parts"] == [
        raw,
        text_part("Found."),
    ]


def text_part(words: str) -> dict[str, Any]:
    return {"text": words}


@pytest.mark.clause("MDL-2", "CON-19")
@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        ("gemini-2.0-flash", "high", None),
        ("gemini-2.5-flash", None, {"includeThoughts": True}),
        ("gemini-2.5-flash", "off", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "off", {"thinkingBudget": 128}),
        ("models/gemini-2.5-flash-lite", "minimal", {"includeThoughts": True, "thinkingBudget": 512}),
        ("gemini-2.5-flash", "max", {"includeThoughts": True, "thinkingBudget": 24576}),
        ("gemini-2.5-flash-image", "high", None),
        ("gemini-3-flash-preview", "minimal", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}),
        ("gemini-3-pro-preview", "minimal", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("gemini-3-pro-preview", "medium", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-3.1-pro-preview", "medium", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        ("gemini-flash-latest", "xhigh", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemma-3-27b-it", "high", None),
    ],
)
def test_effort_is_said_as_the_generation_takes_it(
    model: str, effort: str | None, config: dict[str, Any] | None
) -> None:
    body = body_for(user("Hi."), model=model, effort=effort)
    assert body.get("generationConfig", {}).get("thinkingConfig") == config


@pytest.mark.clause("MDL-2")
@pytest.mark.parametrize("model", ["gemini-2.5-flash", "models/gemini-2.5-flash"])
@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("https://generativelanguage.googleapis.com", "/v1beta/models/"),
        ("https://generativelanguage.googleapis.com/", "/v1beta/models/"),
        ("https://generativelanguage.googleapis.com/v1beta/", "/models/"),
        ("https://generativelanguage.googleapis.com/v1", "/v1/models/"),
        ("https://gateway.example/v1/account/gw/google-ai-studio", "/v1beta/models/"),
        ("https://aiplatform.googleapis.com/v1/publishers/google", "/models/"),
    ],
)
def test_the_path_follows_the_address(base: str, path: str, model: str) -> None:
    wire = GeminiWire(Account(id="a", protocol="gemini", base_url=base, secret="k"))
    assert wire.path(model) == f"{path}gemini-2.5-flash:streamGenerateContent?alt=sse"


@pytest.mark.parametrize(
    "wrong",
    [
        RequestSettings(model=" ", system=""),
        RequestSettings(model="models/", system=""),
        RequestSettings(model="gemini-2.5-flash", system="", max_output_tokens=0),
        RequestSettings(model="gemini-2.5-flash", system="", effort="huge"),
        RequestSettings(model="gemini-2.5-flash", system="", tools=(SETTINGS.tools[0], SETTINGS.tools[0])),
    ],
)
@pytest.mark.clause("QLT-7")
def test_settings_that_no_request_could_be_made_from_are_refused(wrong: RequestSettings) -> None:
    with pytest.raises(InvalidInput):
        GeminiBuilder(wrong)


CALLED = {"role": "model", "parts": [{"functionCall": {"id": "a", "name": "bash", "args": {}}}]}
ANSWER = {"functionResponse": {"id": "a", "name": "bash", "response": {"output": "x"}}}
ASKED = {"role": "user", "parts": [{"text": "Go."}]}


@pytest.mark.clause("MDL-11")
@pytest.mark.parametrize(
    ("body", "words", "model"),
    [
        ({"contents": []}, "contents is not specified", "gemini-2.5-flash"),
        ({"contents": [ASKED], "model_": 1}, 'Unknown name "model_"', "gemini-2.5-flash"),
        ({"contents": [{"role": "assistant", "parts": [{"text": "x"}]}]}, "valid role", "gemini-2.5-flash"),
        ({"contents": [ASKED, ASKED]}, "alternate", "gemini-2.5-flash"),
        ({"contents": [ASKED, {"role": "model", "parts": [{"text": "x"}]}]}, "end with a user", "gemini-2.5-flash"),
        ({"contents": [{"role": "user", "parts": []}]}, "must not be empty", "gemini-2.5-flash"),
        ({"contents": [{"role": "user", "parts": [{"text": " "}]}]}, "must have a text", "gemini-2.5-flash"),
        ({"contents": [ASKED, CALLED, ASKED]}, "number of function response parts", "gemini-2.5-flash"),
        ({"contents": [{"role": "user", "parts": [ANSWER]}]}, "immediately after", "gemini-2.5-flash"),
        (
            {"contents": [ASKED, CALLED, {"role": "user", "parts": [ANSWER]}]},
            "missing a thought_signature",
            "gemini-3-flash",
        ),
        (
            {"contents": [ASKED], "tools": [{"functionDeclarations": [{"name": "1"}]}]},
            "Invalid function name",
            "gemini-2.5-flash",
        ),
        (
            {"contents": [ASKED], "generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}}},
            "level is not supported",
            "gemini-2.5-flash",
        ),
        (
            {"contents": [ASKED], "generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}},
            "only works in thinking mode",
            "gemini-2.5-pro",
        ),
        (
            {"contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "image/gif", "data": GIF}}]}]},
            "Unsupported MIME type",
            "gemini-2.5-flash",
        ),
    ],
)
def test_the_server_refuses_what_the_service_refuses(body: dict[str, Any], words: str, model: str) -> None:
    with pytest.raises(ApiError, match=words):
        check_gemini_request(HEADERS, json.dumps(body).encode(), model=model)


@pytest.mark.clause("MDL-1")
@pytest.mark.parametrize("variable", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_an_account_is_offered_where_the_environment_has_a_key(variable: str) -> None:
    secret = "test-credential-5d0b7a1f33c94e62"
    environ = {variable: secret, "GEMINI_MODEL": "gemini-3.1-pro-preview"}
    account = Accounts(environ, SecretRedactor()).resolve("gemini")
    assert (account.protocol, account.secret, account.model) == ("gemini", secret, "gemini-3.1-pro-preview")
    assert GeminiWire(account).headers(account) == {"x-goog-api-key": secret}
    assert account.base_url == "https://generativelanguage.googleapis.com"
    assert Accounts({variable: secret}, SecretRedactor()).resolve("gemini").model
