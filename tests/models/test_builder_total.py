"""From any history the builder makes a request that the provider accepts (QLT-7)."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.kit import SETTINGS
from tests.models.sdk_types import request_faults

from drawbar.contracts.model import RequestSettings
from drawbar.models.anthropic_builder import AnthropicBuilder
from drawbar.testing.anthropic_rules import check_request

HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 20).decode()

# Lone surrogates, blanks and characters outside every alphabet are what histories went wrong with.
text = st.text(alphabet=st.sampled_from("ab \n\0\u2028é🚀\ud83d\ude00"), max_size=6)
call_ids = st.sampled_from(["", "a", "b", "call_0", "call.0", "call_0|fc/1", "ü", "x" * 200]) | text
scalar = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | text
anything = st.recursive(
    scalar, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=6
)


def record(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with each field well made, made of anything, or missing."""
    spoilt = {name: strategy | anything for name, strategy in fields.items()}
    return st.fixed_dictionaries(fields) | st.fixed_dictionaries({}, optional=spoilt)


images = record(
    type=st.just("image"),
    mimeType=st.sampled_from(["image/png", "image/bmp"]),
    data=st.sampled_from([PNG, "", "%%", "aGVsbG8="]),
)
texts = record(type=st.just("text"), text=text)
calls = record(
    type=st.just("toolCall"), id=call_ids, name=st.sampled_from(["bash", "a.b", "", "x" * 300]), arguments=anything
)
thoughts = record(
    type=st.just("thinking"), thinking=text, thinkingSignature=st.sampled_from(["", "c2ln"]), redacted=st.booleans()
)
provider_blocks = st.sampled_from(
    [
        {"type": "providerBlock", "protocol": "openai-responses", "raw": {"type": "reasoning"}},
        {"type": "providerBlock", "protocol": "anthropic-messages", "raw": None},
        {"type": "providerBlock"},
        {"type": "invented", "x": 1},
    ]
)
replies = record(
    role=st.just("assistant"),
    content=st.lists(texts | calls | thoughts | provider_blocks | anything, max_size=4) | text,
    api=st.sampled_from(["anthropic-messages", "openai-responses"]),
    stopReason=st.sampled_from(["stop", "toolUse", "length", "error", "aborted"]),
)
users = record(role=st.just("user"), content=st.lists(texts | images | anything, max_size=3) | text)
results = record(
    role=st.just("toolResult"),
    toolCallId=call_ids,
    toolName=text,
    content=st.lists(texts | images | anything, max_size=3) | text,
    isError=st.booleans(),
)
others = record(role=st.sampled_from(["custom", "system", "bashExecution", "nobody"]), content=text, command=text)
histories = st.lists(users | replies | results | replies | results | others | anything, max_size=14)
offers = st.sampled_from([SETTINGS, RequestSettings(model="m", system="")])


def check(builder: AnthropicBuilder) -> bytes:
    request = builder.build()
    body = b"".join(request.body)
    assert request_faults(check_request(HEADERS, body)) == []
    assert request.digests["body"] == hashlib.sha256(body).hexdigest()
    return body


@pytest.mark.clause("QLT-7")
@pytest.mark.bug("SES-14", "SES-16", "PRV-11")
@settings(max_examples=400, deadline=None)
@given(histories, offers)
def test_any_history_makes_a_request_that_is_accepted(history: list[Any], offered: RequestSettings) -> None:
    builder = AnthropicBuilder(offered)
    builder.reset(history)
    check(builder)


@pytest.mark.clause("QLT-7", "MDL-13", "PRM-3")
@settings(max_examples=150, deadline=None)
@given(histories, st.lists(st.booleans(), min_size=14, max_size=14), offers)
def test_a_request_at_any_time_is_accepted_and_changes_nothing_later(
    history: list[Any], built_after: list[bool], offered: RequestSettings
) -> None:
    step_by_step, at_once = AnthropicBuilder(offered), AnthropicBuilder(offered)
    for message, build in zip(history, built_after, strict=False):
        step_by_step.extend([message])
        if build:
            check(step_by_step)
    at_once.extend(history)
    assert check(step_by_step) == check(at_once)
