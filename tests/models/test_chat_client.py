"""Chat completions through the client: what a reply means, what counts as its end, and every fault by its kind."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.kit import SETTINGS, request_for, user

from drawbar.contracts.clock import SystemClock
from drawbar.contracts.errors import ProviderError
from drawbar.contracts.model import Account, Completed, Delta, EncodedRequest, Provider
from drawbar.models import provider_for
from drawbar.models.chat_decode import ChatDecoder
from drawbar.models.sse import SseParser
from drawbar.testing.scenario import Block, Fault, Pace, Turn, reply
from drawbar.testing.scripted_model import ScriptedModel, say, use
from drawbar.testing.streams import decode

pytestmark = pytest.mark.clause("MDL-2")


@asynccontextmanager
async def client(server: ScriptedModel) -> AsyncIterator[Provider]:
    account = Account(id="test", protocol="openai-chat", base_url=server.base_url, secret="sk-test")
    provider = provider_for(account, clock=SystemClock())
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


@pytest.mark.clause("MDL-4", "QLT-17")
async def test_text_reasoning_and_calls_in_their_order() -> None:
    turn = reply(
        Block(thinking="Let me see."),
        Block(text="I look: \u2028 é🚀"),
        Block(tool="bash", arguments={"command": "ls"}),
        Block(tool="read", arguments={"path": "a"}),
        pace=Pace(chunk_bytes=1),
    )
    deltas, done = await one(turn)
    kinds = [block["type"] for block in done.message["content"]]
    assert kinds == ["thinking", "text", "toolCall", "toolCall"]
    assert done.message["content"][1]["text"] == "I look: \u2028 é🚀"
    assert [(one.name, one.arguments, one.error) for one in done.calls] == [
        ("bash", {"command": "ls"}, None),
        ("read", {"path": "a"}, None),
    ]
    assert "".join(d.text for d in deltas if d.kind == "reasoning") == "Let me see."
    assert (done.stop_reason, done.raw_stop_reason) == ("toolUse", "tool_calls")
    assert done.usage.output_tokens
    assert (done.usage.input_tokens or 0) + (done.usage.cache_read_tokens or 0) > 0


@pytest.mark.clause("QLT-14")
@pytest.mark.bug("PRV-04")
async def test_a_call_that_the_limit_cut_may_not_run() -> None:
    turn = reply(Block(tool="bash", arguments_text='{"command": "rm -rf x'), stop_reason="max_tokens")
    _, done = await one(turn)
    assert done.calls[0].error is not None
    assert done.stop_reason == "length"


@pytest.mark.clause("QLT-14")
@pytest.mark.parametrize("text", ['["list"]', '"text"', '{"a": 1} trailing', "{'a': 1}", "nonsense"])
async def test_arguments_that_are_no_object_may_not_run(text: str) -> None:
    _, done = await one(reply(Block(tool="bash", arguments_text=text)))
    assert done.calls[0].error is not None


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
        (Fault(kind="malformed"), "transport"),
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


async def test_a_refusal_and_a_filter_are_said_as_such() -> None:
    _, done = await one(reply(Block(raw={"refusal": "I can't help with that."})))
    assert done.stop_reason == "refusal"
    assert done.message["errorMessage"] == "I can't help with that."
    _, filtered = await one(reply(Block(text="Part"), stop_reason="content_filter"))
    assert filtered.stop_reason == "refusal"


@pytest.mark.clause("QLT-17", "CON-17")
@pytest.mark.parametrize(
    ("usage", "counters"),
    [
        # uncached, read, written, output, reasoning, each by hand
        ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}, (100, None, None, 20, None)),
        (
            {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 64}},
            (36, 64, None, 20, None),
        ),
        ({"prompt_tokens": 90, "completion_tokens": 5, "prompt_cache_hit_tokens": 80}, (10, 80, None, 5, None)),
        (
            {
                "prompt_tokens": 30,
                "completion_tokens": 10,
                "total_tokens": 90,
                "completion_tokens_details": {"reasoning_tokens": 50},
            },
            (30, None, None, 60, 50),
        ),
        ({"completion_tokens": 7}, (None, None, None, 7, None)),
    ],
)
@pytest.mark.bug("USE-04")
def test_counters_are_disjoint_whatever_the_shape(usage: dict[str, Any], counters: tuple[int | None, ...]) -> None:
    body = {"id": "x", "choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}], "usage": usage}
    told = decode("openai-chat", json.dumps(body).encode(), media="json")["usage"]
    names = ("uncached_input", "cache_read", "cache_write", "output", "reasoning")
    assert tuple(told[name] for name in names) == counters


@pytest.mark.clause("QLT-14")
def test_a_finish_reason_is_the_end_where_no_marker_follows_and_nothing_else_is() -> None:
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":%s}]}\n\n'
    assert decode("openai-chat", chunk % b'"stop"')["error"] is None
    assert decode("openai-chat", chunk % b"null")["error"] is not None


@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(1, 7))
@pytest.mark.clause("MDL-4", "QLT-14")
def test_whatever_comes_the_decoder_answers_or_fails_as_a_provider_does(pieces: list[bytes], size: int) -> None:
    decoder, parser = ChatDecoder(), SseParser()
    stream = b"".join(b"data: " + piece.replace(b"\n", b"") + b"\n\n" for piece in pieces)
    with contextlib.suppress(ProviderError):
        for at in range(0, len(stream), size):
            for event in parser.feed(stream[at : at + size]):
                decoder.feed(event)


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
async def test_a_tool_turn_goes_back_in_the_form_that_the_server_takes() -> None:
    async with ScriptedModel([use("bash", {"command": "true"}), say("Done.")]) as server, client(server) as provider:
        builder = provider.builder(SETTINGS)
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
