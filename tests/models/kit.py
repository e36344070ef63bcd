"""What the tests of the model layer share: a provider at a scripted server, messages, tools, reading a reply."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from drawbar.contracts.clock import SystemClock
from drawbar.contracts.codec import Meta, Request
from drawbar.contracts.model import Account, Completed, Delta, EncodedRequest, RequestSettings
from drawbar.contracts.tool import ToolSpec
from drawbar.models.anthropic import AnthropicProvider
from drawbar.testing.scripted_model import ScriptedModel

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "bugs"


class BashInput(Request):
    command: Annotated[str, Meta(description="The command line", min_length=1)]
    timeout: Annotated[float | None, Meta(description="Seconds")] = None


class ReadInput(Request):
    path: Annotated[str, Meta(description="The file")]


BASH = ToolSpec(name="bash", description="Run a command.", input=BashInput, kind="execute")
READ = ToolSpec(name="read", description="Read a file.", input=ReadInput, kind="read")
SETTINGS = RequestSettings(model="claude-test", system="You carry out work.", tools=(BASH, READ))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}


def assistant(*blocks: Mapping[str, Any], stop: str = "stop", api: str = "anthropic-messages") -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), "api": api, "stopReason": stop}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def call(call_id: str, name: str = "bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def result(call_id: str, said: str = "ok", *, failed: bool = False) -> dict[str, Any]:
    content = [{"type": "text", "text": said}] if said else []
    return {"role": "toolResult", "toolCallId": call_id, "toolName": "bash", "content": content, "isError": failed}


def turns_of(number: int) -> Iterator[list[dict[str, Any]]]:
    """What each of ``number`` turns of a tool-using conversation appends to the history."""
    yield [user("Begin.")]
    for at in range(number):
        yield [assistant(call(f"call_{at}", command=f"echo {at}"), stop="toolUse"), result(f"call_{at}", f"{at}\n")]


def body_of(request: EncodedRequest) -> dict[str, Any]:
    return json.loads(b"".join(request.body))


@asynccontextmanager
async def provider_at(server: ScriptedModel | str, **options: Any) -> AsyncIterator[AnthropicProvider]:
    """A client of ``server``, closed afterwards."""
    url = server if isinstance(server, str) else server.base_url
    account = Account(id="test", protocol="anthropic-messages", base_url=url, secret="sk-test")
    provider = AnthropicProvider(account, clock=SystemClock(), **options)
    try:
        yield provider
    finally:
        await provider.close()


def request_for(
    provider: AnthropicProvider, *messages: Mapping[str, Any], settings: RequestSettings = SETTINGS
) -> EncodedRequest:
    builder = provider.builder(settings)
    builder.extend(messages or [user("Hello.")])
    return builder.build()


async def read(provider: AnthropicProvider, request: EncodedRequest) -> tuple[list[Delta], Completed]:
    """One whole reply."""
    deltas: list[Delta] = []
    completed: Completed | None = None
    async with provider.stream(request) as events:
        async for event in events:
            if isinstance(event, Delta):
                assert completed is None, "a delta came after the end"
                deltas.append(event)
            else:
                completed = event
    assert completed is not None
    return deltas, completed


def streams_folder() -> Path | None:
    """Recorded provider traffic, read in place where it is."""
    named = os.environ.get("DRAWBAR_STREAMS")
    folder = Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "streams"
    return folder if (folder / "index.jsonl").is_file() else None
