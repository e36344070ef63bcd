"""Disks that refuse, processes that die: an append is whole or not there, and said to be so (QLT-6, CON-15)."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.stores.support import (
    answer_of,
    chain_holds,
    delta,
    fill,
    lines_of,
    new_log,
    python,
    small_disk,
    taken_over,
    write_run,
)

from drawbar.contracts.errors import SessionBusy, StorageFailed
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.human import ApprovalResolved
from drawbar.contracts.events.lifecycle import Completed, Failed, StatusChanged
from drawbar.stores.event_reader import read_events
from drawbar.stores.verify import verify_run

ANSWER = ApprovalResolved(approval_id="a_1", decision="once", by="person")


class Disk:
    """``os.fdatasync`` of a disk that may refuse."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refuses = False
        self.delay_s = 0.0
        self._real = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self)

    def __call__(self, fd: int) -> None:
        time.sleep(self.delay_s)
        if self.refuses:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._real(fd)


# -- a full disk ----------------------------------------------------------------------------------------


@pytest.mark.clause("QLT-6", "CON-12")
@pytest.mark.bug("SES-22")
def test_a_full_disk_is_seen_at_once_for_two_turns_and_all_is_written_in_order_after(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 512) as disk:
        relayed: list[bytes] = []
        told: list[StorageFailed] = []
        log = new_log(disk / "run", relay=relayed.extend)
        log.append(StatusChanged(to="running"))
        free = fill(disk)
        waiting: list[Payload] = []
        for turn in range(2):
            for number in range(20):
                payload = delta(f"turn {turn} piece {number} " + "x" * 1500)
                if waiting:  # what is older goes first
                    waiting.append(payload)
                    continue
                try:
                    log.append(payload)
                except StorageFailed as error:
                    waiting.append(payload)
                    told.append(error)
            with pytest.raises(StorageFailed, match="No space left"):
                log.append(waiting[0])
            assert verify_run(disk / "run").ok, "what is there is whole, without a torn end"
            assert not verify_run(disk / "run").torn
        assert [error.code for error in told] == ["storage_failed"], "the first refused write is told at once"
        free()
        for payload in waiting:
            log.append(payload)
        log.append(Completed(outcome="done"))
        log.close()
        data = log.path.read_bytes()
        assert chain_holds(data)
        assert b"".join(relayed) == data
        texts = [line["payload"]["text"].split(" x")[0] for line in lines_of(disk / "run") if "text" in line["payload"]]
        assert texts == [f"turn {turn} piece {number}" for turn in range(2) for number in range(20)]


@pytest.mark.clause("QLT-6")
def test_a_run_can_not_settle_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256) as disk:
        log = new_log(disk / "run")
        log.append(StatusChanged(to="running"))
        free = fill(disk)
        end = Failed(error="provider_error", reason="x" * 5000)  # more than the last page can have room for
        for _ in range(3):
            with pytest.raises(StorageFailed):
                log.append(end)
            assert not log.sealed
            assert log.status == "running"
        free()
        log.append(end)
        assert log.sealed
        log.close()
        assert verify_run(disk / "run").ok


@pytest.mark.clause("QLT-6", "CON-15")
def test_a_half_written_line_is_taken_back(tmp_path: Path) -> None:
    """A file-size limit lets the kernel write a part of the line before it refuses the rest."""
    code = """
        import pathlib, resource, sys
        from drawbar.contracts.errors import StorageFailed
        from drawbar.contracts.events.lifecycle import StatusChanged
        from tests.stores.support import delta, new_log
        folder = pathlib.Path(sys.argv[1])
        log = new_log(folder)
        log.append(StatusChanged(to="running"))
        size = log.path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
        for _ in range(3):
            try:
                log.append(delta("x" * 500))
                print("written")
            except StorageFailed as error:
                print("refused", log.path.stat().st_size - size, error.facts["errno"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        log.append(delta("afterwards"))
        log.close()
    """
    out = answer_of(python(code, str(tmp_path / "run")))
    assert out.splitlines() == [f"refused 0 {errno.EFBIG}"] * 3
    assert chain_holds((tmp_path / "run" / "events.jsonl").read_bytes())
    assert lines_of(tmp_path / "run")[-1]["payload"]["text"] == "afterwards"


@pytest.mark.clause("QLT-6", "CON-13")
def test_late_evidence_that_can_not_be_kept_is_told(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 128) as disk:
        log = new_log(disk / "run")
        log.append(StatusChanged(to="interrupted", code="user_abort"))
        free = fill(disk)
        with pytest.raises(StorageFailed):
            log.append(delta("x" * 400_000))
        free()
        assert log.append(delta("fits again")) == b""
        log.close()


