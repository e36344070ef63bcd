"""Reading a log whatever happened to it (QLT-5, CON-8, CON-15)."""

from __future__ import annotations

import json
import shutil
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stores.support import RUN, answer_of, chain_holds, delta, new_log, python, taken_over, write_run

from drawbar.contracts.errors import NotFound
from drawbar.contracts.events import payload_type
from drawbar.contracts.events.lifecycle import Completed, StatusChanged
from drawbar.contracts.events.progress import TodoItem, TodoUpdated
from drawbar.stores.event_reader import raw_lines, read_events, read_report
from drawbar.stores.verify import verify_run

BUGS = Path(__file__).parents[1] / "fixtures" / "bugs"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_run(tmp_path_factory.mktemp("whole"))


def texts(path: Path) -> list[bytes]:
    return [bytes(event.payload) for event in read_events(path)]


# -- damage of every kind ---------------------------------------------------------------------------------


@pytest.mark.clause("QLT-5", "CON-15")
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damage_costs_only_the_lines_it_touches(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(whole) - 1), label="start")
    length = data.draw(st.integers(0, 400), label="length")
    junk = data.draw(st.binary(max_size=60) | st.integers(0, 400).map(lambda n: b"\0" * n), label="junk")
    damaged = whole[:start] + junk + whole[start + length :]
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "events.jsonl").write_bytes(damaged)
    sound = [line for line in damaged.split(b"\n")[:-1] if line + b"\n" in whole.splitlines(keepends=True)]
    found = [(event.seq, bytes(event.payload)) for event in read_events(folder / "events.jsonl")]
    for line in sound:
        assert (json.loads(line)["seq"], line[line.index(b'"payload":') + 10 : line.rindex(b',"chain"')]) in found
    report = read_report(folder)
    assert report.events == len(found)
    for skipped in report.skipped:
        assert 0 <= skipped.offset <= skipped.offset + skipped.bytes <= len(damaged)
    assert verify_run(folder).ok == (report.first_bad is None)
    log = taken_over(folder)
    line = log.append(delta("the next writer goes on"))
    log.close()
    again = (folder / "events.jsonl").read_bytes()
    assert again.endswith(line)
    assert json.loads(texts(folder / "events.jsonl")[-1])["text"] == "the next writer goes on"


@pytest.mark.clause("QLT-5", "CLI-7")
def test_each_skipped_stretch_is_reported_once_with_place_and_size(tmp_path: Path, whole: bytes) -> None:
    lines = whole.splitlines(keepends=True)
    parts = [
        *lines[:2],
        b"not json\n",
        b"{}\n",
        b'{"seq":2,"type":5}\n',
        lines[2],
        b"\0" * 4096 + b"\n",
        lines[3],
        lines[4].replace("✓".encode(), b"\xff\xfe"),
        lines[5],
        b'{"seq":6,"at":"2026-11-30T12',
    ]
    (tmp_path / "events.jsonl").write_bytes(b"".join(parts))
    at = [sum(map(len, parts[:n])) for n in range(len(parts))]
    report = read_report(tmp_path)
    assert [(s.kind, s.line, s.offset, s.bytes) for s in report.skipped] == [
        ("corrupt", 3, at[2], sum(map(len, parts[2:5])) - 1),
        ("corrupt", 7, at[6], 4096),
        ("invalid-utf8", 9, at[8], len(parts[8]) - 1),
        ("torn", 11, at[10], len(parts[10])),
    ]
    assert report.events == 5
    assert report.record is None
    assert report.first_bad is not None
    assert (report.first_bad.line, report.first_bad.cause) == (3, "altered")


@pytest.mark.clause("QLT-5")
@pytest.mark.bug("SES-04")
def test_a_record_padded_by_zeros_is_read(tmp_path: Path, whole: bytes) -> None:
    lines = whole.splitlines(keepends=True)
    lines[3] = b"\0" * 700 + lines[3].rstrip(b"\n") + b"\0" * 300 + b"\n"
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines))
    assert [event.seq for event in read_events(tmp_path / "events.jsonl")] == list(range(len(lines)))


