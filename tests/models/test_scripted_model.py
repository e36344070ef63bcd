"""The scripted model: as strict as the real one, read by the official client, faulty on demand (MDL-11)."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbar.contracts.errors import InvalidInput
from drawbar.testing.anthropic_rules import ApiError, check_request
from drawbar.testing.cache_accounting import CacheLedger, Unit, tokens_of
from drawbar.testing.scenario import Block, Expect, Fault, Pace, Scenario, Turn, load_scenario
from drawbar.testing.scripted_model import ScriptedModel, reply, say, use

HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 9).decode()
TOOL = {"name": "bash", "description": "Run.", "input_schema": {"type": "object", "properties": {}}}
MARK = {"cache_control": {"type": "ephemeral"}}


def said(*blocks: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]}


def used(call_id: str, **rest: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "bash", "input": {}, **rest}


def answered(call_id: str, **rest: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": [{"type": "text", "text": "ok"}], **rest}


def picture(data: str = PNG, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def request(*messages: Any, **fields: Any) -> dict[str, Any]:
    base = {"model": "claude-test", "max_tokens": 1000, "stream": True, "tools": [TOOL]}
    return {**base, "messages": list(messages) or [said("hi")], **fields}


def post(url: str, body: Any, headers: dict[str, str] = HEADERS) -> tuple[int, bytes]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    ask = urllib.request.Request(url + "/v1/messages", data, headers, method="POST")
    try:
        with urllib.request.urlopen(ask, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


GOOD: list[dict[str, Any]] = [
    request(),
    request({"role": "user", "content": "plain"}),
    request(said("a"), said("b"), said("c", role="assistant"), said("d")),
    request(
        said("a"), said("b", used("t1"), used("t2"), role="assistant"), said(answered("t2"), answered("t1"), "more")
    ),
    request(said("a"), said(used("t1"), role="assistant"), said(answered("t1")), said("next")),
    request(said("a", picture()), said(used("t1"), role="assistant"), said(answered("t1", content="text"))),
    request(said("a"), said(used("t1"), role="assistant"), said(answered("t1", content=[]))),
    request(said("a"), said({"type": "thinking", "thinking": "", "signature": "s"}, "b", role="assistant"), said("c")),
    request(said("a"), said({"type": "redacted_thinking", "data": "s"}, "b", role="assistant"), said("c")),
    request(thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000),
    request(model="claude-opus-4-8", thinking={"type": "adaptive"}, output_config={"effort": "high"}),
    request(system=[{"type": "text", "text": "s", **MARK}], tool_choice={"type": "tool", "name": "bash"}),
]


@pytest.mark.clause("MDL-11")
@pytest.mark.parametrize("good", GOOD)
def test_requests_that_the_service_takes(good: dict[str, Any]) -> None:
    assert check_request(HEADERS, json.dumps(good).encode()) == good


BAD: list[tuple[Any, str]] = [
    (request(extra=1), "extra: Extra inputs are not permitted"),
    (request(model=""), "model: String should have at least 1 character"),
    (request(model=None), "model"),
    (request(max_tokens=0), "max_tokens"),
    (request(max_tokens="9"), "max_tokens: Input should be a valid integer"),
    (request(stream="yes"), "stream"),
    ({k: v for k, v in request().items() if k != "max_tokens"}, "max_tokens: Field required"),
    (request(messages=[]), "at least one message"),
    (request(messages={}), "messages: Input should be a valid list"),
    (request({"role": "system", "content": "x"}), "messages.0.role"),
    (request({**said("x"), "timestamp": 1}), "messages.0.timestamp: Extra inputs are not permitted"),
    (request(said("x", role="assistant"), said("y")), 'first message must use the "user" role'),
    (request(said("x"), said("y", role="assistant")), "must end with a user message"),
    (request(said()), "must have non-empty content"),
    (request(said("")), "text content blocks must be non-empty"),
    (request(said(" \n")), "must contain non-whitespace text"),
    (request({"role": "user", "content": " "}), "must contain non-whitespace text"),
    (request(said({"type": "text", "text": "x", "id": 1})), "messages.0.content.0.id"),
    (request(said({"type": "toolCall"})), "Input tag 'toolCall'"),
    (request(said({"type": "thinking", "thinking": "x", "signature": "s"})), "Input tag 'thinking'"),
    (request(said("a"), said(answered("t1"), role="assistant"), said("b")), "Input tag 'tool_result'"),
    (request(said("a"), said(used("t1"), role="assistant"), said("b")), "`tool_result` blocks immediately after: t1"),
    (request(said("a"), said(used("t1"), role="assistant"), said("b", answered("t1"))), "immediately after: t1"),
    (request(said("a"), said(used("t1"), used("t2"), role="assistant"), said(answered("t1"))), "after: t2"),
    (request(said("a"), said(used("t1"), role="assistant"), said(answered("t1"), answered("t1"))), "multiple"),
    (
        request(said("a"), said(used("t1"), role="assistant"), said(answered("t1"), answered("t9"))),
        "unexpected `tool_use_id`",
    ),
    (request(said("a"), said("b", role="assistant"), said(answered("t1"))), "unexpected `tool_use_id`"),
    (request(said("a"), said(used("t1"), used("t1"), role="assistant"), said(answered("t1"))), "ids must be unique"),
    (
        request(said("a"), *[said(used("t"), role="assistant"), said(answered("t"))] * 2),
        "`tool_use` ids must be unique",
    ),
    (request(said("a"), said(used("a.b"), role="assistant"), said(answered("a.b"))), "^[a-zA-Z0-9_-]+$"),
    (request(said("a"), said(used(""), role="assistant"), said(answered(""))), "^[a-zA-Z0-9_-]+$"),
    (request(said("a"), said(used("t", name="a b"), role="assistant"), said(answered("t"))), "tool_use.name"),
    (request(said("a"), said(used("t", input=[]), role="assistant"), said(answered("t"))), "tool_use.input"),
    (request(said("a"), said(used("t"), role="assistant"), said(answered("t")), tools=[]), "must define tools"),
    (
        request(said("a"), said(used("t"), role="assistant"), said(answered("t", content=[], is_error=True))),
        "cannot be empty",
    ),
    (
        request(said("a"), said(used("t"), role="assistant"), said(answered("t", content=[picture()], is_error=True))),
        "all content must be type `text`",
    ),
    (
        request(said("a"), said({"type": "thinking", "thinking": "x"}, "b", role="assistant"), said("c")),
        "signature: Field required",
    ),
    (
        request(
            said("a"), said({"type": "thinking", "thinking": "x", "signature": ""}, "b", role="assistant"), said("c")
        ),
        "Invalid `signature`",
    ),
    (
        request(
            said("a"), said("b", {"type": "thinking", "thinking": "x", "signature": "s"}, role="assistant"), said("c")
        ),
        "final block in an assistant message cannot be `thinking`",
    ),
    (request(said(picture(kind="image/bmp"))), "media_type"),
    (request(said(picture(kind="image/jpeg"))), "does not appear to be a image/jpeg"),
    (request(said(picture("%%"))), "Invalid base64"),
    (request(said(picture(PNG + "A" * 5 * 2**20))), "image exceeds 5 MB maximum"),
    (request(said(*[picture()] * 101)), "Too many images"),
    (request(tools=[TOOL, TOOL]), "Tool names must be unique"),
    (request(tools=[{**TOOL, "name": "a.b"}]), "tools.0.custom.name"),
    (request(tools=[{**TOOL, "parameters": {}}]), "tools.0.custom.parameters"),
    (request(tools=[{"name": "x"}]), "input_schema: Field required"),
    (request(tools=[{**TOOL, "input_schema": {"type": "string"}}]), "input_schema.type"),
    (
        request(tools=[{**TOOL, "input_schema": {"type": "object", "properties": {"a": {"type": "text"}}}}]),
        "JSON schema is invalid",
    ),
    (request(tools=[{**TOOL, "input_schema": {"type": "object", "required": "a"}}]), "JSON schema is invalid"),
    (request(tool_choice={"type": "tool", "name": "nope"}), "not found in provided tools"),
    (request(tool_choice={"type": "auto"}, tools=[]), "while providing `tools`"),
    (
        request(said(*[{"type": "text", "text": "x", **MARK}] * 5)),
        "maximum of 4 blocks with cache_control may be provided. Found 5",
    ),
    (request(said({"type": "text", "text": "x", "cache_control": {"type": "forever"}})), "cache_control"),
    (request(system=[{"type": "text", "text": ""}]), "system: text content blocks must be non-empty"),
    (request(thinking={"type": "enabled", "budget_tokens": 1000}), "greater than or equal to 1024"),
    (request(thinking={"type": "enabled", "budget_tokens": 1024}), "must be greater than `thinking.budget_tokens`"),
    (
        request(model="claude-opus-4-7", thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=9999),
        "adaptive",
    ),
    (b"{broken", "not valid JSON"),
    (b'{"model":"\\ud83d"}', "not valid JSON"),
    (b'{"model":"\xff"}', "not valid JSON"),
    (b"[]", "not a JSON object"),
]


@pytest.mark.clause("MDL-11", "QLT-7")
@pytest.mark.parametrize(("bad", "why"), BAD, ids=[str(at) for at in range(len(BAD))])
def test_requests_that_the_service_refuses(bad: Any, why: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_request(HEADERS, bad if isinstance(bad, bytes) else json.dumps(bad).encode())
    assert why in str(refused.value)
    assert refused.value.status == 400


@pytest.mark.clause("MDL-11")
@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({"anthropic-version": "2023-06-01"}, 401, "authentication_error"),
        ({"x-api-key": "k"}, 400, "invalid_request_error"),
        ({"x-api-key": "k", "anthropic-version": "yesterday"}, 400, "invalid_request_error"),
    ],
)
def test_headers_that_are_missing_are_refused(headers: dict[str, str], status: int, kind: str) -> None:
    with ScriptedModel([say("no")]).in_thread() as server:
        answer = post(server.base_url, request(), headers)
    assert answer[0] == status
    body = json.loads(answer[1])
    assert (body["type"], body["error"]["type"], body["request_id"]) == ("error", kind, "req_0001")
    assert len(server.errors) == 1


@pytest.mark.clause("MDL-11")
def test_a_body_over_the_limit_and_an_unknown_path_are_refused() -> None:
    with pytest.raises(ApiError) as refused:
        check_request(HEADERS, b"x" * (32 * 2**20 + 1))
    assert (refused.value.status, refused.value.kind) == (413, "request_too_large")
    with ScriptedModel([say("no")]).in_thread() as server, pytest.raises(urllib.error.HTTPError) as missing:
        urllib.request.urlopen(server.base_url + "/v1/models", timeout=5)
    assert missing.value.code == 404


@pytest.mark.clause("MDL-11")
def test_the_newest_version_has_no_sampling_parameters_and_a_bearer_token_will_do() -> None:
    body = json.dumps(request(temperature=1.0)).encode()
    assert check_request(HEADERS, body)["temperature"] == 1.0
    newest = {"authorization": "Bearer k", "anthropic-version": "2026-10-21"}
    assert check_request(newest, json.dumps(request()).encode())
    with pytest.raises(ApiError, match="temperature: Extra inputs"):
        check_request(newest, body)


# -- the official client ------------------------------------------------------------------------------


def official(server: ScriptedModel) -> Any:
    import anthropic

    return anthropic.Anthropic(api_key="k", base_url=server.base_url, max_retries=0)


@pytest.mark.clause("MDL-11")
def test_the_official_client_reads_what_the_server_sends() -> None:
    turn = reply(
        Block(thinking="Let me see.", signature="c2ln"),
        Block(redacted="ZW5j"),
        Block(text="Grüße 🚀 " * 20),
        Block(tool="bash", arguments={"command": "ls", "n": [1, None, "é"]}),
        usage={"output_tokens": 77, "cache_read_input_tokens": 5},
    )
    with ScriptedModel([turn, turn]).in_thread() as server:
        client = official(server)
        asked = {k: v for k, v in request().items() if k != "stream"}
        with client.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
        whole = client.messages.create(**asked)
    for message in (streamed, whole):
        assert [block.type for block in message.content] == ["thinking", "redacted_thinking", "text", "tool_use"]
        thinking, hidden, text, tool = message.content
        assert (thinking.thinking, thinking.signature, hidden.data) == ("Let me see.", "c2ln", "ZW5j")
        assert text.text == "Grüße 🚀 " * 20
        assert tool.input == {"command": "ls", "n": [1, None, "é"]}
        assert (message.stop_reason, message.usage.output_tokens) == ("tool_use", 77)
        assert message.usage.cache_read_input_tokens == 5
    assert server.errors == []


@pytest.mark.clause("MDL-11")
def test_the_official_client_knows_the_errors() -> None:
    import anthropic

    faults = [
        Turn(fault=Fault(kind="rate_limit", retry_after_s=3)),
        Turn(fault=Fault(kind="overloaded")),
        say("partly", fault=Fault(kind="overloaded_stream")),
    ]
    with ScriptedModel(faults).in_thread() as server:
        client = official(server)
        asked = {k: v for k, v in request().items() if k != "stream"}
        with pytest.raises(anthropic.RateLimitError) as limited:
            client.messages.create(**asked)
        assert limited.value.response.headers["retry-after"] == "3"
        with pytest.raises(anthropic.APIStatusError) as overloaded:
            client.messages.create(**asked)
        assert overloaded.value.status_code == 529
        with pytest.raises(anthropic.APIStatusError), client.messages.stream(**asked) as stream:
            stream.get_final_message()
        with pytest.raises(anthropic.BadRequestError, match="at least one message"):
            client.messages.create(**{**asked, "messages": []})


# -- scenarios ----------------------------------------------------------------------------------------


@pytest.mark.clause("MDL-11")
@pytest.mark.parametrize(
    ("scenario", "named"),
    [
        ({}, "turns"),
        ({"turns": [{"replies": []}]}, "replies"),
        ({"turns": [{"fault": {"kind": "explode"}}]}, "explode"),
        ({"turns": [{"reply": [{"text": "a", "tool": "b"}]}]}, "text and tool"),
        ({"turns": [{"reply": [{}]}]}, "none"),
        ({"turns": [{"pace": {"each_ms": -1}}]}, "each_ms"),
    ],
)
def test_a_scenario_that_says_something_unknown_is_refused(scenario: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        load_scenario(scenario)


def asked(text: str, **fields: Any) -> dict[str, Any]:
    return request(said(text), stream=False, **fields)


def spoken(answer: tuple[int, bytes]) -> str:
    return "".join(block.get("text", "") for block in json.loads(answer[1])["content"])


@pytest.mark.clause("MDL-11")
def test_a_request_that_does_not_fit_its_turn_is_an_error_that_says_what_was_expected() -> None:
    turns = [say("one", expect=Expect(text="first", tool="bash", system="You"))]
    with ScriptedModel(turns).in_thread() as server:
        for body, missing in [
            (asked("second", system="You"), "'first' in the last message"),
            (asked("first", system="You", tools=[]), "the tool 'bash' to be offered"),
            (asked("first", system="Me"), "'You' in the system prompt"),
        ]:
            status, answer = post(server.base_url, body)
            assert status == 400
            assert missing in answer.decode()
        assert spoken(post(server.base_url, asked("the first", system="You are"))) == "one"
        assert b"no further turn" in post(server.base_url, asked("x"))[1]
    assert [received.turn for received in server.requests] == [None, None, None, 0, None]
    assert len(server.errors) == 4


@pytest.mark.clause("MDL-11")
def test_turns_that_do_not_fit_may_be_skipped_and_the_last_repeated() -> None:
    turns = [say("a", expect=Expect(text="A")), say("b", expect=Expect(text="B")), say("rest")]
    scenario = Scenario(turns=turns, on_missing_expectation="skip", at_end="repeat")
    with ScriptedModel(scenario).in_thread() as server:
        heard = [spoken(post(server.base_url, asked(text))) for text in ("B", "x", "A", "y", "z")]
    assert heard == ["b", "rest", "a", "rest", "rest"]


def test_results_of_tools_are_what_an_expectation_looks_into() -> None:
    body = request(
        said("a"), said(used("t1"), role="assistant"), said(answered("t1", content="42 files")), stream=False
    )
    with ScriptedModel([say("yes", expect=Expect(text="42"))]).in_thread() as server:
        assert spoken(post(server.base_url, body)) == "yes"


def test_a_function_may_answer() -> None:
    def answer(received: Any) -> Turn:
        return say(f"{len(received.parsed['messages'])} messages")

    with ScriptedModel(answer).in_thread() as server:
        assert spoken(post(server.base_url, asked("a"))) == "1 messages"


@pytest.mark.clause("MDL-11")
def test_a_scenario_file_is_served_by_the_program(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(
        json.dumps({"turns": [{"reply": [{"text": "hello"}]}, {"fault": {"kind": "status", "status": 503}}]})
    )
    command = [sys.executable, "-m", "drawbar.testing.scripted_model", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        url = program.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        assert spoken(post(url, asked("x"))) == "hello"
        assert post(url, asked("x"))[0] == 503
        program.send_signal(signal.SIGINT)
        assert program.wait(10) == 130
        assert program.stderr.read() == ""


def test_the_documented_scenario_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "scripted-model.md").read_text(encoding="utf-8")
    examples = [part.split("```")[0] for part in page.split("```json\n")[1:]]
    assert examples
    for example in examples:
        load_scenario(example.encode())
    for fault in (
        "status",
        "rate_limit",
        "overloaded",
        "overloaded_stream",
        "cut",
        "malformed",
        "silence",
        "hang",
        "drip",
    ):
        assert f"`{fault}`" in page


@pytest.mark.clause("MDL-11")
def test_usage_may_be_overridden_and_taken_out() -> None:
    turn = say("x", usage={"input_tokens": 7, "cache_read_input_tokens": None})
    with ScriptedModel([turn]).in_thread() as server:
        usage = json.loads(post(server.base_url, asked("x"))[1])["usage"]
    assert usage["input_tokens"] == 7
    assert "cache_read_input_tokens" not in usage
    assert server.requests[0].usage == usage


@pytest.mark.clause("MDL-11")
def test_pauses_are_made() -> None:
    turn = say("x" * 10, pace=Pace(chunk_chars=5, first_ms=100, each_ms=30))
    with ScriptedModel([turn]).in_thread() as server:
        begun = time.monotonic()
        post(server.base_url, request())
        assert time.monotonic() - begun > 0.1 + 8 * 0.03


def test_a_port_that_is_taken_is_an_error_in_the_thread_too() -> None:
    with ScriptedModel([]).in_thread() as server:
        port = int(server.base_url.rpartition(":")[2])

        class Fixed(ScriptedModel):
            async def start(self, port: int = port) -> None:
                await super().start(port)

        with pytest.raises(OSError, match="address already in use"), Fixed([]).in_thread():
            pass


# -- caching ------------------------------------------------------------------------------------------

units = st.lists(st.builds(Unit, st.binary(min_size=1, max_size=9), st.booleans()), max_size=8)


@pytest.mark.clause("MDL-11")
@given(st.lists(units, min_size=1, max_size=6))
def test_what_is_read_is_the_longest_common_prefix_and_all_adds_up(requests: list[list[Unit]]) -> None:
    ledger = CacheLedger()
    written: list[list[bytes]] = []
    for one in requests:
        usage = ledger.account("m", one)
        data = [unit.data for unit in one]
        end = max((at + 1 for at, unit in enumerate(one) if unit.marked), default=0)
        shared = max((common(data[:end], earlier) for earlier in written), default=0)
        size = [tokens_of(sum(map(len, data[:length]))) for length in (shared, end, len(data))]
        assert (usage.read, usage.written, usage.uncached) == (size[0], size[1] - size[0], size[2] - size[1])
        assert usage.total == size[2]
        written.append(data[:end])


def common(a: list[bytes], b: list[bytes]) -> int:
    at = 0
    while at < min(len(a), len(b)) and a[at] == b[at]:
        at += 1
    return at


@pytest.mark.clause("MDL-11")
def test_another_model_and_a_failed_request_share_no_cache() -> None:
    marked = said({"type": "text", "text": "x" * 400, **MARK})
    turns = [Turn(fault=Fault(kind="overloaded")), say("a"), say("b"), say("c")]
    with ScriptedModel(turns).in_thread() as server:
        for model in ("claude-a", "claude-a", "claude-b", "claude-a"):
            post(server.base_url, request(marked, stream=False, model=model))
    figures = [(r.cache.read > 0, r.cache.written > 0) if r.cache else None for r in server.requests]
    assert figures == [None, (False, True), (False, True), (True, False)]


# -- faults -------------------------------------------------------------------------------------------


def streamed(fault: Fault) -> tuple[bytes, str]:
    """The body that a client got, and how it ended for it."""
    import http.client

    with ScriptedModel([say("some words to say", fault=fault)]).in_thread() as server:
        connection = http.client.HTTPConnection("127.0.0.1", int(server.base_url.rpartition(":")[2]), timeout=1)
        connection.request("POST", "/v1/messages", json.dumps(request()), HEADERS)
        answer = connection.getresponse()
        got = b""
        try:
            while piece := answer.read1(65536):
                got += piece
        except http.client.IncompleteRead:
            return got, "cut"
        except ConnectionResetError:
            return got, "reset"
        except TimeoutError:
            return got, "silence"
        finally:
            connection.close()
        return got, "end"


@pytest.mark.clause("MDL-11")
@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (Fault(kind="cut", after_events=2), lambda got, end: end == "cut" and got.count(b"\n\n") == 2),
        (Fault(kind="cut", after_bytes=50), lambda got, end: end == "cut" and len(got) == 50),
        (Fault(kind="cut", reset=True), lambda _got, end: end in ("reset", "cut")),
        (Fault(kind="malformed"), lambda got, end: end == "end" and b'"del\n' in got and b"message_stop" in got),
        (
            Fault(kind="overloaded_stream"),
            lambda got, end: end == "end" and b"overloaded_error" in got and b"message_stop" not in got,
        ),
        (Fault(kind="silence", after_events=3), lambda got, end: end == "silence" and got.count(b"\n\n") == 3),
        (Fault(kind="silence", seconds=0.1), lambda got, end: end == "end" and b"message_stop" in got),
        (Fault(kind="hang", seconds=0.1), lambda got, end: end == "end" and b"message_stop" in got),
        (Fault(kind="drip"), lambda got, end: end == "end" and b"message_stop" in got),
    ],
)
def test_faults_look_to_a_client_as_they_should(fault: Fault, check: Callable[[bytes, str], bool]) -> None:
    got, end = streamed(fault)
    assert check(got, end), (got, end)


@pytest.mark.clause("MDL-11")
def test_a_client_that_leaves_is_noticed_at_once() -> None:
    import socket

    with ScriptedModel([Turn(fault=Fault(kind="hang"))]).in_thread() as server:
        body = json.dumps(request()).encode()
        with socket.create_connection(("127.0.0.1", int(server.base_url.rpartition(":")[2]))) as client:
            head = "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\nanthropic-version: 2023-06-01\r\n"
            client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            while not server.requests:
                time.sleep(0.005)
            assert server.requests[0].disconnected_at is None
            left_at = time.monotonic()
        while server.requests[0].disconnected_at is None:
            assert time.monotonic() - left_at < 5
            time.sleep(0.005)
        assert server.requests[0].disconnected_at - left_at < 0.1
        assert server.requests[0].finished_at is None


def test_a_call_is_made_with_the_text_it_is_given() -> None:
    turn = reply(Block(tool="bash", arguments_text='{"command": "ec', id="mine"), stop_reason="max_tokens")
    with ScriptedModel([turn, use("read", {"path": "a"})]).in_thread() as server:
        body = post(server.base_url, request())[1]
        assert b'"id":"mine"' in body
        assert b'{\\"command\\": \\"ec' in body
        assert b'"stop_reason":"max_tokens"' in body
        assert b"toolu_0002_0" in post(server.base_url, request())[1]
