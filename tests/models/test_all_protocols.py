"""One scenario over every protocol through whole runs: what is left is the same, but for what is said here (MDL-2).

What is taken away before two runs are compared is data, with its reason: :data:`OF_A_RUN` is what no two runs
share, :data:`OF_A_PROTOCOL` what a protocol says in its own way or can't say.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.runs.kit import Bench, environment_for, payload

import drawbar
from drawbar.contracts.events.base import Event
from drawbar.contracts.model import Account
from drawbar.models import PROTOCOLS
from drawbar.testing.scenario import Block, Fault, Turn
from drawbar.testing.scripted_model import SPEECHES, ScriptedModel, reply, say, use

MODELS = {
    "anthropic-messages": "claude-sonnet-5",
    "openai-responses": "gpt-5.2",
    "openai-chat": "gpt-5.2",
    "gemini": "gemini-3.6-flash",
}
"""Every protocol has a model of its own here."""

SCENARIOS: dict[str, list[Turn]] = {
    "work": [
        reply(
            Block(thinking="Where is it? \u2028 Let me look.", signature="c2lnbmVk"),
            Block(text="Looking: é🚀\u2028."),
            Block(tool="read", arguments={"path": "a.txt"}),
        ),
        Turn(fault=Fault(kind="rate_limit", retry_after_s=0, message="slow down")),
        reply(
            Block(tool="edit", arguments={"path": "a.txt", "edits": [{"oldText": "wrong", "newText": "right"}]}),
            Block(tool="bash", arguments={"command": "cat a.txt; exit 3"}),
        ),
        use("bash", {"command": "printf 'é\\n'"}),
        say("Fixed a.txt, twice as long as one piece."),
    ],
    "unknown tool": [use("nothing_of_the_kind", {"a": [1, None, {"b": "c"}]}), say("I see.")],
    "cut by the limit": [reply(Block(text="Half an ans"), stop_reason="max_tokens")],
    "refused": [reply(stop_reason="refusal")],
    "quota": [Turn(fault=Fault(kind="status", status=402, message="payment required"))],
    "key not accepted": [Turn(fault=Fault(kind="status", status=401, message="no"))],
}

OF_A_RUN: dict[str, dict[str, str]] = {
    "*": {"timestamp": "a time", "duration_ms": "a time", "us": "a time"},
    "retry.started": {"wait_ms": "jitter"},
}
"""Fields by event type or message role (``*``: any, at any depth), with the reason why no two runs share them."""

OF_A_PROTOCOL: dict[str, dict[str, str]] = {
    "*": {"model": "each protocol has models of its own"},
    "context.snapshot": {
        "system_sha256": "the request's bytes are the protocol's",
        "tools_sha256": "the request's bytes are the protocol's",
        "last_message_sha256": "the request's bytes are the protocol's",
        "body_sha256": "the request's bytes are the protocol's",
        "bytes": "the request's bytes are the protocol's",
    },
    "usage.updated": {
        "totals": "tokens are counted over the protocol's bytes; some count cache writes or reasoning, others don't",
        "request": "tokens are counted over the protocol's bytes; some count cache writes or reasoning, others don't",
        "context_tokens": "tokens are counted over the protocol's bytes",
    },
    "assistant": {
        "api": "names the protocol",
        "usage": "tokens are counted over the protocol's bytes",
        "rawStopReason": "the provider's own word",
        "errorMessage": "the provider's own explanation of a refusal, where it gives one",
        "responseId": "the provider's own id, which not every protocol has",
        "thinkingSignature": "what the provider needs to take its reasoning back",
        "providerFields": "what the provider needs to take its own block back",
    },
}

IDS = ("run_id", "session_id", "message_id", "entry_id", "call_id", "toolCallId", "id")
"""Replaced by the order in which they appear, so that who refers to whom is compared."""


async def left_by(protocol: str, scenario: str, tmp_path: Path) -> tuple[list[Any], list[Any]]:
    """The events and the messages of one whole run, without what no comparison can hold."""
    place = tmp_path / protocol
    project = place / "project"
    project.mkdir(parents=True)
    (project / "a.txt").write_text("this is wrong\n")
    async with ScriptedModel(SCENARIOS[scenario]) as server:
        environment = environment_for(server, place / "data", place)
        environment = {name: value for name, value in environment.items() if not name.startswith("ANTHROPIC_")}
        secret = "test-credential-71c0e5d2a94f4b38"
        account = Account(
            id="one", protocol=protocol, base_url=server.base_url, secret=secret, model=MODELS[protocol], effort="low"
        )
        async with drawbar.open(place / "data", environ=environment, accounts=[account]) as harness:
            bench = Bench(harness, server, project, place / "data")
            record, events = await bench.run("Fix a.txt.", account="one")
            messages = bench.messages(record)
        assert server.errors == []
        spoken = {next(one.protocol for one in SPEECHES if one.takes(seen.path)) for seen in server.requests}
        assert spoken == {protocol}
        assert len(server.requests) == len(SCENARIOS[scenario])
    numbers = _Numbers(str(project))
    told = [numbers.plain({"type": one.type, **fields}, one.type) for one, fields in _joined(events)]
    return told, [numbers.plain(message, message["role"]) for message in messages]


def _joined(events: list[Event]) -> list[tuple[Event, dict[str, Any]]]:
    """Deltas of one block as one: how a reply is cut into pieces is the provider's affair."""
    joined: list[tuple[Event, dict[str, Any]]] = []
    for event in events:
        fields = payload(event)
        before = joined[-1][1] if joined and joined[-1][0].type == event.type else {}
        if event.type == "message.delta" and all(before.get(key) == fields[key] for key in ("block", "kind")):
            before["text"] += fields["text"]
        else:
            joined.append((event, fields))
    return joined


class _Numbers:
    """Takes away what two runs can't share; ids by their order."""

    def __init__(self, project: str) -> None:
        self._project = project
        self._seen: dict[str, str] = {}

    def plain(self, value: Any, kind: str) -> Any:
        if isinstance(value, dict):
            tables = (OF_A_RUN, OF_A_PROTOCOL)
            dropped = {key for table in tables for scope in ("*", kind) for key in table.get(scope, ())}
            return {
                key: self._number(part) if key in IDS and isinstance(part, str) else self.plain(part, kind)
                for key, part in value.items()
                if key not in dropped
            }
        if isinstance(value, list):
            return [self.plain(part, kind) for part in value]
        if kind == "message.delta" and isinstance(value, str):
            return _canonical(value)
        return value.replace(self._project, "<project>") if isinstance(value, str) else value

    def _number(self, name: str) -> str:
        return self._seen.setdefault(name, f"<{len(self._seen)}>")


def _canonical(text: str) -> Any:
    """Arguments as they streamed: the same JSON, however it is spaced."""
    try:
        return json.loads(text)
    except ValueError:
        return text


@pytest.mark.clause("MDL-2", "QLT-14", "ENG-5")
@pytest.mark.parametrize("protocol", PROTOCOLS[1:])
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_run_leaves_the_same_whatever_the_protocol(protocol: str, scenario: str, tmp_path: Path) -> None:
    events, messages = await left_by(PROTOCOLS[0], scenario, tmp_path)
    other_events, other_messages = await left_by(protocol, scenario, tmp_path)
    assert other_events == events
    assert other_messages == messages


def test_every_protocol_has_its_place_here_and_its_scripted_server() -> None:
    assert set(MODELS) == set(PROTOCOLS)
    assert {speech.protocol for speech in SPEECHES} == set(PROTOCOLS)
