"""Listing histories from heads and tails: complete, in order of activity, and as cheap for long files as for short."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.history.kit import CLOCK, HEADER, PiReading, Record, chain, entry, lines_of, said, write

from drawbar.stores.history import HistoryFile, list_histories, select_history


def at(second: int, record: Record) -> Record:
    return {**record, "timestamp": f"2026-01-05T10:00:{second:02d}.000Z"}


@pytest.mark.clause("SES-4")
def test_a_listing_tells_what_a_picker_shows_newest_activity_first(tmp_path: Path) -> None:
    header = {**HEADER, "id": "first", "parentSession": "/from/here.jsonl"}
    asked = said("u", None, "user", "  fix   the\n login " + "bug " * 100)
    first = write(tmp_path / "a.jsonl", [at(5, asked), at(50, entry("session_info", "n", "u", name="Login"))], header)
    second = write(tmp_path / "b.jsonl", [at(9, said("u", None, "assistant", "x"))], {**HEADER, "id": "second"})
    os.utime(first, (1, 1))
    heads = list_histories(tmp_path)
    assert [head.session_id for head in heads] == ["first", "second"], "by the entries, not by the file's own time"
    head = heads[0]
    assert (head.path, head.version, head.cwd, head.name) == (first, 3, "/home/user/project", "Login")
    assert (head.created, head.parent_session, head.size) == (
        HEADER["timestamp"],
        "/from/here.jsonl",
        first.stat().st_size,
    )
    assert head.first_message is not None
    assert head.first_message.startswith("fix the login bug bug")
    assert len(head.first_message) == 200
    assert head.modified_ms % 60_000 == 50_000
    assert (heads[1].name, heads[1].first_message) == (None, None)
    assert select_history(tmp_path, resume=True) == first
    assert select_history(tmp_path, resume=False) is None
    second.rename(tmp_path / "c.jsonl")


@pytest.mark.clause("SES-4", "QLT-5")
def test_what_is_no_history_is_left_out_and_damaged_ones_are_not(tmp_path: Path) -> None:
    write(tmp_path / "good.jsonl", chain(1))
    (tmp_path / "2026_damaged.jsonl").write_bytes(b"\0" * 100 + b"\n" + lines_of(chain(2), header=None))
    write(tmp_path / "foreign.jsonl", [{"type": "message", "id": "x", "parent_id": None}], header=None)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / ".hidden.jsonl").write_bytes(lines_of(chain(1)))
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "fifo.jsonl")
    (tmp_path / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    assert {head.path.name: head.session_id for head in list_histories(tmp_path)} == {
        "good.jsonl": "demo",
        "2026_damaged.jsonl": "damaged",
    }
    assert list_histories(tmp_path / "missing") == []
    assert select_history(tmp_path / "missing", resume=True) is None


@pytest.mark.clause("SES-4")
def test_a_long_history_costs_no_more_than_its_ends(tmp_path: Path) -> None:
    """4 GiB with a hole in the middle: reading it whole would take seconds."""
    path = write(tmp_path / "long.jsonl", [at(1, said("u", None, "user", "begin"))])
    with path.open("r+b") as file:
        file.seek(4 * 2**30)
        file.write(b"\n" + lines_of([at(30, said("z", "u", "assistant", "end"))], header=None))
    used = time.process_time()
    head = list_histories(tmp_path)[0]
    assert time.process_time() - used < 0.2
    assert (head.first_message, head.modified_ms % 60_000) == ("begin", 30_000)


@pytest.mark.clause("SES-4")
@pytest.mark.bug("SES-19", "SES-04")
def test_the_tail_is_found_before_a_huge_record_and_behind_zeros(tmp_path: Path) -> None:
    huge = at(20, said("h", "u", "user", "x" * 12 * 2**20))
    path = tmp_path / "huge.jsonl"
    path.write_bytes(lines_of([at(1, said("u", None, "user", "begin")), huge]) + b"\0" * 5000)
    began = time.perf_counter()
    head = list_histories(tmp_path)[0]
    assert time.perf_counter() - began < 1
    assert head.first_message == "begin"
    with path.open("ab") as file:
        file.write(b"\n" + lines_of([at(40, said("t", "h", "assistant", "end"))], header=None) + b"\0" * 60_000)
    assert list_histories(tmp_path)[0].modified_ms % 60_000 == 40_000


@pytest.mark.slow
@pytest.mark.clause("SES-4")
def test_ten_thousand_histories_are_listed_from_their_heads(tmp_path: Path) -> None:
    data = lines_of([said("u", None, "user", "begin"), *({**it, "parentId": "u"} for it in chain(40)[1:])])
    for number in range(10_000):
        (tmp_path / f"{number:05d}.jsonl").write_bytes(data)
    used = time.process_time()
    heads = list_histories(tmp_path)
    used = time.process_time() - used
    assert len(heads) == 10_000
    assert used < 10, f"{used:.1f} s of CPU"


@pytest.mark.clause("SES-4", "SES-1")
def test_a_new_history_is_the_newest(tmp_path: Path) -> None:
    write(tmp_path / "old.jsonl", chain(3))
    with HistoryFile.create(tmp_path, cwd="/", clock=CLOCK) as history:
        history.append_message({"role": "user", "content": "hello"})
        assert select_history(tmp_path, resume=True) == history.path
        assert list_histories(tmp_path)[0].first_message == "hello"
    assert PiReading(history.path).header["id"] == history.session_id
