"""OpenAI's own SDK as an oracle: its types check what is sent, its client reads what the scripted model streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from tests.models.kit import assistant, call, result, text, user
from tests.models.sdk_types import faults
from tests.models.test_responses_builder import SETTINGS, histories, offers, raw, thought, with_id

from drawbar.contracts.model import RequestSettings
from drawbar.models.chat_builder import ChatBuilder
from drawbar.models.responses_builder import ResponsesBuilder
from drawbar.testing.scenario import Block, Turn, reply
from drawbar.testing.scripted_model import ScriptedModel

pytest.importorskip("openai", reason="OpenAI's SDK (dependency group dev) is not installed")

TURN = reply(
    Block(thinking="Let me see.\n\nYes."),
    Block(text="I look: \u2028 é🚀"),
    Block(tool="bash", arguments={"command": "ls"}),
    Block(tool="read", arguments={"path": "a"}),
)
REFUSED = reply(Block(raw={"type": "refusal", "refusal": "No."}))
CUT = reply(Block(text="Half"), stop_reason="max_tokens")


def responses_body(history: list[Any], offered: RequestSettings) -> dict[str, Any]:
    builder = ResponsesBuilder(offered)
    builder.extend(history)
    return json.loads(b"".join(builder.build().body))


def responses_faults(body: dict[str, Any]) -> list[str]:
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    return faults(body, ResponseCreateParamsStreaming, "$")


def chat_faults(body: dict[str, Any]) -> list[str]:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    return faults(body, CompletionCreateParamsStreaming, "$")


@pytest.mark.clause("MDL-2", "QLT-7")
@settings(max_examples=150, deadline=None)
@given(histories, offers)
def test_the_sdk_knows_every_field_of_a_responses_request(history: list[Any], offered: RequestSettings) -> None:
    assert responses_faults(responses_body(history, offered)) == []


@pytest.mark.clause("MDL-2", "QLT-7")
@settings(max_examples=150, deadline=None)
@given(histories, offers)
def test_the_sdk_knows_every_field_of_a_chat_request(history: list[Any], offered: RequestSettings) -> None:
    builder = ChatBuilder(offered)
    builder.extend(history)
    assert chat_faults(json.loads(b"".join(builder.build().body))) == []


@pytest.mark.clause("MDL-2", "CON-19")
def test_a_whole_reply_fits_the_sdk_types() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    history = [
        user("Look."),
        assistant(thought(), raw(**search), with_id(text("So."), "msg_1", phase="commentary"),
                  with_id(call("call_1", command="ls"), "fc_1"), stop="toolUse", api="openai-responses"),
        result("call_1"),
    ]  # fmt: skip
    body = responses_body(history, RequestSettings(model="m", system="s", tools=SETTINGS.tools, effort="max"))
    assert responses_faults(body) == []
    assert responses_faults({**body, "invented": 1, "reasoning": {"effort": "huge"}}) != []


@pytest.mark.clause("MDL-11", "MDL-2")
@pytest.mark.parametrize("turn", [TURN, REFUSED, CUT])
async def test_the_sdk_reads_what_the_scripted_model_says_in_responses(turn: Turn) -> None:
    from openai import AsyncOpenAI
    from openai.types.responses import Response

    async with ScriptedModel([turn, turn]) as server:
        client = AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="k", max_retries=0)
        async with client.responses.stream(model="m", input="Hello.") as stream:
            events: list[Any] = [event async for event in stream]
        whole = await client.responses.create(model="m", input="Hello.")
        await client.close()
        assert server.errors == []
    assert events[0].type == "response.created"
    for got in (events[-1].response, whole):
        checked = Response.model_validate(got.to_dict(), strict=False)
        assert [item.type for item in checked.output] == [
            {"thinking": "reasoning", "text": "message", "tool": "function_call", "raw": "message"}[name]
            for block in turn.reply
            for name in ("thinking", "text", "tool", "raw")
            if getattr(block, name) is not None
        ]
        assert checked.output_text == "".join(block.text or "" for block in turn.reply)
        assert checked.usage is not None
        assert checked.usage.input_tokens > 0
        cut = turn is CUT
        assert checked.status == ("incomplete" if cut else "completed")
        assert (checked.incomplete_details is not None) == cut


@pytest.mark.clause("MDL-11", "MDL-2")
async def test_the_sdk_reads_what_the_scripted_model_says_in_chat_completions() -> None:
    from openai import AsyncOpenAI

    async with ScriptedModel([TURN, TURN]) as server:
        client = AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="k", max_retries=0)
        asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}
        async with client.chat.completions.stream(**asked) as stream:
            streamed = await stream.get_final_completion()
        whole = await client.chat.completions.create(**asked)
        await client.close()
        assert server.errors == []
    for got in (streamed, whole):
        message = got.choices[0].message
        assert message.content == "I look: \u2028 é🚀"
        calls: list[Any] = list(message.tool_calls or [])
        assert [(one.function.name, json.loads(one.function.arguments)) for one in calls] == [
            ("bash", {"command": "ls"}),
            ("read", {"path": "a"}),
        ]
        assert got.choices[0].finish_reason == "tool_calls"
        assert got.usage is not None


@pytest.mark.clause("MDL-5", "MDL-11")
async def test_the_sdk_takes_a_refusal_of_the_scripted_model_for_the_services() -> None:
    from openai import AsyncOpenAI, BadRequestError

    async with ScriptedModel([TURN]) as server:
        client = AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="k", max_retries=0)
        with pytest.raises(BadRequestError, match="No tool call found"):
            await client.responses.create(
                model="m", input=[{"type": "function_call_output", "call_id": "c", "output": "x"}]
            )
        await client.close()
