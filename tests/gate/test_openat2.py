"""Opening beneath a folder: the kernel's way and the walk agree, and neither ever leaves it (BND-7)."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawbar.boundary.openat2 import (
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    have_openat2,
    open_beneath,
    path_of_fd,
    rename_at,
    reopen,
    walk_beneath,
)

NAMES = ["f", "d", "e", "in", "up", "abs", "out", "loop", "gone", "deep", "dot", "slash", "nothing", ".", "..", ""]


def tree(folder: Path) -> Path:
    root = folder / "root"
    (root / "d" / "e").mkdir(parents=True)
    (folder / "outside").mkdir(exist_ok=True)
    (folder / "outside" / "f").write_text("outside")
    for place in (root, root / "d", root / "d" / "e"):
        (place / "f").write_text("inside")
        for name, to in {
            "in": "d", "up": "../d", "abs": str(root / "d"), "out": str(folder / "outside"), "loop": "loop",
            "gone": "nowhere", "deep": "d/e/../e", "dot": ".", "slash": "f/",
        }.items():  # fmt: skip
            (place / name).symlink_to(to)
    return root


def opened(how: object, root_fd: int, path: bytes, flags: int, links: bool) -> tuple[str, object]:
    try:
        fd = how(root_fd, path, flags, links=links)  # type: ignore[operator]
    except OSError as error:
        return "error", error.errno
    try:
        return "opened", path_of_fd(fd)
    finally:
        os.close(fd)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tree(tmp_path_factory.mktemp("beneath"))


FLAGS = [
    os.O_PATH,
    os.O_RDONLY,
    os.O_RDONLY | os.O_DIRECTORY,
    os.O_PATH | os.O_NOFOLLOW,
    os.O_RDONLY | os.O_NOFOLLOW,
]


@pytest.mark.clause("BND-7")
@given(
    parts=st.lists(st.sampled_from(NAMES), min_size=1, max_size=6),
    start=st.sampled_from(["", "/"]),
    flags=st.sampled_from(FLAGS),
    links=st.booleans(),
)
@settings(max_examples=1500, deadline=None)
def test_the_walk_says_what_the_kernel_says(root: Path, parts: list[str], start: str, flags: int, links: bool) -> None:
    if not have_openat2():
        pytest.skip("this kernel has no openat2, so there is nothing to compare with")
    path = os.fsencode(start + "/".join(parts))
    root_fd = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        by_kernel = opened(open_beneath, root_fd, path, flags, links)
        by_walk = opened(walk_beneath, root_fd, path, flags, links)
        for outcome, where in (by_kernel, by_walk):
            assert outcome == "error" or Path(str(where)).is_relative_to(root)
        assert by_walk[0] == by_kernel[0]
        if by_kernel[0] == "opened":
            assert by_walk == by_kernel
        else:
            # Both refuse; where several reasons hold at once the first that each meets may differ.
            assert {by_walk[1], by_kernel[1]} <= {by_kernel[1], errno.ELOOP, errno.EXDEV, errno.ENOENT, errno.ENOTDIR}
    finally:
        os.close(root_fd)


@pytest.mark.clause("BND-7")
@pytest.mark.parametrize("how", [open_beneath, walk_beneath])
def test_the_reasons(root: Path, how: object) -> None:
    root_fd = os.open(root, os.O_PATH | os.O_DIRECTORY)
    for path, reason in {
        b"out/f": errno.EXDEV,
        b"..": errno.EXDEV,
        b"d/../../outside/f": errno.EXDEV,
        b"/etc/hostname": errno.EXDEV,
        b"abs": errno.EXDEV,
        b"loop": errno.ELOOP,
        b"gone": errno.ENOENT,
        b"f/x": errno.ENOTDIR,
        b"nothing": errno.ENOENT,
    }.items():
        assert opened(how, root_fd, path, os.O_RDONLY, True) == ("error", reason), path
    assert opened(how, root_fd, b"in/f", os.O_RDONLY, False) == ("error", errno.ELOOP)
    assert opened(how, root_fd, b"deep/../f", os.O_RDONLY, True) == ("opened", str(root / "d" / "f"))
    os.close(root_fd)


@pytest.mark.clause("BND-7")
@pytest.mark.slow
@pytest.mark.parametrize("how", [open_beneath, walk_beneath])
def test_a_racing_swap_never_leads_outside(tmp_path: Path, how: object) -> None:
    root = tree(tmp_path)
    (root / "real").mkdir()
    (root / "real" / "f").write_text("inside")
    (root / "link").symlink_to(tmp_path / "outside")
    root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            rename_at(root_fd, b"real", b"link", RENAME_EXCHANGE)

    swapping = threading.Thread(target=swap)
    swapping.start()
    ended = {"inside": 0, "refused": 0}
    until = time.monotonic() + 30
    try:
        while sum(ended.values()) < 6000 or (not all(ended.values()) and time.monotonic() < until):
            try:
                fd = how(root_fd, b"real/f", os.O_RDONLY)  # type: ignore[operator]
            except OSError:
                ended["refused"] += 1
                continue
            assert os.read(fd, 99) == b"inside"
            ended["inside"] += 1
            os.close(fd)
    finally:
        stop.set()
        swapping.join()
        os.close(root_fd)
    assert all(ended.values()), "the race never happened"


@pytest.mark.clause("BND-7")
def test_renames_that_swap_and_that_never_replace(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    fd = os.open(tmp_path, os.O_RDONLY)
    assert rename_at(fd, b"a", b"b", RENAME_EXCHANGE)
    assert (tmp_path / "a").read_text() == "b"
    with pytest.raises(FileExistsError):
        rename_at(fd, b"a", b"b", RENAME_NOREPLACE)
    with pytest.raises(FileNotFoundError):
        rename_at(fd, b"a", b"c", RENAME_EXCHANGE)
    assert rename_at(fd, b"a", b"c", RENAME_NOREPLACE)
    os.close(fd)


@pytest.mark.clause("BND-7")
def test_a_descriptor_knows_where_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "x (deleted)"
    path.write_text("x")
    fd = os.open(path, os.O_PATH)
    assert path_of_fd(fd) == str(path.resolve())
    path.rename(tmp_path / "y")
    assert path_of_fd(fd) == str((tmp_path / "y").resolve())
    real = reopen(fd, os.O_RDONLY)
    assert os.read(real, 9) == b"x"
    os.close(real)
    (tmp_path / "y").unlink()
    with pytest.raises(FileNotFoundError):
        path_of_fd(fd)
    os.close(fd)
