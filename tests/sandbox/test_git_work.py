"""Ordinary git work goes on, and no program can be planted where git would run it (BND-11)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import FIXTURES, Box, git

from drawbar.boundary.git_folders import verified_git_folders
from drawbar.boundary.roots import pin_root

WORK = [
    "echo more >>file.txt && git add -A && git commit -qm 'Change it'",
    "git commit -q --allow-empty -m 'By name' --author 'Some One <one@example.invalid>'",
    "git switch -qc topic && echo t >topic.txt && git add . && git commit -qm Topic",
    "git branch other && git branch -f other HEAD",
    "git tag v1 && git tag -a v2 -m annotated",
    "git switch -q main && echo m >main.txt && git add . && git commit -qm Main && git switch -q topic",
    "git rebase -q main",
    "git rebase -q -i HEAD~1",
    "git switch -q main && git merge -q --no-ff -m Merged topic",
    "git stash list; echo dirty >>file.txt; git stash -q && git stash pop -q && git checkout -q file.txt",
    "git cherry-pick --allow-empty -x HEAD~1 -m 1 || git cherry-pick --abort || git cherry-pick --skip; true",
    "git reset -q --hard HEAD~1",
    "git mv file.txt moved.txt && git commit -qm Moved",
    "git rm -q moved.txt && git commit -qm Removed",
    "git notes add -m note && git log --oneline --notes -3",
    "git worktree prune && git fsck --no-progress && git diff HEAD~1 --stat && git status",
    "git -c user.name=x commit -q --amend --no-edit",
    "echo ignored >.gitignore && git add . && git commit -qm Ignore && git clean -fdxq",
]
"""In this order, in any kind of checkout."""

LOCAL = ["git gc -q", "git pack-refs --all && git branch -D other", "git update-ref -d refs/tags/v1", "git repack -adq"]
"""What rewrites the common git folder itself: not in a linked worktree."""

USER = "export " + " ".join(f"GIT_{who}_NAME=A GIT_{who}_EMAIL=a@example.invalid" for who in ("AUTHOR", "COMMITTER"))


async def works(box: Box, commands: list[str]) -> None:
    for command in commands:
        result = await box.sh(f"{USER}; set -e; {command}")
        print(command, result.output)
        assert result.exit_code == 0, (command, result.output)
    assert git(box.root, "fsck", "--no-progress", "--no-dangling") == ""
    assert git(box.root, "status", "--porcelain") == ""


@pytest.mark.clause("BND-11", "QLT-1")
async def test_ordinary_work_in_a_repository(box: Box) -> None:
    await works(box, WORK + LOCAL)


@pytest.fixture
def worktree(git_repo: Callable[..., Path], tmp_path: Path) -> Path:
    main = git_repo({"file.txt": "aaa\n", "src/app.py": "pass\n"}, name="main-checkout")
    git(main, "branch", "side")
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "task")
    git(main, "switch", "-q", "side")
    return tmp_path / "linked"


@pytest.mark.clause("BND-11", "QLT-1")
async def test_ordinary_work_in_a_linked_worktree(make: BoxMaker, worktree: Path) -> None:
    git(worktree.parent / "main-checkout", "branch", "-f", "main", "HEAD")
    box = make(worktree)
    assert box.runner._policy.root.git_dirs  # pyright: ignore[reportPrivateUsage]
    await works(box, WORK)


@pytest.mark.bug("SBX-06")
@pytest.mark.clause("BND-11")
async def test_a_worktree_commits_and_leaves_the_main_checkout_alone(make: BoxMaker, tmp_path: Path) -> None:
    subprocess.run(["bash", FIXTURES / "SBX-06" / "make.sh", tmp_path], check=True, capture_output=True)
    box = make(tmp_path / "wt")
    main = tmp_path / "main"
    await box.text(f"{USER}; git add a && git commit -qm done")
    assert git(main, "log", "-1", "--format=%s", "task") == "done\n"
    for command in (
        f"echo x >{main}/a",
        f"echo x >{main}/.git/hooks/pre-commit",
        f"echo x >{main}/.git/HEAD",
        f"echo x >{main}/.git/index",
        f"rm -rf {main}/.git/worktrees/wt/gitdir",
        f"echo {main} >{main}/.git/worktrees/wt/commondir",
        f"echo x >{main}/.git/worktrees/wt/config.worktree",
        "echo gitdir: /tmp/evil >.git",
        "rm -f .git; mkdir .git",
        "mv .git .git2",
    ):
        assert (await box.sh(command)).exit_code != 0, command
    config = (main / ".git" / "config").read_bytes()
    for command in (
        f"echo x >>{main}/.git/config",
        "git config core.fsmonitor ./evil",
        "git config --worktree core.fsmonitor ./evil",
    ):
        await box.sh(command)
        assert (main / ".git" / "config").read_bytes() == config, command
    assert git(main, "config", "--default", "none", "core.fsmonitor") == "none\n"
    assert git(tmp_path / "wt", "config", "--default", "none", "core.fsmonitor") == "none\n"
    assert (main / "a").read_text() == "a\n"


@pytest.mark.clause("BND-11")
async def test_a_worktree_inside_its_main_checkout_does_not_write_there(
    make: BoxMaker, git_repo: Callable[..., Path]
) -> None:
    main = git_repo({"a": "a\n"})
    git(main, "worktree", "add", "-q", str(main / ".trees" / "one"), "-b", "one")
    box = make(main / ".trees" / "one")
    await box.text(f"{USER}; echo x >a; git commit -qam done")
    for command in (f"echo x >{main}/a", f"echo x >{main}/.trees/new", f"echo x >{main}/.git/HEAD"):
        assert (await box.sh(command)).exit_code != 0, command
    assert (main / "a").read_text() == "a\n"


@pytest.fixture
def submodule(git_repo: Callable[..., Path], tmp_path: Path) -> Path:
    library = git_repo({"file.txt": "aaa\n"}, name="library")
    parent = git_repo({"top.txt": "t\n"}, name="parent")
    git(parent, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "vendor/lib")
    git(parent, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    git(parent, "commit", "-qm", "Submodules")
    for sub in ("vendor/lib", "lib"):
        git(parent / sub, "switch", "-qC", "main")
    return parent


@pytest.mark.clause("BND-11", "QLT-1")
async def test_ordinary_work_in_a_submodule(make: BoxMaker, submodule: Path) -> None:
    await works(make(submodule / "vendor" / "lib"), WORK + LOCAL)


@pytest.mark.clause("BND-11", "QLT-1")
async def test_ordinary_work_from_the_parent_of_submodules(make: BoxMaker, submodule: Path) -> None:
    box = make(submodule)
    for sub in ("vendor/lib", "lib"):
        await box.text(f"{USER}; cd {sub}; echo x >x.txt; git add . && git commit -qm 'In the submodule'")
        assert git(submodule / sub, "log", "-1", "--format=%s") == "In the submodule\n"
    await box.text(f"{USER}; git add -A && git commit -qm Pointers && git submodule status && git status --short")


PLANTS = {
    "hook": "echo 'touch {s}' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "hooks renamed": "mv .git/hooks .git/hooks2; mkdir .git/hooks; echo 'touch {s}' >.git/hooks/pre-commit",
    "hooks removed": "rm -rf .git/hooks; mkdir .git/hooks; printf '#!/bin/sh\\ntouch {s}' >.git/hooks/pre-commit",
    "fsmonitor": "git config core.fsmonitor 'touch {s}; false'",
    "config append": "printf '[core]\\nfsmonitor = touch {s}\\n' >>.git/config",
    "config renamed over": "printf '[core]\\nfsmonitor=touch {s}\\n' >c; cat .git/config >>c; mv -f c .git/config",
    "config by lock": "printf '[core]\\nfsmonitor=touch {s}\\n' >.git/config.lock; mv .git/config.lock .git/config",
    "git renamed": "mv .git .g2; cp -r .g2 .git; printf '[core]\\nfsmonitor=touch {s}\\n' >>.git/config",
    "git removed": "cp -r .git g; rm -rf .git; mv g .git; printf '[core]\\nfsmonitor=touch {s}\\n' >>.git/config",
    "git by file": (
        "cp -r .git g; printf '[core]\\nfsmonitor=touch {s}\\n' >>g/config; rm -rf .git; echo gitdir: g >.git"
    ),
    "worktree config": "git config --worktree core.fsmonitor 'touch {s}'",
    "worktree config file": "printf '[core]\\nfsmonitor=touch {s}\\n' >.git/config.worktree",
    "attributes": "echo '* filter=evil' >.git/info/attributes",
    "exclude": "echo '*' >.git/info/exclude",
    "common folder": (
        "cp -r .git evil; printf '[core]\\nfsmonitor=touch {s}\\n' >>evil/config; echo \"$PWD/evil\" >.git/commondir"
    ),
    "common folder by link": "cp -r .git evil; echo ../evil >c; ln -s ../c .git/commondir",
    "commands by mode": "chmod 777 .git/hooks .git/config; printf 'touch {s}' >.git/hooks/post-commit",
    "rename of a parent": "mv src src2; mkdir -p src; mv .git/hooks src/",
    "exchange": (
        "python3 -c \"import ctypes,os; os.makedirs('h',exist_ok=True); "
        "print(ctypes.CDLL(None).renameat2(-100,b'h',-100,b'.git/hooks',2))\"; echo 'touch {s}' >.git/hooks/pre-commit"
    ),
    "settings": "echo 'x = 1' >>.drawbar/config.toml",
    "settings renamed": "mv .drawbar .d2; mkdir .drawbar; echo 'x = 1' >.drawbar/config.toml",
}


@pytest.fixture
def tempting(git_repo: Callable[..., Path]) -> Path:
    return git_repo({"file.txt": "a\n", "src/x": "x\n", ".drawbar/config.toml": "# settings\n"})


@pytest.mark.clause("BND-11")
@pytest.mark.parametrize("how", PLANTS)
async def test_nothing_can_be_planted(make: BoxMaker, tempting: Path, tmp_path: Path, how: str) -> None:
    sentinel = tmp_path / "sentinel"
    box = make(tempting)
    await box.text("true")
    guarded = _guarded(tempting)
    await box.sh(PLANTS[how].replace("{s}", str(sentinel)))
    assert _guarded(tempting) == guarded
    for command in (["status"], ["add", "-A"], ["commit", "-qm", "By the person"], ["diff", "HEAD~1"]):
        subprocess.run(["git", *command], cwd=tempting, capture_output=True, check=False)
    assert not sentinel.exists()


@pytest.mark.clause("BND-11")
async def test_a_planted_redirect_is_said_and_removed(box: Box) -> None:
    result = await box.sh("echo ../evil >.git/commondir")
    assert result.denial is not None
    assert "commondir" in result.denial
    assert not (box.root / ".git" / "commondir").exists()
    assert git(box.root, "status", "--short") == ""


@pytest.mark.clause("BND-11")
@pytest.mark.parametrize("sub", ["vendor/lib", "lib"])
async def test_nothing_can_be_planted_in_submodules(make: BoxMaker, submodule: Path, tmp_path: Path, sub: str) -> None:
    box = make(submodule)
    await box.text("true")
    modules = f".git/modules/{sub}"
    for command in (
        f"echo x >{modules}/hooks/pre-commit",
        f"rm -rf {modules}/hooks && mkdir {modules}/hooks",
        f"mv {modules} {modules}2",
        "mv .git/modules .git/m2",
        "mv .git/modules/vendor .git/modules/v2",
    ):
        assert (await box.sh(command)).exit_code != 0, command
    config = (submodule / modules / "config").read_bytes()
    for command in (
        f"printf '[core]\\nfsmonitor = evil\\n' >>{modules}/config",
        f"printf '[core]\\nfsmonitor = evil\\n' >{modules}/config.worktree",
        f"git -C {sub} config core.fsmonitor evil",
    ):
        await box.text(command)
        assert (submodule / modules / "config").read_bytes() == config, command
        assert (submodule / modules / "config.worktree").read_bytes() == b""
    result = await box.sh(f"echo gitdir: /tmp/evil >{sub}/.git")
    assert not (submodule / sub / ".git").exists()
    assert "set aside" in (result.denial or "")
    await box.sh(f"echo /tmp/evil >{modules}/commondir")
    assert not (submodule / modules / "commondir").exists()


@pytest.mark.clause("BND-11")
async def test_hooks_in_the_tree_are_hooks_too(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    for number, (path, protected) in enumerate(
        ((".husky/_", ".husky"), ("tools/hooks", "tools/hooks"), (".hooks", ".hooks"))
    ):
        root = git_repo({f"{path}/pre-commit": "true\n", "tools/other.txt": "o\n"}, name=f"hooked{number}")
        git(root, "config", "core.hooksPath", path)
        box = make(root)
        for command in (f"echo evil >>{path}/pre-commit", f"echo x >{protected}/new", f"mv {protected} gone"):
            assert (await box.sh(command)).exit_code != 0, command
        assert (await box.sh(f"mv {path.split('/')[0]} gone")).exit_code != 0
        await box.text(f"{USER}; echo x >tools/new.txt; git add . && git commit -qm ok")


@pytest.mark.clause("BND-11")
async def test_other_worktrees_are_closed_and_inner_ones_usable(make: BoxMaker, worktree: Path) -> None:
    main = worktree.parent / "main-checkout"
    git(main, "worktree", "add", "-q", str(main / ".trees" / "inner"), "-b", "inner")
    box = make(main)
    await box.text(f"{USER}; cd .trees/inner; echo x >x.txt; git add . && git commit -qm 'In the inner tree'")
    for command in (
        "echo x >.git/worktrees/linked/HEAD",
        "echo /tmp >.git/worktrees/linked/commondir",
        "mv .git/worktrees .git/w2",
    ):
        assert (await box.sh(command)).exit_code != 0, command
    await box.text(f"{USER}; git worktree add -q .trees/second -b second && cd .trees/second && git status")
    await box.text(f"{USER}; cd .trees/second; git commit -q --allow-empty -m Later; git worktree list")
    await box.text("git worktree move .trees/second .trees/third && git worktree remove .trees/third")
    for command, name in (
        ("echo /tmp >.git/worktrees/inner/commondir", ".git/worktrees/inner/commondir"),
        ("printf '[core]\\nfsmonitor = evil\\n' >.git/worktrees/inner/config.worktree", "config.worktree"),
        ("echo gitdir: /tmp/evil >.trees/inner/.git", ".trees/inner/.git"),
    ):
        result = await box.sh(command)
        assert name in (result.denial or ""), command
    assert (main / ".git/worktrees/inner/commondir").read_text() == "../..\n"
    assert "fsmonitor" not in (main / ".git/worktrees/inner/config.worktree").read_text()
    assert not (main / ".trees/inner/.git").exists()


@pytest.mark.clause("BND-11")
async def test_what_is_missing_is_made_ahead_and_never_in_the_workspace(
    make: BoxMaker, git_repo: Callable[..., Path]
) -> None:
    root = git_repo()
    import shutil

    shutil.rmtree(root / ".git" / "hooks")
    shutil.rmtree(root / ".git" / "info")
    box = make(root)
    assert (await box.sh("mkdir .git/hooks; echo x >.git/hooks/pre-commit")).exit_code != 0
    await box.text("echo '* filter=evil' >.git/info/attributes")
    assert not (root / ".git/info/attributes").exists()
    assert git(root, "status", "--short") == ""
    assert list((root / ".git" / "hooks").iterdir()) == []


@pytest.mark.clause("BND-11")
async def test_a_git_file_is_believed_only_when_both_ends_agree(
    make: BoxMaker, git_repo: Callable[..., Path], worktree: Path, tmp_path: Path
) -> None:
    main = worktree.parent / "main-checkout"
    victim = git_repo(name="victim")
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    for target in (victim / ".git", main / ".git" / "worktrees" / "linked", tmp_path / "nowhere"):
        (stranger / ".git").write_text(f"gitdir: {target}\n")
        assert verified_git_folders(stranger) == ()
        assert pin_root(stranger, hidden=[]).git_dirs == ()
    box = make(stranger)
    result = await box.sh(f"{USER}; git --git-dir={victim}/.git commit -q --allow-empty -m evil")
    assert result.exit_code != 0
    assert git(victim, "log", "--format=%s") == "Begin\n"
    assert verified_git_folders(worktree) == (main / ".git" / "worktrees" / "linked", main / ".git")
    # The other end moved on: git itself would repair that, we don't guess.
    (main / ".git" / "worktrees" / "linked" / "gitdir").write_text(f"{tmp_path}/elsewhere/.git\n")
    assert verified_git_folders(worktree) == ()


@pytest.mark.clause("BND-11")
async def test_a_forged_common_folder_is_not_bound(git_repo: Callable[..., Path], tmp_path: Path) -> None:
    """A model that may write one repository can't make another writable through a forged worktree in it."""
    mine, victim = git_repo(name="mine"), git_repo(name="victim")
    forged = mine / ".git" / "worktrees" / "forged"
    forged.mkdir(parents=True)
    target = mine / "sub"
    target.mkdir()
    (target / ".git").write_text(f"gitdir: {forged}\n")
    (forged / "gitdir").write_text(f"{target}/.git\n")
    (forged / "HEAD").write_text("ref: refs/heads/main\n")
    for common in (victim / ".git", Path("../../../victim/.git")):
        (forged / "commondir").write_text(f"{common}\n")
        assert verified_git_folders(target) == ()
    (forged / "commondir").write_text("../..\n")
    assert verified_git_folders(target) == (forged, mine / ".git")


