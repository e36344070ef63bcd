"""Gemini through the client: what a reply means, what counts as its end, and every fault by its kind."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.gemini_oracle import WHY
from tests.models.kit import SETTINGS, request_for, user

from drawbar.contracts.clock import SystemClock
from drawbar.contracts.errors import ProviderError
from drawbar.contracts.model import Account, Completed, Delta, EncodedRequest, Provider, RequestSettings
from drawbar.models import provider_for
from drawbar.models.errors import response_error
from drawbar.models.gemini_builder import GeminiBuilder
from drawbar.models.gemini_decode import GeminiDecoder
from drawbar.models.sse import ServerEvent, SseParser
from drawbar.testing.scenario import Block, Fault, Pace, Turn, reply
from drawbar.testing.scripted_model import ScriptedModel, say
from drawbar.testing.streams import decode

pytestmark = pytest.mark.clause("MDL-2")

OLD = RequestSettings(model="gemini-2.5-flash", system="You carry out work.", tools=SETTINGS.tools)
NEW = RequestSettings(model="models/gemini-3-flash-preview", system="You carry out work.", tools=SETTINGS.tools)
SIGNED = "c2lnbmVk"


@asynccontextmanager
async def client(server: ScriptedModel, **options: Any) -> AsyncIterator[Provider]:
    account = Account(id="test", protocol="gemini", base_url=server.base_url, secret="key-test")
    provider = provider_for(account, clock=SystemClock(), **options)
    try:
        yield provider
    finally:
        await provider.close()


async def read(provider: Provider, request: EncodedRequest) -> tuple[list[Delta], Completed]:
    deltas: list[Delta] = []
    async with provider.stream(request) as events:
        async for event in events:
            if isinstance(event, Completed):
                return deltas, event
            deltas.append(event)
    raise AssertionError("no end")


async def one(turn: Turn, settings: RequestSettings = OLD, **options: Any) -> tuple[list[Delta], Completed]:
    async with ScriptedModel([turn]) as server, client(server, **options) as provider:
        got = await read(provider, request_for(provider, user("Hello."), settings=settings))  # pyright: ignore[reportArgumentType]
        assert server.errors == []
        return got


def told(*parts: dict[str, Any], finish: Any = "STOP", **rest: Any) -> dict[str, Any]:
    candidate = {"content": {"parts": list(parts), "role": "model"}, "finishReason": finish, "index": 0}
    return {"candidates": [{**candidate, **rest}], "responseId": "r1", "modelVersion": "gemini-test"}


def whole(payload: dict[str, Any]) -> Completed:
    decoder = GeminiDecoder()
    decoder.feed_whole(payload)
    return decoder.completed()


def streamed(*payloads: dict[str, Any] | bytes) -> tuple[list[Delta], Completed]:
    decoder = GeminiDecoder()
    deltas: list[Delta] = []
    for payload in payloads:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        deltas += decoder.feed(ServerEvent("", data))
    decoder.end()
    assert decoder.finished
    return deltas, decoder.completed()


@pytest.mark.clause("MDL-4", "QLT-17", "CON-19")
async def test_text_thoughts_and_calls_in_their_order() -> None:
    turn = reply(
        Block(thinking="Let me see."),
        Block(text="I look: \u2028 é🚀"),
        Block(tool="bash", arguments={"command": "ls"}),
        Block(tool="read", arguments={"path": "a"}),
        pace=Pace(chunk_bytes=1),
    )
    deltas, done = await one(turn)
    content = done.message["content"]
    assert [block["type"] for block in content] == ["thinking", "text", "toolCall", "toolCall"]
    assert content[1]["text"] == "I look: \u2028 é🚀"
    assert [(one.name, one.arguments, one.error) for one in done.calls] == [
        ("bash", {"command": "ls"}, None),
        ("read", {"path": "a"}, None),
    ]
    assert content[2]["providerFields"] == {"thoughtSignature": "c2NyaXB0ZWQ="}
    assert "".join(d.text for d in deltas if d.kind == "reasoning") == "Let me see."
    assert {d.block for d in deltas if d.kind == "tool_input"} == {2, 3}
    assert (done.stop_reason, done.raw_stop_reason) == ("toolUse", "STOP")
    assert done.usage.output_tokens
    assert done.usage.reasoning_summary == "Let me see."
    assert (done.usage.input_tokens or 0) > 0


@pytest.mark.clause("CON-19")
def test_a_long_summary_is_cut_at_its_limit() -> None:
    made = {**told({"text": "x" * 5000, "thought": True}), "usageMetadata": {"promptTokenCount": 1}}
    assert len(whole(made).usage.reasoning_summary or "") == 4000


@pytest.mark.clause("QLT-14")
async def test_a_call_that_the_limit_cut_may_not_run() -> None:
    _, done = await one(reply(Block(tool="bash", arguments={"command": "rm -rf x"}), stop_reason="max_tokens"))
    assert done.calls[0].error is not None
    assert done.stop_reason == "length"


@pytest.mark.clause("QLT-14", "MDL-5")
async def test_a_call_that_the_service_could_not_read_fails_the_attempt_and_is_worth_another() -> None:
    turn = reply(Block(tool="bash", arguments_text='{"command": "rm -rf x'), usage={"promptTokenCount": 7})
    with pytest.raises(ProviderError) as caught:
        await one(turn)
    assert (caught.value.kind, caught.value.facts["cause"]) == ("transport", "malformed_reply")
    assert "rm -rf x" in caught.value.message
    assert caught.value.usage.input_tokens == 7


@pytest.mark.clause("QLT-14")
@pytest.mark.parametrize(
    ("call", "finish"),
    [
        ({"name": "bash", "args": ["list"]}, "STOP"),
        ({"name": "bash", "args": "text"}, "STOP"),
        ({"name": "bash", "args": {}}, "UNEXPECTED_TOOL_CALL"),
        ({"name": "bash", "args": {}}, "SAFETY"),
        ({"name": "bash", "args": {}}, 77),
        ({"args": {}}, "STOP"),
        ({"name": "bash", "willContinue": True}, "STOP"),
        ({"name": "bash", "partialArgs": [{"jsonPath": "a", "stringValue": "x"}]}, "STOP"),
        ({"name": "bash", "partialArgs": [{"jsonPath": "$.a[5]", "stringValue": "x"}]}, "STOP"),
    ],
)
def test_a_call_that_is_not_whole_may_not_run(call: dict[str, Any], finish: Any) -> None:
    assert whole(told({"functionCall": call}, finish=finish)).calls[0].error is not None


@pytest.mark.clause("QLT-14")
def test_arguments_in_pieces_are_put_where_their_paths_say() -> None:
    def piece(path: str, more: bool = False, **value: Any) -> dict[str, Any]:
        return {"jsonPath": path, **value, **({"willContinue": True} if more else {})}

    pieces = [
        piece("$.command", more=True, stringValue="ec"),
        piece("$.command", stringValue="ho"),
        piece("$.options['a.b'][0]", numberValue=1),
        piece("$.options['a.b'][1].deep", boolValue=True),
        piece("$.nothing", nullValue="NULL_VALUE"),
    ]
    opening = told({"functionCall": {"name": "bash", "willContinue": True}}, finish=None)
    parts = [told({"functionCall": {"partialArgs": [one], "willContinue": True}}, finish=None) for one in pieces]
    deltas, done = streamed(opening, *parts, told({"functionCall": {}}), told())
    assert done.calls[0].arguments == {
        "command": "echo",
        "options": {"a.b": [1, {"deep": True}]},
        "nothing": None,
    }
    assert done.calls[0].error is None
    assert [json.loads(delta.text) for delta in deltas] == [done.calls[0].arguments]


@pytest.mark.clause("MDL-5", "QLT-14", "MDL-4")
@pytest.mark.bug("PRV-01", "PRV-03", "PRV-10")
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault(kind="rate_limit", retry_after_s=3), "rate_limit"),
        (Fault(kind="overloaded"), "overloaded"),
        (Fault(kind="status"), "overloaded"),
        (Fault(kind="overloaded_stream"), "overloaded"),
        (Fault(kind="cut", after_events=3), "transport"),
        (Fault(kind="cut", after_events=3, reset=True), "transport"),
        (Fault(kind="cut", after_bytes=700), "transport"),
        (Fault(kind="malformed"), "transport"),
        (Fault(kind="silence", after_events=2), "transport"),
        (Fault(kind="hang"), "transport"),
        (Fault(kind="status", status=401, error_type="UNAUTHENTICATED"), "auth"),
        (Fault(kind="status", status=403, error_type="PERMISSION_DENIED"), "auth"),
        (
            Fault(
                kind="status",
                status=400,
                error_type="INVALID_ARGUMENT",
                message="API key not valid. Please pass a valid API key.",
            ),
            "auth",
        ),
        (Fault(kind="status", status=404, error_type="NOT_FOUND"), "bad_request"),
        (
            Fault(
                kind="status",
                status=400,
                error_type="INVALID_ARGUMENT",
                message="The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            ),
            "context_overflow",
        ),
    ],
)
async def test_faults_by_their_kind(fault: Fault, kind: str) -> None:
    turn = Turn(reply=[Block(text="Half an answer that is long enough for several pieces of it.")], fault=fault)
    with pytest.raises(ProviderError) as caught:
        await one(turn, idle_timeout_s=0.5)
    assert caught.value.kind == kind
    if fault.retry_after_s:
        assert caught.value.retry_after_s == 3


@pytest.mark.clause("MDL-4")
async def test_a_slow_drip_is_read_to_its_end() -> None:
    _, done = await one(Turn(reply=[Block(text="Slow.")], fault=Fault(kind="drip")))
    assert done.message["content"] == [{"type": "text", "text": "Slow."}]


@pytest.mark.clause("MDL-5")
@pytest.mark.parametrize(
    ("details", "kind", "wait"),
    [
        ([("QuotaFailure", {"violations": [{"quotaId": "TokensPerMinute", "quotaValue": "9"}]})], "rate_limit", None),
        (
            [
                ("QuotaFailure", {"violations": [{"quotaId": "RequestsPerModelPerMinute"}]}),
                ("RetryInfo", {"retryDelay": "48.5s"}),
            ],
            "rate_limit",
            48.5,
        ),
        (
            [
                ("QuotaFailure", {"violations": [{"quotaId": "RequestsPerDayPerModel-FreeTier"}]}),
                ("RetryInfo", {"retryDelay": "20s"}),
            ],
            "quota",
            20.0,
        ),
        ([("QuotaFailure", {"violations": [{"quotaId": "X", "quotaValue": "0"}]})], "quota", None),
        ([("QuotaFailure", {"violations": "odd"}), ("RetryInfo", {"retryDelay": 3})], "quota", None),
        ([], "quota", None),
    ],
)
def test_a_minutes_limit_is_told_from_a_days_by_the_details(
    details: list[tuple[str, dict[str, Any]]], kind: str, wait: float | None
) -> None:
    listed = [{"@type": f"type.googleapis.com/google.rpc.{name}", **fields} for name, fields in details]
    said = "You exceeded your current quota, please check your plan and billing details."
    error = {"error": {"code": 429, "message": said, "status": "RESOURCE_EXHAUSTED", "details": listed}}
    for body in (error, [error]):
        made = response_error(429, {}, json.dumps(body).encode(), now_ms=0)
        assert (made.kind, made.retry_after_s) == (kind, wait)


@pytest.mark.parametrize("word", ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"])
async def test_a_stop_by_a_filter_is_a_refusal(word: str) -> None:
    _, done = await one(reply(Block(text="Part"), stop_reason=word))
    assert (done.stop_reason, done.raw_stop_reason) == ("refusal", word)
    assert word in done.message["errorMessage"]


def test_a_blocked_prompt_is_a_refusal_and_the_end() -> None:
    feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "Not this."}
    _, done = streamed({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 4}})
    assert (done.stop_reason, done.raw_stop_reason) == ("refusal", "PROHIBITED_CONTENT")
    assert done.message["errorMessage"] == "Not this."
    assert done.usage.input_tokens == 4


@pytest.mark.clause("QLT-7")
def test_a_lost_signature_is_a_refused_request_which_a_plain_one_mends() -> None:
    decoder = GeminiDecoder()
    decoder.feed(ServerEvent("", json.dumps(told(finish="MISSING_THOUGHT_SIGNATURE")).encode()))
    with pytest.raises(ProviderError) as caught:
        decoder.end()
    assert caught.value.kind == "bad_request"


@pytest.mark.clause("QLT-17", "CON-17")
@pytest.mark.bug("USE-04")
@pytest.mark.parametrize(
    ("usages", "counters"),
    [
        # uncached, read, written, output, reasoning, each by hand
        ([{"promptTokenCount": 100, "candidatesTokenCount": 20}], (100, None, None, 20, None)),
        (
            [{"promptTokenCount": 100, "candidatesTokenCount": 20, "cachedContentTokenCount": 64}],
            (36, 64, None, 20, None),
        ),
        (
            [{"promptTokenCount": 30, "candidatesTokenCount": 10, "thoughtsTokenCount": 50, "totalTokenCount": 90}],
            (30, None, None, 60, 50),
        ),
        # each is of the whole request so far, and replaces the one before; one without a count says nothing
        (
            [
                {"promptTokenCount": 9, "candidatesTokenCount": 15, "thoughtsTokenCount": 78},
                {"promptTokenCount": 87, "thoughtsTokenCount": 78},
                {"trafficType": "ON_DEMAND"},
            ],
            (87, None, None, 78, 78),
        ),
        ([{"promptTokenCount": 5, "toolUsePromptTokenCount": 40}], (45, None, None, None, None)),
        ([{"trafficType": "ON_DEMAND"}], (None, None, None, None, None)),
    ],
)
def test_counters_are_disjoint_and_the_last_holds(
    usages: list[dict[str, Any]], counters: tuple[int | None, ...]
) -> None:
    events = [{**told({"text": "a"}), "usageMetadata": usage} for usage in usages]
    raw = b"".join(b"data: %s\r\n\r\n" % json.dumps(event).encode() for event in events)
    used = decode("gemini-generate-content", raw)["usage"]
    names = ("uncached_input", "cache_read", "cache_write", "output", "reasoning")
    assert tuple(used[name] for name in names) == counters


@pytest.mark.clause("QLT-14")
def test_only_a_finish_reason_makes_the_streams_end_the_replys() -> None:
    text = {"text": "a"}
    cut = b"data: %s\n\n" % json.dumps(told(text, finish=None)).encode()
    unspecified = b"data: %s\n\n" % json.dumps(told(text, finish="FINISH_REASON_UNSPECIFIED")).encode()
    for raw in (cut, unspecified, b"", b'data: {"usageMetadata": {"promptTokenCount": 1}}\n\n'):
        assert decode("gemini-generate-content", raw)["error"] is not None
    ended = b"data: %s\n\n" % json.dumps(told(text)).encode()
    assert decode("gemini-generate-content", ended)["error"] is None
    decoder = GeminiDecoder()
    decoder.feed(ServerEvent("", ended[6:].strip()))
    assert not decoder.finished, "counts still come after the finish reason"


@pytest.mark.clause("MDL-4")
def test_a_character_cut_in_half_between_two_pieces_is_joined() -> None:
    first = rb'{"candidates":[{"content":{"parts":[{"text":"a \ud83d"}]}}]}'
    second = rb'{"candidates":[{"content":{"parts":[{"text":"\ude80 b"}]},"finishReason":"STOP"}]}'
    deltas, done = streamed(first, second)
    assert done.message["content"] == [{"type": "text", "text": "a 🚀 b"}]
    assert "".join(delta.text for delta in deltas) == "a 🚀 b"
    call = rb'{"functionCall":{"name":"x","args":{"a":"\ud83d"}}}'
    alone = rb'{"candidates":[{"content":{"parts":[{"text":"\ude80"},%s]},"finishReason":"STOP"}]}' % call
    _, mended = streamed(alone)
    assert mended.message["content"][0]["text"] == mended.calls[0].arguments["a"] == "\ufffd"


def test_a_signature_stays_on_its_part_and_text_around_it_apart() -> None:
    _, done = streamed(
        told({"text": "a"}, finish=None),
        told({"text": "b", "thoughtSignature": SIGNED}, finish=None),
        told({"text": "c"}, finish=None),
        told({"text": "d"}, {"text": "", "thoughtSignature": SIGNED}, {"text": ""}),
    )
    assert done.message["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b", "providerFields": {"thoughtSignature": SIGNED}},
        {"type": "text", "text": "cd"},
        {"type": "thinking", "thinking": "", "thinkingSignature": SIGNED, "redacted": True},
    ]


def test_every_signed_part_goes_back_to_the_letter() -> None:
    parts = [
        {"text": "Hm.", "thought": True, "thoughtSignature": SIGNED},
        {"text": "a", "thoughtSignature": SIGNED, "partMetadata": {"x": 1}},
        {"functionCall": {"id": "c", "name": "bash", "args": {}}, "thoughtSignature": SIGNED},
        {"text": "\n", "thoughtSignature": SIGNED},
        {"text": "", "thoughtSignature": SIGNED},
    ]
    builder = GeminiBuilder(OLD)
    builder.extend([user("Go."), whole(told(*parts)).message])
    assert json.loads(b"".join(builder.build().body))["contents"][1]["parts"] == parts


def test_calls_without_ids_get_ids_of_their_own_in_every_reply() -> None:
    call = {"functionCall": {"name": "bash", "args": {}}}
    same = {"functionCall": {"name": "bash", "args": {}, "id": "a"}}
    first, second = (whole({**told(call, call), "responseId": name}) for name in ("r1", "r2"))
    unnamed = [whole({key: v for key, v in told(call, call).items() if key != "responseId"}) for _ in range(2)]
    ids = [call.id for reply in (first, second, *unnamed) for call in reply.calls]
    assert len(set(ids)) == 8
    assert "responseId" not in unnamed[0].message
    assert [call.id for call in whole(told(same, same)).calls] == ["a", "a_2"]


@pytest.mark.clause("MDL-4", "MDL-2")
def test_unknown_parts_are_kept_and_unknown_events_counted() -> None:
    odd = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": SIGNED}
    second = {**told({"text": "other"}), "candidates": [{"index": 1, "content": {"parts": [{"text": "other"}]}}]}
    _, done = streamed({"somethingNew": 1}, second, told(odd))
    assert done.skipped == 1
    assert done.message["content"] == [{"type": "providerBlock", "protocol": "gemini", "raw": odd}]


@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(1, 7))
@pytest.mark.clause("MDL-4", "QLT-14")
def test_whatever_comes_the_decoder_answers_or_fails_as_a_provider_does(pieces: list[bytes], size: int) -> None:
    decoder, parser = GeminiDecoder(), SseParser()
    stream = b"".join(b"data: " + piece.replace(b"\n", b"") + b"\n\n" for piece in pieces)
    with contextlib.suppress(ProviderError):
        for at in range(0, len(stream), size):
            for event in parser.feed(stream[at : at + size]):
                decoder.feed(event)
        decoder.end()


FIELDS = [
    *("candidates", "content", "parts", "text", "thought", "functionCall", "name", "args", "partialArgs", "jsonPath"),
    *("stringValue", "finishReason", "promptFeedback", "blockReason", "usageMetadata", "error", "promptTokenCount"),
    *("thoughtSignature", "willContinue", "index", "id"),
]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x", "STOP", "$.a", "$[0]"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.lists(
        st.builds(
            lambda parts: told(*parts),
            st.lists(st.dictionaries(st.just("functionCall") | st.just("text"), anything, max_size=2), max_size=3),
        )
        | anything,
        max_size=4,
    )
)
@pytest.mark.clause("MDL-4", "QLT-14")
def test_whatever_json_comes_the_decoder_answers_or_fails_as_a_provider_does(payloads: list[Any]) -> None:
    decoder = GeminiDecoder()
    with contextlib.suppress(ProviderError):
        for payload in payloads:
            decoder.feed(ServerEvent("", json.dumps(payload).encode()))
        decoder.end()
        if decoder.finished:
            decoder.completed()


@pytest.mark.clause("MDL-11", "PRM-3")
async def test_the_server_bills_its_own_prefix_cache() -> None:
    async with ScriptedModel([say("One."), say("Two.")]) as server, client(server) as provider:
        builder = provider.builder(OLD)
        builder.extend([user("Hello.")])
        _, first = await read(provider, builder.build())
        builder.extend([first.message, user("And?")])
        _, second = await read(provider, builder.build())
        assert first.usage.cache_read_tokens is None
        assert second.usage.cache_read_tokens
        assert server.errors == []


@pytest.mark.clause("MDL-2", "ENG-5")
@pytest.mark.parametrize("settings", [OLD, NEW], ids=["2.5", "3"])
async def test_a_tool_turn_goes_back_with_its_signature(settings: RequestSettings) -> None:
    asks = reply(Block(thinking="Hm.", signature=SIGNED), Block(tool="bash", arguments={"command": "true"}))
    async with ScriptedModel([asks, say("Done.")]) as server, client(server) as provider:
        builder = provider.builder(settings)
        builder.extend([user("Run it.")])
        _, asked = await read(provider, builder.build())
        answer = {
            "role": "toolResult",
            "toolCallId": asked.calls[0].id,
            "toolName": "bash",
            "content": [{"type": "text", "text": "ok"}],
            "isError": False,
        }
        builder.extend([asked.message, answer])
        _, done = await read(provider, builder.build())
        assert done.message["content"][0]["text"] == "Done."
        assert server.errors == []
        sent = server.requests[1].parsed
        assert sent is not None
        call = next(part for part in sent["contents"][1]["parts"] if "functionCall" in part)
        assert call["thoughtSignature"] == SIGNED
        assert call["functionCall"]["id"] == sent["contents"][2]["parts"][0]["functionResponse"]["id"]


@pytest.mark.clause("QLT-14", "MDL-2")
def test_a_reply_that_came_whole_is_read_like_one_that_streamed() -> None:
    parts = [{"text": "Hm.", "thought": True}, {"text": "Yes."}, {"functionCall": {"name": "bash", "args": {"a": 1}}}]
    at_once = whole(told(*parts))
    _, in_pieces = streamed(*(told(part, finish=None) for part in parts), told())
    assert at_once.message == in_pieces.message
    with pytest.raises(ProviderError):
        whole({"responseId": "r1"})


@pytest.mark.clause("MDL-11")
async def test_the_official_client_reads_what_the_scripted_server_streams() -> None:
    genai = pytest.importorskip("google.genai", reason=WHY)
    turn = reply(
        Block(thinking="Let me see.", signature=SIGNED),
        Block(text="I look, at length, in pieces."),
        Block(tool="bash", arguments={"command": "ls"}),
    )
    async with ScriptedModel([turn, turn, Turn(fault=Fault(kind="rate_limit"))]) as server:
        sdk = genai.Client(api_key="k", http_options={"base_url": server.base_url})
        config = {
            "tools": [{"function_declarations": [{"name": "bash", "parameters_json_schema": {"type": "object"}}]}]
        }
        asked = {"model": "gemini-3-flash-preview", "contents": "Hello.", "config": config}
        chunks = [chunk async for chunk in await sdk.aio.models.generate_content_stream(**asked)]
        parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
        assert "".join(part.text for part in parts if part.text and not part.thought) == "I look, at length, in pieces."
        assert "".join(part.text for part in parts if part.thought) == "Let me see."
        (called,) = [part for part in parts if part.function_call]
        assert (called.function_call.name, called.function_call.args) == ("bash", {"command": "ls"})
        assert called.thought_signature == b"signed"
        assert chunks[-1].candidates[0].finish_reason == "STOP"
        used = server.requests[0].usage
        assert used is not None
        assert chunks[-1].usage_metadata.total_token_count == used["totalTokenCount"]
        at_once = await sdk.aio.models.generate_content(**asked)
        assert at_once.text == "I look, at length, in pieces."
        with pytest.raises(genai.errors.ClientError, match="RESOURCE_EXHAUSTED"):
            await sdk.aio.models.generate_content(**asked)
        assert server.errors == []
        await sdk.aio.aclose()
