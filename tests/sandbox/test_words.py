"""What a supervisor says is read strictly: a command that took it over gains nothing (BND-10, QLT-12)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbar.boundary.supervisor import Word, Words, first_process

pytestmark = pytest.mark.clause("QLT-12", "BND-10")


@given(st.integers(1, 9))
def test_words_arrive_in_any_pieces(size: int) -> None:
    words, said = Words(), b"ready\nleft 7\n"
    found = [word for at in range(0, len(said), size) for word in words.feed(said[at : at + size])]
    assert found == [Word("ready"), Word("left", 7)]


@given(st.binary(max_size=300))
def test_nonsense_is_ignored(data: bytes) -> None:
    for word in Words().feed(data):
        assert word.kind in ("ready", "left")
        assert 0 <= word.number < 1000


def test_each_word_counts_once() -> None:
    words = Words()
    assert words.feed(b"left 3\nleft 4\nready\nready\nleft x\nleft 99999\n") == [Word("left", 3), Word("ready")]
    assert words.feed(b"x" * 10**6 + b"\nready\n") == []


def test_the_first_process_is_the_one_that_the_back_end_named() -> None:
    assert first_process(b'{ "child-pid": 4242, "mnt-namespace": 4026532178 }\n{ "exit-code": 0 }\n') == 4242
    for nothing in (b"", b"{ ", b'{ "child-pid": 0 }', b'{ "child-pid": -1 }', b'{ "child-pid": 99999999999 }'):
        assert first_process(nothing) is None