@pytest.mark.clause("BND-11")
@pytest.mark.parametrize("linked", ["hooks", "config", "info"])
async def test_a_linked_guard_closes_the_git_folder(
    make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path, linked: str
) -> None:
    root = git_repo()
    (root / ".git" / linked).rename(tmp_path / linked)
    (root / ".git" / linked).symlink_to(tmp_path / linked)
    box = make(root)
    result = await box.sh(f"{USER}; rm .git/{linked}; git commit -q --allow-empty -m x")
    assert (root / ".git" / linked).is_symlink()
    assert result.exit_code != 0
    assert result.denial is not None
    assert "symlink" in result.denial


@pytest.mark.clause("BND-11")
async def test_refusals_of_git_say_what_works_instead(box: Box) -> None:
    git(box.root, "remote", "add", "origin", str(box.root))
    git(box.root, "fetch", "-q", "origin")
    result = await box.sh("echo x >.git/hooks/x")
    assert result.exit_code != 0
    assert "commit, branch, rebase and tag work" in (result.denial or "")


def _guarded(root: Path) -> dict[str, bytes | tuple[str, ...]]:
    found: dict[str, bytes | tuple[str, ...]] = {}
    for name in (".git/config", ".git/config.worktree", ".drawbar/config.toml", ".git/info/exclude"):
        found[name] = (root / name).read_bytes() if (root / name).exists() else b"-"
    for name in (".git/hooks", ".git/info", ".drawbar"):
        found[name] = tuple(sorted(os.listdir(root / name)))
    assert not (root / ".git" / "commondir").exists()
    assert (root / ".git").is_dir()
    return found


