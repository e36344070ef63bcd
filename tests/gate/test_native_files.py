"""Native reads and writes: atomic, revalidated, exact, and never through a link (BND-7, QLT-10)."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gate.kit import FIXTURES, open_descriptors, pinned, resolve, workspace

from drawbar.boundary import swap
from drawbar.boundary.native_files import (
    FileUnreadable,
    StaleFile,
    WriteOutcome,
    WriteRefused,
    read_target,
    write_target,
)
from drawbar.contracts.errors import StorageFailed


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write(root: Path, path: str, data: bytes, expected: bytes | None = None, **how: Any) -> WriteOutcome:
    """Resolve and write in one go; ``expected`` are the bytes that the write is based on."""
    target = resolve(root, path)
    before = open_descriptors()
    try:
        digest = None if expected is None else sha(expected)
        return write_target(target, data, root=pinned(root), expected_sha256=digest, **how)
    finally:
        assert open_descriptors() == before
        target.close()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.clause("BND-7", "QLT-10")
def test_a_read_gives_the_beginning_and_the_digest_of_the_whole(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    data = bytes(range(256)) * 10_000
    (root / "big").write_bytes(data)
    target = resolve(root, "big", "read")
    got = read_target(target, limit=1000)
    assert (got.data, got.sha256, got.size, got.truncated) == (data[:1000], sha(data), len(data), True)
    whole = read_target(target, limit=10**9)
    assert (whole.data, whole.truncated) == (data, False)
    target.close()


@pytest.mark.clause("BND-7")
def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    for path, said in (("nothing", "doesn't exist"), ("d", "is a folder")):
        target = resolve(root, path, "read" if path == "nothing" else "list")
        with pytest.raises(FileUnreadable, match=said):
            read_target(target, limit=10)
        target.close()
    with (root / "huge").open("wb") as file:
        file.truncate(5 << 30)
    target = resolve(root, "huge", "read")
    with pytest.raises(FileUnreadable, match="larger"):
        read_target(target, limit=10)
    target.close()


@pytest.mark.clause("BND-7", "QLT-10")
def test_a_new_file_with_its_folders(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    old = os.umask(0o027)
    try:
        outcome = write(root, "d/e/f/new.txt", b"new\n")
    finally:
        os.umask(old)
    assert outcome == WriteOutcome(None, sha(b"new\n"), "created")
    assert (root / "d/e/f/new.txt").read_bytes() == b"new\n"
    assert stat.S_IMODE((root / "d/e/f/new.txt").stat().st_mode) == 0o640
    assert stat.S_IMODE((root / "d/e").stat().st_mode) == 0o750
    assert names(root / "d/e/f") == ["new.txt"]


@pytest.mark.clause("BND-7", "QLT-10")
@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o4755, 0o666])
def test_a_changed_file_keeps_what_it_was(tmp_path: Path, mode: int) -> None:
    root = workspace(tmp_path)
    path = root / "a.txt"
    path.chmod(mode)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
        path.chmod(mode)
    os.setxattr(path, "user.kind", b"plain")
    outcome = write(root, "a.txt", b"beta\n", b"alpha\n")
    assert outcome == WriteOutcome(sha(b"alpha\n"), sha(b"beta\n"), "modified")
    found = path.stat()
    assert stat.S_IMODE(found.st_mode) == mode & 0o777
    assert os.getxattr(path, "user.kind") == b"plain"
    if os.geteuid() == 0:
        assert (found.st_uid, found.st_gid) == (65534, 65534)
    assert names(root) == ["a.txt", "d"]


@pytest.mark.clause("QLT-10")
def test_equal_bytes_write_nothing(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    before = (root / "a.txt").stat()
    assert write(root, "a.txt", b"alpha\n", b"alpha\n").change == "unchanged"
    after = (root / "a.txt").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.clause("QLT-10", "BND-7")
@pytest.mark.bug("EDT-06")
def test_a_write_from_an_old_read_is_refused_with_what_is_there_now(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    steps = json.loads((FIXTURES / "EDT-06" / "steps.json").read_text())
    original = (FIXTURES / "EDT-06" / "file.txt").read_bytes()
    (root / "file.txt").write_bytes(original)
    target = resolve(root, "file.txt", "read")
    read = read_target(target, limit=10_000)
    target.close()
    with (root / "file.txt").open("ab") as other:
        other.write(b"delta\n")
    with pytest.raises(StaleFile) as caught:
        write(root, "file.txt", steps[2]["content"].encode(), read.data)
    assert caught.value.current == original + b"delta\n"
    assert caught.value.sha256 == sha(original + b"delta\n")
    assert (root / "file.txt").read_bytes() == original + b"delta\n"
    assert names(root) == ["a.txt", "d", "file.txt"]


@pytest.mark.clause("QLT-10")
def test_conflicts_of_every_kind_change_nothing(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    with pytest.raises(StaleFile, match="already exists"):
        write(root, "a.txt", b"x")
    with pytest.raises(StaleFile, match="not there any more") as gone:
        write(root, "new.txt", b"x", b"old")
    assert gone.value.current is None
    with pytest.raises(StaleFile, match="not there any more"):
        write(root, "new.txt", b"x", create=False)
    assert write(root, "a.txt", b"x", overwrite=True).change == "modified"
    assert names(root) == ["a.txt", "d"]


@pytest.mark.clause("QLT-10")
def test_what_takes_the_name_after_the_judgement_is_not_replaced(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    secret = tmp_path / "outside" / "secret.txt"

    def link() -> None:
        (root / "a.txt").symlink_to(secret)

    def folder() -> None:
        (root / "a.txt").mkdir()

    def pipe() -> None:
        os.mkfifo(root / "a.txt")

    def other() -> None:
        (root / "a.txt").write_text("other")

    for replace, kind in ((link, "plain file"), (folder, "plain file"), (pipe, "plain file"), (other, "changed")):
        (root / "a.txt").write_text("alpha\n")
        target = resolve(root, "a.txt")
        (root / "a.txt").unlink()
        replace()
        with pytest.raises(StaleFile, match=kind):
            write_target(target, b"x", root=pinned(root), expected_sha256=sha(b"alpha\n"))
        with pytest.raises(StaleFile):
            write_target(target, b"x", root=pinned(root), expected_sha256=None)
        target.close()
        if (root / "a.txt").is_dir():
            (root / "a.txt").rmdir()
        else:
            (root / "a.txt").unlink()
        assert names(root) == ["d"]
    assert secret.read_text() == "original\n"


@pytest.mark.clause("BND-7", "QLT-11")
def test_a_folder_that_moved_away_is_not_written_into(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    target = resolve(root, "d/new.txt")
    deep = resolve(root, "d/e/new.txt")
    (root / "d").rename(tmp_path / "outside" / "d")
    (root / "d").mkdir()
    for one in (target, deep):
        with pytest.raises(WriteRefused, match="isn't where it was"):
            write_target(one, b"x", root=pinned(root), expected_sha256=None)
        one.close()
    assert names(tmp_path / "outside" / "d") == []
    assert names(root / "d") == []


@pytest.mark.clause("BND-7", "QLT-11")
def test_another_root_is_not_written_into(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    was = pinned(root)
    target = resolve(root, "new.txt")
    root.rename(tmp_path / "moved")
    with pytest.raises(WriteRefused, match="nothing was written"):
        write_target(target, b"x", root=was, expected_sha256=None)
    root.mkdir()
    with pytest.raises(WriteRefused, match="nothing was written"):
        write_target(target, b"x", root=was, expected_sha256=None)
    target.close()
    assert names(root) == []
    assert names(tmp_path / "moved") == ["a.txt", "d"]


@pytest.mark.clause("BND-7")
def test_a_link_that_appears_among_the_missing_folders_is_not_followed(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    target = resolve(root, "d/e/f/new.txt")
    (root / "d" / "e").symlink_to(tmp_path / "outside")
    with pytest.raises(WriteRefused):
        write_target(target, b"x", root=pinned(root), expected_sha256=None)
    target.close()
    assert names(tmp_path / "outside") == ["secret.txt"]


@pytest.mark.clause("BND-7")
@pytest.mark.bug("SBX-01")
def test_a_hard_link_to_a_file_outside_is_broken_never_written_through(tmp_path: Path) -> None:
    subprocess.run(["bash", FIXTURES / "SBX-01" / "make.sh", tmp_path], check=True, stdout=subprocess.DEVNULL)
    root, secret = tmp_path / "ws", tmp_path / "outside" / "secret.txt"
    assert write(root, "alias.txt", b"changed\n", b"original\n").change == "modified"
    assert secret.read_text() == "original\n"
    assert secret.stat().st_nlink == 1
    assert (root / "alias.txt").read_text() == "changed\n"


@pytest.mark.clause("BND-7")
@pytest.mark.bug("SBX-02")
def test_links_wholly_inside_may_be_read_and_edited(tmp_path: Path) -> None:
    subprocess.run(["bash", FIXTURES / "SBX-02" / "make.sh", tmp_path], check=True, stdout=subprocess.DEVNULL)
    root, expect = tmp_path / "ws", json.loads((FIXTURES / "SBX-02" / "expect.json").read_text())
    for path in expect["read_ok"]:
        target = resolve(root, path, "read")
        assert read_target(target, limit=99).data == b"code\n"
        target.close()
    for path in expect["write_ok"]:
        assert write(root, path, b"x", (root / path).read_bytes()).change == "modified"
    assert write(root, "node_modules/a/index.js", b"edited", b"code\n").change == "modified"
    assert (root / "store" / "blob").read_bytes() == b"code\n"


@pytest.mark.clause("BND-7")
def test_a_write_through_a_link_inside_changes_the_file_and_keeps_the_link(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "d" / "link").symlink_to("../a.txt")
    assert write(root, "d/link", b"beta\n", b"alpha\n").change == "modified"
    assert (root / "d" / "link").is_symlink()
    assert (root / "a.txt").read_bytes() == b"beta\n"


@pytest.mark.clause("QLT-10")
def test_where_the_file_system_cannot_exchange_the_rules_hold_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on network file systems without the rename flags: a second look, then an ordinary rename or link."""
    monkeypatch.setattr(swap, "rename_at", lambda *_: False)
    root = workspace(tmp_path)
    assert write(root, "a.txt", b"beta\n", b"alpha\n").change == "modified"
    assert write(root, "new.txt", b"new").change == "created"
    with pytest.raises(StaleFile):
        write(root, "new.txt", b"x")
    assert (root / "new.txt").read_bytes() == b"new"
    assert names(root) == ["a.txt", "d", "new.txt"]


