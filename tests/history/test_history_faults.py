"""Writers that die, disks that are full: what was acknowledged stays, what failed is seen at once and kept in order."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.history.kit import CLOCK, PiReading, Record, chain, in_child, kill, texts, write

from drawbar.contracts.errors import StorageFailed
from drawbar.stores.history import HistoryFile, fork_history, read_history


def user(text: str) -> Record:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def file_limit(size: int, *, deadly: bool) -> None:
    """Let no file grow over ``size`` bytes: writes there are short, the next ones fail, or kill."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL if deadly else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def append_once(path: Path) -> None:
    with HistoryFile.open(path, clock=CLOCK) as history:
        history.append_message(user("the last words"))


@pytest.mark.slow
@pytest.mark.clause("QLT-6", "QLT-5", "CON-15")
@pytest.mark.bug("SES-01")
def test_a_writer_killed_at_any_byte_of_an_append_costs_only_that_entry(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", chain(4))
    before = path.read_bytes()
    append_once(path)
    length = path.stat().st_size - len(before)
    assert length > 100
    for reached in range(length):
        path.write_bytes(before)
        ended = in_child(lambda: append_once(path), limit=lambda at=reached: file_limit(len(before) + at, deadly=True))
        assert ended == -signal.SIGXFSZ
        torn = path.read_bytes()
        assert (torn[: len(before)], len(torn)) == (before, len(before) + reached), "killed right there"
        whole = reached == length - 1  # only the line end is missing: the entry counts
        view = read_history(path)
        assert len(view.branch) == 4 + whole
        assert [repair.kind for repair in view.repairs] == (["torn"] if reached and not whole else [])
        with HistoryFile.open(path, clock=CLOCK) as history:
            added = history.append_message(user("after the crash"))
        assert path.read_bytes().startswith(torn + (b"\n" if reached else b"")), "the fragment stays where it is"
        assert PiReading(path).branch_ids == read_history(path).branch == [*view.branch, added]


@pytest.mark.clause("QLT-6")
def test_a_failed_append_leaves_the_file_as_it_was_and_is_written_before_the_next(tmp_path: Path) -> None:
    """The limit cuts every append short at another byte; the space comes back for the last one."""
    path = write(tmp_path / "s.jsonl", chain(2))
    before = path.read_bytes()

    def work() -> None:
        history = HistoryFile.open(path, clock=CLOCK)
        for at in range(1, 6):
            with pytest.raises(StorageFailed) as seen:
                history.append_message(user(f"u{at}"))
            assert seen.value.facts["unsaved"] == history.unsaved == at
            assert seen.value.facts["entry"] == history.leaf
            assert path.read_bytes() == before
        assert texts(history.messages())[2:] == ["u1", "u2", "u3", "u4", "u5"], "the conversation has them"
        with pytest.raises(StorageFailed):
            history.sync()
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        history.append_message(user("u6"))
        assert history.unsaved == 0
        history.close()

    for room in (0, 1, 60, 150):
        path.write_bytes(before)
        assert in_child(work, limit=lambda room=room: file_limit(len(before) + room, deadly=False)) == 0
        assert texts(read_history(path).messages())[2:] == [f"u{at}" for at in range(1, 7)]
        assert read_history(path).repairs == []
        assert PiReading(path).branch_ids == read_history(path).branch


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk; the limit on file size stands in for it above")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "drawbar-test", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    return filler


@pytest.mark.clause("QLT-6")
@pytest.mark.bug("SES-22")
def test_a_disk_that_is_full_for_two_turns_is_seen_at_once_and_loses_nothing(small_disk: Path) -> None:
    history = HistoryFile.create(small_disk / "h", cwd="/", clock=CLOCK)
    said = ["before"]
    history.append_message(user("before"))
    on_disk = history.path.read_bytes()
    filler = fill(small_disk)
    for turn in range(2):
        for part in ("question", "answer"):
            with pytest.raises(StorageFailed, match=r"(?s)No space left.*Nothing of it was saved"):
                history.append_message(user(f"{part} {turn} " + "y" * 9000))
            said.append(f"{part} {turn}")
    assert history.unsaved == 4
    with pytest.raises(StorageFailed):
        history.flush()
    assert history.path.read_bytes() == on_disk, "no half line is left"
    with pytest.raises(StorageFailed):
        HistoryFile.create(small_disk / "h2", cwd="/" * 3000, clock=CLOCK)
    assert not list((small_disk / "h2").glob("*")), "a history that can't be made leaves nothing"
    with pytest.raises(StorageFailed):
        fork_history(history.path, small_disk / "h3", clock=CLOCK, cwd="/" * 3000)
    filler.unlink()
    history.append_message(user("after"))
    history.sync()
    history.close()
    assert [text.split(" y")[0] for text in texts(read_history(history.path).messages())] == [*said, "after"]


@pytest.mark.clause("QLT-6", "SES-3")
def test_closing_with_unsaved_entries_says_so_and_still_gives_back_the_lock(small_disk: Path) -> None:
    history = HistoryFile.create(small_disk / "h", cwd="/", clock=CLOCK)
    filler = fill(small_disk)
    with pytest.raises(StorageFailed):
        history.append_message(user("z" * 9000))
    with pytest.raises(StorageFailed):
        history.close()
    filler.unlink()
    HistoryFile.open(history.path, clock=CLOCK).close()


@pytest.mark.clause("QLT-6")
def test_closing_writes_what_the_disk_takes_again(small_disk: Path) -> None:
    history = HistoryFile.create(small_disk / "h", cwd="/", clock=CLOCK)
    filler = fill(small_disk)
    with pytest.raises(StorageFailed):
        history.append_message(user("kept " + "z" * 9000))
    filler.unlink()
    history.close()
    assert [text[:4] for text in texts(read_history(history.path).messages())] == ["kept"]


@pytest.mark.clause("QLT-6", "QLT-5")
def test_kill_9_at_random_instants_never_loses_an_acknowledged_entry(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", [])
    acknowledged: list[str] = []
    for round_ in range(12):
        told, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(told)
            history = HistoryFile.open(path, clock=CLOCK)
            while True:
                os.write(tell, history.append_message(user("x" * (37 * round_))).encode())
        os.close(tell)
        heard = bytearray()
        while len(heard) < 8 * 7 * (1 + round_ % 5):
            heard += os.read(told, 4096)
        assert kill(pid) == -signal.SIGKILL
        while rest := os.read(told, 65536):
            heard += rest
        os.close(told)
        acknowledged += [heard[at : at + 8].decode() for at in range(0, len(heard) - 7, 8)]
        branch = read_history(path).branch
        known = set(branch)
        assert all(entry_id in known for entry_id in acknowledged)
        assert PiReading(path).branch_ids == branch