@pytest.mark.clause("CON-8", "QLT-5")
@pytest.mark.bug("SES-25")
def test_older_and_newer_records_load(tmp_path: Path) -> None:
    shutil.copy(BUGS / "SES-25" / "events.jsonl", tmp_path / "events.jsonl")
    before = (tmp_path / "events.jsonl").read_bytes()
    events = list(read_events(tmp_path / "events.jsonl"))
    assert [(event.seq, event.type) for event in events] == [
        (1, "started"),
        (2, "message.delta"),
        (3, "message.completed"),
        (3, "hologram.shown"),
        (4, "completed"),
    ]
    assert payload_type(events[3].type) is None
    assert json.loads(bytes(events[3].payload)) == {"x": 1}
    assert json.loads(bytes(events[2].payload))["text"].startswith("hi (written by an older build")
    log = taken_over(tmp_path)
    assert (log.status, log.sealed) == ("completed", True)
    log.close()
    assert (tmp_path / "events.jsonl").read_bytes() == before


@pytest.mark.clause("QLT-5")
@pytest.mark.bug("SES-13")
def test_a_missing_number_is_reported_and_work_continues(tmp_path: Path) -> None:
    parts = sorted((BUGS / "SES-13" / "events").glob("*.json"))
    (tmp_path / "events.jsonl").write_bytes(b"".join(part.read_bytes().strip() + b"\n" for part in parts))
    expected = json.loads((BUGS / "SES-13" / "expect.json").read_text())
    assert [event.seq for event in read_events(tmp_path / "events.jsonl")] == expected["visible"]
    log = taken_over(tmp_path)
    assert json.loads(log.append(delta("on")))["seq"] == expected["next_seq"]
    log.close()


@pytest.mark.clause("QLT-5", "CON-8")
@pytest.mark.bug("SES-14")
def test_half_a_character_in_an_older_record_is_mended_on_reading(tmp_path: Path) -> None:
    line = b'{"seq":0,"at":"","type":"message.delta","payload":{"text":"a\\ud83d","n":[1]},"chain":"0"}\n'
    (tmp_path / "events.jsonl").write_bytes(line)
    (event,) = read_events(tmp_path / "events.jsonl")
    assert json.loads(bytes(event.payload)) == {"text": "a\ufffd", "n": [1]}


