"""Gemini's and Ollama's own replies as they were recorded, read where they lie, compared with totals made by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.models.kit import result, user
from tests.models.test_openai_recorded import cases, check, needs_recordings

from drawbar.contracts.model import RequestSettings
from drawbar.models.gemini_builder import GeminiBuilder
from drawbar.models.gemini_decode import GeminiDecoder
from drawbar.models.sse import ServerEvent, SseParser
from drawbar.testing.gemini_rules import check_gemini_request
from drawbar.testing.streams import decode


@needs_recordings
@pytest.mark.clause("QLT-17", "MDL-2", "CON-17")
@pytest.mark.bug("USE-03", "USE-04", "PRV-07")
@pytest.mark.parametrize("size", [None, 1], ids=["whole", "bytes"])
@pytest.mark.parametrize(("protocol", "least"), [("gemini-generate-content", 26), ("ollama-native", 4)])
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


@needs_recordings
@pytest.mark.clause("MDL-2")
def test_recorded_parts_go_back_as_they_came(subtests: pytest.Subtests) -> None:
    """Each signature on its part, what isn't modelled to the letter; plain text is joined, ids are filled in."""
    seen: set[str] = set()
    for folder, about, raw in cases("gemini-generate-content"):
        if about["http_status"] != 200 or about["expected"]["stop_class"] not in ("end", "tool", "length"):
            continue
        with subtests.test(folder.name):
            events = events_of(about["body_file"], raw)
            decoder = GeminiDecoder()
            for event in events:
                decoder.feed(ServerEvent("", json.dumps(event).encode()))
            decoder.end()
            done = decoder.completed()
            builder = GeminiBuilder(RequestSettings(model="m", system=""))
            answers = [{**result(call.id), "toolName": call.name} for call in done.calls]
            builder.extend([user("Go."), {**done.message, "model": "m"}, *answers, user("On.")])
            request = check_gemini_request({"x-goog-api-key": "k"}, b"".join(builder.build().body), model="m")
            sent = [part for content in request["contents"][1:-1] for part in content["parts"]]
            came = [part for event in events for part in event["candidates"][0]["content"].get("parts", [])]
            assert [bare(part) for part in sent] == joined(came)
            seen |= {name for part in sent for name in part}
    assert {"thoughtSignature", "thought", "toolCall", "toolResponse", "executableCode", "inlineData"} <= seen


def events_of(body_file: str, raw: bytes) -> list[dict[str, Any]]:
    if body_file.endswith(".json"):
        value = json.loads(raw)
        return value if isinstance(value, list) else [value]
    parser = SseParser()
    return [json.loads(event.data) for event in [*parser.feed(raw), *parser.end()]]


def bare(part: dict[str, Any]) -> dict[str, Any]:
    """A part without the id of its call, and with arguments even where there are none."""
    call = part.get("functionCall")
    if call is None:
        return part
    return {**part, "functionCall": {"name": call["name"], "args": call.get("args") or {}}}


def joined(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What came, with pieces of one text and of one call put together: the reading of a person, not of the decoder."""
    found: list[dict[str, Any]] = []
    for part in parts:
        call = part.get("functionCall")
        if part == {"text": ""}:
            continue
        if call is not None and not call.get("name"):
            for piece in call.get("partialArgs", ()):
                arguments = found[-1]["functionCall"]["args"]
                name = piece["jsonPath"].removeprefix("$.")
                arguments[name] = arguments.get(name, "") + piece["stringValue"]
            continue
        last = found[-1] if found else {}
        plain = {"text", "thought"}
        same_text = {"text"} <= part.keys() <= plain and {"text"} <= last.keys() <= plain
        if same_text and part.get("thought") == last.get("thought"):
            found[-1] = {**last, "text": last["text"] + part["text"]}
        else:
            found.append(bare(part))
    return found
