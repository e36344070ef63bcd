"""One table from what a provider says to what it means (MDL-5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.kit import FIXTURES

from drawbar.models.errors import MAX_MESSAGE, classify, response_error, retry_after_s, stream_error

CASES = [
    (401, "authentication_error", "invalid x-api-key", "auth"),
    (403, "permission_error", "Your API key does not have permission", "auth"),
    (403, None, "Forbidden", "auth"),
    (402, None, "Payment required", "quota"),
    (400, "invalid_request_error", "Your credit balance is too low to access the API.", "quota"),
    (429, "insufficient_quota", "You exceeded your current quota, please check your plan and billing", "quota"),
    (
        400,
        "invalid_request_error",
        "You have reached your usage limits. You will regain access on 1 December.",
        "quota",
    ),
    (429, "rate_limit_error", "Number of request tokens has exceeded your per-minute rate limit", "rate_limit"),
    (429, None, "too many tokens for this minute; the context window is not the reason", "rate_limit"),
    (529, "overloaded_error", "Overloaded", "overloaded"),
    (503, None, "upstream connect error", "overloaded"),
    (500, "api_error", "Internal server error", "overloaded"),
    (504, "timeout_error", "Request timed out", "overloaded"),
    (413, "request_too_large", "Request exceeds the maximum size", "context_overflow"),
    (
        400,
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 199 + 20 > 200",
        "context_overflow",
    ),
    (500, None, "the request exceeds the available context size (4096)", "context_overflow"),
    (400, "invalid_request_error", "Output blocked by content filtering policy", "refused"),
    (404, "not_found_error", "model: no-such-model", "bad_request"),
    (400, "invalid_request_error", "messages.0: Field required", "bad_request"),
    (408, None, "Request timeout", "transport"),
    (None, "overloaded_error", "Overloaded", "overloaded"),
    (None, "rate_limit_error", "slow down", "rate_limit"),
    (None, "invalid_request_error", "prompt is too long: 210033 tokens > 200000 maximum", "context_overflow"),
    (None, "something_new", "an error nobody knows", "overloaded"),
]


@pytest.mark.clause("MDL-5")
@pytest.mark.parametrize(("status", "error_type", "said", "kind"), CASES)
def test_status_type_and_text_together_give_the_kind(
    status: int | None, error_type: str | None, said: str, kind: str
) -> None:
    assert classify(status, error_type, said) == kind


@pytest.mark.clause("MDL-5")
@pytest.mark.bug("CMP-04")
def test_overflow_is_told_from_rate_limits_in_every_shape() -> None:
    names = {"overflow": "context_overflow", "rate_limit": "rate_limit"}
    for case in json.loads((FIXTURES / "CMP-04" / "errors.json").read_text()):
        body = case["body"]
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        assert response_error(case["status"], {}, data, now_ms=0).kind == names[case["want"]], case


@pytest.mark.clause("MDL-5")
@given(st.text())
def test_a_429_is_never_an_overflow(said: str) -> None:
    assert classify(429, "rate_limit_error", f"{said} prompt is too long, context window") in ("rate_limit", "quota")


def test_an_error_carries_what_was_said_and_whose_request_it_was() -> None:
    body = {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}, "request_id": "req_9"}
    error = response_error(404, {}, json.dumps(body).encode(), now_ms=0)
    assert (error.status, error.kind) == (404, "bad_request")
    assert "model: x" in error.message
    assert error.facts["request_id"] == "req_9"
    assert error.usage is None


def test_a_vague_type_gives_way_to_a_telling_code() -> None:
    body = {"error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "too big"}}
    assert response_error(400, {}, json.dumps(body).encode(), now_ms=0).kind == "context_overflow"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"", "no explanation"),
        (b"<html><body><h1>502</h1> Bad   gateway</body></html>", "502 Bad gateway"),
        (b"\xff\xfe\x00", "502"),
        (b'["x"]', "502"),
        (b'{"error":"plain words"}', "plain words"),
        (b'"just text"', "just text"),
    ],
)
def test_any_body_makes_an_error_that_can_be_read(body: bytes, shown: str) -> None:
    error = response_error(502, {}, body, now_ms=0)
    assert error.kind == "overloaded"
    assert shown in error.message


def test_a_long_explanation_is_cut() -> None:
    body = json.dumps({"error": {"message": "x" * 10**6}}).encode()
    assert len(response_error(400, {}, body, now_ms=0).message) == MAX_MESSAGE


@pytest.mark.clause("MDL-5")
@pytest.mark.bug("PRV-01")
def test_an_error_inside_a_stream_has_the_same_kinds() -> None:
    payload: dict[str, Any] = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    error = stream_error(payload, status=200, usage=None, request_id="req_1")
    assert (error.kind, error.status, error.facts["request_id"]) == ("overloaded", 200, "req_1")


@pytest.mark.clause("MDL-5", "QLT-15")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_a_stated_wait_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, now_ms=10_000) == seconds
