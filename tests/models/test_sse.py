"""Event framing from bytes cut anywhere (MDL-4)."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbar.models.sse import EventTooLarge, ServerEvent, SseParser

line_ends = st.sampled_from(["\n", "\r\n", "\r"])
# Everything that some line splitter takes for a line end, and is none here.
TEXT = st.text(alphabet=st.sampled_from("ab: {}\u2028\u2029\x85\x0b\x0c\x1c\u00e9\U0001f680"), max_size=12)


def parse(data: bytes, cuts: list[int] | None = None, size: int | None = None) -> list[ServerEvent]:
    parser = SseParser()
    if size is not None:
        cuts = list(range(size, len(data), size))
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts or []), len(data)]
    events = [event for a, b in itertools.pairwise(edges) for event in parser.feed(data[a:b])]
    return events + parser.end()


@pytest.mark.clause("MDL-4")
@pytest.mark.bug("PRV-07")
@given(
    st.lists(st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=3)), max_size=5),
    line_ends,
    st.lists(st.integers(0, 10**6), max_size=8),
)
def test_events_are_the_same_however_the_bytes_are_cut(
    wanted: list[tuple[str, list[str]]], end: str, cuts: list[int]
) -> None:
    stream = "".join(
        f"event: {name}{end}" + "".join(f"data: {line}{end}" for line in lines) + end for name, lines in wanted
    ).encode()
    expected = [ServerEvent(name, "\n".join(lines).encode()) for name, lines in wanted]
    assert parse(stream) == expected
    assert parse(stream, cuts) == expected
    assert parse(stream, size=1) == expected


@pytest.mark.clause("MDL-4")
def test_line_ends_may_be_mixed_and_cut_between_cr_and_lf() -> None:
    parser = SseParser()
    assert parser.feed(b"data: one\r") == []
    assert parser.feed(b"\n\r") == [ServerEvent("", b"one")]
    assert parser.feed(b"\ndata: two\n\n") == [ServerEvent("", b"two")]


@pytest.mark.clause("MDL-4")
def test_a_cr_completes_an_event_without_waiting_for_the_next_byte() -> None:
    assert SseParser().feed(b"data: x\r\r") == [ServerEvent("", b"x")]


def test_comments_ids_retries_and_a_byte_order_mark_are_no_data() -> None:
    stream = b"\xef\xbb\xbfdata:a\n:comment\nid: 7\nretry: 9\ndata:  b\nunknown: x\n\n\n\n"
    assert parse(stream) == [ServerEvent("", b"a\n b")]


def test_bytes_that_are_no_utf8_reach_the_reader_as_they_came() -> None:
    assert parse(b"data: \xff\xfe\n\n") == [ServerEvent("", b"\xff\xfe")]


def test_an_event_whose_last_blank_line_is_missing_is_given_at_the_end() -> None:
    assert parse(b"event: e\ndata: x") == [ServerEvent("e", b"x")]


@pytest.mark.clause("MDL-4")
def test_an_event_of_64_mib_is_read_and_a_larger_one_refused() -> None:
    chunk = b"x" * 65536
    parser = SseParser()
    parser.feed(b"data: ")
    for _ in range(1023):
        parser.feed(chunk)
    (event,) = parser.feed(b"y\n\n")
    assert len(event.data) == 1023 * 65536 + 1
    parser.feed(b"data: ")
    with pytest.raises(EventTooLarge):  # noqa: PT012 - any of the chunks past the limit
        for _ in range(1025):
            parser.feed(chunk)


def test_many_small_data_lines_count_together() -> None:
    parser = SseParser(max_event_bytes=100)
    with pytest.raises(EventTooLarge):
        parser.feed(b"data: 0123456789\n" * 11)


def test_a_long_line_that_comes_byte_by_byte_is_read_in_linear_time() -> None:
    def cost(size: int) -> float:
        parser = SseParser()
        parser.feed(b"data: ")
        begun = time.process_time()
        for _ in range(size):
            parser.feed(b"x")
        assert parser.feed(b"\n\n")[0].data == b"x" * size
        return time.process_time() - begun

    cost(1000)
    assert cost(200_000) < 40 * max(cost(20_000), 0.001)