def _full(folder: Path) -> Path:
    """A file system with no room left, or a skip where none can be made."""
    mounted = folder / "full"
    mounted.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", mounted]).returncode:
        pytest.skip("a small file system can't be mounted here")
    return mounted


@pytest.mark.clause("QLT-10", "QLT-6")
def test_a_full_disk_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    mounted = _full(tmp_path)
    try:
        (mounted / "a.txt").write_text("alpha\n")
        with pytest.raises(StorageFailed, match="No space left"):
            write(mounted, "a.txt", b"x" * 200_000, b"alpha\n")
        with pytest.raises(StorageFailed):
            write(mounted, "d/e/new.txt", b"x" * 200_000)
        assert (mounted / "a.txt").read_text() == "alpha\n"
        assert names(mounted) == ["a.txt"]
    finally:
        subprocess.run(["umount", mounted], check=True)


LIMITED = """
import os, resource, signal, sys
from pathlib import Path
from tests.gate.kit import pinned, resolve
from drawbar.boundary.native_files import write_target
from drawbar.contracts.errors import StorageFailed
root = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
target = resolve(root, "a.txt")
try:
    write_target(target, b"x" * 5000, root=pinned(root), expected_sha256=None, overwrite=True)
except StorageFailed as error:
    print("refused", error.code)
"""


