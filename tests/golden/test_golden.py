"""Files of every released format are read for ever, and today's writer still writes the same bytes (CON-8, CON-11)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.golden import samples
from tests.golden.write import TickingClock, write_all

from drawbar.contracts.codec import UNSET, decode
from drawbar.contracts.events import PAYLOADS
from drawbar.contracts.events.progress import todo_of
from drawbar.contracts.methods import FirstBad
from drawbar.contracts.run import LogHead, RunRecord
from drawbar.stores.event_log import EventLog
from drawbar.stores.event_reader import read_events, read_report
from drawbar.stores.layout import Layout
from drawbar.stores.owner import read_owner
from drawbar.stores.redaction import SecretRedactor
from drawbar.stores.runs import RunStore
from drawbar.stores.verify import verify_run

HERE = Path(__file__).parent
RELEASED = sorted(folder for folder in HERE.glob("v*") if folder.is_dir())
TODAY = HERE / "v1"
"""The format that this release writes."""

every_release = pytest.mark.parametrize("folder", RELEASED, ids=lambda folder: folder.name)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.clause("CON-8", "CON-9", "CON-11", "CON-1")
def test_todays_writer_writes_the_same_bytes(tmp_path: Path) -> None:
    write_all(tmp_path / "now")
    written, kept = files_of(tmp_path / "now"), files_of(TODAY)
    assert set(written) == set(kept)
    for name, data in written.items():
        assert data.decode().splitlines() == kept[name].decode().splitlines(), name
        assert data == kept[name]


@pytest.mark.clause("CON-9", "CON-1")
def test_the_samples_hold_every_event_type_and_every_field() -> None:
    payloads = [*samples.EVENTS, samples.END_FAILED, samples.END_INTERRUPTED]
    assert {type(payload) for payload in payloads} == set(PAYLOADS.values())
    record = samples.record(LogHead(seq=0, chain=""))
    assert all(getattr(record, name) not in (None, UNSET) for name in RunRecord.__struct_fields__)


@pytest.mark.clause("CON-8", "CON-11", "CON-9", "CON-21")
@every_release
def test_a_released_log_is_read_and_verified(folder: Path) -> None:
    assert verify_run(folder).ok
    report = read_report(folder)
    assert (report.skipped, report.first_bad) == ([], None)
    assert [item.text for item in report.todo] == ["read", "fix"]
    events = list(read_events(folder / "events.jsonl"))
    typed = [decode(bytes(event.payload), PAYLOADS[event.type], what=event.type) for event in events]
    assert [type(payload) for payload in typed] == [type(payload) for payload in samples.EVENTS]
    same = [(a, b) for a, b in zip(typed, samples.EVENTS, strict=True) if a.event != "status.changed"]
    assert [a for a, _ in same] == [b for _, b in same]
    assert [item.text for item in todo_of(events)] == ["read", "fix"]


@pytest.mark.clause("CON-8", "CON-39", "CON-13")
@every_release
def test_a_released_end_is_read(folder: Path, tmp_path: Path) -> None:
    ends = {"failed": ("failed", "provider_error"), "interrupted": ("interrupted", "user_abort")}
    for name, expected in ends.items():
        kept = verify_run(folder / name)
        assert kept.first_bad == FirstBad(seq=kept.events, line=kept.events + 1, cause="cut"), "every line is sound"
        shutil.copytree(folder / name, tmp_path / name)
        log = EventLog.take_over(tmp_path / name, samples.RUN, redactor=SecretRedactor(), clock=TickingClock())
        assert log.sealed
        assert log.end is not None
        assert (log.end.status, log.end.code) == expected
        log.close()


@pytest.mark.clause("CON-8", "CON-37", "CON-27")
@every_release
def test_a_released_run_is_a_run_of_this_release(folder: Path, tmp_path: Path) -> None:
    layout = Layout.resolve({}, tmp_path / "root")
    layout.open()
    shutil.copytree(folder, layout.runs / samples.RUN)
    store = RunStore(layout, redactor=SecretRedactor(), clock=TickingClock())
    record = store.load(samples.RUN)
    assert record.log_head is not None
    assert record == samples.record(record.log_head)
    assert store.capabilities(samples.RUN) == samples.CAPABILITIES
    assert record.capabilities_digest == samples.CAPABILITIES.digest()
    assert store.owner(samples.RUN) == samples.OWNER == read_owner(folder)
    assert store.patch(samples.RUN, {"title": "changed"}).title == "changed"
    assert verify_run(layout.runs / samples.RUN).ok
