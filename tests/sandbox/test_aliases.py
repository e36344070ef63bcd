"""Hard links to files outside the workspace stay unwritten, and those inside stay ordinary (BND-12)."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import FIXTURES, git

from drawbar.boundary import root_walk
from drawbar.boundary.aliases import MAX_MOUNTS, LinkedFile, aliases, cover
from drawbar.boundary.root_scan import RootScan
from drawbar.contracts.errors import WorkspaceRefused

Repo = Callable[..., Path]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


def link(outside: Path, target: Path, name: str = "") -> Path:
    """A file outside, and ``target`` as a further name of it."""
    source = outside / (name or target.name)
    source.write_text("original")
    target.parent.mkdir(parents=True, exist_ok=True)
    os.link(source, target)
    return source


@pytest.mark.bug("SBX-01")
@pytest.mark.clause("BND-12")
async def test_the_reported_case(make: BoxMaker, tmp_path: Path) -> None:
    subprocess.run(["bash", FIXTURES / "SBX-01" / "make.sh", tmp_path], check=True, capture_output=True)
    box = make(tmp_path / "ws")
    result = await box.sh("echo x >> alias.txt")
    assert result.exit_code != 0
    assert (tmp_path / "outside" / "secret.txt").read_text() == "original\n"
    assert await box.text("cat alias.txt") == "original\n"


WRITES = {
    "append": "echo x >>{f}",
    "truncate": ": >{f}",
    "mode": "chmod 777 {f}",
    "time": "touch -d yesterday {f}",
    "attribute": "setfattr -n user.x -v y {f}",
    "in place": "python3 -c \"f=open('{f}','r+'); f.write('x')\"",
    "another name": "ln {f} again && echo x >>again",
    "a moved folder": "mv sub sub2; echo x >>sub2/alias; mv sub2 sub",
    "renamed away": "mv {f} elsewhere; echo x >>elsewhere",
    "exchanged": (
        "python3 -c \"import ctypes; ctypes.CDLL(None).renameat2(-100,b'{f}',-100,b'file.txt',2)\"; echo x >>file.txt"
    ),
    "through proc": "echo x >>/proc/self/cwd/{f}",
}


@pytest.mark.clause("BND-12")
@pytest.mark.parametrize("how", WRITES)
async def test_no_write_goes_through(make: BoxMaker, git_repo: Repo, outside: Path, how: str) -> None:
    root = git_repo({"file.txt": "a\n"})
    source = link(outside, root / "sub" / "alias")
    before = source.stat()
    await make(root).sh(WRITES[how].replace("{f}", "sub/alias"))
    after = source.stat()
    assert source.read_text() == "original"
    assert (after.st_mode, after.st_mtime_ns, after.st_size) == (before.st_mode, before.st_mtime_ns, before.st_size)
    assert os.listxattr(source) == []


@pytest.mark.bug("SBX-02")
@pytest.mark.clause("BND-12", "QLT-1")
async def test_links_within_the_workspace_are_ordinary(make: BoxMaker, tmp_path: Path) -> None:
    subprocess.run(["bash", FIXTURES / "SBX-02" / "make.sh", tmp_path], check=True, capture_output=True)
    box = make(tmp_path / "ws")
    assert await box.text("cat node_modules/a/index.js; ls") == "code\nfile.txt\nnode_modules\nstore\n"
    await box.text("echo more >>store/blob; echo x >file.txt; ln store/blob third; rm node_modules/a/index.js")
    assert (tmp_path / "ws" / "third").read_text() == "code\nmore\n"


@pytest.mark.clause("BND-12")
async def test_a_name_inside_too_is_still_an_alias(make: BoxMaker, git_repo: Repo, outside: Path) -> None:
    root = git_repo()
    source = link(outside, root / "one")
    os.link(root / "one", root / "two")
    box = make(root)
    for name in ("one", "two"):
        assert (await box.sh(f"echo x >>{name}")).exit_code != 0
    assert source.read_text() == "original"


@pytest.mark.clause("BND-12")
@pytest.mark.parametrize("name", [b"sp ace", b"new\nline", b"\xff", b"-n", b"a b c"], ids=repr)
async def test_aliases_of_any_name(make: BoxMaker, git_repo: Repo, outside: Path, name: bytes) -> None:
    root = git_repo()
    source = link(outside, Path(os.fsdecode(bytes(root) + b"/" + name)), "source")
    result = await make(root).run(
        ("/usr/bin/python3", "-c", "import sys; open(sys.argv[1], 'ab').write(b'x')", "./" + os.fsdecode(name))
    )
    assert result.exit_code != 0
    assert source.read_text() == "original"


@pytest.mark.clause("BND-12", "QLT-1")
async def test_many_under_a_dependency_folder_close_that_folder(make: BoxMaker, git_repo: Repo, outside: Path) -> None:
    root = git_repo()
    for number in range(MAX_MOUNTS + 10):
        link(outside, root / "packages" / "app" / "node_modules" / f"p{number}" / "index.js", f"s{number}")
    link(outside, root / "one.txt")
    box = make(root)
    result = await box.sh("echo x >>packages/app/node_modules/p3/index.js")
    assert result.exit_code != 0
    assert (await box.sh("echo x >>one.txt")).exit_code != 0
    await box.text(
        "cat packages/app/node_modules/p3/index.js; echo x >packages/app/new; mv packages p2; mv p2 packages"
    )
    assert all(path.read_text() == "original" for path in outside.iterdir())


@pytest.mark.clause("BND-12", "BND-11")
async def test_a_local_clone_is_worked_in(make: BoxMaker, git_repo: Repo, tmp_path: Path) -> None:
    origin = git_repo({f"f{n}.txt": f"{n}\n" for n in range(MAX_MOUNTS + 10)}, name="origin")
    git(tmp_path, "clone", "-q", "--local", str(origin), "clone")
    box = make(tmp_path / "clone")
    await box.text("echo x >>f1.txt; git -c user.name=x -c user.email=x@x commit -qam Change; git fsck")
    assert git(origin, "fsck") == ""


@pytest.mark.clause("BND-12")
async def test_too_many_elsewhere_refuse_and_name_the_first(make: BoxMaker, git_repo: Repo, outside: Path) -> None:
    root = git_repo()
    for number in range(MAX_MOUNTS + 1):
        link(outside, root / "src" / f"f{number:03}", f"s{number}")
    box = make(root)
    with pytest.raises(WorkspaceRefused, match="src/f000, src/f001"):
        await box.sh("touch ran")
    assert not (root / "ran").exists()
    assert (await box.sh("cat src/f000", scope="read-only")).output == "original", "reading needs no cover"
    # Mended as the message says, the next call goes.
    for number in range(MAX_MOUNTS + 1):
        path = root / "src" / f"f{number:03}"
        shutil.copy(path, f"{path}.new")
        os.rename(f"{path}.new", path)
    await box.text("echo x >src/f000")


@pytest.mark.clause("BND-12")
@pytest.mark.parametrize("program", ["find", "python"])
async def test_a_walk_that_takes_too_long_refuses_and_names_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    root = tmp_path / "{root}"
    root.mkdir()
    names = [link(tmp_path, root / f"f{number}", f"s{number}").name for number in range(9)]
    scan = RootScan(root, (), limit_s=0.3)
    if program == "find":
        slow = tmp_path / "find"
        slow.write_text(
            '#!/bin/sh\necho "GNU findutils"\n[ "$1" = --version ] || { /usr/bin/find "$@"; exec sleep 20; }\n'
        )
        slow.chmod(0o755)
        monkeypatch.setattr(root_walk, "_PLACES", (str(slow),))
    else:
        monkeypatch.setattr(root_walk, "_PLACES", ())
        (root / "deep/er").mkdir(parents=True)
        ticks = itertools.count()
        monkeypatch.setattr(root_walk, "time", SimpleNamespace(monotonic=lambda: next(ticks) * 0.2))
    root_walk.gnu_find.cache_clear()
    try:
        scanned = await scan.result()
    finally:
        root_walk.gnu_find.cache_clear()
        await scan.close()
    assert len(names) == 9
    assert "took over 0.3 s" in (scanned.refused or "")
    assert len(set(re.findall(r"\bf\d\b", scanned.refused or ""))) == 5
    assert scanned.unknown is None, "without deny_read, reading needs no look"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into any folder; the area's tests run as another user too")
@pytest.mark.clause("BND-12", "BND-17")
async def test_a_closed_folder_stays_closed(make: BoxMaker, git_repo: Repo, outside: Path) -> None:
    """What is in it can't be told, so no command opens it."""
    root = git_repo()
    source = link(outside, root / "closed/deep/alias")
    (root / "closed/my.key").write_text("secret")
    (root / "closed").chmod(0)
    box = make(root, deny_read=("*.key",))
    try:
        result = await box.sh("chmod 755 closed; echo evil >>closed/deep/alias; cat closed/my.key; mv closed open")
        assert result.exit_code != 0
        assert "secret" not in result.output
        await box.text("touch other")
    finally:
        (root / "closed").chmod(0o755)
    assert source.read_text() == "original"


