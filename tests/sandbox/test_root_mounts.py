"""Folders that are mounted below the root: what is in them, and where a write in one would end up (BND-9, BND-12)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import git

from drawbar.boundary.native_files import WriteRefused, write_target
from drawbar.boundary.root_mounts import mounted_from_elsewhere
from drawbar.boundary.roots import pin_root
from drawbar.contracts.boundary import PathUse, Target

Repo = Callable[..., Path]


@contextmanager
def mounted(*options: str | Path) -> Iterator[None]:
    """One mount, for as long as it is needed; its last option is the place."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    made = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"nothing can be mounted here: {made.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", options[-1]], check=True)


def ram(place: Path) -> tuple[str | Path, ...]:
    place.mkdir(parents=True, exist_ok=True)
    return ("-t", "tmpfs", "-o", "size=4m", "drawbar-test", place)


@pytest.mark.clause("BND-12", "BND-17")
async def test_what_is_mounted_is_searched_like_everything_else(make: BoxMaker, git_repo: Repo, tmp_path: Path) -> None:
    """Aliases into another part of the same file system, and what deny_read closes."""
    root = git_repo()
    with mounted(*ram(tmp_path / "disk")):
        for name in ("inside", "outside"):
            (tmp_path / "disk" / name).mkdir()
        (tmp_path / "disk/outside/file").write_text("original")
        os.link(tmp_path / "disk/outside/file", tmp_path / "disk/inside/alias")
        (tmp_path / "disk/inside/my.key").write_text("secret")
        (root / "data").mkdir()
        with mounted("--bind", tmp_path / "disk/inside", root / "data"), mounted(*ram(root / "own")):
            (root / "own/a.key").write_text("secret")
            (root / "own/one").write_text("x")
            os.link(root / "own/one", root / "own/two")
            box = make(root, deny_read=("*.key",))
            for name in ("data/my.key", "own/a.key"):
                assert "secret" not in (await box.sh(f"cat {name}")).output
            await box.sh("echo evil >>data/alias")
            assert (tmp_path / "disk/outside/file").read_text() == "original"
            await box.text("echo more >>own/one && grep -q more own/two && mkdir own/new")
            await box.runner.close()


@pytest.mark.clause("BND-9", "BND-12", "BND-7")
async def test_a_folder_from_outside_is_read_only_and_said(make: BoxMaker, git_repo: Repo, tmp_path: Path) -> None:
    root = git_repo({"lib/keep": "x\n"})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("original\n")
    with mounted("--bind", outside, root / "lib"):
        box = make(root)
        assert await box.text("cat lib/file") == "original\n"
        for command in ("echo evil >lib/file", "rm lib/file", "touch lib/new", "mv lib gone", "umount lib"):
            result = await box.sh(command)
            assert result.exit_code != 0, command
        said = await box.sh("echo evil >lib/file")
        assert str(outside) in (said.denial or "")
        await box.text("touch other")
        path = root / "lib/file"
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        target = Target(
            PathUse("path", "lib/file", "write"), path, "lib/file", os.open(path, os.O_RDONLY), parent, "file"
        )
        with pytest.raises(WriteRefused, match="outside the workspace is mounted"):
            write_target(target, b"evil\n", root=pin_root(root, hidden=[]), expected_sha256=None, overwrite=True)
        target.close()
        await box.runner.close()
    assert (outside / "file").read_text() == "original\n"
    assert [entry.name for entry in outside.iterdir()] == ["file"]


@pytest.mark.clause("BND-9")
def test_what_belongs_to_the_workspace_stays_writable(git_repo: Repo, tmp_path: Path) -> None:
    root = git_repo({"a/x": "x\n", "b/y": "y\n", "c/z": "z\n"})
    with mounted(*ram(root / "own")), mounted("--bind", root / "a", root / "b"):
        assert mounted_from_elsewhere(root) == ()
        with mounted("--bind", root / ".git/hooks", root / "c"):
            (found,) = mounted_from_elsewhere(root)
            assert (found.place, found.source) == (root / "c", root / ".git/hooks")
        with mounted("--bind", tmp_path, root / "c"):
            (found,) = mounted_from_elsewhere(root)
            assert (found.place, found.source) == (root / "c", tmp_path)


@pytest.mark.clause("BND-9", "QLT-1")
async def test_a_workspace_that_is_itself_mounted_is_ordinary(make: BoxMaker, git_repo: Repo, tmp_path: Path) -> None:
    """As in a container for development: the root shows a folder of the machine, and a volume lies below it."""
    work = tmp_path / "work"
    work.mkdir()
    origin = git_repo({"a": "a\n"}, name="origin")
    with mounted("--bind", origin, work), mounted(*ram(work / "node_modules")):
        box = make(work)
        await box.text("mkdir node_modules/x && echo b >>a && git -c user.name=a -c user.email=a@b commit -qam Change")
        await box.runner.close()
    assert git(origin, "log", "-1", "--format=%s") == "Change\n"