@pytest.mark.clause("QLT-6", "CON-15")
def test_a_fragment_is_not_cut_before_it_is_kept(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256) as disk:
        whole = write_run(disk / "run", deltas=2)
        with (disk / "run" / "events.jsonl").open("ab") as file:
            file.write(b"{" * 9000)
        free = fill(disk)
        with pytest.raises(StorageFailed):
            taken_over(disk / "run")
        assert (disk / "run" / "events.jsonl").read_bytes() == whole + b"{" * 9000
        free()
        taken_over(disk / "run").close()
        assert (disk / "run" / "artifacts" / f"torn-{len(whole)}.bin").read_bytes() == b"{" * 9000
        assert verify_run(disk / "run").ok


@pytest.mark.clause("QLT-6", "CON-11")
def test_an_interrupt_in_the_middle_of_an_append_leaves_a_sound_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second Ctrl-C can end an append right after the bytes went out and before anybody counted them."""
    log = new_log(tmp_path)
    log.append(StatusChanged(to="running"))
    real = os.write

    def write(fd: int, data: bytes) -> int:
        real(fd, data)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(KeyboardInterrupt):
        log.append(delta("uncounted"))
    monkeypatch.undo()
    log.append(delta("counted"))
    log.close()
    assert chain_holds(log.path.read_bytes())
    assert [line["payload"].get("text") for line in lines_of(tmp_path)][2:] == ["counted"]


# -- a sync that fails ----------------------------------------------------------------------------------


@pytest.mark.clause("CON-14", "QLT-6")
def test_a_terminal_line_whose_sync_fails_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    relayed: list[bytes] = []
    log = new_log(tmp_path, relay=relayed.extend)
    log.append(StatusChanged(to="running"))
    before = log.path.read_bytes()
    disk.refuses = True
    with pytest.raises(StorageFailed):
        log.append(Completed())
    assert log.path.read_bytes() == before == b"".join(relayed)
    assert (log.sealed, log.status) == (False, "running")
    disk.refuses = False
    log.append(Completed())
    log.close()
    assert log.path.read_bytes() == b"".join(relayed)
    assert chain_holds(b"".join(relayed))


@pytest.mark.clause("CON-14", "QLT-6")
async def test_the_same_for_a_durable_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    relayed: list[bytes] = []
    log = new_log(tmp_path, relay=relayed.extend)
    log.append(StatusChanged(to="running"))
    await asyncio.sleep(0)
    before = log.path.read_bytes()
    disk.refuses = True
    for _ in range(3):
        with pytest.raises(StorageFailed):
            await log.append_durable(Completed())
    await asyncio.sleep(0.01)
    assert log.path.read_bytes() == before == b"".join(relayed)
    assert not log.sealed
    disk.refuses = False
    await log.append_durable(Completed())
    log.close()
    assert log.path.read_bytes() == b"".join(relayed)
    assert chain_holds(b"".join(relayed))


@pytest.mark.clause("CON-14", "CON-12", "QLT-6")
async def test_a_failed_sync_with_lines_after_it_blocks_until_all_of_them_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    relayed: list[bytes] = []
    log = new_log(tmp_path, relay=relayed.extend)
    log.append(StatusChanged(to="running"))
    await asyncio.sleep(0)
    told = len(relayed)
    disk.refuses, disk.delay_s = True, 0.05
    first = asyncio.create_task(log.append_durable(ANSWER))
    await asyncio.sleep(0.01)
    follower = log.append(delta("follows"))
    with pytest.raises(StorageFailed):
        await first
    await asyncio.sleep(0.01)
    assert len(relayed) == told, "neither line is relayed before the disk has it"
    with pytest.raises(StorageFailed):
        log.append(delta("later"))
    disk.refuses = False
    again = await log.append_durable(ANSWER)
    log.append(delta("later"))
    await asyncio.sleep(0.01)
    log.close()
    data = log.path.read_bytes()
    assert b"".join(relayed) == data
    assert chain_holds(data)
    assert data.count(b"approval.resolved") == 1, "the answer that was tried again is the one that was written"
    assert data.index(again) < data.index(follower)


@pytest.mark.clause("CON-14", "QLT-6")
async def test_another_event_after_a_failed_sync_brings_the_old_ones_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    relayed: list[bytes] = []
    log = new_log(tmp_path, relay=relayed.extend)
    log.append(StatusChanged(to="running"))
    disk.refuses, disk.delay_s = True, 0.05
    first = asyncio.create_task(log.append_durable(ANSWER))
    await asyncio.sleep(0.01)
    log.append(delta("follows"))
    with pytest.raises(StorageFailed):
        await first
    disk.refuses = False
    log.append(delta("later"))
    log.close()
    assert b"".join(relayed) == log.path.read_bytes()
    assert [line["type"] for line in lines_of(tmp_path)[2:]] == ["approval.resolved", "message.delta", "message.delta"]


# -- kill -9 --------------------------------------------------------------------------------------------

WRITER = """
    import itertools, pathlib, sys
    from drawbar.contracts.events.lifecycle import StatusChanged
    from tests.stores.support import delta, new_log, taken_over
    folder = pathlib.Path(sys.argv[1])
    log = taken_over(folder) if (folder / "events.jsonl").exists() else new_log(folder)
    if log.status == "queued":
        log.append(StatusChanged(to="running"))
    for number in itertools.count():
        line = log.append(delta("é" * (number * 37 % 6000)))
        sys.stdout.write(line.decode()[-67:-3] + "\\n")  # the chain: this event was told to somebody
        sys.stdout.flush()
