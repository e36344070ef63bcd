"""A bound never cuts a character, keeps whole lines where it can, and says what is missing (ENG-6, SES-14)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbar.tools.truncation import clip, count, head, size, tail, well_formed

texts = st.text(st.sampled_from("a\n é😀\u0301\r"), max_size=60)
broken = st.text(st.characters(), max_size=30) | st.text(st.sampled_from("a\ud83d\ude00\udc00\n"), max_size=12)


@pytest.mark.clause("ENG-6")
@pytest.mark.bug("SES-14")
@given(texts, st.integers(1, 8), st.integers(4, 40))
def test_head_and_tail_keep_whole_lines_within_both_bounds(text: str, lines: int, limit: int) -> None:
    whole = text.split("\n") if text else []
    total = len(whole) - (text.endswith("\n") or not text)
    for cut, holds in (
        (head(text, lines=lines, limit=limit), text.startswith),
        (tail(text, lines=lines, limit=limit), text.endswith),
    ):
        assert len(cut.text.encode()) <= limit
        assert holds(cut.text)
        assert cut.total_lines == max(total, 0)
        assert cut.total_bytes == len(text.encode())
        assert cut.whole == (cut.text == text)
        if not cut.whole:
            assert cut.lines <= lines
        if not cut.partial and not cut.whole and cut.text:
            assert cut.text.endswith("\n") or text.endswith(cut.text)


@pytest.mark.bug("SES-14")
def test_a_cut_at_every_place_around_an_emoji_leaves_no_half() -> None:
    text = "x" * 5 + "😀" * 4 + "é tail"
    for limit in range(1, len(text.encode()) + 1):
        for cut in (head(text, limit=limit), tail(text, limit=limit)):
            cut.text.encode("utf-8")
            assert len(cut.text.encode()) <= limit
            assert "\ufffd" not in cut.text


@pytest.mark.bug("SES-14")
@given(broken)
def test_well_formed_text_can_be_sent_and_sound_text_is_left_alone(text: str) -> None:
    mended = well_formed(text)
    mended.encode("utf-8")
    assert len(mended) <= len(text)
    if text == mended:
        assert well_formed(text) is text
    assert well_formed(json.loads(json.dumps(text))) == mended


def test_well_formed_goes_through_lists_and_objects() -> None:
    sound = [{"a": ["b", 1, None]}]
    assert well_formed(sound[0]["a"]) is sound[0]["a"]
    assert well_formed([{"\ud83d": "\ude00", "n": 1}]) == [{"\ufffd": "\ufffd", "n": 1}]


def test_words_for_people() -> None:
    assert [size(n) for n in (0, 1, 1023, 1024, 12 << 20, 5 << 30, 2**50)] == [
        "0 bytes",
        "1 byte",
        "1,023 bytes",
        "1.0 KB",
        "12.0 MB",
        "5.0 GB",
        "1048576.0 GB",
    ]
    assert count(1, "line") == "1 line"
    assert count(2000, "entry", "entries") == "2,000 entries"
    assert clip("abcdef", 4) == "abc…"
    assert clip("abcd", 4) == "abcd"
