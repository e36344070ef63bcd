"""Git's own files are read as git reads them, without running git (QLT-3, BND-11)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawbar.boundary.git_folders import config_value, git_file_target, named_path

values = st.text(alphabet=st.sampled_from('ab /~.$;#"\\=[]é'), min_size=1, max_size=12)


@pytest.mark.clause("QLT-3", "BND-11")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values, values)
def test_values_are_read_as_git_reads_them(tmp_path: Path, first: str, second: str) -> None:
    file = tmp_path / "config"
    file.unlink(missing_ok=True)
    for key, value in (("core.hooksPath", first), ("core.other", second), ("user.name", second)):
        subprocess.run(["git", "config", "-f", file, key, value], check=True)
    said = (
        subprocess.run(["git", "config", "-f", file, "core.hookspath"], capture_output=True, check=True)
        .stdout.decode()
        .removesuffix("\n")
    )
    assert config_value(file, "core", "hookspath") == said == first


WRITTEN = {
    "[core]\nhooksPath = a\n": "a",
    "[CORE] HooksPath=a": "a",
    "[core]\n\thooksPath = a b ; comment\n": "a b",
    '[core]\nhooksPath = "a ; b" # comment\n': "a ; b",
    '[core]\nhooksPath = a" b "c\n': "a b c",
    "[core]\nhooksPath = a\\\n b\n": "a b",
    "[core]\nhooksPath = a\nhooksPath = b\n": "b",
    '[core "sub"]\nhooksPath = a\n': None,
    "[corex]\nhooksPath = a\n[user]\nhooksPath = b\n": None,
    "; hooksPath = a\n[core]\n# hooksPath = b\n": None,
    "[core]\nhooksPath\n": "true",
    "[core]\r\nhooksPath = a\r\n": "a",
    "": None,
    "no section\n": None,
}


@pytest.mark.clause("BND-11")
@pytest.mark.parametrize("text", WRITTEN, ids=repr)
def test_files_as_people_write_them(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_bytes(text.encode())
    assert config_value(file, "core", "hookspath") == WRITTEN[text]
    said = subprocess.run(["git", "config", "-f", file, "core.hookspath"], capture_output=True, text=True, check=False)
    if said.returncode == 0 and WRITTEN[text] != "true":
        assert said.stdout.removesuffix("\n") == WRITTEN[text]


@pytest.mark.clause("BND-11", "QLT-3")
def test_pointers_of_any_kind_never_hang_or_follow(tmp_path: Path) -> None:
    pointer = tmp_path / ".git"
    assert git_file_target(pointer) is None
    os.mkfifo(pointer)
    assert git_file_target(pointer) is None, "no wait for a writer"
    pointer.unlink()
    (tmp_path / "real").write_text("gitdir: /x\n")
    pointer.symlink_to("real")
    assert git_file_target(pointer) is None
    pointer.unlink()
    for text in ("", "gitdir:", "/x", "gitdir: a\nb", "gitdir: \0", "x" * 100_000):
        pointer.write_text(text)
        assert git_file_target(pointer) is None, text[:20]
    pointer.write_text("gitdir: ../other\n")
    assert git_file_target(pointer) == tmp_path.parent / "other"
    pointer.write_bytes(b"gitdir: /\xff\r\n")
    assert git_file_target(pointer) == Path("/\udcff")
    (tmp_path / "commondir").write_text("..\n")
    assert named_path(tmp_path / "commondir") == tmp_path.parent
