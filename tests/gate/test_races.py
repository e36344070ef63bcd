"""Real threads swap what a native write looks at: nothing outside ever changes, and no change is lost (BND-7)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.gate.kit import pinned, resolve, workspace

from drawbar.boundary.native_files import StaleFile, WriteRefused, read_target, write_target
from drawbar.boundary.openat2 import RENAME_EXCHANGE, rename_at
from drawbar.boundary.paths import PathRefused
from drawbar.contracts.errors import DrawbarError

pytestmark = [pytest.mark.slow, pytest.mark.bug("SBX-01", "SBX-10")]

ROUNDS = 4000


@contextlib.contextmanager
def meanwhile(step: Callable[[], None]) -> Iterator[None]:
    """``step`` over and over in another thread."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                step()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def rounds(root: Path, path: str, *expected: str) -> None:
    """Judge and write many times, and on until every expected end was met."""
    ended: dict[str, int] = {}
    here = pinned(root)
    until = time.monotonic() + 60
    number = 0
    while number < ROUNDS or (not set(expected) <= set(ended) and time.monotonic() < until):
        number += 1
        try:
            target = resolve(root, path)
        except PathRefused as error:
            ended[error.code] = ended.get(error.code, 0) + 1
            continue
        try:
            write_target(target, b"%d" % number, root=here, expected_sha256=None, overwrite=True, sync=False)
            what = "written"
        except DrawbarError as error:
            what = error.code
        finally:
            target.close()
        ended[what] = ended.get(what, 0) + 1
    assert set(expected) <= set(ended), "the race never happened"


def outside_is_untouched(tmp_path: Path) -> None:
    assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == ["secret.txt"]
    assert (tmp_path / "outside" / "secret.txt").read_bytes() == b"original\n"


def exchange(folder: Path, first: str, second: str) -> Callable[[], None]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def step() -> None:
        rename_at(fd, first.encode(), second.encode(), RENAME_EXCHANGE)
        time.sleep(0.0001)

    return step


@pytest.mark.clause("BND-7", "QLT-10")
def test_a_folder_that_turns_into_a_link_out(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "link").symlink_to(tmp_path / "outside")
    with meanwhile(exchange(root, "d", "link")):
        rounds(root, "d/secret.txt", "written", "outside_workspace")
    outside_is_untouched(tmp_path)


@pytest.mark.clause("BND-7", "QLT-10")
def test_a_folder_that_turns_into_a_link_out_below_missing_folders(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "link").symlink_to(tmp_path / "outside")
    with meanwhile(exchange(root, "d", "link")):
        rounds(root, "d/new/deeper/secret.txt", "written")
    outside_is_untouched(tmp_path)


@pytest.mark.clause("BND-7", "QLT-10")
def test_a_file_that_turns_into_a_link_out(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "link").symlink_to(tmp_path / "outside" / "secret.txt")
    with meanwhile(exchange(root, "a.txt", "link")):
        rounds(root, "a.txt", "written")
    outside_is_untouched(tmp_path)
    assert [path for path in root.iterdir() if path.is_symlink()], "the link was neither followed nor lost"


@pytest.mark.clause("BND-7", "QLT-10")
def test_a_file_that_turns_into_a_hard_link_of_one_outside(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    os.link(tmp_path / "outside" / "secret.txt", root / "alias")
    with meanwhile(exchange(root, "a.txt", "alias")):
        rounds(root, "a.txt", "written")
    outside_is_untouched(tmp_path)


@pytest.mark.clause("BND-7", "QLT-10")
def test_a_file_that_turns_into_a_folder(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "folder").mkdir()
    (root / "folder" / "kept.txt").write_text("kept")
    with meanwhile(exchange(root, "a.txt", "folder")):
        rounds(root, "a.txt", "written")
    folders = [path for path in root.iterdir() if path.is_dir() and path.name != "d"]
    assert [(path / "kept.txt").read_text() for path in folders] == ["kept"]


@pytest.mark.clause("QLT-10")
@pytest.mark.bug("EDT-06")
def test_two_writers_never_lose_each_others_change(tmp_path: Path) -> None:
    """A counter that many raise by compare-and-swap ends at the number of raises that were said to be done."""
    root = workspace(tmp_path)
    (root / "count").write_bytes(b"0")
    done: list[int] = []
    here = pinned(root)

    def raise_it(times: int) -> None:
        mine = 0
        while mine < times:
            target = resolve(root, "count")
            try:
                now = read_target(target, limit=100)
                write_target(target, b"%d" % (int(now.data) + 1), root=here, expected_sha256=now.sha256, sync=False)
                mine += 1
            except (StaleFile, WriteRefused):
                continue
            finally:
                target.close()
        done.append(mine)

    threads = [threading.Thread(target=raise_it, args=(60,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int((root / "count").read_bytes()) == sum(done) == 240
    assert sorted(path.name for path in root.iterdir()) == ["a.txt", "count", "d"]


@pytest.mark.clause("QLT-10")
@pytest.mark.bug("EDT-06")
def test_a_stranger_who_replaces_the_file_is_never_overwritten_unseen(tmp_path: Path) -> None:
    """Whatever another program put there we have seen, or it is there still, or that program replaced it itself."""
    root = workspace(tmp_path)
    path = root / "a.txt"
    path.write_bytes(b"s0")
    put: list[bytes] = [b"s0"]
    here = pinned(root)
    stop = threading.Event()

    def stranger() -> None:
        while not stop.is_set():
            aside = root / "aside"
            aside.write_bytes(b"s%d" % len(put))
            aside.rename(path)
            put.append(b"s%d" % len(put))
            time.sleep(0.0005)

    seen: set[bytes] = set()
    kept: set[str] = set()
    thread = threading.Thread(target=stranger)
    thread.start()
    try:
        for number in range(2000):
            if number == 1900:
                stop.set()
                thread.join()
                last = put[-1]
                assert last in seen or path.read_bytes() == last, "the last one to write was overwritten unseen"
            target = resolve(root, "a.txt")
            current = os.pread(target.fd or -1, 100, 0)
            seen.add(current)
            try:
                digest = hashlib.sha256(current).hexdigest()
                write_target(target, b"m%d" % number, root=here, expected_sha256=digest, sync=False)
            except StaleFile as error:
                kept.update([error.kept] if error.kept else [])
            finally:
                target.close()
    finally:
        stop.set()
        thread.join()
    left = {name for name in os.listdir(root) if name.startswith(".drawbar")}
    assert left == kept, "bytes that could not be put back are kept and named, nothing else is left behind"


@pytest.mark.clause("QLT-10")
def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    path = root / "a.txt"
    path.write_bytes(b"0" * 50_000)
    here = pinned(root)
    bad: list[bytes] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            data = path.read_bytes()
            if len(data) != 50_000 or len(set(data)) != 1:
                bad.append(data[:20])

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(300):
        target = resolve(root, "a.txt")
        data = b"%d" % (number % 10) * 50_000
        write_target(target, data, root=here, expected_sha256=None, overwrite=True, sync=False)
        target.close()
    stop.set()
    reader.join()
    assert not bad
