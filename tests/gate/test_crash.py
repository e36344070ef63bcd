"""Killed at any instant a write leaves the old file or the new one, and what it litters is swept (BND-7)."""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.gate.kit import workspace

from drawbar.boundary.temporaries import UNFINISHED_MODE, sweep_temporaries, temporary_name

HERE = Path(__file__).resolve().parent.parent.parent

WRITER = """
import sys
from pathlib import Path
from tests.gate.kit import pinned, resolve
from drawbar.boundary.native_files import write_target
root = Path(sys.argv[1])
here = pinned(root)
print("go", flush=True)
number = 0
while True:
    number += 1
    target = resolve(root, "a.txt")
    data = str(number % 10).encode() * 300_000
    write_target(target, data, root=here, expected_sha256=None, overwrite=True, sync=False)
    target.close()
    target = resolve(root, f"d/new{number}/f")
    write_target(target, b"n" * 100_000, root=here, expected_sha256=None, overwrite=True, sync=False)
    target.close()
"""


def temporaries(root: Path) -> list[Path]:
    return list(root.rglob(".drawbar-*.tmp"))


@pytest.mark.slow
@pytest.mark.clause("BND-7", "QLT-10")
def test_killed_at_random_instants(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "a.txt").write_bytes(b"0" * 300_000)
    littered = 0
    for seed in range(25):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, root], cwd=HERE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"go\n"
        time.sleep(random.Random(seed).uniform(0.0, 0.03))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        data = (root / "a.txt").read_bytes()
        assert len(data) == 300_000
        assert len(set(data)) == 1
        for path in (root / "d").rglob("f"):
            assert path.read_bytes() == b"n" * 100_000
        littered += len(temporaries(root))
        swept = sweep_temporaries(root, min_age_s=0)
        assert not swept.kept
        assert not temporaries(root)
    assert littered, "no kill hit a write: the test shows nothing"


def plant(folder: Path, data: bytes, *, old: bytes | None, new: bytes, mode: int = 0o644) -> Path:
    digest = None if old is None else hashlib.sha256(old).hexdigest()
    path = folder / temporary_name(digest, hashlib.sha256(new).hexdigest()).decode()
    path.write_bytes(data)
    path.chmod(mode)
    return path


@pytest.mark.clause("BND-7", "QLT-10")
def test_a_sweep_takes_what_is_ours_and_keeps_what_nobody_else_has(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    ours = [
        plant(root, b"half of it", old=b"old", new=b"half of it, and the rest", mode=UNFINISHED_MODE),
        plant(root / "d", b"", old=None, new=b"new"),
        plant(root / "d", b"new", old=b"old", new=b"new"),
        plant(root / "d", b"old", old=b"old", new=b"new"),
    ]
    strangers = plant(root / "d", b"changed by somebody in between", old=b"old", new=b"new")
    innocent = [root / ".drawbar-notes.tmp", root / ".drawbar-0-0-0.tmp", root / "d" / "x.tmp"]
    for path in innocent:
        path.write_text("mine")
    link = root / temporary_name(None, "0" * 64).decode()
    link.symlink_to(tmp_path / "outside" / "secret.txt")
    swept = sweep_temporaries(root, min_age_s=0)
    assert sorted(swept.removed) == sorted(map(str, ours))
    assert str(strangers) in swept.kept
    assert strangers.read_bytes() == b"changed by somebody in between"
    assert all(path.exists() for path in innocent)
    assert link.is_symlink()
    assert (tmp_path / "outside" / "secret.txt").read_text() == "original\n"


@pytest.mark.clause("BND-7")
def test_a_sweep_leaves_the_living_and_the_young(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    young = plant(root, b"new", old=b"old", new=b"new")
    assert sweep_temporaries(root).removed == []
    assert young.exists()
    fd = os.open(young, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert sweep_temporaries(root, min_age_s=0).removed == []
    os.close(fd)
    assert sweep_temporaries(root, min_age_s=0).removed == [str(young)]


@pytest.mark.clause("BND-7")
def test_a_sweep_of_named_folders_stays_inside(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    inside = plant(root / "d", b"new", old=None, new=b"new")
    outside = plant(tmp_path / "outside", b"new", old=None, new=b"new")
    other = plant(root, b"new", old=None, new=b"new")
    (root / "link").symlink_to(tmp_path / "outside")
    swept = sweep_temporaries(root, folders=["d", "d", "link", "../outside", "nowhere"], min_age_s=0)
    assert swept.removed == [str(inside)]
    assert swept.skipped == 3
    assert outside.exists()
    assert other.exists()
    assert sweep_temporaries(root, folders=["", "link/../../outside"], min_age_s=0).removed == [str(other)]
    assert sweep_temporaries(root, min_age_s=0).removed == []
    assert outside.exists()