@pytest.mark.clause("BND-12")
async def test_a_command_over_that_time_is_refused(
    make: BoxMaker, git_repo: Repo, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = git_repo()
    source = link(outside, root / "alias")
    box = make(root)
    monkeypatch.setattr(box.runner._scan, "_limit_s", 0.0)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(WorkspaceRefused, match="took over 0 s"):
        await box.sh("echo evil >>alias")
    assert source.read_text() == "original"
    monkeypatch.setattr(box.runner._scan, "_limit_s", 3.0)  # pyright: ignore[reportPrivateUsage]
    assert (await box.sh("echo evil >>alias")).exit_code != 0
    assert "hard link to a file outside" in (box.results[-1].denial or "")


@pytest.mark.clause("BND-12")
async def test_a_new_alias_is_seen_in_the_next_turn(make: BoxMaker, git_repo: Repo, outside: Path) -> None:
    root = git_repo()
    box = make(root)
    await box.text("true")
    source = link(outside, root / "late")
    box.runner.begin_turn()
    assert (await box.sh("echo x >>late")).exit_code != 0
    assert source.read_text() == "original"


@pytest.mark.clause("BND-12")
@pytest.mark.slow
async def test_a_hundred_thousand_files_within_three_seconds(tmp_path: Path) -> None:
    root = tmp_path / "big"
    for folder in range(200):
        (root / f"d{folder}").mkdir(parents=True)
        for number in range(500):
            (root / f"d{folder}" / f"f{number}").touch()
    planted = {link(tmp_path, root / f"d{number}" / "alias", f"s{number}").name for number in range(20)}
    scan = RootScan(root, ("*.pem", ".env"), limit_s=30)
    best = 100.0
    for _ in range(3):
        scan.begin()
        started = time.monotonic()
        scanned = await scan.result()
        best = min(best, time.monotonic() - started)
        assert len(scanned.read_only) == len(planted)
    assert best < 3
    await scan.close()


names = st.lists(
    st.sampled_from(["src", "node_modules", ".git", "objects", "a", "vendor", "b"]), min_size=1, max_size=4
)
paths = st.builds(lambda parts, leaf: "/".join([*parts, f"f{leaf}"]), names, st.integers(0, 400))


@pytest.mark.clause("BND-12")
@given(st.lists(paths, unique=True, max_size=300))
def test_each_alias_is_covered_tolerated_or_refused(found: list[str]) -> None:
    chosen = cover(found)
    if chosen.refused is not None:
        assert not chosen.read_only
        return
    assert len(chosen.read_only) <= MAX_MOUNTS
    for path in found:
        covered = any(path == name or path.startswith(name + "/") for name in chosen.read_only)
        assert covered or (".git" in path and "objects" in path and len(found) > MAX_MOUNTS)
    if len(found) <= MAX_MOUNTS:
        assert sorted(chosen.read_only) == sorted(found)


@pytest.mark.clause("BND-12")
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(2, 6)), max_size=20))
def test_an_alias_is_a_file_with_more_names_than_the_tree_holds(groups: list[tuple[int, int]]) -> None:
    found: list[LinkedFile] = []
    expected: set[str] = set()
    for number, (inside, links) in enumerate(groups):
        held = min(inside, links)
        names_here = [f"{number}/{k}" for k in range(held)]
        found += [LinkedFile(name, str(number), links) for name in names_here]
        if held < links:
            expected.update(names_here)
    assert set(aliases(found)) == expected


@pytest.mark.clause("BND-12")
async def test_without_gnu_find_the_same_is_found(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BusyBox's ``find`` prints nothing of what is asked, which must not read as: nothing there."""
    root = tmp_path / "root"
    for name in ("a", "deep/er/b", "deep/c"):
        link(outside, root / name, name.replace("/", "-"))
    os.link(root / "a", root / "again")
    (root / "deep" / ".env").write_text("x")
    (root / "plain").symlink_to("deep")
    fast = await root_walk.walk(root, (".env", "*.pem"), 10)
    fake = tmp_path / "find"
    fake.write_text("#!/bin/sh\necho 'BusyBox: find: unrecognized: -printf' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(root_walk, "_PLACES", (str(fake),))
    root_walk.gnu_find.cache_clear()
    try:
        slow = await root_walk.walk(root, (".env", "*.pem"), 10)
        assert not (await root_walk.walk(root, (), 0)).whole
    finally:
        root_walk.gnu_find.cache_clear()
    assert fast.whole
    assert slow.whole
    assert aliases(fast.linked) == aliases(slow.linked) == ["a", "again", "deep/c", "deep/er/b"]
    assert fast.candidates == slow.candidates == ["deep/.env"]
