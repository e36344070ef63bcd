"""The watch itself: what it must find, and that a command which does nothing leaves everything as it was (BND-11)."""

from __future__ import annotations

import os

import pytest
from tests.ordinary.kit import Ground

pytestmark = pytest.mark.clause("BND-11", "QLT-1")


def test_a_command_that_does_nothing_leaves_nothing(ground: Ground) -> None:
    ground.repository({"sub/x": "", ".drawbar/config.toml": "\n"})
    before = {path: os.stat(path) for path in (ground.root, ground.root / "sub", ground.root / ".drawbar")}
    for scope in ("workspace", "read-only", "workspace"):
        ground.works("true", scope=scope)
        assert ground.works("git status --porcelain", scope=scope) == ""
    for path, was in before.items():
        now = os.stat(path)
        assert (now.st_mtime_ns, now.st_ctime_ns, now.st_mode) == (was.st_mtime_ns, was.st_ctime_ns, was.st_mode), path


def test_a_folder_without_git_stays_one(ground: Ground) -> None:
    ground.put({"file.txt": "x\n"})
    before = os.stat(ground.root)
    ground.works("true")
    assert os.listdir(ground.root) == ["file.txt"]
    assert os.stat(ground.root).st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize(
    "script", ["touch .bashrc", "mkdir .hidden", "chmod 700 .", "chmod a+x file.txt", "touch .git/ghost", "ln -s x y"]
)
def test_the_watch_finds_what_nobody_announced(ground: Ground, script: str) -> None:
    ground.repository()
    ground.works(script)
    with pytest.raises(AssertionError):
        ground.check()
    # Undo it, for the same watch at the end of the test.
    ground.works("rm -rf .bashrc .hidden .git/ghost y; chmod 755 .; chmod a-x file.txt")


def test_what_was_announced_is_no_litter(ground: Ground) -> None:
    ground.repository()
    ground.works("mkdir -p out/deep; touch out/deep/x made.txt", leaves=["out", "*.txt"])