@pytest.mark.clause("BND-17", "BND-11", "QLT-1")
async def test_git_neither_records_nor_loses_a_tracked_file_that_is_closed(
    make: BoxMaker, git_repo: Callable[..., Path]
) -> None:
    """It shows as changed; whatever git is told to do, the person's file and what is committed of it stay."""
    root = git_repo({".env": "SECRET=1\n", "a.txt": "a\n", "b.txt": "b\n"})
    (root / ".env").write_text("SECRET=changed\n")
    box = make(root, deny_read=(".env",))
    for command in (
        "echo more >>a.txt; git stash",
        "git commit -qam All",
        "git add -A",
        "git add .env",
        "git checkout .env",
        "git restore .",
        "git reset -q --hard",
        "git stash -u",
    ):
        result = await box.sh(f"{USER}; {command}")
        assert result.exit_code != 0, command
        assert "closed by deny_read" in (result.denial or ""), (command, result)
        assert "SECRET" not in result.output
        assert (root / ".env").read_text() == "SECRET=changed\n", command
        assert git(root, "show", "HEAD:.env") == git(root, "show", ":.env") == "SECRET=1\n", command
        assert git(root, "stash", "list") == ""
    for command in (
        "echo more >>a.txt; git stash push -q -- a.txt && git stash pop -q && grep -q more a.txt",
        "git commit -qm Change a.txt",
        "echo new >new.txt; git add -A -- ':!.env' && git commit -qm New",
        "echo more >>b.txt; git restore b.txt",
        "git switch -qc topic && git switch -q main && git merge -q topic && git rebase -q topic || true",
        "git clean -fdxq; true",
    ):
        await box.text(f"{USER}; {command}")
    assert (root / ".env").read_text() == "SECRET=changed\n"
    assert git(root, "log", "--format=%s") == "New\nChange\nBegin\n"
    assert git(root, "status", "--short") == " M .env\n"


