"""From stream events to one message: nothing lost, nothing doubled, nothing believed too early."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from tests.models.kit import FIXTURES

from drawbar.contracts.errors import ProviderError
from drawbar.contracts.model import Completed, Delta
from drawbar.models.anthropic_decode import ReplyDecoder
from drawbar.models.anthropic_encode import assistant_blocks
from drawbar.models.sse import SseParser

START: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "model": "claude-test-1",
        "content": [],
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1},
    },
}
STOP = {"type": "message_stop"}


def ends(reason: str, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9, **usage}}


def opens(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def closes(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def tool(index: int, *pieces: str, call_id: str = "t1", name: str = "bash") -> list[dict[str, Any]]:
    parts = [piece(index, type="input_json_delta", partial_json=part) for part in pieces]
    return [opens(index, type="tool_use", id=call_id, name=name, input={}), *parts, closes(index)]


def stream(*events: Any) -> bytes:
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event, ensure_ascii=False).encode())
        for event in events
    )


def decode(data: bytes, size: int | None = None) -> tuple[list[Delta], Completed]:
    parser, decoder, deltas = SseParser(), ReplyDecoder(), list[Delta]()
    chunks: Iterable[bytes] = [data] if size is None else (data[at : at + size] for at in range(0, len(data), size))
    for chunk in chunks:
        for event in parser.feed(chunk):
            deltas += decoder.feed(event)
    assert decoder.finished
    return deltas, decoder.completed()


def fixture(name: str) -> bytes:
    return (FIXTURES / name / "stream.sse").read_bytes()


@pytest.mark.clause("QLT-14")
@pytest.mark.parametrize("size", [None, 1, 7])
def test_a_reply_of_every_modelled_block(size: int | None) -> None:
    deltas, done = decode(
        stream(
            START,
            {"type": "ping"},
            opens(0, type="thinking", thinking="", signature=""),
            piece(0, type="thinking_delta", thinking="Let me "),
            piece(0, type="thinking_delta", thinking="see."),
            piece(0, type="signature_delta", signature="c2ln"),
            closes(0),
            opens(1, type="redacted_thinking", data="ZW5j"),
            closes(1),
            opens(2, type="text", text=""),
            piece(2, type="text_delta", text="Grüße, "),
            piece(2, type="text_delta", text="🚀"),
            closes(2),
            *tool(3, "", '{"command": ', '"ls"}'),
            ends("tool_use"),
            STOP,
        ),
        size,
    )
    assert deltas == [
        Delta("reasoning", 0, "Let me "),
        Delta("reasoning", 0, "see."),
        Delta("text", 2, "Grüße, "),
        Delta("text", 2, "🚀"),
        Delta("tool_input", 3, '{"command": '),
        Delta("tool_input", 3, '"ls"}'),
    ]
    assert done.message == {
        "role": "assistant",
        "api": "anthropic-messages",
        "responseId": "msg_1",
        "stopReason": "toolUse",
        "rawStopReason": "tool_use",
        "content": [
            {"type": "thinking", "thinking": "Let me see.", "thinkingSignature": "c2ln"},
            {"type": "thinking", "thinking": "[Reasoning redacted]", "redacted": True, "thinkingSignature": "ZW5j"},
            {"type": "text", "text": "Grüße, 🚀"},
            {"type": "toolCall", "id": "t1", "name": "bash", "arguments": {"command": "ls"}},
        ],
    }
    assert [(c.id, c.name, c.arguments, c.error) for c in done.calls] == [("t1", "bash", {"command": "ls"}, None)]
    assert (done.stop_reason, done.raw_stop_reason, done.skipped) == ("toolUse", "tool_use", 0)


@pytest.mark.clause("CON-17", "QLT-17", "MDL-2")
def test_usage_is_disjoint_the_later_value_holds_and_the_raw_counters_stay() -> None:
    last = ends("end_turn", input_tokens=12, cache_creation_input_tokens=None, server_tool_use={"web": 1})
    last["usage"]["output_tokens_details"] = {"thinking_tokens": 4}
    _, done = decode(stream(START, last, STOP))
    usage = done.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens, usage.reasoning_tokens) == (12, 5, 9, 4)
    assert usage.cache_write_tokens is None, "unknown is not zero"
    assert (usage.ok, usage.model) == (True, "claude-test-1")
    assert usage.raw["server_tool_use"] == {"web": 1}


@pytest.mark.clause("CON-17", "QLT-17")
@pytest.mark.bug("USE-03", "USE-01")
def test_cumulative_counts_are_not_added_up() -> None:
    _, done = decode(fixture("USE-03"))
    wanted = json.loads((FIXTURES / "USE-03" / "expect.json").read_text())
    usage = done.usage
    assert wanted == {
        "input": usage.input_tokens,
        "cache_write": usage.cache_write_tokens,
        "cache_read": usage.cache_read_tokens,
        "output": usage.output_tokens,
    }


@pytest.mark.clause("CON-17")
def test_cache_writes_split_by_lifetime_are_one_counter() -> None:
    start: dict[str, Any] = json.loads(json.dumps(START))
    start["message"]["usage"]["cache_creation"] = {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}
    _, done = decode(stream(start, ends("end_turn"), STOP))
    assert done.usage.cache_write_tokens == 7


@pytest.mark.clause("QLT-14")
@pytest.mark.bug("PRV-04")
def test_arguments_cut_by_the_output_limit_never_run() -> None:
    _, done = decode(fixture("PRV-04"))
    (cut,) = done.calls
    assert cut.error is not None
    assert "cut off by the output limit" in cut.error
    assert cut.arguments == '{"command":"rm -rf /srv/app/tmp/bu', "kept as evidence, as it came"
    assert done.message["content"][0]["arguments"] == {}
    assert done.stop_reason == "length"


@pytest.mark.clause("QLT-14")
@pytest.mark.parametrize(
    ("pieces", "reason", "why"),
    [
        (['{"command":"ls"}'], "max_tokens", "output limit"),
        (['{"command":"ls"}'], "model_context_window_exceeded", "output limit"),
        (['{"command":"ls"}'], "end_turn", "end_turn"),
        (['{"command":"ls"'], "tool_use", "not valid JSON"),
        (['{"command":"ls"} trailing'], "tool_use", "not valid JSON"),
        (["{'command':'ls'}"], "tool_use", "not valid JSON"),
        (['{"command":NaN}'], "tool_use", "not valid JSON"),
        (['{"command":"\\ud83d"}'], "tool_use", "not valid JSON"),
        (['["ls"]'], "tool_use", "not a JSON object"),
        (['"ls"'], "tool_use", "not a JSON object"),
        (["null"], "tool_use", "not a JSON object"),
        (["[" * 5000 + "]" * 5000], "tool_use", "nested"),
    ],
)
def test_only_whole_strict_arguments_of_a_complete_call_may_run(pieces: list[str], reason: str, why: str) -> None:
    _, done = decode(stream(START, *tool(0, *pieces), ends(reason), STOP))
    assert done.calls[0].error is not None
    assert why in done.calls[0].error
    assert isinstance(done.message["content"][0]["arguments"], dict)


@pytest.mark.clause("QLT-14")
def test_a_call_without_arguments_and_one_that_came_whole_may_run() -> None:
    whole = opens(1, type="tool_use", id="t2", name="read", input={"path": "a"})
    _, done = decode(stream(START, *tool(0, ""), whole, closes(1), ends("tool_use"), STOP))
    assert [(c.arguments, c.error) for c in done.calls] == [({}, None), ({"path": "a"}, None)]


@pytest.mark.bug("SES-16")
def test_call_ids_are_made_unique_on_arrival() -> None:
    calls = [*tool(0, "{}", call_id="call_0"), *tool(1, "{}", call_id="call_0"), *tool(2, "{}", call_id="")]
    _, done = decode(stream(START, *calls, *tool(3, "{}", call_id="call_0_2"), ends("tool_use"), STOP))
    ids = [c.id for c in done.calls]
    assert ids[0] == "call_0"
    assert all(ids)
    assert len(set(ids)) == 4
    assert [block["id"] for block in done.message["content"]] == ids


@pytest.mark.clause("MDL-4")
@pytest.mark.bug("PRV-07")
@pytest.mark.parametrize("cut", ["whole", "listed", "bytes"])
def test_characters_cut_between_pieces_are_exact(cut: str) -> None:
    data = fixture("PRV-07")
    wanted = json.loads((FIXTURES / "PRV-07" / "expect.json").read_text())["text"]
    edges = [0, *json.loads((FIXTURES / "PRV-07" / "chunks.json").read_text())["cut_at"], len(data)]
    if cut == "listed":
        parser, decoder = SseParser(), ReplyDecoder()
        for a, b in itertools.pairwise(edges):
            for event in parser.feed(data[a:b]):
                decoder.feed(event)
        done = decoder.completed()
    else:
        _, done = decode(data, 1 if cut == "bytes" else None)
    assert done.message["content"] == [{"type": "text", "text": wanted}]


@pytest.mark.bug("PRV-07")
def test_a_character_whose_escaped_halves_come_in_two_pieces_is_put_together() -> None:
    data = stream(START, opens(0, type="text", text=""))
    data += (
        rb'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"go \ud83d"}}' + b"\n\n"
    )
    data += rb'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ude80!"}}' + b"\n\n"
    data += rb'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ud83dx"}}' + b"\n\n"
    deltas, done = decode(data + stream(ends("end_turn"), STOP))
    assert done.message["content"][0]["text"] == "go 🚀!\ufffdx"
    assert "".join(delta.text for delta in deltas) == "go 🚀!\ufffdx"


@pytest.mark.clause("QLT-14")
@pytest.mark.bug("PRV-10")
@pytest.mark.parametrize(
    "broken",
    [
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lost\n\n',
        b"data: {broken\n\n",
        b"data: 5\n\n",
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\xff"}}\n\n',
        stream(piece(7, type="text_delta", text="of no block")),
        stream({"type": "content_block_delta", "index": 0}),
        stream({"type": "content_block_start", "index": 0, "content_block": "text"}),
        stream(piece(0, type="text_delta", text=5)),
        stream({"type": "message_start"}),
        stream({"type": "message_delta", "usage": {}}),
    ],
)
def test_an_unreadable_event_fails_the_attempt_and_names_itself(broken: bytes) -> None:
    with pytest.raises(ProviderError, match="can't be read") as failed:
        decode(stream(START, opens(0, type="text", text="")) + broken + stream(ends("end_turn"), STOP))
    assert (failed.value.kind, failed.value.facts["cause"]) == ("transport", "unreadable_event")
    assert failed.value.usage.input_tokens == 10
    assert failed.value.usage.ok is False


@pytest.mark.bug("PRV-10")
def test_the_reported_stream_fails_rather_than_lose_text() -> None:
    with pytest.raises(ProviderError, match="not valid JSON"):
        decode(fixture("PRV-10"))


@pytest.mark.clause("MDL-4")
def test_unknown_events_and_pieces_are_skipped_and_counted() -> None:
    deltas, done = decode(
        stream(
            START,
            {"type": "invented", "x": 1},
            opens(0, type="text", text="a"),
            piece(0, type="invented_delta", y=2),
            piece(0, type="text_delta", text="b"),
            ends("end_turn"),
        )
        + b": a comment\n\nevent: invented2\n\nevent: ping\n\n"
        + stream(STOP)
    )
    assert done.skipped == 3
    assert deltas == [Delta("text", 0, "a"), Delta("text", 0, "b")]


@pytest.mark.clause("MDL-2")
def test_a_block_that_is_not_modelled_is_kept_whole_and_sent_back_unchanged() -> None:
    use = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}, "later": [1]}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"encrypted": "abc"}]}
    compacted = {"type": "compaction", "content": "the summary"}
    _, done = decode(
        stream(
            START,
            opens(0, **{**use, "input": {}}),
            piece(0, type="input_json_delta", partial_json='{"query":'),
            piece(0, type="input_json_delta", partial_json='"x"}'),
            opens(1, **found),
            opens(2, type="compaction", content=None),
            piece(2, type="compaction_delta", content="the "),
            piece(2, type="compaction_delta", content="summary"),
            ends("end_turn"),
            STOP,
        )
    )
    raw = [use, found, compacted]
    assert done.message["content"] == [
        {"type": "providerBlock", "protocol": "anthropic-messages", "raw": block} for block in raw
    ]
    assert done.skipped == 0
    sent = assistant_blocks(done.message, lambda call_id: call_id, lambda _note: None)
    assert [json.loads(block) for block in sent] == raw


@pytest.mark.clause("MDL-2")
def test_fields_that_are_not_modelled_are_sent_back_with_their_block() -> None:
    cited = [{"type": "web_search_result_location", "url": "https://example.invalid"}, {"type": "char_location"}]
    caller = {"type": "code_execution_20250825", "tool_id": "srv_1"}
    text_events = [opens(0, type="text", text="", citations=[])]
    text_events += [piece(0, type="citations_delta", citation=one) for one in cited]
    text_events += [piece(0, type="text_delta", text="so")]
    _, done = decode(
        stream(
            START,
            *text_events,
            opens(1, type="tool_use", id="t1", name="bash", input={}, caller=caller),
            opens(2, type="tool_use", id="t2", name="bash", input={}, caller={"type": "direct"}),
            ends("tool_use"),
            STOP,
        )
    )
    sent = [json.loads(block) for block in assistant_blocks(done.message, lambda i: i, lambda _note: None)]
    assert sent == [
        {"type": "text", "text": "so", "citations": cited},
        {"type": "tool_use", "id": "t1", "name": "bash", "input": {}, "caller": caller},
        {"type": "tool_use", "id": "t2", "name": "bash", "input": {}},
    ]


@pytest.mark.clause("MDL-2")
def test_signed_reasoning_goes_back_verbatim_even_without_its_text() -> None:
    signature = "RXhhbXBsZQ==+/ü"
    _, done = decode(
        stream(
            START,
            opens(0, type="thinking", thinking="", signature=""),
            piece(0, type="signature_delta", signature=signature),
            opens(1, type="redacted_thinking", data=signature),
            opens(2, type="text", text="So."),
            ends("end_turn"),
            STOP,
        )
    )
    sent = [json.loads(block) for block in assistant_blocks(done.message, lambda i: i, lambda _note: None)]
    assert sent == [
        {"type": "thinking", "thinking": "", "signature": signature},
        {"type": "redacted_thinking", "data": signature},
        {"type": "text", "text": "So."},
    ]


@pytest.mark.clause("QLT-14", "MDL-5")
@pytest.mark.bug("PRV-01")
def test_an_error_event_fails_the_attempt_with_what_was_billed() -> None:
    with pytest.raises(ProviderError) as failed:
        decode(fixture("PRV-01"))
    assert (failed.value.kind, failed.value.status) == ("overloaded", 200)
    assert (failed.value.usage.input_tokens, failed.value.usage.ok) == (10, False)


@pytest.mark.bug("PRV-11")
def test_an_empty_reply_is_told_as_what_it_is() -> None:
    deltas, done = decode(fixture("PRV-11"))
    assert (deltas, done.message["content"], done.calls, done.stop_reason) == ([], [], (), "stop")


def test_a_refusal_is_an_error_with_the_providers_explanation() -> None:
    refusal = ends("refusal")
    refusal["delta"]["stop_details"] = {"type": "refusal", "explanation": "Against the usage policy."}
    _, done = decode(stream(START, refusal, STOP))
    assert (done.stop_reason, done.raw_stop_reason) == ("refusal", "refusal")
    assert done.message["errorMessage"] == "Against the usage policy."


def test_whole_blocks_in_the_first_event_and_a_repeated_first_event() -> None:
    start: dict[str, Any] = json.loads(json.dumps(START))
    start["message"]["content"] = [{"type": "text", "text": "all"}]
    start["message"]["stop_reason"] = "end_turn"
    deltas, done = decode(stream(start, start, STOP))
    assert deltas == [Delta("text", 0, "all")]
    assert (done.message["content"], done.stop_reason) == ([{"type": "text", "text": "all"}], "stop")


def test_a_reused_index_opens_a_new_block() -> None:
    one = [opens(0, type="text", text=""), piece(0, type="text_delta", text="a"), closes(0)]
    two = [opens(0, type="text", text=""), piece(0, type="text_delta", text="b"), closes(0)]
    deltas, done = decode(stream(START, *one, *two, ends("end_turn"), STOP))
    assert deltas == [Delta("text", 0, "a"), Delta("text", 1, "b")]
    assert [block["text"] for block in done.message["content"]] == ["a", "b"]
