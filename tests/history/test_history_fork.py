"""Forks: one branch, exactly, with its labels and its ids, in the current format (SES-6)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.history.kit import CLOCK, HEADER, PiReading, chain, entry, said, texts, write

from drawbar.contracts.errors import NotFound, SessionBusy
from drawbar.stores.history import HistoryFile, fork_history, read_history


@pytest.mark.clause("SES-6", "SES-1")
def test_labels_leave_the_path_and_follow_it_the_newest_of_each_entry(tmp_path: Path) -> None:
    records = [
        *chain(2),
        entry("label", "l1", "m1", targetId="m0", label="first name"),
        said("x", "l1", "user", "after the label"),
        entry("label", "aside", "m0", targetId="m1", label="set on another branch"),
        entry("label", "l2", "x", targetId="m0", label="second name"),
        entry("label", "l3", "l2", targetId="x", label="to be cleared"),
        entry("label", "l4", "l3", targetId="x"),
        entry("compaction", "c", "l4", summary="s", firstKeptEntryId="l1", tokensBefore=1),
        said("z", "c", "user", "end"),
        said("other", "m0", "user", "not on the path"),
        entry("label", "l5", "other", targetId="other", label="of an entry left behind"),
    ]
    path = write(tmp_path / "s.jsonl", records)
    with fork_history(path, tmp_path / "f", clock=CLOCK, at="z") as fork:
        copied = fork.branch()
    assert [it["id"] for it in copied[:5]] == ["m0", "m1", "x", "c", "z"]
    assert copied[3]["firstKeptEntryId"] == "x", "a label that was the first kept entry: the one after it"
    assert {it["targetId"]: it["label"] for it in copied[5:]} == {
        "m0": "second name",
        "m1": "set on another branch",
    }
    assert PiReading(fork.path).context_ids() == ["c", "x", "z"]


@pytest.mark.clause("SES-6")
def test_a_message_taken_back_is_left_out_and_the_first_one_leaves_an_empty_history(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", chain(3))
    with fork_history(path, tmp_path / "f", clock=CLOCK, at="m2", before=True) as fork:
        assert [it["id"] for it in fork.branch()] == ["m0", "m1"]
    with fork_history(path, tmp_path / "f", clock=CLOCK, at="m0", before=True) as empty:
        assert (empty.branch(), empty.header["cwd"]) == ([], HEADER["cwd"])
        empty.append_message({"role": "user", "content": "anew"})
    with pytest.raises(NotFound):
        fork_history(path, tmp_path / "none", clock=CLOCK, at="nowhere")
    assert not (tmp_path / "none").exists()


@pytest.mark.clause("SES-6", "SES-3")
def test_a_history_that_is_being_written_can_be_forked_and_the_fork_is_locked(tmp_path: Path) -> None:
    with HistoryFile.open(write(tmp_path / "s.jsonl", chain(2)), clock=CLOCK) as history:
        before = history.path.read_bytes()
        with fork_history(history.path, tmp_path / "f", clock=CLOCK) as fork:
            with pytest.raises(SessionBusy):
                HistoryFile.open(fork.path, clock=CLOCK)
            fork.append_message({"role": "user", "content": "in the copy"})
        assert history.path.read_bytes() == before
    assert texts(read_history(fork.path).messages()) == ["text 0", "text 1", "in the copy"]


@pytest.mark.clause("SES-6", "SES-2")
def test_a_gap_stays_visible_in_the_copy(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", [*chain(2), said("x", "lost", "user", "after")])
    with fork_history(path, tmp_path / "f", clock=CLOCK) as fork:
        assert [it["type"] for it in fork.branch()] == ["message", "message", "custom_message", "message"]
        assert fork.messages() == read_history(path).messages()
        assert fork.repairs == []
