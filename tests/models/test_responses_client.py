"""Responses through the client: what a reply means, what counts as its end, and every fault by its kind."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.kit import SETTINGS, request_for, result, user

from drawbar.contracts.clock import SystemClock
from drawbar.contracts.errors import ProviderError
from drawbar.contracts.events.usage import MAX_SUMMARY
from drawbar.contracts.model import Account, Completed, Delta, EncodedRequest, Provider
from drawbar.models import provider_for
from drawbar.models.chat_decode import ChatDecoder
from drawbar.models.client import Decoder
from drawbar.models.responses_decode import ResponsesDecoder
from drawbar.models.sse import ServerEvent, SseParser
from drawbar.testing.scenario import Block, Fault, Pace, Turn, reply
from drawbar.testing.scripted_model import ScriptedModel, say
from drawbar.testing.streams import decode

pytestmark = pytest.mark.clause("MDL-2")


@asynccontextmanager
async def client(server: ScriptedModel) -> AsyncIterator[Provider]:
    account = Account(id="test", protocol="openai-responses", base_url=server.base_url, secret="sk-test")
    provider = provider_for(account, clock=SystemClock(), idle_timeout_s=0.5)
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


async def one(turn: Turn) -> tuple[list[Delta], Completed]:
    async with ScriptedModel([turn]) as server, client(server) as provider:
        got = await read(provider, request_for(provider, user("Hello.")))  # pyright: ignore[reportArgumentType]
        assert server.errors == []
        return got


def event(kind: str, **fields: Any) -> bytes:
    return b"data: " + json.dumps({"type": kind, **fields}).encode() + b"\n\n"


def ended(*output: Any, status: str = "completed", **fields: Any) -> bytes:
    return event(f"response.{status}", response={"id": "resp_1", "status": status, "output": list(output), **fields})


@pytest.mark.clause("MDL-4", "QLT-17", "CON-19")
async def test_text_reasoning_and_calls_in_their_order() -> None:
    turn = reply(
        Block(thinking="Let me see.\n\nThen I know."),
        Block(text="I look: \u2028 é🚀"),
        Block(tool="bash", arguments={"command": "ls"}),
        Block(tool="read", arguments={"path": "a"}),
        pace=Pace(chunk_bytes=1, chunk_chars=3),
    )
    deltas, done = await one(turn)
    content = done.message["content"]
    assert [block["type"] for block in content] == ["thinking", "thinking", "text", "toolCall", "toolCall"]
    assert content[2]["text"] == "I look: \u2028 é🚀"
    assert [(one.name, one.arguments, one.error) for one in done.calls] == [
        ("bash", {"command": "ls"}, None),
        ("read", {"path": "a"}, None),
    ]
    for at, block in enumerate(content[:3]):
        assert "".join(d.text for d in deltas if d.block == at) == block.get("text", block.get("thinking"))
    assert done.usage.reasoning_summary == "Let me see.\n\nThen I know."
    assert (done.stop_reason, done.raw_stop_reason) == ("toolUse", "completed")
    assert done.usage.output_tokens
    assert done.usage.reasoning_tokens
    assert done.skipped == 0


@pytest.mark.clause("CON-19")
async def test_a_summary_is_the_providers_own_and_bounded() -> None:
    _, long = await one(reply(Block(thinking="x" * 9000), Block(text="Done."), pace=Pace(chunk_chars=500)))
    assert long.usage.reasoning_summary == "x" * MAX_SUMMARY
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    told = ResponsesDecoder()
    told.feed_whole({"status": "completed", "output": [item]})
    assert told.completed().message["content"][0]["thinking"] == "Hm."
    assert told.completed().usage.reasoning_summary is None


@pytest.mark.clause("QLT-14")
@pytest.mark.bug("PRV-04")
@pytest.mark.parametrize("stop", ["max_tokens", "invented_reason"])
async def test_a_call_in_a_reply_that_was_cut_may_not_run(stop: str) -> None:
    _, done = await one(reply(Block(tool="bash", arguments={"command": "rm -rf x"}), stop_reason=stop))
    assert done.calls[0].error is not None
    assert done.stop_reason == ("length" if stop == "max_tokens" else "error")


@pytest.mark.clause("QLT-14")
@pytest.mark.parametrize("text", ['["list"]', '"text"', '{"a": 1} trailing', "{'a': 1}", "nonsense"])
async def test_arguments_that_are_no_object_may_not_run(text: str) -> None:
    _, done = await one(reply(Block(tool="bash", arguments_text=text)))
    assert done.calls[0].error is not None


@pytest.mark.clause("MDL-5", "QLT-14", "MDL-4", "MDL-7")
@pytest.mark.bug("PRV-01", "PRV-03", "PRV-10")
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault(kind="rate_limit", retry_after_s=3), "rate_limit"),
        (Fault(kind="overloaded"), "overloaded"),
        (Fault(kind="status"), "overloaded"),
        (Fault(kind="overloaded_stream"), "overloaded"),
        (Fault(kind="overloaded_stream", error_type="invalid_image_format"), "bad_request"),
        (Fault(kind="overloaded_stream", error_type="rate_limit_exceeded"), "rate_limit"),
        (Fault(kind="overloaded_stream", error_type="context_length_exceeded"), "context_overflow"),
        (Fault(kind="cut", after_events=5), "transport"),
        (Fault(kind="cut", after_events=5, reset=True), "transport"),
        (Fault(kind="malformed"), "transport"),
        (Fault(kind="silence", after_events=5), "transport"),
        (Fault(kind="hang"), "transport"),
        (Fault(kind="status", status=401, error_type="invalid_api_key"), "auth"),
        (Fault(kind="status", status=429, error_type="insufficient_quota"), "quota"),
        (Fault(kind="status", status=400, error_type="context_length_exceeded"), "context_overflow"),
    ],
)
async def test_faults_by_their_kind(fault: Fault, kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        await one(Turn(reply=[Block(text="Half an answer that is long enough.")], fault=fault))
    assert caught.value.kind == kind
    if fault.retry_after_s:
        assert caught.value.retry_after_s == 3


@pytest.mark.clause("MDL-4")
async def test_a_slow_drip_is_a_reply_like_any_other() -> None:
    _, done = await one(say("Drop by drop: é🚀", fault=Fault(kind="drip")))
    assert done.message["content"][0]["text"] == "Drop by drop: é🚀"


@pytest.mark.clause("QLT-17", "MDL-5")
def test_a_failed_response_says_why_and_what_it_cost() -> None:
    failed = {
        "status": "failed",
        "error": {"code": "server_error", "message": "It broke."},
        "usage": {"input_tokens": 9, "output_tokens": 3},
    }
    told = decode("openai-responses", event("response.failed", response=failed))
    assert told["error"] == {"kind": "overloaded", "message": "the provider reported an error in its reply: It broke."}
    assert (told["usage"]["uncached_input"], told["usage"]["output"]) == (9, 3)
    silent = decode("openai-responses", event("response.failed", response={"status": "failed", "error": None}))
    assert "failed" in silent["error"]["message"]
    nested = decode("openai-responses", event("error", error={"type": "insufficient_quota", "message": "Empty."}))
    assert nested["error"]["kind"] == "quota"


async def test_a_refusal_and_a_filter_are_said_as_such() -> None:
    _, done = await one(reply(Block(raw={"type": "refusal", "refusal": "I can't help with that."})))
    assert done.stop_reason == "refusal"
    assert done.message["errorMessage"] == "I can't help with that."
    _, filtered = await one(reply(Block(text="Part"), stop_reason="refusal"))
    assert (filtered.stop_reason, filtered.raw_stop_reason) == ("refusal", "content_filter")


@pytest.mark.clause("QLT-17", "CON-17")
@pytest.mark.parametrize(
    ("usage", "counters"),
    [
        # uncached, read, written, output, reasoning, each by hand
        ({"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}, (100, None, None, 20, None)),
        (
            {"input_tokens": 13040, "input_tokens_details": {"cached_tokens": 12800}, "output_tokens": 5},
            (240, 12800, None, 5, None),
        ),
        (
            {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
                "output_tokens": 50,
                "output_tokens_details": {"reasoning_tokens": 40},
            },
            (10, 60, 30, 50, 40),
        ),
        ({"output_tokens": 7}, (None, None, None, 7, None)),
        ({"input_tokens": "many", "output_tokens": -1}, (None, None, None, None, None)),
    ],
)
@pytest.mark.bug("USE-04")
def test_counters_are_disjoint(usage: dict[str, Any], counters: tuple[int | None, ...]) -> None:
    told = decode("openai-responses", ended(usage=usage))["usage"]
    names = ("uncached_input", "cache_read", "cache_write", "output", "reasoning")
    assert tuple(told[name] for name in names) == counters


@pytest.mark.clause("QLT-14", "MDL-4")
def test_only_the_terminal_event_is_the_end_and_unknown_events_are_counted() -> None:
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
    item = event("response.output_item.done", output_index=0, item=message)
    assert decode("openai-responses", item + b"data: [DONE]\n\n")["error"] is not None
    told = decode("openai-responses", item + ended())
    assert (told["error"], told["final_text"]) == (None, "a")
    decoder = ResponsesDecoder()
    decoder.feed(ServerEvent("", b'{"type":"response.invented.delta","delta":"x"}'))
    decoder.feed(ServerEvent("", b'{"type":"response.web_search_call.searching","output_index":0}'))
    assert decoder.skipped == 1
    with pytest.raises(ProviderError, match="wasn't begun"):
        decoder.feed(ServerEvent("", b'{"type":"response.output_text.delta","output_index":3,"delta":"lost"}'))


def test_a_server_may_leave_out_the_items_or_the_list_of_them() -> None:
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "ab"}],
    }
    assert decode("openai-responses", ended(message))["final_text"] == "ab"
    opened = event("response.output_item.added", output_index=0, item={**message, "content": []})
    piece = event("response.output_text.delta", output_index=0, content_index=0, delta="ab")
    assert decode("openai-responses", opened + piece + ended())["final_text"] == "ab"
    assert decode("openai-responses", opened + piece + ended(message))["final_text"] == "ab"


@pytest.mark.clause("MDL-4")
@pytest.mark.bug("PRV-07")
@pytest.mark.parametrize("rest", ["\\ude80 off", " off", "\\ud83d\\ude80"])
def test_a_character_cut_in_two_is_joined_and_a_lone_half_replaced(rest: str) -> None:
    whole = {"\\ude80 off": "go 🚀 off", " off": "go \ufffd off", "\\ud83d\\ude80": "go \ufffd🚀"}[rest]
    chat = b'{"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}'
    said = b'{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"%s"}'
    opened = {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "msg_1"}}
    responses = ResponsesDecoder()
    responses.feed(ServerEvent("", json.dumps(opened).encode()))
    decoders: list[tuple[Decoder, bytes, bytes]] = [
        (ChatDecoder(), chat, b"[DONE]"),
        (responses, said, b'{"type":"response.completed","response":{"status":"completed","output":[]}}'),
    ]
    for decoder, form, last in decoders:
        shown = [
            delta.text
            for piece in ("go \\ud83d", rest)
            for delta in decoder.feed(ServerEvent("", form % piece.encode()))
        ]
        decoder.feed(ServerEvent("", last))
        assert "".join(shown) == decoder.completed().message["content"][0]["text"] == whole


@pytest.mark.bug("PRV-07")
def test_halves_of_two_calls_at_once_stay_apart() -> None:
    def piece(index: int, arguments: str, **rest: Any) -> bytes:
        call = {"index": index, "function": {"name": "bash", "arguments": "%s"}, **rest}
        body = json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]})
        return body.replace("%s", arguments).encode()

    decoder = ChatDecoder()
    decoder.feed(ServerEvent("", piece(0, '{\\"a\\":\\"\\ud83d', id="a")))
    decoder.feed(ServerEvent("", piece(1, '{\\"a\\":\\"\\ud83d', id="b")))
    decoder.feed(ServerEvent("", piece(0, '\\ude80\\"}')))
    decoder.feed(ServerEvent("", piece(1, '\\ude81\\"}')))
    decoder.feed(ServerEvent("", b'{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}'))
    decoder.feed(ServerEvent("", b"[DONE]"))
    assert [call.arguments for call in decoder.completed().calls] == [{"a": "🚀"}, {"a": "🚁"}]


@given(st.lists(st.binary(max_size=40) | st.sampled_from([ended(), event("response.output_item.added", item=7)])))
@pytest.mark.clause("MDL-4", "QLT-14")
def test_whatever_comes_the_decoder_answers_or_fails_as_a_provider_does(pieces: list[bytes]) -> None:
    decoder, parser = ResponsesDecoder(), SseParser()
    with contextlib.suppress(ProviderError):
        for piece in pieces:
            for one_event in parser.feed(b"data: " + piece.replace(b"\n", b"").removeprefix(b"data: ") + b"\n\n"):
                decoder.feed(one_event)


kinds = st.sampled_from(
    ["response.output_item.added", "response.output_item.done", "response.output_text.delta", "response.created",
     "response.function_call_arguments.delta", "response.reasoning_summary_text.delta", "response.completed"]
)  # fmt: skip
values = st.none() | st.integers(-1, 2) | st.text(max_size=3) | st.lists(st.none() | st.text(max_size=2), max_size=2)
items = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "reasoning", "function_call", "custom_tool_call", "x"]) | values},
    optional={
        name: values | st.just([{"type": "output_text", "text": "a"}])
        for name in ("id", "content", "summary", "arguments", "input", "call_id", "name", "status")
    },
)
events = st.fixed_dictionaries(
    {"type": kinds},
    optional={
        "output_index": values,
        "summary_index": values,
        "item_id": values,
        "delta": values,
        "item": items | values,
        "response": st.fixed_dictionaries(
            {}, optional={"output": st.lists(items, max_size=2) | values, "status": values}
        )
        | values,
    },
)


@given(st.lists(events, max_size=8))
@pytest.mark.clause("MDL-4", "QLT-14")
def test_events_of_the_right_name_and_any_content_are_read_or_refused(stream: list[dict[str, Any]]) -> None:
    decoder = ResponsesDecoder()
    with contextlib.suppress(ProviderError):
        for fields in stream:
            decoder.feed(ServerEvent("", json.dumps(fields).encode()))
    if decoder.finished:
        json.dumps(decoder.completed().message)


@pytest.mark.clause("MDL-11", "PRM-3")
async def test_the_server_bills_its_own_prefix_cache() -> None:
    async with ScriptedModel([say("One."), say("Two.")]) as server, client(server) as provider:
        builder = provider.builder(SETTINGS)
        builder.extend([user("Hello.")])
        _, first = await read(provider, builder.build())
        builder.extend([first.message, user("And?")])
        _, second = await read(provider, builder.build())
        assert first.usage.cache_read_tokens == 0
        assert second.usage.cache_read_tokens
        assert server.errors == []


@pytest.mark.clause("MDL-2", "ENG-5")
async def test_a_tool_turn_goes_back_with_its_reasoning_to_the_letter() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    custom = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c_1", "name": "calc", "input": "2 ** 8"}
    asked_for = reply(
        Block(thinking="First.\n\nSecond.", signature="b3BhcXVl"),
        Block(raw=search),
        Block(redacted="aGlkZGVu"),
        Block(text="I try."),
        Block(tool="bash", arguments={"command": "true"}),
        Block(raw=custom),
    )
    async with ScriptedModel([asked_for, say("Done.")]) as server, client(server) as provider:
        builder = provider.builder(SETTINGS)
        builder.extend([user("Run it.")])
        _, asked = await read(provider, builder.build())
        assert [(one.name, one.error is None) for one in asked.calls] == [("bash", True), ("calc", False)]
        builder.extend([asked.message, *(result(one.id) for one in asked.calls)])
        _, done = await read(provider, builder.build())
        assert done.message["content"][0]["text"] == "Done."
        assert server.errors == []
        items = (server.requests[1].parsed or {})["input"]
    summary = [{"type": "summary_text", "text": part} for part in ("First.", "Second.")]
    assert items[1] == {"id": "rs_0001_0", "type": "reasoning", "summary": summary, "encrypted_content": "b3BhcXVl"}
    assert items[2] == search
    assert items[3]["encrypted_content"] == "aGlkZGVu"
    assert [item["type"] for item in items[4:]] == [
        "message", "function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output",
    ]  # fmt: skip
    assert items[6]["input"] == "2 ** 8"


@pytest.mark.clause("MDL-4")
async def test_a_server_that_does_not_stream_is_read_whole() -> None:
    message = {
        "type": "message",
        "id": "msg_1",
        "content": [{"type": "output_text", "text": "All at "}, {"type": "output_text", "text": "once."}],
    }
    body = {"id": "resp_1", "status": "completed", "output": [message], "usage": {"input_tokens": 4}}
    told = decode("openai-responses", json.dumps(body).encode(), media="json")
    assert (told["final_text"], told["stop_reason"], told["usage"]["uncached_input"]) == (
        "All at once.",
        "completed",
        4,
    )
    assert decode("openai-responses", b'{"hello": 1}', media="json")["error"] is not None
