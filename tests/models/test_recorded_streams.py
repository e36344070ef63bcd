"""The decoder over real recorded replies, read where they lie, compared with totals made by hand (QLT-17)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.models.kit import streams_folder

from drawbar.contracts.errors import ProviderError
from drawbar.contracts.model import Completed, Delta
from drawbar.models.anthropic_decode import ReplyDecoder
from drawbar.models.anthropic_encode import assistant_blocks
from drawbar.models.errors import response_error
from drawbar.models.sse import SseParser

FOLDER = streams_folder()
CLASSES = {"end": "stop", "tool": "toolUse", "length": "length", "refusal": "refusal", "pause": "stop"}
COUNTERS = {
    "uncached_input": "input_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens",
    "output": "output_tokens",
    "reasoning": "reasoning_tokens",
}


def cases() -> Iterable[Path]:
    if FOLDER is None:
        return []
    index = [json.loads(line) for line in (FOLDER / "index.jsonl").read_text(encoding="utf-8").splitlines()]
    return [FOLDER / one["id"] for one in index if one["protocol"] == "anthropic-messages"]


def decode(about: dict[str, Any], raw: bytes, size: int | None) -> tuple[list[Delta], Completed]:
    decoder = ReplyDecoder(status=about["http_status"])
    if about["http_status"] != 200:
        raise response_error(about["http_status"], {}, raw, now_ms=0)
    if about["body_file"].endswith(".json"):
        return decoder.feed_whole(json.loads(raw)), decoder.completed()
    parser = SseParser()
    chunks = [raw] if size is None else [raw[at : at + size] for at in range(0, len(raw), size)]
    events = [event for chunk in chunks for event in parser.feed(chunk)] + parser.end()
    return [delta for event in events for delta in decoder.feed(event)], decoder.completed()


@pytest.mark.clause("QLT-17", "MDL-2", "CON-17")
@pytest.mark.bug("USE-03", "PRV-07")
@pytest.mark.parametrize("size", [None, 1], ids=["whole", "bytes"])
def test_recorded_replies_are_read_as_a_person_read_them(size: int | None, subtests: pytest.Subtests) -> None:
    if FOLDER is None:
        pytest.skip("the recorded provider traffic does not lie beside this checkout (DRAWBAR_STREAMS)")
    found = list(cases())
    assert len(found) > 30
    for case in found:
        with subtests.test(case.name):
            about = json.loads((case / "about.json").read_text(encoding="utf-8"))
            check(about, (case / about["body_file"]).read_bytes(), size)


def check(about: dict[str, Any], raw: bytes, size: int | None) -> None:
    expected = about["expected"]
    if expected.get("error"):
        with pytest.raises(ProviderError) as failed:
            decode(about, raw, size)
        assert failed.value.status == expected["error"]["status"]
        assert expected["error"]["message"] in failed.value.message
        return
    deltas, done = decode(about, raw, size)
    content = done.message["content"]
    assert "".join(block["text"] for block in content if block["type"] == "text") == expected["final_text"]
    visible = "".join(block["thinking"] for block in content if block["type"] == "thinking" and "redacted" not in block)
    assert visible == (expected.get("reasoning_text") or "")
    calls = [(block["name"], block["arguments"], block["id"]) for block in content if block["type"] == "toolCall"]
    assert calls == [(one["name"], one["arguments"] or {}, one["id"]) for one in expected["tool_calls"]]
    assert done.raw_stop_reason == expected["stop_reason"]
    assert done.stop_reason == CLASSES[expected["stop_class"]]
    if done.raw_stop_reason == "tool_use":
        assert [call.error for call in done.calls] == [None] * len(calls)
    for theirs, ours in COUNTERS.items():
        if expected["usage"].get(theirs) is not None:
            assert getattr(done.usage, ours) == expected["usage"][theirs], theirs
    # What streamed, joined, is what the message says; each delta names its block's place in the message.
    for at, block in enumerate(content):
        streamed = "".join(delta.text for delta in deltas if delta.block == at)
        if block["type"] == "text":
            assert streamed == block["text"]
    if about["body_file"].endswith(".json"):
        sent_back = [json.loads(one) for one in assistant_blocks(done.message, lambda i: i, lambda _note: None)]
        assert sent_back == [clean(block) for block in json.loads(raw)["content"]]


def clean(block: dict[str, Any]) -> dict[str, Any]:
    """A recorded block without what the service itself leaves out: empty fields and the default caller."""
    modelled = block["type"] in ("text", "tool_use", "thinking", "redacted_thinking")
    if not modelled:
        return block
    return {k: v for k, v in block.items() if v is not None and v != [] and (k, v) != ("caller", {"type": "direct"})}