@pytest.mark.clause("BND-11", "QLT-3")
async def test_more_submodules_than_mounts_are_worked_in_and_looked_at(
    make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path
) -> None:
    root = git_repo({"top.txt": "t\n"}, name="parent")
    library = git_repo({"file.txt": "a\n"}, name="library")
    for number in range(10):
        git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), f"lib{number}")
    git(root, "commit", "-qm", "Submodules")
    box = make(root)
    await box.text(f"{USER}; cd lib9; echo x >x.txt; git add . && git commit -qm Inside")
    sentinel = tmp_path / "sentinel"
    result = await box.sh(
        f"git -C lib8 config core.fsmonitor 'touch {sentinel}'; "
        f"printf '#!/bin/sh\\ntouch {sentinel}' >.git/modules/lib7/hooks/post-index-change; "
        "chmod +x .git/modules/lib7/hooks/post-index-change; echo gitdir: /tmp/evil >lib6/.git"
    )
    for said in ("modules/lib8/config: core.fsmonitor", "modules/lib7/hooks/post-index-change", "lib6/.git"):
        assert said in (result.denial or ""), said
    for number in (7, 8, 9):
        (root / f"lib{number}" / "y.txt").write_text("y\n")
        git(root / f"lib{number}", "add", "y.txt")
        git(root / f"lib{number}", "status")
    assert not sentinel.exists()


