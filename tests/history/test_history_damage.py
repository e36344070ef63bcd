"""Whatever happens to a file: it is read, nothing sound is lost, everything skipped is named, and it goes on."""

from __future__ import annotations

import json
import re
import tempfile
from array import array
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.history.kit import CLOCK, HEADER, PiReading, Record, chain, check_conversation, lines_of, said, texts, write
from tests.history.strategies import damages, sound_trees

from drawbar.contracts.errors import InvalidInput
from drawbar.stores.history import HistoryFile, HistoryView, fork_history, read_history, repair_messages
from drawbar.stores.history.links import PREVIOUS, ROOT, UNREADABLE, link_parents
from drawbar.stores.history.repair import INTERRUPTED

KINDS = {"torn", "corrupt", "invalid-utf8", "missing-parent", "cycle", "duplicate-id", "unknown-role", "missing-result"}
often = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def sound_lines(before: bytes, after: bytes) -> Counter[str]:
    """Entries of the sound file that still stand whole on a line of their own."""
    lines = set(before.split(b"\n"))
    kept = [line for line in after.split(b"\n") if line in lines and b'"type":"session"' not in line and line]
    return Counter(json.dumps(json.loads(line), sort_keys=True) for line in kept)


def shown(view: HistoryView) -> Counter[str]:
    return Counter(json.dumps(record, sort_keys=True) for record in view.entries)


def unaccounted(view: HistoryView, data: bytes) -> list[bytes]:
    """What is neither an entry, nor reported as skipped, nor a header."""
    rest = bytearray(b"   " + data[3:] if data.startswith(b"\xef\xbb\xbf") else data)  # a byte order mark is none
    index = view.index
    spans = [(index.offsets[at], index.sizes[at]) for at in range(len(index))]
    spans += [(it.offset, it.bytes) for it in view.repairs if it.kind in ("torn", "corrupt")]
    for offset, size in spans:
        rest[offset : offset + size] = b" " * size
    return [piece for piece in bytes(rest).split(b"\n") if piece.strip() and b'"type":"session"' not in piece]


@pytest.mark.clause("QLT-5", "SES-2")
@pytest.mark.bug("SES-01", "SES-04", "SES-05", "SES-06", "SES-25")
@given(data=st.data())
@often
def test_any_damage_is_read_around_named_and_written_past(data: st.DataObject) -> None:
    whole = lines_of(data.draw(sound_trees()))
    broken = data.draw(damages(whole))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "2026_x.jsonl"
        path.write_bytes(broken)
        view = read_history(path)
        assert not sound_lines(whole, broken) - shown(view), "a sound entry is missing"
        assert {repair.kind for repair in view.repairs} <= KINDS
        assert not unaccounted(view, broken)
        spans = [(it.offset, it.bytes) for it in view.repairs if it.kind in ("torn", "corrupt")]
        assert len(set(spans)) == len(spans), "a stretch is reported twice"
        branch = view.branch
        assert (branch[-1] if branch else None) == view.leaf
        assert len(branch) <= len(view.index)
        messages, _ = repair_messages(view.messages())
        check_conversation(messages)
        try:
            history = HistoryFile.open(path, clock=CLOCK)
        except InvalidInput:
            assert view.version != 3 or not isinstance(view.header.get("id"), str)
            return
        with history:
            chained = history.branch()
            assert [it["id"] for it in chained] == branch
            assert [it["parentId"] for it in chained] == [None, *branch][: len(branch)]
            added = history.append_message({"role": "user", "content": "«more»"})
        after = path.read_bytes()
        assert after.startswith(broken), "bytes that were there are kept"
        again = read_history(path)
        assert again.branch == [*branch, added]
        assert shown(again) - shown(view) == Counter({json.dumps(history_entry(after), sort_keys=True): 1})


def history_entry(data: bytes) -> Record:
    return json.loads(data.rstrip(b"\n").rsplit(b"\n", 1)[1])


@pytest.mark.clause("QLT-5", "SES-6")
@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_a_fork_of_any_damaged_history_is_sound_for_pi(data: st.DataObject) -> None:
    broken = data.draw(damages(lines_of(data.draw(sound_trees()))))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        path.write_bytes(broken)
        before = repair_messages(read_history(path).messages())[0]
        with fork_history(path, Path(folder) / "forks", clock=CLOCK) as fork:
            after = repair_messages(fork.messages())[0]
            fork_path = fork.path
        assert {repair.kind for repair in read_history(fork_path).repairs} <= {"unknown-role", "missing-result"}
        PiReading(fork_path)
        assert [it["content"] for it in after] == [it["content"] for it in before], "the model sees the same"