@pytest.mark.clause("QLT-10", "QLT-6")
def test_a_quota_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    here = Path(__file__).resolve().parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, root], cwd=here, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "refused storage_failed"
    assert (root / "a.txt").read_text() == "alpha\n"
    assert names(root) == ["a.txt", "d"]


@pytest.mark.clause("BND-7")
def test_a_read_only_folder_refuses_in_words(tmp_path: Path) -> None:
    mounted = _full(tmp_path)
    try:
        (mounted / "a.txt").write_text("alpha\n")
        subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
        with pytest.raises(StorageFailed, match="Read-only"):
            write(mounted, "a.txt", b"x", b"alpha\n")
    finally:
        subprocess.run(["umount", mounted], check=True)


@pytest.mark.clause("QLT-10")
@given(versions=st.lists(st.binary(max_size=200), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_history_of_writes_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, versions: list[bytes]
) -> None:
    root = tmp_path_factory.mktemp("history")
    known: bytes | None = None
    for version in versions:
        outcome = write(root, "file", version, known)
        assert outcome.before == (None if known is None else sha(known))
        assert outcome.after == sha(version)
        assert (root / "file").read_bytes() == version
        assert names(root) == ["file"]
        known = version


@pytest.mark.clause("QLT-10")
def test_memory_does_not_grow_with_what_is_read(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    with (root / "large").open("wb") as file:
        file.truncate(300 << 20)
    target = resolve(root, "large", "read")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert read_target(target, limit=50_000).size == 300 << 20
    target.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
