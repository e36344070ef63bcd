"""Streamed text: in order, coalesced, and never letting a secret through, however it is cut into deltas and blocks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbar.contracts.events.message import MessageDelta
from drawbar.contracts.model import Delta
from drawbar.engines.native.streaming import DeltaWriter
from drawbar.stores.redaction import SecretRedactor

SECRET = "plantedsecretvalue0123456789"


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def now_ms(self) -> int:
        return int(self.at * 1000)

    def monotonic(self) -> float:
        return self.at


def stream(deltas: list[Delta], clock: Clock | None = None) -> tuple[list[MessageDelta], dict[int, str]]:
    events: list[Any] = []
    writer = DeltaWriter("m_1", events.append, SecretRedactor([(SECRET, "key")]), clock or Clock())
    for delta in deltas:
        writer.feed(delta)
    return events, writer.end()


@pytest.mark.clause("CON-32")
def test_blocks_come_out_whole_and_in_the_order_in_which_they_were_said() -> None:
    said = [
        ("text", 0, "I read the planted"),
        ("reasoning", 1, "Hm, a plan"),
        ("text", 2, "Second plant."),
        ("text", 3, "End"),
    ]
    events, written = stream([Delta(kind, block, text) for kind, block, text in said])  # pyright: ignore[reportArgumentType]
    joined: list[tuple[str, int, str]] = []
    for event in events:
        if joined and joined[-1][:2] == (event.kind, event.block):
            joined[-1] = (event.kind, event.block, joined[-1][2] + event.text)
        else:
            joined.append((event.kind, event.block, event.text))
    assert joined == said
    assert written == {0: "I read the planted", 2: "Second plant.", 3: "End"}


@pytest.mark.clause("CON-32", "QLT-20")
@pytest.mark.bug("SEC-02")
@given(st.data())
def test_a_secret_cut_over_deltas_and_text_blocks_never_comes_through(data: st.DataObject) -> None:
    whole = (
        data.draw(st.text(alphabet="ab ps", max_size=12)) + SECRET + data.draw(st.text(alphabet="ab ps", max_size=12))
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    block = 0
    deltas: list[Delta] = []
    for piece in pieces:
        deltas.append(Delta("text", block, piece))
        block += data.draw(st.integers(0, 1))
    events, written = stream(deltas)
    joined = "".join(event.text for event in events)
    assert SECRET not in joined
    assert joined == SecretRedactor([(SECRET, "key")]).text(whole)
    assert "".join(written[block] for block in sorted(written)) == joined


@pytest.mark.clause("CON-32")
@given(st.lists(st.tuples(st.integers(0, 1), st.text(alphabet="plantedsecv \n", max_size=8)), max_size=20))
def test_clean_text_keeps_its_block_to_the_letter(parts: list[tuple[int, str]]) -> None:
    block = 0
    deltas: list[Delta] = []
    expected: dict[int, str] = {}
    for step, text in parts:
        block += step
        deltas.append(Delta("text", block, text))
        if text:
            expected[block] = expected.get(block, "") + text
    _, written = stream(deltas)
    assert written == expected


@pytest.mark.clause("PRF-3")
def test_small_deltas_are_gathered_and_slow_ones_are_not_kept_waiting() -> None:
    events, _ = stream([Delta("text", 0, "ab ") for _ in range(1000)])
    assert len(events) == 7
    clock = Clock()
    seen: list[Any] = []
    writer = DeltaWriter("m_1", seen.append, SecretRedactor(), clock)
    for _ in range(3):
        writer.feed(Delta("text", 0, "a word, "))
        clock.at += 0.06
    assert len(seen) == 3