@pytest.mark.clause("CON-8", "CON-9")
def test_an_unknown_type_is_kept_and_the_older_name_of_the_todo_list_is_read(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(
        b'{"seq":0,"at":"","type":"checklist.updated","payload":{"items":[{"text":"a","status":"completed"}]}}\n'
        b'{"seq":1,"at":"","type":"from.the.future","payload":[1,2]}\n'
    )
    report = read_report(tmp_path)
    assert [(item.text, item.status) for item in report.todo] == [("a", "completed")]
    assert (report.events, report.skipped) == (2, [])


@pytest.mark.clause("CON-13", "CON-21")
def test_what_follows_the_terminal_line_is_not_applied(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(StatusChanged(to="running"))
    log.append(TodoUpdated(items=[TodoItem(text="mine", status="pending")]))
    log.append(Completed())
    log.close()
    with log.path.open("ab") as file:
        file.write(b'{"seq":9,"at":"","type":"todo.updated","payload":{"items":[]}}\n')
        file.write(b'{"seq":10,"at":"","type":"failed","payload":{"code":"failed"}}\n')
    assert [item.text for item in read_report(tmp_path).todo] == ["mine"]
    again = taken_over(tmp_path)
    assert again.end is not None
    assert again.end.status == "completed"
    again.close()


@pytest.mark.clause("QLT-5")
def test_reading_starts_at_the_wanted_number(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / "events.jsonl").write_bytes(whole)
    assert [event.seq for event in read_events(tmp_path / "events.jsonl", 6)] == [6, 7, 8, 9]
    assert list(read_events(tmp_path / "missing.jsonl")) == []


@pytest.mark.clause("CLI-7")
def test_a_folder_without_a_run_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_report(tmp_path)
    with pytest.raises(NotFound):
        verify_run(tmp_path)
    (tmp_path / "events.jsonl").write_bytes(b"")
    assert read_report(tmp_path).events == 0


# -- lines and sizes --------------------------------------------------------------------------------------


@pytest.mark.clause("QLT-5")
@settings(max_examples=200, deadline=None)
@given(pieces=st.lists(st.binary(max_size=30)), limit=st.integers(1, 40), end=st.booleans())
def test_lines_are_split_as_bytes_split(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], limit: int, end: bool
) -> None:
    path = tmp_path_factory.mktemp("lines") / "f"
    data = b"\n".join(pieces) + b"\n" * end
    path.write_bytes(data)
    expected = data.split(b"\n")
    whole_lines = len(expected) - 1
    expected = expected if expected[-1] else expected[:-1]
    found = list(raw_lines(path, max_line=limit))
    assert [line.data for line in found] == [piece if len(piece) <= limit else None for piece in expected]
    assert [line.length for line in found] == [len(piece) for piece in expected]
    assert [line.whole for line in found] == [number < whole_lines for number in range(len(expected))]
    for line in found:
        assert data[line.offset : line.offset + line.length] == expected[line.number - 1]
        assert next(iter(raw_lines(path, line.offset, max_line=limit))).data == line.data


@pytest.mark.clause("CON-15", "QLT-5")
@pytest.mark.slow
def test_a_line_over_64_mib_is_passed_over_in_bounded_memory(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(delta("before"))
    log.close()
    with log.path.open("ab") as file:
        for _ in range(300):
            file.write(b"\0" * (1 << 20))
        file.write(b"\n")
    log = taken_over(tmp_path)
    log.append(delta("after"))
    log.close()
    tracemalloc.start()
    report = read_report(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [(skipped.kind, skipped.bytes) for skipped in report.skipped] == [("too-long", 300 << 20)]
    assert report.events == 3
    assert peak < 80 << 20


@pytest.mark.clause("QLT-5", "PRF-4")
@pytest.mark.bug("SES-19", "SES-20")
@pytest.mark.slow
def test_a_large_log_is_streamed(tmp_path: Path) -> None:
    """300 MiB of events, one of 12 MiB, in a process that may take only 120 MiB more than it has."""
    log = new_log(tmp_path)
    big = delta("x" * (12 << 20))
    for number in range(300):
        log.append(delta("y" * (1 << 20)))
        if number == 150:
            log.append(big)
    log.close()
    code = """
        import pathlib, resource, sys, time
        from drawbar.stores.event_reader import read_events, read_report
        from drawbar.stores.verify import verify_run
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        folder = pathlib.Path(sys.argv[1])
        assert sum(1 for _ in read_events(folder / "events.jsonl")) == 302
        assert verify_run(folder).ok
        assert read_report(folder).events == 302
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, time.perf_counter() - start)
    """
    grown, seconds = answer_of(python(code, str(tmp_path))).split()
    assert int(grown) < 120 * 1024
    assert float(seconds) < 30


@pytest.mark.clause("PRF-4")
@pytest.mark.slow
def test_a_log_of_100_000_events_is_read_to_its_end_in_time(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for number in range(100_000):
        log.append(delta(f"piece {number}"))
    log.close()
    start = time.process_time()
    assert sum(1 for _ in read_events(log.path)) == 100_001
    assert time.process_time() - start < 0.5 * 2, "half a second, doubled for a busy machine"
    assert chain_holds(log.path.read_bytes(), RUN)
