"""The chain names the first line that was altered, dropped, reordered or cut (CON-11)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stores.support import RUN, chain_holds, delta, taken_over, write_run

from drawbar.contracts.events.lifecycle import Completed
from drawbar.contracts.methods import FirstBad, Verification
from drawbar.stores.event_reader import read_report
from drawbar.stores.verify import verify_run

LINES = 12


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """A settled log of 12 lines."""
    folder = tmp_path_factory.mktemp("whole")
    write_run(folder, deltas=9)
    log = taken_over(folder)
    log.append(Completed(outcome="done"))
    log.close()
    return log.path.read_bytes().splitlines(keepends=True)


def record(lines: list[bytes], **fields: object) -> bytes:
    last = json.loads(lines[-1])
    head = {"seq": last["seq"], "chain": last["chain"]}
    return json.dumps({"id": RUN, "status": "completed", "log_head": head, **fields}).encode()


def verified(folder: Path, lines: list[bytes], run_json: bytes | None) -> Verification:
    folder.mkdir(exist_ok=True)
    (folder / "events.jsonl").write_bytes(b"".join(lines))
    if run_json is not None:
        (folder / "run.json").write_bytes(run_json)
    return verify_run(folder)


def bad(seq: int, cause: str) -> FirstBad:
    return FirstBad(seq=seq, line=seq + 1, cause=cause)  # pyright: ignore[reportArgumentType]


@pytest.mark.clause("CON-11")
def test_a_whole_log_verifies(tmp_path: Path, whole: list[bytes]) -> None:
    assert verified(tmp_path / "a", whole, record(whole)) == Verification(
        ok=True, events=LINES, torn=False, first_bad=None
    )


@pytest.mark.clause("CON-11")
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_altered_byte_is_named(
    tmp_path_factory: pytest.TempPathFactory, whole: list[bytes], data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, LINES - 1))
    line = whole[number]
    place = data.draw(st.integers(0, len(line) - 2))
    new = data.draw(st.integers(0, 255).filter(lambda value: value not in (line[place], 10)))
    changed = [*whole[:number], line[:place] + bytes([new]) + line[place + 1 :], *whole[number + 1 :]]
    assert verified(tmp_path_factory.mktemp("r"), changed, record(whole)).first_bad == bad(number, "altered")


@pytest.mark.clause("CON-11")
@given(number=st.integers(0, LINES - 2))
@settings(max_examples=LINES, deadline=None)
def test_a_dropped_line_is_named(tmp_path_factory: pytest.TempPathFactory, whole: list[bytes], number: int) -> None:
    rest = whole[:number] + whole[number + 1 :]
    assert verified(tmp_path_factory.mktemp("r"), rest, record(whole)).first_bad == bad(number, "dropped")


@pytest.mark.clause("CON-11")
@given(pair=st.tuples(st.integers(0, LINES - 1), st.integers(0, LINES - 1)).filter(lambda p: p[0] < p[1]))
@settings(deadline=None)
def test_reordered_lines_are_named(
    tmp_path_factory: pytest.TempPathFactory, whole: list[bytes], pair: tuple[int, int]
) -> None:
    swapped = list(whole)
    swapped[pair[0]], swapped[pair[1]] = swapped[pair[1]], swapped[pair[0]]
    assert verified(tmp_path_factory.mktemp("r"), swapped, record(whole)).first_bad == bad(pair[0], "reordered")
    moved = list(whole)
    moved.insert(pair[1], moved.pop(pair[0]))
    assert verified(tmp_path_factory.mktemp("r"), moved, record(whole)).first_bad == bad(pair[0], "reordered")


@pytest.mark.clause("CON-11")
def test_a_line_that_is_there_twice_is_out_of_order(tmp_path: Path, whole: list[bytes]) -> None:
    twice = [*whole[:5], whole[2], *whole[5:]]
    assert verified(tmp_path, twice, record(whole)).first_bad == bad(5, "reordered")


@pytest.mark.clause("CON-11")
@pytest.mark.parametrize("kept", range(LINES))
def test_a_cut_tail_shows(tmp_path: Path, whole: list[bytes], kept: int) -> None:
    assert verified(tmp_path / "a", whole[:kept], record(whole)).first_bad == bad(kept, "cut")
    assert verified(tmp_path / "b", whole[:kept], record(whole, log_head=None)).first_bad == bad(kept, "cut")


@pytest.mark.clause("CON-11", "CLI-7")
@pytest.mark.parametrize("lost", [None, b"", b"\0" * 200, b'{"id": "r_', b"[]", b"{}"])
@pytest.mark.parametrize("kept", [LINES, LINES - 1, 1])
def test_without_its_record_a_log_does_not_prove_its_end(
    tmp_path: Path, whole: list[bytes], lost: bytes | None, kept: int
) -> None:
    found = verified(tmp_path, whole[:kept], lost)
    assert found == Verification(ok=False, events=kept, torn=False, first_bad=bad(kept, "cut"))


@pytest.mark.clause("CON-11", "CLI-7")
def test_a_settled_record_says_where_the_log_ended_and_an_active_one_need_not(
    tmp_path: Path, whole: list[bytes]
) -> None:
    for number, head in enumerate((None, {}, {"seq": "x"}, {"seq": -1, "chain": ""})):
        told = verified(tmp_path / str(number), whole, record(whole, log_head=head))
        assert told.first_bad == bad(LINES, "cut")
    killed = json.dumps({"id": RUN, "status": "running"}).encode()
    assert verified(tmp_path / "killed", whole[:5], killed).ok
    assert verified(tmp_path / "killed before the record was patched", whole, killed).ok


@pytest.mark.clause("CON-13", "CON-11", "CLI-7")
@pytest.mark.parametrize(
    "edit",
    [{"status": "failed"}, {"status": "interrupted"}, {"terminal_code": "user_abort"}, {"outcome": "unfinished"}],
)
def test_a_settled_record_that_says_otherwise_than_the_log_shows(
    tmp_path: Path, whole: list[bytes], edit: dict[str, str]
) -> None:
    honest = {"terminal_code": "completed", "outcome": "done"}
    assert verified(tmp_path / "honest", whole, record(whole, **honest)).ok
    found = verified(tmp_path / "edited", whole, record(whole, **{**honest, **edit}))
    assert (found.ok, found.first_bad) == (False, bad(LINES - 1, "altered"))
    shown = read_report(tmp_path / "edited").record
    assert shown is not None
    assert (shown["status"], shown["terminal_code"], shown["outcome"]) == ("completed", "completed", "done")


@pytest.mark.clause("CON-11")
def test_a_chain_computed_anew_is_not_the_one_that_settled(tmp_path: Path, whole: list[bytes]) -> None:
    forged: list[bytes] = []
    previous = RUN
    for number, line in enumerate(whole):
        body = line[: line.rindex(b',"chain":')]
        body = body.replace(b"piece 3", b"piece 8") if number == 5 else body
        previous = hashlib.sha256(previous.encode() + body).hexdigest()
        forged.append(body + b',"chain":"' + previous.encode() + b'"}\n')
    assert chain_holds(b"".join(forged))
    assert verified(tmp_path, forged, record(whole)).first_bad == bad(LINES - 1, "altered")


@pytest.mark.clause("CON-11", "CON-13")
def test_a_line_added_after_the_end_shows(tmp_path: Path, whole: list[bytes]) -> None:
    previous = json.loads(whole[-1])["chain"]
    body = b'{"seq":12,"at":"2026-11-30T12:00:00.000Z","type":"extension.notice","payload":{}'
    chain = hashlib.sha256(previous.encode() + body).hexdigest().encode()
    longer = [*whole, body + b',"chain":"' + chain + b'"}\n']
    assert verified(tmp_path, longer, record(whole)).first_bad == bad(LINES, "altered")


@pytest.mark.clause("CON-11")
def test_another_runs_log_does_not_pass_for_this_one(tmp_path: Path, whole: list[bytes]) -> None:
    assert verified(tmp_path, whole, record(whole, id="r_other")).first_bad == bad(0, "altered")


@pytest.mark.clause("CON-11", "CON-15", "CLI-7")
def test_a_torn_tail_is_torn_never_altered_and_no_fault_of_an_unsettled_run(tmp_path: Path, whole: list[bytes]) -> None:
    torn = [*whole[:-1], whole[-1][:40]]
    unsettled = json.dumps({"id": RUN, "status": "running"}).encode()
    assert verified(tmp_path / "a", torn, unsettled) == Verification(
        ok=True, events=LINES - 1, torn=True, first_bad=None
    )
    assert verified(tmp_path / "b", torn, record(whole)) == Verification(
        ok=False, events=LINES - 1, torn=True, first_bad=bad(LINES - 1, "cut")
    )
    after_end = verified(tmp_path / "c", [*whole, b'{"seq"'], record(whole))
    assert (after_end.ok, after_end.torn, after_end.first_bad) == (False, True, None)


@pytest.mark.clause("CON-11")
def test_an_empty_log_of_a_queued_run_is_sound(tmp_path: Path) -> None:
    queued = json.dumps({"id": RUN, "status": "queued"}).encode()
    assert verified(tmp_path, [], queued) == Verification(ok=True, events=0, torn=False, first_bad=None)


@pytest.mark.clause("CON-11")
def test_what_is_written_after_damage_keeps_the_first_fault(tmp_path: Path, whole: list[bytes]) -> None:
    (tmp_path / "events.jsonl").write_bytes(b"".join(whole[:4]) + b"rubbish\n")
    log = taken_over(tmp_path)
    log.append(delta("later"))
    log.close()
    assert verify_run(tmp_path).first_bad == bad(4, "altered")