"""


@pytest.mark.clause("QLT-6", "CON-12", "CON-27", "RUN-13")
@pytest.mark.slow
def test_kill_9_at_random_instants_loses_nothing_that_was_told(tmp_path: Path) -> None:
    rng = random.Random(20261130)
    told: set[str] = set()
    for _ in range(12):
        process = python(WRITER, str(tmp_path / "run"))
        assert process.stdout is not None
        told.add(process.stdout.readline().strip())
        time.sleep(rng.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        out, _ = process.communicate()
        told |= set(out.split("\n")[1:-1])  # the first and the last may be parts of a line
        verification = verify_run(tmp_path / "run")
        assert verification.ok
    data = (tmp_path / "run" / "events.jsonl").read_bytes()
    on_disk = {line["chain"] for line in lines_of(tmp_path / "run")}
    assert len(told) > 100
    assert told <= on_disk
    assert chain_holds(data)


@pytest.mark.clause("CON-27", "QLT-6")
@pytest.mark.bug("STL-04")
def test_the_lock_of_a_killed_writer_is_free_at_once(tmp_path: Path) -> None:
    process = python(WRITER, str(tmp_path / "run"))
    assert process.stdout is not None
    process.stdout.readline()
    with pytest.raises(SessionBusy):
        taken_over(tmp_path / "run")
    process.kill()
    process.communicate()
    log = taken_over(tmp_path / "run")
    log.append(delta("mine"))
    log.close()
    assert verify_run(tmp_path / "run").ok


@pytest.mark.clause("CON-27")
def test_no_child_inherits_the_lock(tmp_path: Path) -> None:
    """Neither a program that is started nor a bare fork keeps a run owned after its owner died."""
    code = """
        import os, pathlib, subprocess, sys, time
        from tests.stores.support import delta, new_log
        log = new_log(pathlib.Path(sys.argv[1]))
        started = subprocess.Popen(["sleep", "60"], close_fds=False, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        forked = os.fork()
        if not forked:
            for fd in (0, 1, 2):
                os.close(fd)
            time.sleep(60)
            os._exit(0)
        log.append(delta("mine"))
        print(started.pid, forked, flush=True)
        os.kill(os.getpid(), 9)
    """
    process = python(code, str(tmp_path / "run"))
    out, _ = process.communicate()
    children = [int(pid) for pid in out.split()]
    try:
        assert len(children) == 2
        for pid in children:
            os.kill(pid, 0)
        taken_over(tmp_path / "run").close()
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.clause("CON-27")
def test_a_forked_child_can_not_write_the_log(tmp_path: Path) -> None:
    code = """
        import os, pathlib, sys
        from tests.stores.support import delta, new_log
        log = new_log(pathlib.Path(sys.argv[1]))
        log.append(delta("mine"))
        size = log.path.stat().st_size
        if not os.fork():
            log.append(delta("the child's"))
            os._exit(0)
        os.wait()
        log.append(delta("still mine"))
        log.close()
    """
    answer_of(python(code, str(tmp_path / "run")))
    data = (tmp_path / "run" / "events.jsonl").read_bytes()
    assert chain_holds(data)
    assert b"child" not in data
    assert "child" in (tmp_path / "run" / "late.jsonl").read_text()


@pytest.mark.clause("CON-28", "CON-12")
def test_another_process_reads_whole_lines_while_one_writes(tmp_path: Path) -> None:
    process = python(WRITER, str(tmp_path / "run"))
    assert process.stdout is not None
    process.stdout.readline()
    seen = 0
    for _ in range(60):
        events = list(read_events(tmp_path / "run" / "events.jsonl"))
        assert [event.seq for event in events] == list(range(len(events)))
        assert len(events) >= seen
        seen = len(events)
    process.kill()
    process.communicate()
    assert seen > 2
