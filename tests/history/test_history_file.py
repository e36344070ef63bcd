"""Writing a history: entries, ids, the leaf, the lock, and what Pi makes of the file."""

from __future__ import annotations

import gc
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.history.kit import CLOCK, HEADER, STAMP, PiReading, Record, chain, entry, in_child, said, texts, write
from tests.history.strategies import sound_trees

from drawbar.contracts.clock import SystemClock
from drawbar.contracts.errors import InvalidInput, NotFound, SessionBusy, StorageFailed
from drawbar.stores.history import HistoryFile, fork_history, inspect_history, read_history, select_history


def user(text: str) -> Record:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}


@pytest.mark.clause("SES-1", "CON-28")
def test_a_new_history_is_on_disk_with_its_header_before_anything_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "history"
    history = HistoryFile.create(folder, cwd="/work/here", parent_session="/old.jsonl", clock=SystemClock())
    header = json.loads(history.path.read_bytes())
    assert list(header) == ["type", "version", "id", "timestamp", "cwd", "parentSession"]
    assert (header["type"], header["version"], header["cwd"]) == ("session", 3, "/work/here")
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", header["id"])
    assert history.path.name == f"{header['timestamp'].replace(':', '-').replace('.', '-')}_{header['id']}.jsonl"
    assert (history.header, history.session_id, history.leaf, history.repairs) == (header, header["id"], None, [])
    assert stat.S_IMODE(history.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.iterdir()) == [history.path], "nothing else is left"
    history.close()


@pytest.mark.clause("SES-1")
@pytest.mark.parametrize("bad", ["", "../x", "a/b", "-a", "a-", "a b", "a\n", "x" * 200])
def test_an_id_that_pi_would_not_take_is_refused_and_leaves_nothing(tmp_path: Path, bad: str) -> None:
    with pytest.raises(InvalidInput):
        HistoryFile.create(tmp_path / "h", cwd="/", session_id=bad, clock=CLOCK)
    assert not (tmp_path / "h").exists()


@pytest.mark.clause("SES-1")
def test_a_history_never_replaces_another(tmp_path: Path) -> None:
    class Still(SystemClock):
        def now_ms(self) -> int:
            return 1_800_000_000_000

    with HistoryFile.create(tmp_path, cwd="/", session_id="same", clock=Still()) as first:
        first.append_message(user("kept"))
        with pytest.raises(InvalidInput, match="already"):
            HistoryFile.create(tmp_path, cwd="/", session_id="same", clock=Still())
    assert texts(read_history(first.path).messages()) == ["kept"]
    assert list(tmp_path.iterdir()) == [first.path]


@pytest.mark.clause("SES-1", "SES-21")
def test_an_append_is_one_line_with_an_id_a_parent_and_a_time(tmp_path: Path) -> None:
    with HistoryFile.create(tmp_path, cwd="/", clock=CLOCK) as history:
        first = history.append({"type": "model_change", "provider": "p", "modelId": "m"})
        second = history.append_message(user("hi"))
        third = history.append({"type": "custom", "id": "mine", "parentId": "x", "timestamp": "y", "customType": "t"})
        assert history.leaf == third
        records = [json.loads(line) for line in history.path.read_bytes().splitlines()[1:]]
    assert [record["id"] for record in records] == [first, second, third]
    assert [record["parentId"] for record in records] == [None, first, second]
    assert all(re.fullmatch(r"[0-9a-f]{8}", record["id"]) for record in records)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["timestamp"]) for record in records)
    assert [record["type"] for record in records] == ["model_change", "message", "custom"]


@pytest.mark.clause("SES-1")
@pytest.mark.parametrize("entry_without", [{}, {"type": ""}, {"type": 7}, {"type": "session", "id": "x"}])
def test_what_is_no_entry_is_not_written(tmp_path: Path, entry_without: Record) -> None:
    with HistoryFile.create(tmp_path, cwd="/", clock=CLOCK) as history:
        before = history.path.read_bytes()
        with pytest.raises(InvalidInput):
            history.append(entry_without)
        assert history.path.read_bytes() == before


