"""Both of OpenAI's protocols over real recorded replies, read where they lie, compared with totals made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.models.kit import streams_folder, user

from drawbar.contracts.model import RequestSettings
from drawbar.models.responses_builder import ResponsesBuilder
from drawbar.models.responses_decode import ResponsesDecoder
from drawbar.models.sse import SseParser
from drawbar.testing.streams import decode

FOLDER = streams_folder()
needs_recordings = pytest.mark.skipif(
    FOLDER is None, reason="the recorded provider traffic does not lie beside this checkout (DRAWBAR_STREAMS)"
)


def cases(protocol: str) -> Iterable[tuple[Path, dict[str, Any], bytes]]:
    assert FOLDER is not None
    for line in (FOLDER / "index.jsonl").read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        if one["protocol"] == protocol:
            folder = FOLDER / one["id"]
            about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
            yield folder, about, (folder / about["body_file"]).read_bytes()


@needs_recordings
@pytest.mark.clause("QLT-17", "MDL-2", "CON-17")
@pytest.mark.bug("USE-03", "USE-04", "PRV-07")
@pytest.mark.parametrize("size", [None, 1], ids=["whole", "bytes"])
@pytest.mark.parametrize(("protocol", "least"), [("openai-responses", 49), ("openai-chat", 76)])
def test_recorded_replies_are_read_as_a_person_read_them(
    protocol: str, least: int, size: int | None, subtests: pytest.Subtests
) -> None:
    found = list(cases(protocol))
    assert len(found) >= least
    for folder, about, raw in found:
        with subtests.test(folder.name):
            pieces = [raw] if size is None else [raw[at : at + size] for at in range(0, len(raw), size)]
            media = about["body_file"].rpartition(".")[2]
            check(about, decode(protocol, pieces, media=media, status=about["http_status"]))


def check(about: dict[str, Any], told: dict[str, Any]) -> None:
    expected = about["expected"]
    assert bool(told["error"]) == bool(expected["error"])
    if told["error"]:
        return
    assert told["final_text"] == expected["final_text"]
    assert told["reasoning_text"] == expected["reasoning_text"]
    calls = [(call["name"], call["arguments"], call["id"]) for call in told["tool_calls"]]
    given = [(call["name"], call["arguments"] or {}, call["id"]) for call in expected["tool_calls"]]
    for call, wanted in zip(calls, given, strict=True):
        assert call[:2] == wanted[:2]
        assert wanted[2] in (call[2], None, "")
    if expected["stop_reason"]:
        assert told["stop_reason"] == expected["stop_reason"]
    for name, count in expected["usage"].items():
        allowed = about.get("accept", {}).get("usage", {}).get(name, [count])
        assert count is None or told["usage"][name] in allowed or (count == 0 and told["usage"][name] is None), name


@needs_recordings
@pytest.mark.clause("MDL-2")
def test_items_of_recorded_responses_go_back_as_they_came(subtests: pytest.Subtests) -> None:
    """What is encrypted and what isn't modelled, to the letter; nothing is stored that an id alone could name."""
    seen: set[str] = set()
    for folder, about, raw in cases("openai-responses"):
        if about["http_status"] != 200 or not about["streaming"]:
            continue
        with subtests.test(folder.name):
            decoder, parser = ResponsesDecoder(), SseParser()
            for event in [*parser.feed(raw), *parser.end()]:
                decoder.feed(event)
            message = {**decoder.completed().message, "model": "m"}
            came = [
                json.loads(line[5:]) for line in raw.split(b"\n") if line.startswith(b"data:") and b"DONE" not in line
            ]
            done = [event["item"] for event in came if event["type"] == "response.output_item.done"]
            builder = ResponsesBuilder(RequestSettings(model="m", system=""))
            builder.extend([user("Go."), message, user("On.")])
            sent = json.loads(b"".join(builder.build().body))["input"]
            for item in sent:
                kind = item["type"]
                if kind in ("message", "function_call", "function_call_output"):
                    continue
                whole = {key: value for key, value in item.items() if value is not None}
                assert whole in [{key: value for key, value in one.items() if value is not None} for one in done]
                seen.add(kind)
            if all(item.get("encrypted_content") for item in done if item["type"] == "reasoning"):
                wanted = [item["id"] for item in done if item["type"] == "reasoning"]
                assert [item["id"] for item in sent if item["type"] == "reasoning"] == wanted
    assert {"reasoning", "web_search_call", "program", "mcp_list_tools", "compaction"} <= seen
