"""Output in bounded memory, whatever its shape (QLT-12)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawbar.boundary.output import Output

pytestmark = pytest.mark.clause("QLT-12")

chunks = st.lists(st.one_of(st.binary(max_size=40), st.text(max_size=20).map(str.encode)), max_size=30)


def fed(pieces: list[bytes], **rest: object) -> Output:
    output = Output(**({"head_bytes": 20, "tail_bytes": 30} | rest))  # pyright: ignore[reportArgumentType]
    for piece in pieces:
        output.feed(piece)
    output.finish()
    return output


@given(chunks, st.integers(0, 60), st.integers(0, 60))
def test_both_ends_are_exact(pieces: list[bytes], head_bytes: int, tail_bytes: int) -> None:
    whole = b"".join(pieces)
    output = fed(pieces, head_bytes=head_bytes, tail_bytes=tail_bytes)
    head, tail, dropped = output.ends()
    assert output.total == len(whole)
    if len(whole) <= head_bytes + tail_bytes:
        assert (head, tail, dropped) == (whole.decode("utf-8", "replace"), "", 0)
        return
    # A character that a limit cuts belongs to the middle; otherwise the ends are what they are.
    kept_head, kept_tail = whole[:head_bytes], whole[-tail_bytes:] if tail_bytes else b""
    assert kept_head.decode("utf-8", "replace").startswith(head)
    assert kept_tail.decode("utf-8", "replace").endswith(tail)
    assert len(whole) - head_bytes - tail_bytes <= dropped <= len(whole) - head_bytes - tail_bytes + 6


@given(st.text(max_size=200), st.integers(1, 7))
def test_a_limit_never_makes_broken_characters(text: str, size: int) -> None:
    data = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    head, tail, dropped = fed(pieces).ends()
    clean = data.decode()
    assert clean.startswith(head)
    assert clean.endswith(tail)
    assert len(head.encode()) + len(tail.encode()) + dropped == len(data)


@given(chunks)
def test_what_is_streamed_is_what_is_kept(pieces: list[bytes]) -> None:
    streamed: list[str] = []
    fed(pieces, on_text=streamed.append)
    assert "".join(streamed) == b"".join(pieces).decode("utf-8", "replace")
    assert "" not in streamed


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chunks, st.integers(0, 200))
def test_the_file_holds_the_whole_up_to_its_cap(tmp_path: Path, pieces: list[bytes], cap: int) -> None:
    path = tmp_path / "whole"
    path.unlink(missing_ok=True)
    output = fed(pieces, artifact=path, cap_bytes=cap)
    whole = b"".join(pieces)
    if len(whole) > 50:
        assert output.artifact == path
        assert path.read_bytes() == whole[:cap]
    else:
        assert output.artifact is None
        assert not path.exists()


def test_many_tiny_writes_cost_bytes_not_objects() -> None:
    output = Output(head_bytes=10, tail_bytes=1000)
    for number in range(200_000):
        output.feed(b"%d" % (number % 10))
        if number % 50_000 == 0:
            assert len(output._tail) < 100  # pyright: ignore[reportPrivateUsage]
    head, tail, dropped = output.ends()
    assert (len(head), len(tail), dropped) == (10, 1000, 198_990)


def test_an_existing_file_or_link_is_never_written(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "link").symlink_to(victim)
    for path in (victim, tmp_path / "link", tmp_path / "no" / "such" / "folder"):
        assert fed([b"x" * 100], artifact=path, cap_bytes=1000).artifact is None
    assert victim.read_text() == "precious"
