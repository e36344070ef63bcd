"""A native write replaces the file: none takes over another user's or a write-protected one (QLT-10, BND-7)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from drawbar.boundary.native_files import WriteRefused, write_target
from drawbar.boundary.roots import pin_root
from drawbar.contracts.boundary import PathUse, Target

NOBODY = 65534


@pytest.mark.clause("QLT-10", "BND-7")
@pytest.mark.parametrize(("name", "mode"), [("locked.txt", 0o444), ("bare/config", 0o644)])
def test_what_a_replacement_would_change_but_bytes_is_refused(
    git_repo: Callable[..., Path], name: str, mode: int
) -> None:
    root = git_repo({"locked.txt": "old\n", "bare/config": "old\n", "bare/HEAD": "x\n"})
    for folder in ("objects", "refs"):
        (root / "bare" / folder).mkdir()
    path = root / name
    path.chmod(mode)
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    target = Target(PathUse("path", name, "write"), path, name, os.open(path, os.O_RDONLY), parent, path.name)
    try:
        with pytest.raises(WriteRefused):
            write_target(target, b"new\n", root=pin_root(root, hidden=[]), expected_sha256=None, overwrite=True)
    finally:
        target.close()
    assert path.read_text() == "old\n"
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's file and become somebody else")
@pytest.mark.clause("QLT-10", "BND-7")
def test_another_users_file_is_not_taken_over() -> None:
    """The folder is the person's own, so that the system would let them replace it."""
    with tempfile.TemporaryDirectory(prefix="drawbar-native-", dir="/tmp") as name:
        root = Path(name)
        path = root / "theirs.txt"
        path.write_text("old\n")
        path.chmod(0o666)
        os.chown(root, NOBODY, NOBODY)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            try:
                parent = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
                target = Target(
                    PathUse("path", path.name, "write"), path, path.name, os.open(path, os.O_RDONLY), parent, path.name
                )
                write_target(target, b"new\n", root=pin_root(root, hidden=[]), expected_sha256=None, overwrite=True)
                os.write(writer, b"written")
            except BaseException as error:
                os.write(writer, f"{type(error).__name__}: {error}".encode())
            finally:
                os._exit(0)
        os.close(writer)
        with open(reader) as said:
            assert said.read().startswith("WriteRefused: theirs.txt belongs to another user")
        os.waitpid(child, 0)
        assert path.read_text() == "old\n"
        assert path.stat().st_uid == 0