@pytest.mark.clause("SES-1", "SES-2")
@given(tree=sound_trees(), steps=st.lists(st.integers(0, 60), max_size=12))
@settings(max_examples=120, deadline=None)
def test_what_is_written_is_what_pi_reads(tree: list[Record], steps: list[int]) -> None:
    """A history is opened, gone on with at many places, and read as Pi would at the end."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "s.jsonl", tree)
        assert read_history(path).branch == PiReading(path).branch_ids
        with HistoryFile.open(path, clock=CLOCK) as history:
            ids = [record["id"] for record in tree]
            for step in steps:
                if step % 4 == 0:
                    history.move_to(([*ids, None])[step % (len(ids) + 1)])
                ids.append(history.append_message(user(f"«{step}»")))
            branch, messages = [it["id"] for it in history.branch()], history.messages()
            history.sync()
        pi = PiReading(path)
        assert pi.branch_ids == branch
        assert [record["id"] for record in pi.entries] == ids
        assert len(set(ids)) == len(ids)
        assert pi.entries[: len(tree)] == tree, "what stood there is untouched, unknown fields and all"
        assert len(pi.context_ids()) == len(messages)
        for own, text in zip(pi.context_ids(), texts(messages), strict=True):
            assert f"«{own}»" in text or "«edited»" in text or own not in {record["id"] for record in tree}
        view = read_history(path)
        assert (view.branch, view.messages()) == (branch, messages)
        assert [repair.kind for repair in view.repairs if repair.kind != "missing-result"] == []


@pytest.mark.clause("SES-1")
def test_the_last_entry_is_the_leaf_whatever_it_is_and_moves_need_an_entry_to_last(tmp_path: Path) -> None:
    label = entry("label", "l", "m2", targetId="m0", label="here")
    path = write(tmp_path / "s.jsonl", [*chain(3), label])
    with HistoryFile.open(path, clock=CLOCK) as history:
        assert history.leaf == "l"
        history.move_to("m0")
        assert (history.leaf, texts(history.messages())) == ("m0", ["text 0"])
        with pytest.raises(NotFound):
            history.move_to("nowhere")
        assert history.leaf == "m0"
    with HistoryFile.open(path, clock=CLOCK) as history:
        assert history.leaf == "l"
        history.move_to(None)
        assert (history.leaf, history.branch(), history.messages()) == (None, [], [])
        root = history.append({"type": "custom", "customType": "drawbar-navigation"})
        assert [it["parentId"] for it in history.branch()] == [None]
    assert read_history(path).leaf == root


@pytest.mark.clause("SES-1")
def test_the_newest_name_wins_over_all_branches_and_an_empty_one_clears(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", [*chain(2), entry("session_info", "n", "m0", name="old")])
    with HistoryFile.open(path, clock=CLOCK) as history:
        assert history.name == "old"
        history.append({"type": "session_info", "name": "new"})
        assert history.name == read_history(path).name == "new"
        history.append({"type": "session_info", "name": ""})
        assert history.name is read_history(path).name is None


@pytest.mark.clause("SES-1", "SES-4")
def test_the_latest_entry_of_a_type_is_found_on_the_branch_only(tmp_path: Path) -> None:
    records = [
        entry("model_change", "a", None, provider="p", modelId="m1"),
        entry("odd", "b", "a", n=1),
        entry("model_change", "side", "b", provider="p", modelId="m2"),
        said("c", "b", "user", "x"),
    ]
    with HistoryFile.open(write(tmp_path / "s.jsonl", records), clock=CLOCK) as history:
        assert (history.last("model_change") or {})["modelId"] == "m1"
        assert (history.last("odd") or {})["n"] == 1
        assert history.last("compaction") is None


@pytest.mark.clause("SES-1")
def test_a_missing_last_line_end_is_mended_by_the_next_append(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(write(path, chain(2)).read_bytes().rstrip(b"\n"))
    with HistoryFile.open(path, clock=CLOCK) as history:
        assert history.repairs == []
        added = history.append_message(user("x"))
    assert PiReading(path).branch_ids == ["m0", "m1", added]


# -- one writer -------------------------------------------------------------------------------------

HOLD = """
import sys, pathlib
from drawbar.contracts.clock import SystemClock
from drawbar.stores.history import HistoryFile
history = HistoryFile.open(pathlib.Path(sys.argv[1]), clock=SystemClock())
print("held", flush=True)
sys.stdin.readline()
history.append_message({"role": "user", "content": "from the other process"})
"""


@pytest.mark.clause("SES-3", "QLT-6")
def test_a_second_writer_is_refused_by_name_and_let_in_when_the_first_is_dead(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", chain(2))
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(SessionBusy, match=str(holder.pid)) as refused:
            HistoryFile.open(path, clock=CLOCK)
        assert refused.value.facts["pid"] == holder.pid
        assert len(read_history(path).branch) == 2, "reading needs no lock"
        holder.kill()
        holder.wait()
        with HistoryFile.open(path, clock=CLOCK) as history:
            history.append_message(user("x"))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.clause("SES-3")
def test_within_a_process_too_there_is_one_writer_until_it_closes(tmp_path: Path) -> None:
    with HistoryFile.create(tmp_path, cwd="/", clock=CLOCK) as history:
        with pytest.raises(SessionBusy):
            HistoryFile.open(history.path, clock=CLOCK)
        os.symlink(history.path, tmp_path / "alias.jsonl")
        with pytest.raises(SessionBusy):
            HistoryFile.open(tmp_path / "alias.jsonl", clock=CLOCK)
    history.close()
    HistoryFile.open(history.path, clock=CLOCK).close()
    with pytest.raises(StorageFailed, match="closed"):
        history.append_message(user("too late"))


@pytest.mark.clause("SES-3")
def test_one_that_is_dropped_without_being_closed_gives_back_its_lock(tmp_path: Path) -> None:
    path = HistoryFile.create(tmp_path, cwd="/", clock=CLOCK).path
    gc.collect()
    HistoryFile.open(path, clock=CLOCK).close()


@pytest.mark.clause("SES-3")
def test_a_forked_child_neither_holds_the_lock_nor_writes(tmp_path: Path) -> None:
    history = HistoryFile.create(tmp_path, cwd="/", clock=CLOCK)
    told, tell = os.pipe()
    wait, go = os.pipe()

    def live_on() -> None:
        with pytest.raises(StorageFailed):
            history.append_message(user("from the child"))
        os.write(tell, b"x")
        os.read(wait, 1)

    pid = os.fork()
    if pid == 0:
        try:
            live_on()
        finally:
            os._exit(0)
    os.close(tell)
    try:
        assert os.read(told, 1) == b"x"
        history.close()
        HistoryFile.open(history.path, clock=CLOCK).close()
    finally:
        os.write(go, b"x")
        os.waitpid(pid, 0)
    assert history.path.read_bytes().count(b"\n") == 1


@pytest.mark.clause("SES-3", "SES-21")
def test_appends_from_many_threads_make_one_chain(tmp_path: Path) -> None:
    with HistoryFile.create(tmp_path, cwd="/", clock=SystemClock()) as history:
        threads = [
            threading.Thread(target=lambda: [history.append_message(user("x")) for _ in range(50)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(history.branch()) == 200
    assert len(PiReading(history.path).branch) == 200


# -- other programs ---------------------------------------------------------------------------------


@pytest.mark.clause("SES-3", "SES-1")
@pytest.mark.parametrize("ragged", [False, True])
def test_what_a_program_without_locks_appended_is_kept_beside_the_own_branch(tmp_path: Path, ragged: bool) -> None:
    with HistoryFile.create(tmp_path, cwd="/", clock=CLOCK) as history:
        mine = history.append_message(user("mine"))
        foreign = json.dumps(said("pi000001", mine, "user", "Pi's"))
        with history.path.open("a") as file:
            file.write(foreign + ("" if ragged else "\n"))
        next_id = history.append_message(user("mine too"))
        assert history.foreign_entries == 1
        assert texts(history.messages()) == ["mine", "mine too"]
        history.move_to("pi000001")
        assert texts(history.messages()) == ["mine", "Pi's"]
    assert [record["id"] for record in PiReading(history.path).entries] == [mine, "pi000001", next_id]
    assert read_history(history.path).repairs == []


@pytest.mark.clause("QLT-6")
@pytest.mark.parametrize("how", ["removed", "replaced", "cut"])
def test_a_history_that_was_taken_away_is_noticed_at_the_next_append(tmp_path: Path, how: str) -> None:
    history = HistoryFile.open(write(tmp_path / "s.jsonl", chain(3)), clock=CLOCK)
    match how:
        case "removed":
            history.path.unlink()
        case "replaced":
            history.path.rename(tmp_path / "away.jsonl")
            write(history.path, chain(1))
        case _:
            os.truncate(history.path, 200)
    with pytest.raises(StorageFailed, match="cut short" if how == "cut" else "removed or replaced") as seen:
        history.append_message(user("lost?"))
    assert (seen.value.facts["unsaved"], history.unsaved) == (1, 1)
    with pytest.raises(StorageFailed):
        history.close()


# -- other formats ----------------------------------------------------------------------------------

V1: list[Record] = [
    {"type": "model_change", "timestamp": STAMP, "provider": "p", "modelId": "m"},
    {"type": "message", "timestamp": STAMP, "message": {"role": "user", "content": "one"}},
    {"type": "message", "timestamp": STAMP, "message": {"role": "hookMessage", "content": "hook", "customType": "h"}},
    {
        "type": "message",
        "timestamp": STAMP,
        "message": {"role": "assistant", "content": [{"type": "text", "text": "two"}]},
    },
    {"type": "compaction", "timestamp": STAMP, "summary": "sum", "firstKeptEntryIndex": 4, "tokensBefore": 9},
    {"type": "message", "timestamp": STAMP, "message": {"role": "user", "content": "three"}},
]
OLD_HEADER = {"type": "session", "id": "old", "timestamp": STAMP, "cwd": "/old", "provider": "p", "modelId": "m"}


@pytest.mark.clause("SES-1", "SES-2")
def test_a_history_of_version_1_reads_as_pi_reads_it_and_is_never_rewritten(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", V1, OLD_HEADER)
    before = path.read_bytes()
    view = read_history(path)
    assert (view.version, len(view.branch), view.repairs) == (1, 6, [])
    assert view.branch == read_history(path).branch, "the same ids on every reading"
    seen = texts(view.messages())
    assert "sum" in seen[0]
    assert seen[1:] == ["two", "three"]
    with pytest.raises(InvalidInput, match="fork it") as refused:
        HistoryFile.open(path, clock=CLOCK)
    assert refused.value.facts["fork"] is True
    assert path.read_bytes() == before


@pytest.mark.clause("SES-1", "SES-6")
def test_a_fork_of_version_1_goes_on_in_version_3(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", V1, OLD_HEADER)
    with fork_history(path, tmp_path / "f", clock=CLOCK, cwd="/new", session_id="copy") as fork:
        assert fork.messages() == read_history(path).messages()
        added = fork.append_message(user("four"))
    pi = PiReading(fork.path)
    assert (pi.header["version"], pi.header["cwd"], pi.header["id"]) == (3, "/new", "copy")
    assert len(pi.context_ids()) == 4
    assert pi.branch_ids[-1] == added
    assert [it["message"]["role"] for it in pi.branch if it["type"] == "message"][1] == "custom"
    assert "firstKeptEntryIndex" not in fork.path.read_text()


@pytest.mark.clause("CON-8")
@pytest.mark.parametrize("version", [4, 99, "new", None, [3], 1e999])
def test_a_newer_or_unknown_version_is_read_and_not_written(tmp_path: Path, version: Any) -> None:
    path = write(tmp_path / "s.jsonl", chain(2), {**HEADER, "version": version})
    assert len(read_history(path).messages()) == 2
    before = path.read_bytes()
    with pytest.raises(InvalidInput):
        HistoryFile.open(path, clock=CLOCK)
    assert path.read_bytes() == before


@pytest.mark.clause("SES-1")
def test_what_is_no_session_is_refused_and_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "other.jsonl"
    foreign.write_text('{"type":"message","id":"a","parent_id":null}\n{"type":"leaf","id":"b"}\n')
    os.mkfifo(tmp_path / "fifo.jsonl")
    (tmp_path / "empty.jsonl").touch()
    for path in (foreign, tmp_path / "fifo.jsonl", tmp_path / "empty.jsonl", tmp_path):
        with pytest.raises(InvalidInput):
            HistoryFile.open(path, clock=CLOCK)
    with pytest.raises(NotFound):
        HistoryFile.open(tmp_path / "none.jsonl", clock=CLOCK)
    with pytest.raises(NotFound):
        inspect_history(tmp_path / "none.jsonl")
    assert select_history(tmp_path, resume=True) is None
    assert foreign.read_text().count("\n") == 2


@pytest.mark.clause("SES-1")
def test_a_record_too_long_to_be_read_back_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drawbar.stores.history.file.LINE_LIMIT", 1000)
    with HistoryFile.create(tmp_path, cwd="/", clock=CLOCK) as history:
        with pytest.raises(InvalidInput, match="read back"):
            history.append_message(user("x" * 1000))
        assert (history.leaf, history.unsaved) == (None, 0)
        history.append_message(user("x"))
    assert in_child(lambda: read_history(history.path)) == 0


@pytest.mark.clause("CLI-7")
def test_inspecting_shows_entries_as_read_the_branch_and_every_repair(tmp_path: Path) -> None:
    odd = entry("odd", "x", "m1", more={"kept": [1, None]})
    path = write(tmp_path / "s.jsonl", [*chain(2), odd, said("y", "gone", "wizard", "?")])
    found = inspect_history(path)
    assert list(found) == ["header", "entries", "branch", "leaf", "repairs"]
    assert found["header"] == HEADER
    assert found["entries"] == [*chain(2), odd, said("y", "gone", "wizard", "?")]
    assert (found["branch"], found["leaf"]) == (["m0", "m1", "x", "y"], "y")
    line = path.read_bytes().splitlines()[4]
    offset = path.read_bytes().index(line)
    where = {"line": 5, "offset": offset, "bytes": len(line)}
    assert found["repairs"] == [{"kind": "unknown-role", **where}, {"kind": "missing-parent", **where}]
    json.dumps(found)
