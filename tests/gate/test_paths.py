"""Path confinement: what resolves where, what is out of reach, and what a read may be spelled like (BND-3, BND-7)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gate.kit import FIXTURES, gate, judged, open_descriptors, pinned, policy, resolve, resolver, workspace

from drawbar.boundary.paths import PathRefused, open_root
from drawbar.boundary.reach import Reach, Unreachable, credential_paths, deny_matcher
from drawbar.boundary.spellings import read_spellings, readings
from drawbar.contracts.boundary import PathUse

Access = Literal["read", "list", "write"]


def refused(root: Path, path: str, access: Access = "write", **changes: Any) -> str:
    """The code with which a path is refused."""
    before = open_descriptors()
    with pytest.raises(PathRefused) as caught:
        resolve(root, path, access, **changes)
    assert open_descriptors() == before
    assert caught.value.message
    return caught.value.code


def resolved(root: Path, path: str, access: Access = "write", **changes: Any) -> str | None:
    """Where a path leads, relative to the root."""
    target = resolve(root, path, access, **changes)
    target.close()
    return target.relative


@pytest.mark.clause("BND-3")
@pytest.mark.parametrize("access", ["read", "write", "list"])
@pytest.mark.parametrize(
    ("path", "relative"),
    [
        ("a.txt", "a.txt"),
        ("./a.txt", "a.txt"),
        ("d/../a.txt", "a.txt"),
        ("d//..//./a.txt", "a.txt"),
        ("a.txt/", "a.txt"),
        ("../ws/a.txt", "a.txt"),
        ("@a.txt", "a.txt"),
        ("ROOT/a.txt", "a.txt"),
        ("//ROOT/a.txt", "a.txt"),
        ("file:///ROOT/a.txt", "a.txt"),
        ("file://localhost/ROOT/%61.txt", "a.txt"),
    ],
)
def test_spellings_of_one_file(tmp_path: Path, access: Access, path: str, relative: str) -> None:
    root = workspace(tmp_path)
    assert resolved(root, path.replace("/ROOT", str(root)).replace("ROOT", str(root)), access) == relative


@pytest.mark.clause("BND-3")
def test_relative_paths_start_from_the_working_directory(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    of = resolver(pinned(root, root / "d"))
    root_fd = open_root(pinned(root))
    target = of.resolve(root_fd, PathUse("path", "../a.txt", "read"))
    os.close(root_fd)
    target.close()
    assert target.relative == "a.txt"


@pytest.mark.clause("BND-3", "ENG-6")
def test_arguments_are_read_as_pi_reads_them() -> None:
    def first(argument: str) -> str:
        return readings(argument, base="/ws", home="/home/u")[0]

    assert first("a\u00a0b\u202fc\u3000d") == "/ws/a b c d"
    assert first("@x") == "/ws/x"
    assert first("@@x") == "/ws/@x"
    assert first("~") == "/home/u"
    assert first("~/x") == "/home/u/x"
    assert first("@~/x") == "/home/u/x"
    assert first("~other/x") == "/ws/~other/x"
    assert first("file:///a%20b") == "/a b"
    assert first("file:///%ff") == "/\udcff"
    assert first("/a/../b//c/.") == "/b/c"
    for bad in ("", "  ", "a\0b", "file:///%00", "file://host/x"):
        with pytest.raises(ValueError, match=r"\S"):
            readings(bad, base="/ws", home="/home/u")


@pytest.mark.clause("BND-3", "ENG-6")
def test_a_name_that_really_begins_so_is_found(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "@types").mkdir()
    (root / "@types" / "x.ts").write_text("")
    (root / "no\u00a0break.txt").write_text("")
    assert resolved(root, "@types/x.ts", "read") == "@types/x.ts"
    assert resolved(root, "@types/new.ts") == "@types/new.ts"
    assert resolved(root, "no\u00a0break.txt", "read") == "no\u00a0break.txt"
    assert resolved(root, "@new.txt") == "new.txt"
    (root / "types").mkdir()
    (root / "types" / "x.ts").write_text("")
    assert resolved(root, "@types/x.ts", "read") == "types/x.ts"


@pytest.mark.clause("BND-3", "BND-7")
@pytest.mark.bug("SBX-10")
def test_links_out_of_the_workspace(tmp_path: Path) -> None:
    subprocess.run(["bash", FIXTURES / "SBX-10" / "make.sh", tmp_path], check=True, stdout=subprocess.DEVNULL)
    root, expect = tmp_path / "ws", json.loads((FIXTURES / "SBX-10" / "expect.json").read_text())
    codes = {path: refused(root, path) for path in expect["refused_writes"]}
    assert codes == {"link": "outside_workspace", "dangling": "outside_workspace", "d/up/x": "outside_workspace"}
    for path in expect["write_ok"]:
        assert resolved(root, path) == path.removeprefix("self/")
    assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == expect["outside_listing"]


@pytest.mark.clause("BND-3", "BND-7")
def test_links_that_stay_inside_work_however_they_are_written(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "rel").symlink_to("a.txt")
    (root / "abs").symlink_to(root / "a.txt")
    (root / "round").symlink_to("../ws/a.txt")
    (root / "folder").symlink_to(root / "d")
    (root / "chain").symlink_to("abs")
    (tmp_path / "alias").symlink_to(root)
    (root / "through").symlink_to(tmp_path / "alias" / "d")
    for access in ("read", "write"):
        for name in ("rel", "abs", "round", "chain", str(tmp_path / "alias" / "a.txt")):
            assert resolved(root, name, access) == "a.txt", (name, access)
        assert resolved(root, "folder/new.txt", access) == "d/new.txt"
        assert resolved(root, "through/new.txt", access) == "d/new.txt"
        assert resolved(root, "through/e/f/new.txt", access) == "d/e/f/new.txt"


@pytest.mark.clause("BND-7")
@pytest.mark.bug("SBX-10")
def test_a_write_through_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "gone").symlink_to("not-there.txt")
    (root / "gone_folder").symlink_to("not-there")
    (root / "gone_far").symlink_to("gone_folder/x")
    (root / "loop").symlink_to("loop")
    (root / "ping").symlink_to("pong")
    (root / "pong").symlink_to("ping")
    assert refused(root, "gone") == "dangling_link"
    assert refused(root, "gone_folder/x.txt") == "dangling_link"
    assert refused(root, "gone_folder/x/y.txt") == "dangling_link"
    assert refused(root, "gone_far") == "dangling_link"
    for loop in ("loop", "loop/x", "ping", "ping/x/y"):
        assert refused(root, loop) in ("link_loop", "dangling_link"), loop
        assert refused(root, loop, "read") == "link_loop", loop
    assert resolved(root, "gone", "read") == "not-there.txt"


@pytest.mark.clause("BND-3", "BND-6")
async def test_a_link_out_is_a_read_outside(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "out").symlink_to(tmp_path / "outside" / "secret.txt")
    (root / "out_folder").symlink_to(tmp_path / "outside")
    for path in ("out", "out_folder/secret.txt", "out_folder/nothing", "../outside/secret.txt", "/etc/hostname"):
        assert (await judged(gate(root, approval="ask"), "read", path=path)).outcome == "ask", path
        verdict = await judged(gate(root, approval="never"), "read", path=path)
        assert (verdict.outcome, verdict.code) == ("refuse", "outside_workspace"), path


@pytest.mark.clause("BND-3")
@pytest.mark.parametrize("path", ["/etc/x", "../x", "../ws2/x", "d/../../x", "~/x", "/", "..", "../.."])
def test_writes_outside_are_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "ws2").mkdir()
    assert refused(workspace(tmp_path), path, home=str(tmp_path)) in ("outside_workspace", "not_a_file")


@pytest.mark.clause("BND-3")
def test_a_workspace_whose_name_begins_like_another(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (tmp_path / "ws-other").mkdir()
    (tmp_path / "ws-other" / "x").write_text("")
    assert resolved(root, "../ws-other/x", "read") is None
    assert refused(root, "../ws-other/x") == "outside_workspace"


@pytest.mark.clause("BND-7")
@pytest.mark.parametrize(
    "path",
    [
        ".git",
        ".git/config",
        ".git/hooks/pre-commit",
        "d/.git",
        "d/.git/x",
        "new/.git/x",
        ".GIT/config",
        "d/.Git",
        ".drawbar/config.toml",
        ".drawbar",
        "d/.drawbar/x",
        ".Drawbar/x",
    ],
)
def test_gits_and_the_harness_own_files_are_never_written(tmp_path: Path, path: str) -> None:
    root = workspace(tmp_path)
    assert refused(root, path) == "unreachable_path"
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_text("")
    (root / ".drawbar").mkdir()
    assert refused(root, path) == "unreachable_path"


@pytest.mark.clause("BND-7")
def test_git_is_not_reached_by_another_name(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("")
    (root / "g").symlink_to(".git")
    (root / "cfg").symlink_to(".git/config")
    (root / "up").symlink_to(root / ".git")
    for path in ("g/config", "g/new", "cfg", "up/hooks/x", "d/../.git/x"):
        assert refused(root, path) == "unreachable_path"
    assert resolved(root, ".gitignore") == ".gitignore"
    assert resolved(root, "git/config") == "git/config"
    assert resolved(root, ".git/config", "read") == ".git/config"


@pytest.mark.clause("BND-7")
def test_a_linked_worktrees_real_git_folder_is_never_written(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    real = root / "d" / "store"
    real.mkdir()
    found = pinned(root)
    of = policy(type(found)(found.path, found.device, found.inode, found.path, (real.resolve(),)))
    with pytest.raises(Unreachable):
        Reach(of, ()).check_write(str(real / "HEAD"), "d/store/HEAD")
    Reach(of, ()).check_write(str(root / "d" / "x"), "d/x")


@pytest.mark.clause("BND-3")
def test_what_is_no_plain_file_is_named_and_never_waited_for(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    os.mkfifo(root / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(root / "sock"))
    (root / "zero").symlink_to("/dev/zero")
    started = time.monotonic()
    for access in ("read", "list", "write"):
        assert refused(root, "pipe", access) == "special_file"
        assert refused(root, "sock", access) == "special_file"
    assert refused(root, "zero", "read") == "unreachable_path"
    assert refused(root, "/dev/tty", "read") == "unreachable_path"
    assert refused(root, "d", "write") == "not_a_file"
    assert refused(root, ".", "write") == "not_a_file"
    assert refused(root, "a.txt/x", "write") == "not_a_folder"
    assert resolved(root, "a.txt/x", "read") == "a.txt/x"
    assert time.monotonic() - started < 2
    listener.close()


@pytest.mark.clause("BND-3")
def test_a_device_in_the_workspace_is_refused(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    try:
        os.mknod(root / "null", 0o666 | 0o020000, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("making a device needs root")
    assert refused(root, "null", "read") == "special_file"


@pytest.mark.clause("BND-17")
@pytest.mark.parametrize(
    "path",
    ["/proc/self/environ", "/proc/1/mem", "/dev/stdin", "/dev/fd/0", "/sys/kernel", "/proc/self/root/etc"],
)
def test_the_kernels_own_folders_are_out_of_reach(tmp_path: Path, path: str) -> None:
    root = workspace(tmp_path)
    assert refused(root, path, "read") == "unreachable_path"
    if "/root/" in path:
        return  # the kernel's own link leads to an ordinary file, which is then judged as that
    (root / "link").symlink_to(path)
    assert refused(root, "link", "read") == "unreachable_path"


@pytest.mark.clause("BND-16")
async def test_the_harness_own_folders_are_hidden_but_for_what_is_pinned(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    data = tmp_path / "data"
    skill = data / "skills" / "good" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("skill")
    (data / "approvals.jsonl").write_text("")
    (tmp_path / "data-alias").symlink_to(data)
    (root / "sneaky").symlink_to(data)
    (skill.parent / "escape").symlink_to(data / "approvals.jsonl")
    for mode in ("ask", "auto-workspace", "never", "read-only"):
        made = gate(root, approval=mode, hidden=(tmp_path / "data-alias",), readable=(skill.parent,))
        for path in (
            data / "approvals.jsonl",
            tmp_path / "data-alias" / "approvals.jsonl",
            data,
            skill.parent / "escape",
        ):
            verdict = await judged(made, "read", path=str(path))
            assert (verdict.outcome, verdict.code) == ("refuse", "unreachable_path"), path
        assert (await judged(made, "read", path="sneaky/approvals.jsonl")).code == "unreachable_path"
        assert (await judged(made, "ls", path="sneaky")).code == "unreachable_path"
        pinned_read = await judged(made, "read", path=str(skill))
        assert (pinned_read.outcome, pinned_read.scope) == ("allow", "read-only"), mode
        assert (await judged(made, "write", path=str(skill), content="")).outcome == "refuse"


@pytest.mark.clause("BND-16")
async def test_hidden_folders_inside_the_root_are_hidden_too(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "d" / "skill.md").write_text("")
    made = gate(root, hidden=(root / "d",), readable=(root / "d" / "skill.md",))
    assert (await judged(made, "read", path="d/x")).code == "unreachable_path"
    assert (await judged(made, "write", path="d/x", content="")).code == "unreachable_path"
    assert (await judged(made, "read", path="d/skill.md")).outcome == "allow"
    assert (await judged(made, "write", path="d/skill.md", content="")).code == "unreachable_path"


@pytest.mark.clause("BND-17")
@pytest.mark.parametrize("mode", ["ask", "auto-workspace", "never"])
async def test_credential_stores_of_every_home_are_out_of_reach(tmp_path: Path, mode: str) -> None:
    root = workspace(tmp_path)
    homes = [tmp_path / "home" / name for name in ("me", "other")]
    for home in homes:
        (home / ".ssh").mkdir(parents=True)
        (home / ".ssh" / "id_ed25519").write_text("key")
        (home / ".config").mkdir()
        (home / ".config" / "notes").write_text("notes")
    (homes[1] / "vault").mkdir()
    (homes[1] / "vault" / "credentials").write_text("key")
    (homes[1] / ".aws").symlink_to("vault")
    (root / "keys").symlink_to(homes[0] / ".ssh")
    made = gate(root, approval=mode, homes=homes)
    for path in (
        homes[0] / ".ssh" / "id_ed25519",
        homes[1] / ".ssh",
        homes[1] / ".aws" / "credentials",
        homes[1] / "vault" / "credentials",
        homes[0] / ".netrc",
        Path("keys/id_ed25519"),
        Path("/etc/shadow"),
    ):
        for tool in ("read", "ls"):
            verdict = await judged(made, tool, path=str(path))
            assert (verdict.outcome, verdict.code, verdict.rule) == ("refuse", "unreachable_path", "path:credential"), (
                path
            )
    ordinary = await judged(made, "read", path=str(homes[0] / ".config" / "notes"))
    assert ordinary.outcome == ("refuse" if mode == "never" else "ask")
    assert ordinary.code != "unreachable_path"


@pytest.mark.clause("BND-17")
def test_a_root_inside_a_home_keeps_the_homes_stores_closed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config" / "gh").mkdir(parents=True)
    (home / ".config" / "gh" / "hosts.yml").write_text("token")
    (home / ".config" / "app").mkdir()
    of = Reach(policy(home / ".config"), [home])
    of.check_read(str(home / ".config" / "app" / "x"))
    with pytest.raises(Unreachable):
        of.check_read(str(home / ".config" / "gh" / "hosts.yml"))
    with pytest.raises(Unreachable):
        of.check_write(str(home / ".config" / "gh" / "new"), "gh/new")


@pytest.mark.clause("BND-17")
def test_the_list_of_stores_is_one_for_tools_and_mounts(tmp_path: Path) -> None:
    paths = credential_paths(tmp_path)
    assert {tmp_path / ".ssh", tmp_path / ".aws", tmp_path / ".git-credentials", tmp_path / ".npmrc"} <= set(paths)
    assert all(path.is_relative_to(tmp_path) for path in paths)
    assert len(paths) == len(set(paths))


@pytest.mark.clause("BND-17")
@pytest.mark.bug("APR-08")
async def test_denied_files_are_closed_to_every_native_tool(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / ".env").write_text("KEY=1")
    (root / "d" / ".env").write_text("KEY=2")
    (root / "secrets").mkdir()
    (root / "secrets" / "x").write_text("")
    (root / "innocent").symlink_to(".env")
    (root / "secrets-link").symlink_to("secrets")
    made = gate(root, deny_read=(".env", "secrets/", "config/*.key"))
    for path in (".env", "./.env", "d/.env", "innocent", "secrets", "secrets/x", "secrets-link/x", "config/a.key"):
        for tool, more in (("read", {}), ("ls", {}), ("write", {"content": ""}), ("edit", {"content": ""})):
            verdict = await judged(made, tool, path=path, **more)
            assert (verdict.outcome, verdict.rule) == ("refuse", "path:deny_read"), (tool, path)
    (root / "d" / "id.pem").symlink_to("../a.txt")
    named = gate(root, deny_read=("*.pem",))
    for tool in ("read", "ls", "write"):
        verdict = await judged(named, tool, path="d/id.pem", **({"content": ""} if tool == "write" else {}))
        assert verdict.rule == "path:deny_read", "a closed name is closed wherever it leads"
    for path in (".env.example", "config/deep/a.key", "a.txt", "secret"):
        assert (await judged(made, "read", path=path)).outcome == "allow", path


@pytest.mark.clause("BND-17")
@pytest.mark.parametrize(
    ("patterns", "path", "denied"),
    [
        ((".env",), "/ws/.env", True),
        ((".env",), "/ws/a/.env", True),
        ((".env",), "/ws/.env/x", True),
        ((".env",), "/elsewhere/.env", True),
        ((".env",), "/ws/.envrc", False),
        (("*.pem",), "/elsewhere/x.pem", True),
        (("**/id_rsa",), "/elsewhere/a/id_rsa", True),
        (("secrets/",), "/ws/secrets", True),
        (("secrets/",), "/ws/a/secrets/x", True),
        (("a/b",), "/ws/a/b/c", True),
        (("a/b",), "/ws/x/a/b", False),
        (("a/b",), "/a/b", False),
        (("/a",), "/ws/a", True),
        (("/a",), "/ws/x/a", False),
        (("/a",), "/a/x", True),
        (("/ws",), "/ws/x", False),
        (("/",), "/ws/x", False),
        (("/etc/*.conf",), "/etc/x.conf", True),
        (("~/notes",), "HOME/notes/x", True),
        (("*.log", "!keep.log"), "/ws/keep.log", False),
        (("*.log", "!keep.log"), "/ws/other.log", True),
        (("build",), "/ws/x", False),
        (("# a comment", ""), "/ws/a comment", False),
    ],
)
def test_deny_patterns(patterns: tuple[str, ...], path: str, denied: bool) -> None:
    path = path.replace("HOME", os.path.expanduser("~"))
    assert deny_matcher(patterns, Path("/ws"))(Path(path)) is denied


@pytest.mark.clause("BND-17")
def test_a_pattern_that_names_the_folders_above_closes_nothing_inside() -> None:
    matches = deny_matcher(("ws", "home", "/home"), Path("/home/me/ws"))
    assert not matches(Path("/home/me/ws/a.py"))
    assert matches(Path("/home/other"))


@pytest.mark.clause("BND-4")
@pytest.mark.parametrize(
    ("on_disk", "asked"),
    [
        ("Screenshot 9.41.00\u202fAM.png", "Screenshot 9.41.00 AM.png"),
        ("Screenshot 9.41.00\u202fpm.png", "Screenshot 9.41.00 pm.png"),
        (unicodedata.normalize("NFD", "résumé.txt"), "résumé.txt"),
        ("it\u2019s.txt", "it's.txt"),
        (unicodedata.normalize("NFD", "l\u2019été.txt"), "l'été.txt"),
    ],
)
def test_a_read_finds_other_spellings_and_a_write_makes_the_name_as_given(
    tmp_path: Path, on_disk: str, asked: str
) -> None:
    root = workspace(tmp_path)
    (root / on_disk).write_text("found")
    assert resolved(root, asked, "read") == on_disk
    assert resolved(root, asked, "list") == asked
    assert resolved(root, asked, "write") == asked
    (root / asked).write_text("plain")
    assert resolved(root, asked, "read") == asked


@pytest.mark.clause("BND-4", "BND-17")
def test_another_spelling_is_checked_as_strictly(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "it\u2019s").symlink_to("/proc/self/environ")
    (root / "l\u2019x").symlink_to(tmp_path / "outside" / "secret.txt")
    assert refused(root, "it's", "read") == "unreachable_path"
    assert resolved(root, "l'x", "read") is None
    (root / "d\u2019x").write_text("")
    assert refused(root, "d'x", "read", deny_read=("d\u2019x",)) == "unreachable_path"


@pytest.mark.clause("BND-4")
@given(st.text(max_size=30))
def test_other_spellings_are_others(path: str) -> None:
    found = read_spellings(path)
    assert path not in found
    assert len(found) == len(set(found))


@pytest.mark.clause("BND-3", "QLT-1")
@pytest.mark.bug("WTR-12")
@pytest.mark.parametrize(
    "name",
    [b"caf\xe9.txt", "日本語.md".encode(), b'with "quote".txt', b"new\nline", b"\xff\xfe", b" lead", b"-rf", b"a\\b"],
)
def test_file_names_of_any_bytes(tmp_path: Path, name: bytes) -> None:
    root = workspace(tmp_path)
    asked = "./" + os.fsdecode(name)
    target = resolve(root, asked, "write")
    assert os.fsencode(target.name) == name
    target.close()
    Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_bytes(b"x")
    for access in ("read", "write"):
        target = resolve(root, asked, access)
        assert target.relative is not None
        assert os.fsencode(target.relative) == name
        assert os.pread(target.fd or -1, 9, 0) == b"x"
        target.close()


@pytest.mark.clause("BND-3")
def test_names_that_cannot_be(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    assert refused(root, "x" * 300) == "invalid_path"
    assert refused(root, "x/" * 3000 + "y") == "invalid_path"
    assert refused(root, "/".join(["n"] * 80)) == "invalid_path"
    assert refused(root, " ") == "invalid_path"


@pytest.mark.clause("BND-7")
def test_missing_folders_are_named_from_the_deepest_that_exists(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    target = resolve(root, "d/e/f/g.txt", "write")
    assert (target.missing, target.name, target.fd) == (("e", "f"), "g.txt", None)
    assert target.parent_fd is not None
    assert os.path.samestat(os.fstat(target.parent_fd), (root / "d").stat())
    assert target.path == root.resolve() / "d" / "e" / "f" / "g.txt"
    target.close()


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder of a user who may not open everything, and this process as that user."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() != 0:
            yield Path(folder)
            return
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


@pytest.mark.clause("BND-3", "BND-7")
def test_what_the_system_does_not_let_us_open_is_said(as_nobody: Path) -> None:
    root = workspace(as_nobody)
    (root / "a.txt").chmod(0)
    (root / "locked").mkdir(0)
    (root / "only-enter").mkdir(0o300)
    for access in ("read", "list", "write"):
        assert refused(root, "a.txt", access) == "no_permission"
        assert refused(root, "locked/x", access) == "no_permission"
    assert resolved(root, "only-enter/new.txt") == "only-enter/new.txt"
    (root / "locked").chmod(0o700)


@pytest.mark.clause("BND-3", "BND-16", "BND-17")
@given(
    parts=st.lists(
        st.sampled_from(
            [
                "a.txt",
                "d",
                "..",
                ".",
                "",
                "in",
                "out",
                "up",
                "loop",
                "gone",
                "hid",
                ".git",
                "x",
                "~",
                "@",
                "round",
                "deep",
            ]
        ),
        min_size=1,
        max_size=7,
    ),
    absolute=st.sampled_from(["", "ROOT/", "TMP/", "/"]),
    access=st.sampled_from(["read", "list", "write"]),
)
@settings(max_examples=400, deadline=None)
def test_whatever_is_asked_nothing_outside_is_opened_for_writing_nor_anything_hidden(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], absolute: str, access: Access
) -> None:
    tmp = tmp_path_factory.getbasetemp() / "paths"
    root, hidden = tmp / "ws", tmp / "hidden"
    if not tmp.exists():
        workspace(tmp)
        hidden.mkdir()
        (hidden / "x").write_text("")
        (root / ".git").mkdir()
        for name, to in {
            "in": "d", "out": "../outside", "up": "..", "loop": "loop", "gone": "nowhere/x", "hid": "../hidden",
            "round": "../ws/d", "deep": str(root / "d"),
        }.items():  # fmt: skip
            (root / name).symlink_to(to)
            (root / "d" / name).symlink_to(to)
    path = absolute.replace("ROOT", str(root)).replace("TMP", str(tmp)) + "/".join(parts)
    before = open_descriptors()
    try:
        target = resolve(root, path, access, hidden=(hidden,))
    except PathRefused:
        assert open_descriptors() == before
        return
    real = target.path.resolve()
    assert not real.is_relative_to(hidden)
    for fd in (target.fd, target.parent_fd):
        if fd is not None:
            there = os.readlink(f"/proc/self/fd/{fd}")
            assert not Path(there).is_relative_to(hidden)
            if access == "write" or target.relative is not None:
                assert Path(there).is_relative_to(root)
    if access == "write":
        assert target.relative is not None
        assert ".git" not in target.relative.split("/")
    target.close()
    assert open_descriptors() == before