@pytest.mark.clause("BND-11", "QLT-1")
async def test_worktrees_and_submodules_are_managed_across_calls(make: BoxMaker, submodule: Path) -> None:
    box = make(submodule)
    for command in (
        "git worktree add -q trees/one -b one",
        "cd trees/one && echo x >x.txt && git add . && git commit -qm 'In one'",
        "git worktree move trees/one trees/two",
        "cd trees/two && git log -1 --format=%s | grep -q 'In one'",
        "git worktree lock trees/two && git worktree unlock trees/two",
        "git worktree add -q trees/gone -b gone && rm -rf trees/gone",
        "git worktree prune -v && ! git worktree list | grep -q gone",
        "git worktree repair && git worktree remove -f trees/two",
        'test -z "$(ls .git/worktrees 2>/dev/null)" && git branch -D one gone',
        "git rm -q -f lib && git commit -qm 'Remove one'",
        "git submodule status && ! git submodule status | grep -q ' lib '",
        "git submodule deinit -q -f vendor/lib && git -c protocol.file.allow=always submodule update -q --init",
        "test -e vendor/lib/file.txt",
    ):
        result = await box.sh(f"{USER}; {command}")
        assert result.exit_code == 0, (command, result)
        assert result.denial is None, (command, result.denial)
    git(submodule, "fsck")