@pytest.mark.clause("SES-2", "QLT-7")
@pytest.mark.bug("SES-08")
@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_the_calls_reported_without_a_result_are_those_answered_in_the_request(data: st.DataObject) -> None:
    tree = data.draw(sound_trees().filter(lambda it: not {"compaction", "context_edit"} & {one["type"] for one in it}))
    whole = lines_of(tree)
    if data.draw(st.booleans()):  # call ids that every turn uses again
        whole = re.sub(rb'"e\d+-c', b'"call', whole)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        path.write_bytes(whole)
        view = read_history(path)
        messages, _ = repair_messages(view.messages())
    answered = [message for message in messages if texts([message]) == [INTERRUPTED]]
    assert len([repair for repair in view.repairs if repair.kind == "missing-result"]) == len(answered)


@pytest.mark.clause("SES-2")
@given(st.binary(max_size=2000))
@often
def test_any_bytes_at_all_can_be_read(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        path.write_bytes(data)
        assert not unaccounted(read_history(path), data)


@pytest.mark.clause("SES-2")
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(-3, 8)), max_size=14),
    st.integers(0, 14),
    st.dictionaries(st.integers(0, 8), st.integers(-1, 8), max_size=4),
)
@settings(max_examples=600, deadline=None)
def test_the_tree_is_a_forest_whatever_the_ids_say(
    nodes: list[tuple[int, int]], first_part: int, lost: dict[int, int]
) -> None:
    """Ids and parents are small numbers here, so that duplicates, cycles and strangers are common."""
    sentinels = {-1: ROOT, -2: PREVIOUS, -3: UNREADABLE}
    ids = array("q", [own * 2 + 1 for own, _ in nodes])
    wanted = array("q", [sentinels.get(parent, parent * 2 + 1) for _, parent in nodes])
    losses = {key * 2 + 1: ROOT if parent < 0 else parent * 2 + 1 for key, parent in lost.items()}
    parents = array("i")
    cut = min(first_part, len(nodes))
    missing: list[int] = []
    for part in (cut, len(nodes)):  # in two steps, as when another program appended meanwhile
        links = link_parents(ids[:part], wanted[len(parents) : part], parents, lost=losses, headers={17})
        missing += links.missing
        assert links.gaps == {*links.missing, *links.cycles}
    assert len(parents) == len(nodes)
    for at in range(len(nodes)):
        seen: set[int] = set()
        step = at
        while step >= 0:
            assert step not in seen, "a cycle"
            seen.add(step)
            step = parents[step]
        known = [other for other in range(at) if ids[other] == wanted[at]]
        if wanted[at] == ROOT:
            assert parents[at] == -1
        elif known:
            assert parents[at] == known[-1], "the nearest before"
        elif wanted[at] == PREVIOUS:
            assert parents[at] == at - 1
        elif at in missing and at and wanted[at] not in losses and all(up < it for it, up in enumerate(parents)):
            assert parents[at] >= 0, "what came before stays on the branch"


@pytest.mark.clause("SES-2")
def test_a_cycle_is_opened_with_a_gap_and_the_turns_before_it_stay(tmp_path: Path) -> None:
    loop = [said("a", "c", "user", "A"), said("b", "a", "assistant", "B"), said("c", "b", "user", "C")]
    path = write(tmp_path / "s.jsonl", [said("m0", None, "user", "before"), *loop])
    view = read_history(path)
    assert [(repair.kind, repair.line) for repair in view.repairs] == [("cycle", 3)]
    assert view.branch == ["m0", "a", "b", "c"]
    shown_texts = texts(view.messages())
    assert [shown_texts[0], *shown_texts[2:]] == ["before", "A", "B", "C"]
    assert "missing" in shown_texts[1]


