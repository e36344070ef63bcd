"""Histories as they were found broken by users: each opens, shows what is sound, and says what is not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.history.kit import BUGS, CLOCK, PiReading, check_conversation, entry, said, texts, write

from drawbar.contracts.codec import encode
from drawbar.stores.history import (
    HistoryFile,
    cut_text,
    fork_history,
    inspect_history,
    list_histories,
    read_history,
    repair_messages,
)


def fixture(bug: str, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A copy of a reported file, and what a correct system does with it."""
    path = tmp_path / "session.jsonl"
    shutil.copy(BUGS / bug / "session.jsonl", path)
    path.chmod(0o600)
    return path, json.loads((BUGS / bug / "expect.json").read_text())


@pytest.mark.clause("QLT-5", "SES-2", "CON-15")
@pytest.mark.bug("SES-01")
def test_a_torn_tail_is_reported_once_kept_and_written_past(tmp_path: Path) -> None:
    path, expected = fixture("SES-01", tmp_path)
    before = path.read_bytes()
    torn = before.rsplit(b"\n", 1)[1]
    with HistoryFile.open(path, clock=CLOCK) as history:
        assert [tuple(repair) for repair in history.repairs] == [("torn", 8, len(before) - len(torn), len(torn))]
        assert len(history.messages()) == expected["visible_messages"]
        assert path.read_bytes() == before, "opening changes nothing"
        added = history.append_message({"role": "user", "content": "again"})
    after = path.read_bytes()
    assert after.startswith(before + b"\n{"), "the fragment stays, the next record begins its own line"
    assert inspect_history(path)["repairs"] == [
        {"kind": "corrupt", "line": 8, "offset": len(before) - len(torn), "bytes": len(torn)}
    ]
    assert PiReading(path).branch_ids == [*PiReading(BUGS / "SES-01" / "session.jsonl").branch_ids, added]


@pytest.mark.clause("QLT-5")
@pytest.mark.bug("SES-04")
def test_zero_runs_are_skipped_and_all_records_around_them_are_seen(tmp_path: Path) -> None:
    path, expected = fixture("SES-04", tmp_path)
    found = inspect_history(path)
    assert found["branch"] == expected["visible_ids"]
    assert [(repair["kind"], repair["line"], repair["bytes"]) for repair in found["repairs"]] == [
        ("corrupt", 4, 300),
        ("corrupt", 5, 512),
        ("torn", 9, 1024),
    ]
    assert [head.path for head in list_histories(tmp_path)] == [path]
    with HistoryFile.open(path, clock=CLOCK) as history:
        added = history.append({"type": "custom", "customType": "x"})
    assert inspect_history(path)["branch"] == [*expected["visible_ids"], added]


@pytest.mark.clause("QLT-5")
@pytest.mark.bug("SES-05")
def test_a_cut_line_in_the_middle_hides_nothing_after_it(tmp_path: Path) -> None:
    path, expected = fixture("SES-05", tmp_path)
    view = read_history(path)
    assert view.leaf == expected["last_visible_id"]
    assert len(view.messages()) == expected["visible_messages"]
    assert [repair.kind for repair in view.repairs] == ["corrupt"]
    times = {record["id"]: record["timestamp"] for record in view.entries}
    assert list_histories(tmp_path)[0].modified_ms % 60_000 == int(times[expected["picker_age_from"]][17:19]) * 1000


@pytest.mark.clause("SES-2")
@pytest.mark.bug("SES-06")
def test_turns_before_a_lost_record_stay_with_a_visible_gap(tmp_path: Path) -> None:
    path, expected = fixture("SES-06", tmp_path)
    found = inspect_history(path)
    assert found["branch"] == expected["visible_ids"]
    assert [repair["kind"] for repair in found["repairs"]] == ["missing-parent"]
    said_texts = texts(read_history(path).messages())
    gap = next(at for at, text in enumerate(said_texts) if text.startswith("[Part of this conversation is missing"))
    assert (said_texts[gap - 1], said_texts[gap + 1]) == ("answer 2", "answer 3")
    with HistoryFile.open(path, clock=CLOCK) as history:
        joined = [(it["id"], it["parentId"]) for it in history.branch()]
    assert ("a6", "a4") in joined


@pytest.mark.clause("SES-2", "QLT-7")
@pytest.mark.bug("SES-08")
def test_a_call_without_a_result_is_answered_in_the_request_and_not_on_disk(tmp_path: Path) -> None:
    path, expected = fixture("SES-08", tmp_path)
    before = path.read_bytes()
    view = read_history(path)
    assert [(repair.kind, repair.line) for repair in view.repairs] == [("missing-result", 3)]
    messages, reports = repair_messages(view.messages())
    check_conversation(messages)
    synthetic = [m["toolCallId"] for m in messages if m["role"] == "toolResult" and m["isError"]]
    assert synthetic == expected["synthetic_result_for"]
    assert len(reports) == 1
    assert path.read_bytes() == before