@pytest.mark.clause("BND-11", "QLT-3")
async def test_a_repository_in_the_private_folder_concerns_nobody_else(box: Box, tmp_path: Path) -> None:
    """Commands may make what they like there; a path from the workspace into it isn't followed by the person's git."""
    sentinel = tmp_path / "sentinel"
    await box.text(
        f"cd /tmp && git init -q r && git -C r config core.fsmonitor 'touch {sentinel}' && git -C r status; "
        f"cd {box.root} && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"
    )
    assert "fsmonitor" in await box.text("git -C /tmp/r config -l"), "the session keeps it"
    result = await box.sh(
        "mkdir n && echo gitdir: /tmp/r/.git >n/.git && ln -s /tmp/r/.git m.git && mkdir m && ln -s /tmp/r/.git m/.git"
    )
    assert "n/.git" in (result.denial or "")
    assert "m/.git" in (result.denial or "")
    for folder in (".", "n", "m"):
        subprocess.run(["git", "status"], cwd=box.root / folder, capture_output=True, check=False)
    assert not sentinel.exists()


@pytest.mark.clause("BND-11", "QLT-3")
async def test_alternates_are_data(box: Box, git_repo: Callable[..., Path]) -> None:
    """Objects of another repository are read by their digest; none of its programs is."""
    other = git_repo({"x": "x\n"}, name="other")
    before = git(other, "for-each-ref")
    await box.sh(f"echo {other}/.git/objects >.git/objects/info/alternates; git gc -q; git fsck; true")
    assert git(other, "for-each-ref") == before
    assert git(other, "fsck") == ""
    git(box.root, "fsck")


