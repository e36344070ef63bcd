"""What lies where a run's file should be is refused by name, at once, whatever it is (QLT-5)."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.stores.support import HeldClock, PlainRedactor, delta

from drawbar.contracts.capability import CapabilitySet
from drawbar.contracts.errors import DrawbarError, InvalidInput, StorageFailed
from drawbar.contracts.events.lifecycle import Started
from drawbar.contracts.ids import new_id
from drawbar.contracts.methods import ListRuns
from drawbar.contracts.run import RunRecord
from drawbar.stores.event_log import EventLog
from drawbar.stores.event_reader import read_events, read_report
from drawbar.stores.layout import Layout
from drawbar.stores.runs import RunStore
from drawbar.stores.verify import verify_run

LIMIT_S = 20.0


def put_socket(path: Path) -> None:
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(path.parent)  # a socket's path may only be short
        try:
            listener.bind(path.name)
        finally:
            os.chdir(here)


PUT: dict[str, tuple[Callable[[Path], Any], str]] = {
    "pipe": (os.mkfifo, "named pipe"),
    "endless device": (lambda path: path.symlink_to("/dev/zero"), "device"),
    "terminal": (lambda path: path.symlink_to("/dev/tty"), ""),
    "folder": (Path.mkdir, "folder"),
    "socket": (put_socket, ""),
    "link to itself": (lambda path: path.symlink_to(path.name), ""),
}


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    layout = Layout.resolve({}, tmp_path / "root")
    layout.open()
    return RunStore(layout, redactor=PlainRedactor(), clock=HeldClock())


def left_run(store: RunStore) -> Path:
    record = RunRecord(id=new_id("run"))
    log = store.create(record, CapabilitySet())
    log.append(Started(run_id=record.id))
    log.append(delta("x"))
    log.close()
    return store.folder(record.id)


def within_limit(work: Callable[[], Any]) -> Any:
    """What ``work`` returns or raises; a hang fails the test and is left behind in its thread."""
    answer: list[Any] = []

    def run() -> None:
        try:
            answer.append(work())
        except DrawbarError as error:
            answer.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert answer, "it hangs, or ends in an error of no kind"
    return answer[0]


@pytest.mark.clause("QLT-5", "CLI-7")
@pytest.mark.parametrize("name", ["events.jsonl", "run.json"])
@pytest.mark.parametrize("kind", PUT)
def test_no_reader_waits_for_what_is_no_file(store: RunStore, name: str, kind: str) -> None:
    folder = left_run(store)
    put, called = PUT[kind]
    (folder / name).unlink()
    put(folder / name)
    readers: list[Callable[[], Any]] = [lambda: verify_run(folder), lambda: read_report(folder)]
    if name == "events.jsonl":
        readers.append(lambda: list(read_events(folder / name)))
        readers.append(lambda: EventLog.take_over(folder, folder.name, redactor=PlainRedactor(), clock=HeldClock()))
    else:
        readers.append(lambda: store.load(folder.name))
        readers.append(lambda: store.patch(folder.name, {"title": "x"}))
    for reader in readers:
        refused = within_limit(reader)
        assert isinstance(refused, (InvalidInput, StorageFailed)), refused
        assert str(folder / name) in refused.message
        assert called in refused.message or isinstance(refused, StorageFailed)


@pytest.mark.clause("QLT-5", "CON-29")
@pytest.mark.parametrize("name", ["events.jsonl", "run.json", "owner.json"])
@pytest.mark.parametrize("kind", PUT)
def test_one_such_run_hides_no_other(store: RunStore, name: str, kind: str) -> None:
    other = left_run(store).name
    folder = left_run(store)
    listed = {record.id for record in store.list(ListRuns()).runs}
    assert listed == {other, folder.name}
    kept = (folder / name).read_bytes()
    (folder / name).unlink()
    PUT[kind][0](folder / name)
    seen = within_limit(lambda: {record.id for record in store.list(ListRuns()).runs})
    assert seen == ({other} if name == "run.json" else listed)
    assert within_limit(lambda: store.owner_alive(folder.name)) in (True, False)
    assert within_limit(store.reindex).runs == len(seen)
    shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()
    (folder / name).write_bytes(kept)
    assert {record.id for record in store.list(ListRuns()).runs} == listed, "mended, it is there again"


@pytest.mark.clause("QLT-5", "CON-15")
@pytest.mark.parametrize("kind", PUT)
def test_an_artifact_that_is_no_file_leaves_its_reference(store: RunStore, kind: str) -> None:
    folder = left_run(store)
    log = EventLog.take_over(folder, folder.name, redactor=PlainRedactor(), clock=HeldClock(), max_line=1000)
    log.append(delta("y" * 5000))
    log.close()
    (artifact,) = (folder / "artifacts").iterdir()
    artifact.unlink()
    PUT[kind][0](artifact)
    last = within_limit(lambda: list(read_events(folder / "events.jsonl")))[-1]
    assert b"payload_artifact" in bytes(last.payload)
    assert within_limit(lambda: verify_run(folder)).first_bad.cause == "altered"


@pytest.mark.clause("QLT-5", "RUN-5")
@pytest.mark.parametrize("kind", PUT)
def test_capabilities_that_are_no_file_are_an_error(store: RunStore, kind: str) -> None:
    folder = left_run(store)
    (folder / "capabilities.json").unlink()
    PUT[kind][0](folder / "capabilities.json")
    assert isinstance(within_limit(lambda: store.capabilities(folder.name)), StorageFailed)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything, so it becomes somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.clause("QLT-5", "CLI-7")
@pytest.mark.parametrize("name", ["events.jsonl", "run.json", "."])
def test_what_may_not_be_read_is_named(name: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        root = Path(made) / "run"
        root.mkdir()
        for file in ("events.jsonl", "run.json"):
            (root / file).write_text("{}\n")
        for path in (Path(made), root):
            path.chmod(0o755)
        (root / name).chmod(0)
        with pytest.raises(InvalidInput, match="Permission denied") as refused, as_nobody():
            verify_run(root)
        assert str(root) in refused.value.message
        with pytest.raises(InvalidInput, match="Permission denied"), as_nobody():
            read_report(root)
        (root / name).chmod(0o755)
