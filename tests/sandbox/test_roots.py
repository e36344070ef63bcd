"""Which folders can be a workspace root, and that no command ever runs in another (BND-1, QLT-11)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import git

from drawbar.boundary.roots import check_root, nearest_repository, pin_root
from drawbar.contracts.errors import WorkspaceRefused

Repo = Callable[..., Path]


@pytest.mark.clause("BND-1")
def test_the_nearest_repository_is_the_root(git_repo: Repo, tmp_path: Path) -> None:
    root = git_repo({"a/b/c.txt": "x\n"})
    pinned = pin_root(root / "a" / "b", hidden=[])
    status = root.stat()
    assert (pinned.path, pinned.device, pinned.inode) == (root, status.st_dev, status.st_ino)
    assert pinned.working_directory == root / "a" / "b"
    assert pinned.git_dirs == ()


@pytest.mark.clause("BND-1")
def test_without_a_repository_it_is_the_folder_itself(tmp_path: Path) -> None:
    folder = tmp_path / "plain" / "deep"
    folder.mkdir(parents=True)
    assert pin_root(folder, hidden=[]).path == folder


@pytest.mark.clause("BND-1")
def test_links_are_followed_to_the_canonical_path(git_repo: Repo, tmp_path: Path) -> None:
    root = git_repo({"a/x": "x\n"})
    (tmp_path / "one").symlink_to(root)
    (tmp_path / "two").symlink_to("one/a")
    for spelling in ("two", "one/a/../a", f"//{str(root)[1:]}/a", "one//a/."):
        pinned = pin_root(tmp_path / spelling, hidden=[])
        assert (pinned.path, pinned.working_directory) == (root, root / "a"), spelling
    assert pin_root(Path(f"/proc/self/root{root}/a"), hidden=[]).path == root


@pytest.mark.clause("BND-1", "BND-11")
def test_worktrees_and_submodules_are_roots(git_repo: Repo, tmp_path: Path) -> None:
    main = git_repo(name="main")
    git(main, "worktree", "add", "-q", str(main / "inner"))
    assert pin_root(main / "inner", hidden=[]).path == main / "inner"
    assert pin_root(main / "inner", hidden=[]).git_dirs == (main / ".git" / "worktrees" / "inner", main / ".git")
    library = git_repo(name="library")
    git(main, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    assert pin_root(main / "lib", hidden=[]).path == main / "lib"
    assert pin_root(main / "lib", hidden=[]).git_dirs == (main / ".git" / "modules" / "lib",)


@pytest.mark.clause("BND-1")
def test_an_empty_git_folder_is_no_repository(git_repo: Repo) -> None:
    root = git_repo({"sub/x": "x\n"})
    (root / "sub" / ".git").mkdir()
    assert pin_root(root / "sub", hidden=[]).path == root
    assert nearest_repository(root / "sub") == root


def refused(cwd: Path, *, hidden: tuple[Path, ...] = (), home: Path | None = None, read_only: bool = False) -> str:
    with pytest.raises(WorkspaceRefused) as caught:
        pin_root(cwd, hidden=hidden, home=home, read_only=read_only)
    assert caught.value.code == "workspace_refused"
    return caught.value.message


@pytest.mark.clause("BND-1")
@pytest.mark.parametrize(
    "path",
    [
        *("/", "//", "/proc/self/root", "/etc", "/usr", "/bin", "/sbin", "/lib", "/boot", "/dev", "/proc", "/sys"),
        *("/run", "/var", "/tmp", "/var/tmp", "/opt", "/home", "/root", "/srv", "/mnt", "/media", "/usr/bin"),
        *("/usr/local", "/etc/ssl", "/proc/self", "/sys/kernel", "/dev/shm", "/dev/pts", "/usr/share/doc"),
        *("/tmp/..", "/tmp/../etc"),
    ],
)
def test_the_system_is_no_workspace(path: str) -> None:
    if not os.path.isdir(path):
        pytest.skip(f"{path} doesn't exist here")
    for read_only in (False, True):
        message = refused(Path(path), read_only=read_only)
        assert "can't be a workspace root" in message
        assert ". " in message, "it says what to do"


@pytest.mark.clause("BND-1")
def test_homes_and_what_holds_them(git_repo: Repo, tmp_path: Path) -> None:
    home = tmp_path / "people" / "me"
    (home / "project").mkdir(parents=True)
    assert "home folder" in refused(home, home=home)
    assert f"holds the home folder {home}" in refused(home.parent, home=home)
    assert pin_root(home / "project", hidden=[], home=home).path == home / "project"


@pytest.mark.clause("BND-1")
def test_a_home_that_is_a_repository_falls_back(git_repo: Repo) -> None:
    home = git_repo({"dotfiles/x": "x\n", "project/y": "y\n"}, name="me")
    assert pin_root(home / "project", hidden=[], home=home).path == home / "project"
    assert "home folder" in refused(home, home=home)


@pytest.mark.clause("BND-1")
def test_a_repository_above_the_home_is_refused(git_repo: Repo) -> None:
    above = git_repo({"me/project/x": "x\n"}, name="above")
    assert "holds the home folder" in refused(above / "me" / "project", home=above / "me")


@pytest.mark.clause("BND-1")
def test_home_by_variable_and_by_user_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "home folder" in refused(tmp_path)
    import pwd

    own = Path(os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir))
    if own.is_dir() and own.parts[1:2] not in (("usr",), ("bin",)) and os.access(own, os.R_OK):
        assert "can't be a workspace root" in refused(own)


@pytest.mark.clause("BND-1", "BND-16")
def test_the_harness_folders_are_apart(git_repo: Repo, tmp_path: Path) -> None:
    root = git_repo({"sub/x": "x\n"})
    for hidden in (root, root / "data", root / "sub" / "state", tmp_path):
        message = refused(root, hidden=(hidden,))
        assert str(hidden) in message
    (tmp_path / "link").symlink_to(root / "sub")
    refused(root, hidden=(tmp_path / "link",))
    assert pin_root(root, hidden=[tmp_path / "repo-data", tmp_path / "rep"]).path == root


@pytest.mark.clause("BND-1")
def test_what_is_missing_or_no_folder(tmp_path: Path) -> None:
    assert "can't be opened" in refused(tmp_path / "missing")
    (tmp_path / "file").write_text("x")
    assert "is no folder" in refused(tmp_path / "file")
    (tmp_path / "loop").symlink_to("loop")
    refused(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    refused(tmp_path / "dangling")


@pytest.mark.clause("BND-1")
def test_an_unwritable_root_is_for_reading_only(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    if os.geteuid() == 0:
        import subprocess

        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", folder], check=True)
    else:
        folder.chmod(0o555)
    try:
        assert "can't write" in refused(folder)
        assert pin_root(folder, hidden=[], read_only=True).path == folder
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", folder], check=True)
        else:
            folder.chmod(0o755)


@pytest.mark.clause("QLT-11")
def test_a_root_that_is_gone_or_replaced_is_refused(git_repo: Repo, tmp_path: Path) -> None:
    root = git_repo()
    pinned = pin_root(root, hidden=[])
    check_root(pinned)
    moved = tmp_path / "moved"
    root.rename(moved)
    with pytest.raises(WorkspaceRefused, match="can't be reached any more"):
        check_root(pinned)
    root.mkdir()
    with pytest.raises(WorkspaceRefused, match="replaced"):
        check_root(pinned)
    root.rmdir()
    root.symlink_to(moved)
    with pytest.raises(WorkspaceRefused, match="replaced"):
        check_root(pinned)
    root.unlink()
    moved.rename(root)
    check_root(pinned)
    root.rename(moved)
    root.write_text("a file")
    with pytest.raises(WorkspaceRefused):
        check_root(pinned)


@pytest.mark.clause("QLT-11")
def test_a_parent_that_became_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a" / "root").mkdir(parents=True)
    pinned = pin_root(tmp_path / "a" / "root", hidden=[])
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "a").symlink_to("b")
    with pytest.raises(WorkspaceRefused, match="replaced"):
        check_root(pinned)


@pytest.mark.clause("QLT-11")
@pytest.mark.parametrize("mode", ["on", "off"])
async def test_no_command_runs_in_a_replaced_root(make: BoxMaker, git_repo: Repo, tmp_path: Path, mode: str) -> None:
    root = git_repo()
    box = make(root, sandbox=mode)
    assert (await box.sh("true")).cause == "ok"
    root.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", root)
    with pytest.raises(WorkspaceRefused):
        await box.sh("touch ran")
    assert not (root / "ran").exists()
    assert not (tmp_path / "moved" / "ran").exists()


@pytest.mark.clause("QLT-11")
@pytest.mark.parametrize("mode", ["on", "off"])
async def test_a_swap_between_check_and_start_is_noticed(
    make: BoxMaker, git_repo: Repo, tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is exchanged after the first look, while the sandbox is being set up."""
    from drawbar.boundary import runner

    root, other = git_repo(), git_repo(name="other")
    box = make(root, sandbox=mode)

    def swap(pinned: object) -> None:
        root.rename(tmp_path / "moved")
        other.rename(root)

    monkeypatch.setattr(runner, "check_root", swap)
    with pytest.raises(WorkspaceRefused, match="replaced while"):
        await box.sh("touch ran")
    assert not (root / "ran").exists()