@pytest.mark.clause("BND-11", "QLT-1")
async def test_husky_runs_inside_and_its_scripts_stay(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    """Hooks that the person has run in the sandbox; commands neither change them nor switch them on outside."""
    root = git_repo(
        {
            ".husky/pre-commit": "echo checked >>checked.txt\n",
            ".husky/_/pre-commit": '#!/usr/bin/env sh\nsh -e "$(dirname "$0")/../pre-commit"\n',
            "package.json": '{"scripts": {"prepare": "husky"}}\n',
            ".gitignore": "checked.txt\n",
        }
    )
    (root / ".husky/_/pre-commit").chmod(0o755)
    git(root, "config", "core.hooksPath", ".husky/_")
    box = make(root)
    await box.text(f"{USER}; echo x >x.txt; git add x.txt && git commit -qm Checked")
    assert (root / "checked.txt").read_text() == "checked\n"
    assert (await box.sh("echo evil >>.husky/pre-commit")).exit_code != 0
    await box.text(f"{USER}; git commit -q --no-verify --allow-empty -m Unchecked")
    # As `husky` itself does on install; the setting is there already.
    assert (await box.sh("git config core.hooksPath .husky/_")).denial is None
    assert git(root, "config", "core.hooksPath") == ".husky/_\n"
    assert (root / ".husky/_/pre-commit").stat().st_mode & 0o111