@pytest.mark.clause("QLT-7")
@pytest.mark.bug("SES-09")
def test_a_result_whose_call_was_compacted_away_stays_readable(tmp_path: Path) -> None:
    path, _ = fixture("SES-09", tmp_path)
    messages, _ = repair_messages(read_history(path).messages())
    check_conversation(messages)
    assert not [m for m in messages if m["role"] == "toolResult"]
    assert any("late result of a call the summary swallowed" in text for text in texts(messages))


@pytest.mark.clause("QLT-7")
@pytest.mark.bug("SES-14")
def test_half_a_character_never_reaches_a_request(tmp_path: Path) -> None:
    path, expected = fixture("SES-14", tmp_path)
    view = read_history(path)
    assert len(list(view.entries)) == 3, "the record with the lone surrogate is sound"
    messages, reports = repair_messages(view.messages())
    body = encode(messages).decode()
    assert "progress \ufffd… cut" in body
    assert expected["replacement"] == "U+FFFD"
    assert reports
    with HistoryFile.open(path, clock=CLOCK) as history:
        history.append_message({"role": "user", "content": "half \ud83d of it"})
    assert "half \ufffd of it" in path.read_text()
    output = (BUGS / "SES-14" / "tool_output.txt").read_text()
    for limit in range(len(output) + 1):
        cut = cut_text(output, limit)
        assert len(cut) <= limit or cut == output
        cut.encode()


@pytest.mark.clause("QLT-7")
@pytest.mark.bug("SES-16")
def test_call_ids_used_twice_are_made_unique_and_pairs_stay(tmp_path: Path) -> None:
    path, expected = fixture("SES-16", tmp_path)
    messages, _ = repair_messages(read_history(path).messages())
    check_conversation(messages)
    results = texts(m for m in messages if m["role"] == "toolResult")
    assert results == expected["pairs_kept"]["a2"] + expected["pairs_kept"]["a6"]


@pytest.mark.clause("SES-6", "QLT-5")
@pytest.mark.bug("NAV-01")
def test_a_fork_copies_exactly_the_active_path(tmp_path: Path) -> None:
    path, expected = fixture("NAV-01", tmp_path)
    with fork_history(path, tmp_path / "forks", clock=CLOCK, at=expected["fork_from"]) as fork:
        ids = [it["id"] for it in fork.branch()]
        assert [it for it in ids if it != "n6"] == expected["fork_history"]
        assert not set(ids) & set(expected["fork_must_not_offer"])
        assert fork.header["parentSession"] == str(path)
        fork_path = fork.path
    assert not any(lost.encode() in fork_path.read_bytes() for lost in ("4 rewound", "5 rewound"))
    assert PiReading(fork_path).branch_ids == ids


@pytest.mark.clause("SES-2", "CON-8")
@pytest.mark.bug("SES-25")
def test_records_that_lack_a_field_and_records_of_the_future_load_and_survive(tmp_path: Path) -> None:
    old = {"type": "message", "parentId": "m0", "message": {"role": "user", "content": "no id, no time"}}
    future = entry("hologram_shown", "h2", "m1", payload={"x": 1}, shine=[1, 2])
    records = [said("m0", None, "user", "a"), old, said("m1", "m0", "assistant", "b"), future]
    path = write(tmp_path / "s.jsonl", [*records, said("m3", "h2", "user", "c")])
    with HistoryFile.open(path, clock=CLOCK) as history:
        assert history.repairs == []
        assert [it.get("shine") for it in history.branch()] == [None, None, [1, 2], None]
        history.append_message({"role": "user", "content": "d"})
    assert list(read_history(path).entries)[:4] == records


@pytest.mark.clause("CON-8", "SES-1")
def test_an_entry_without_an_id_can_still_be_gone_back_to(tmp_path: Path) -> None:
    old = {"type": "message", "parentId": "m0", "message": {"role": "user", "content": "no id"}}
    path = write(tmp_path / "s.jsonl", [said("m0", None, "user", "a"), old])
    with HistoryFile.open(path, clock=CLOCK) as history:
        derived = history.leaf
        assert derived is not None
        history.append_message({"role": "user", "content": "child"})
        assert [it["parentId"] for it in history.branch()] == [None, "m0", derived]
    assert read_history(path).branch[:2] == ["m0", derived], "the same on every reading"