@pytest.mark.clause("SES-2")
def test_a_duplicated_id_keeps_both_entries_and_their_order(tmp_path: Path) -> None:
    records = [
        said("a", None, "user", "1"),
        said("b", "a", "assistant", "2"),
        said("a", "b", "user", "3"),
        said("d", "a", "assistant", "4"),
    ]
    view = read_history(write(tmp_path / "s.jsonl", records))
    assert [(repair.kind, repair.line) for repair in view.repairs] == [("duplicate-id", 4)]
    assert [it["message"]["content"][0]["text"] for it in view.branch_entries()] == ["1", "2", "3", "4"]


@pytest.mark.clause("SES-2")
def test_invalid_utf8_costs_only_the_bad_bytes(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines_of([said("a", None, "user", "bad @ here")]).replace(b"@", b"\xff\xfe"))
    view = read_history(path)
    assert [(repair.kind, repair.line) for repair in view.repairs] == [("invalid-utf8", 2)]
    assert texts(view.messages()) == ["bad \ufffd\ufffd here"]


@pytest.mark.clause("SES-2")
def test_a_lost_branch_point_is_joined_to_what_it_declared_and_not_to_the_branch_left_behind(tmp_path: Path) -> None:
    """A torn entry still shows its parent at its start, so that rewound turns don't come back (NAV-01's kind)."""
    records = [
        said("a", None, "user", "1"),
        said("b", "a", "assistant", "2"),
        said("left", "b", "user", "rewound"),
        said("lost", "b", "user", "torn " + "x" * 300),
        said("d", "lost", "assistant", "4"),
    ]
    lines = lines_of(records).splitlines(keepends=True)
    lines[4] = lines[4][:200] + b"\n"
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(lines))
    view = read_history(path)
    assert view.branch == ["a", "b", "d"]
    assert [repair.kind for repair in view.repairs] == ["corrupt", "missing-parent"]


@pytest.mark.clause("SES-2")
def test_records_glued_to_damage_or_to_each_other_are_found(tmp_path: Path) -> None:
    header, *lines = lines_of(chain(4)).splitlines()
    path = tmp_path / "s.jsonl"
    path.write_bytes(header + b"\n" + lines[0] + lines[1] + b"\n" + lines[0][:30] + lines[2] + b"tail\n" + lines[3])
    view = read_history(path)
    assert view.branch == ["m0", "m1", "m2", "m3"]
    assert [(repair.kind, repair.line, repair.bytes) for repair in view.repairs] == [
        ("corrupt", 3, 30),
        ("corrupt", 3, 4),
    ]


@pytest.mark.clause("QLT-5", "SES-2")
def test_a_nested_object_that_looks_like_an_entry_is_not_taken_out_of_a_sound_one(tmp_path: Path) -> None:
    inner: dict[str, Any] = said("inner", None, "user", "not an entry")
    outer = {**said("outer", None, "user", "x"), "details": inner}
    view = read_history(write(tmp_path / "s.jsonl", [outer]))
    assert view.branch == ["outer"]


@pytest.mark.clause("QLT-5")
def test_a_history_whose_header_was_lost_opens_under_the_name_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "2026-01-05T10-00-00-000Z_0199aa.jsonl"
    path.write_bytes(b"\0" * 90 + b"\n" + lines_of(chain(3), header=None))
    with HistoryFile.open(path, clock=CLOCK) as history:
        assert history.session_id == "0199aa"
        assert [repair.kind for repair in history.repairs] == ["corrupt"]
        history.append_message({"role": "assistant", "content": []})
    assert len(read_history(path).branch) == 4


@pytest.mark.clause("SES-2")
@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\r"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, separator: str) -> None:
    text = f"one{separator}two"
    data = lines_of([said("a", None, "user", text)])
    path = tmp_path / "s.jsonl"
    path.write_bytes(data)
    assert separator == "\r" or separator.encode() in data, "it stands raw in the file"
    assert texts(read_history(path).messages()) == [text]
    path.write_bytes(data.replace(b"\n", b"\r\n"))
    assert texts(read_history(path).messages()) == [text], "CRLF is taken too"


@pytest.mark.clause("SES-2")
def test_an_empty_file_and_a_bare_header_are_read(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"")
    view = read_history(tmp_path / "empty.jsonl")
    assert (view.header, view.leaf, view.branch, list(view.entries), view.messages()) == ({}, None, [], [], [])
    view = read_history(write(tmp_path / "bare.jsonl", []))
    assert (view.header, view.leaf, view.branch) == (HEADER, None, [])
