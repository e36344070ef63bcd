"""What commands leave in git folders anywhere in the tree, and what the person's next git then does (QLT-3, BND-11)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import Box, git

from drawbar.boundary import git_session, git_watch
from drawbar.boundary.git_native import git_refusal
from drawbar.boundary.git_watch import GitWatch
from drawbar.boundary.roots import pin_root
from drawbar.contracts.errors import WorkspaceRefused

Repo = Callable[..., Path]
FSM = "printf '[core]\\n\\tfsmonitor = touch {s}\\n' >>{d}/config"
HOOK = "printf '#!/bin/sh\\ntouch {s}\\n' >{d}/hooks/post-index-change; chmod +x {d}/hooks/post-index-change"

PLANTS = {
    "new repository": ("git init -q n; " + FSM.replace("{d}", "n/.git"), "n"),
    "new deep one": ("git init -q a/b/c; " + FSM.replace("{d}", "a/b/c/.git"), "a/b/c"),
    "new one's hook": ("git init -q n; mkdir -p n/.git/hooks; " + HOOK.replace("{d}", "n/.git"), "n"),
    "hooks by link": (
        "git init -q n; mkdir e; printf '#!/bin/sh\\ntouch {s}' >e/post-index-change; chmod +x e/*; "
        "rm -rf n/.git/hooks; ln -s ../../e n/.git/hooks",
        "n",
    ),
    "hooks path": (
        "git init -q n; mkdir n/e; printf '#!/bin/sh\\ntouch {s}' >n/e/post-index-change; chmod +x n/e/*; "
        "git -C n config core.hooksPath e",
        "n",
    ),
    "included": (
        "git init -q n; printf '[core]\\nfsmonitor = touch {s}' >i; git -C n config include.path ../../i",
        "n",
    ),
    "bare in disguise": (
        "git init -q --bare b; git -C b config core.bare false; git -C b config core.worktree .; "
        + FSM.replace("{d}", "b"),
        "b",
    ),
    "folder by file": (
        "git init -q n; mv n/.git real; echo gitdir: ../real >n/.git; " + FSM.replace("{d}", "real"),
        "n",
    ),
    "folder by link": ("git init -q n; mv n/.git real; ln -s ../real n/.git; " + FSM.replace("{d}", "real"), "n"),
    "common folder": (
        "git init -q n; cp -r n/.git e; " + FSM.replace("{d}", "e") + "; echo ../../e >n/.git/commondir",
        "n",
    ),
    "known nested": (FSM.replace("{d}", "vendor/x/.git"), "vendor/x"),
    "known nested hook": (HOOK.replace("{d}", "vendor/x/.git"), "vendor/x"),
    "known nested moved": ("mv vendor v; cp -r v vendor; " + FSM.replace("{d}", "vendor/x/.git"), "vendor/x"),
    "unreadable for us": (
        "git init -q n; printf '[core]\\n\\tfsmonitor = \"touch {s}\"\\n[a b c\\n' >>n/.git/config",
        "n",
    ),
    "rebase step": (
        "git -c user.name=a -c user.email=a@b rebase -q -x 'test -e {s}.no' HEAD~1; "
        "echo 'exec touch {s}' >>.git/rebase-merge/git-rebase-todo",
        ".",
    ),
}


@pytest.fixture
def nested(git_repo: Repo) -> Path:
    root = git_repo({"file.txt": "a\n"})
    git(root, "commit", "-q", "--allow-empty", "-m", "Second")
    git(root, "clone", "-q", str(root), "vendor/x")
    (root / ".git/info/exclude").write_text("vendor\n")
    return root


@pytest.mark.clause("QLT-3", "BND-11")
@pytest.mark.parametrize("how", PLANTS)
async def test_the_persons_next_git_runs_nothing(make: BoxMaker, nested: Path, tmp_path: Path, how: str) -> None:
    command, place = PLANTS[how]
    sentinel = tmp_path / "sentinel"
    box = make(nested)
    result = await box.sh(command.replace("{s}", str(sentinel)))
    assert result.denial, "it is said"
    (nested / place / "new.txt").write_text("new\n")
    environment = os.environ | {"GIT_EDITOR": "true"}
    for words in (["status"], ["add", "new.txt"], ["rebase", "--continue"], ["status"]):
        subprocess.run(["git", *words], cwd=nested / place, env=environment, capture_output=True, check=False)
    assert not sentinel.exists()


@pytest.mark.clause("QLT-3")
async def test_the_plants_would_work_without_a_look(nested: Path, tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel"
    subprocess.run(["bash", "-c", PLANTS["new repository"][0].replace("{s}", str(sentinel))], cwd=nested, check=True)
    subprocess.run(["git", "status"], cwd=nested / "n", capture_output=True, check=False)
    assert sentinel.exists()


@pytest.mark.clause("BND-11", "QLT-1")
async def test_repositories_that_tools_make_are_left_as_they_are(make: BoxMaker, nested: Path) -> None:
    box = make(nested)
    result = await box.sh(
        "git init -q n && git clone -q . c && git clone -q --bare . b && git init -q --separate-git-dir=s t && "
        "git -C n config user.name x && git -C n config core.hooksPath /dev/null && "
        "git -C n config commit.gpgsign false && git worktree add -q w && git -C n config core.autocrlf input"
    )
    assert (result.cause, result.denial) == ("ok", None)
    for place in ("n", "c", "b", "t", "w", "vendor/x"):
        git(nested / place, "rev-parse", "--git-dir")
    await box.text("rm -rf n c b s t vendor && git worktree remove w && git worktree prune")


LINKS = (
    "COMMIT_EDITMSG",
    "MERGE_MSG",
    "logs/HEAD",
    "index.lock",
    "packed-refs",
    "ORIG_HEAD",
    "refs/heads/topic",
    "FETCH_HEAD",
)


@pytest.mark.clause("BND-11")
@pytest.mark.parametrize("name", LINKS)
async def test_git_writes_through_no_link_that_a_command_left(box: Box, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "bashrc"
    outside.write_text("mine\n")
    result = await box.sh(f"rm -f .git/{name}; ln -s {outside} .git/{name}")
    assert name in (result.denial or "")
    assert not (box.root / ".git" / name).is_symlink()
    for words in (["commit", "--allow-empty", "-m", "evil"], ["branch", "-f", "topic"], ["pack-refs", "--all"]):
        subprocess.run(["git", *words], cwd=box.root, capture_output=True, check=False)
    assert outside.read_text() == "mine\n"


@pytest.mark.clause("BND-11")
async def test_pipes_and_sockets_in_git_folders_are_removed(box: Box) -> None:
    await box.sh(
        "rm -f .git/COMMIT_EDITMSG; mkfifo .git/COMMIT_EDITMSG .git/gc.pid; "
        "python3 -c \"import socket; socket.socket(1).bind('.git/fsmonitor--daemon.ipc')\""
    )
    for name in ("COMMIT_EDITMSG", "gc.pid", "fsmonitor--daemon.ipc"):
        assert not (box.root / ".git" / name).exists()


@pytest.mark.clause("BND-11")
@pytest.mark.parametrize("how", ["link", "file"])
async def test_a_git_folder_elsewhere_in_the_root_is_guarded_too(make: BoxMaker, git_repo: Repo, how: str) -> None:
    root = git_repo({"a": "a\n"})
    (root / "store").mkdir()
    os.rename(root / ".git", root / "store/git")
    if how == "link":
        (root / ".git").symlink_to("store/git")
    else:
        (root / ".git").write_text("gitdir: store/git\n")
    (root / "store/git/info/exclude").write_text("store\n")
    box = make(root)
    await box.text("git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x")
    config = (root / "store/git/config").read_bytes()
    for command in (
        "printf '[core]\\nfsmonitor=x\\n' >>store/git/config",
        "mv store s2; cp -r s2 store; printf '[core]\\nfsmonitor=x\\n' >>store/git/config",
        "echo x >store/git/hooks/pre-commit; chmod +x store/git/hooks/pre-commit",
    ):
        await box.sh(command)
        assert (root / "store/git/config").read_bytes() == config
        assert not (root / "store/git/hooks/pre-commit").exists()


@pytest.mark.clause("BND-11")
async def test_an_included_file_in_the_tree_is_a_configuration(make: BoxMaker, git_repo: Repo) -> None:
    root = git_repo({".gitconfig": "[alias]\n\tst = status\n"})
    git(root, "config", "include.path", "../.gitconfig")
    git(root, "config", "--add", "include.path", "../later")
    box = make(root)
    assert (await box.sh("printf '[core]\\nfsmonitor=x\\n' >>.gitconfig")).exit_code != 0
    result = await box.sh("printf '[core]\\nfsmonitor=x\\n[pull]\\nff = only\\n' >later")
    assert "core.fsmonitor" in (result.denial or "")
    assert "fsmonitor" not in git(root, "config", "-l")
    assert git(root, "config", "pull.ff") == "only\n"


@pytest.mark.clause("BND-11")
async def test_a_hooks_folder_that_comes_later_runs_nothing(make: BoxMaker, git_repo: Repo) -> None:
    root = git_repo({"a": "a\n"})
    git(root, "config", "core.hooksPath", ".later")
    result = await make(root).sh("mkdir .later; printf '#!/bin/sh\\nexit 9' >.later/pre-commit; chmod +x .later/*")
    assert ".later/pre-commit" in (result.denial or "")
    git(root, "commit", "-q", "--allow-empty", "-m", "x")


@pytest.mark.clause("BND-9")
async def test_no_file_keeps_the_rights_of_its_owner_for_others(box: Box) -> None:
    await box.sh("cp /bin/true t; chmod 6755 t")
    assert not (box.root / "t").stat().st_mode & (stat.S_ISUID | stat.S_ISGID)


CRASH = """
import asyncio, sys, os, signal
from pathlib import Path
from tests.sandbox.kit import make_box
async def main():
    box = make_box(Path(sys.argv[1]), Path(sys.argv[2]))
    asyncio.get_running_loop().call_later(1.5, os.kill, os.getpid(), signal.SIGKILL)
    await box.sh("git init -q n; git -C n config core.fsmonitor evil; echo done >planted; sleep 20")
asyncio.run(main())
"""


@pytest.mark.clause("QLT-3", "BND-11")
async def test_what_a_killed_harness_could_not_look_at_the_next_one_does(
    make: BoxMaker, nested: Path, tmp_path: Path
) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
    done = subprocess.run([sys.executable, "-c", CRASH, nested, tmp_path], env=environment, check=False)
    assert done.returncode == -9
    assert (nested / "planted").exists()
    assert "fsmonitor" in (nested / "n/.git/config").read_text()
    result = await make(nested).sh("true")
    assert "core.fsmonitor" in (result.denial or "")
    assert "fsmonitor" not in (nested / "n/.git/config").read_text()


@pytest.mark.clause("BND-11")
async def test_what_the_person_had_or_makes_between_commands_stays(
    make: BoxMaker, nested: Path, tmp_path: Path
) -> None:
    git(nested / "vendor/x", "config", "core.fsmonitor", "true ")
    git(nested / "vendor/x", "config", "alias.x", "!true")
    watch = GitWatch(pin_root(nested, hidden=[]), tmp_path / "records")
    await watch.before()
    assert await watch.after() == []
    git(nested / "vendor/x", "config", "alias.y", "!true")
    watch.begin()
    await watch.before()
    assert await watch.after() == []
    assert "alias.y" in git(nested / "vendor/x", "config", "-l")
    assert list((tmp_path / "records").iterdir()) == []
    with contextlib.suppress(asyncio.CancelledError):
        await watch.close()


@pytest.mark.clause("BND-7", "BND-11")
async def test_native_writes_make_no_repository_and_no_hook(git_repo: Repo) -> None:
    root = git_repo({".hooks/pre-commit": "true\n", "plain/HEAD": "x\n"})
    git(root, "config", "core.hooksPath", ".hooks")
    git(root, "init", "-q", "--bare", "bare")
    (root / "half/objects").mkdir(parents=True)
    (root / "half/refs").mkdir()
    pinned = pin_root(root, hidden=[])
    for path in (".hooks/pre-commit", ".hooks/new", "bare/config", "bare/hooks/pre-commit", "half/HEAD"):
        assert git_refusal(pinned, root / path), path
    for path in ("plain/HEAD", "plain/config", "half/config", "HEAD", "src/objects/x", "new/deep/HEAD"):
        assert git_refusal(pinned, root / path) is None, path


@pytest.mark.clause("BND-12", "BND-17")
@pytest.mark.parametrize("pattern", ["**", "*.key"])
async def test_a_pattern_closes_everything_it_names_and_its_other_names(
    make: BoxMaker, git_repo: Repo, pattern: str
) -> None:
    root = git_repo({"a.key": "secret\n"})
    os.link(root / "a.key", root / "plain.txt")
    box = make(root, deny_read=(pattern,))
    result = await box.sh("cat a.key plain.txt", scope="read-only")
    assert "secret" not in result.output


@pytest.mark.clause("QLT-3", "BND-11", "PRF-2")
async def test_a_look_that_outlasts_its_command_is_waited_for_and_recorded(
    make: BoxMaker, nested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large tree's look goes on beside the model's request; nothing starts, and no run ends, before it has ended."""
    monkeypatch.setattr(git_session, "_PATIENCE_S", 0.0)
    whole = GitWatch.after

    async def slow(self: GitWatch, *rest: object) -> list[str]:
        await asyncio.sleep(0.2)
        return await whole(self)

    monkeypatch.setattr(GitWatch, "after", slow)
    told: list[tuple[str, str]] = []
    box = make(nested, notice=lambda code, text: told.append((code, text)))
    plant = PLANTS["new repository"][0].format(s=tmp_path / "sentinel")
    first = await box.sh(plant)
    assert first.denial is None
    second = await box.sh("true")
    assert "fsmonitor" in (second.denial or "")
    assert [code for code, _text in told] == ["git_changed_back"]
    await box.sh(PLANTS["new deep one"][0].format(s=tmp_path / "sentinel"))
    await box.runner.close()
    assert len(told) == 2
    for folder in ("n", "a/b/c"):
        subprocess.run(["git", "-C", nested / folder, "status"], check=True, capture_output=True)
    assert not (tmp_path / "sentinel").exists()


@pytest.mark.clause("QLT-3", "BND-11")
async def test_a_look_that_takes_too_long_stops_the_next_command(
    make: BoxMaker, nested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was planted is never taken for the person's own, in this run or the next."""
    told: list[tuple[str, str]] = []
    sentinel = tmp_path / "sentinel"
    git(nested / "vendor/x", "config", "alias.mine", "!true")
    box = make(nested, notice=lambda code, text: told.append((code, text)))
    await box.text("true")
    with monkeypatch.context() as limits:
        limits.setattr(git_watch, "LIMIT_S", 0.0)
        planted = await box.sh(PLANTS["known nested"][0].format(s=sentinel))
        assert "took over" in (planted.denial or "")
        assert [code for code, _ in told] == ["git_not_looked"]
        assert "look at new .git folders" in told[0][1]
        box.runner.begin_turn()
        with pytest.raises(WorkspaceRefused, match=r"took over.*find \. -name \.git"):
            await box.sh("touch ran")
    assert not (nested / "ran").exists()
    later = await box.sh("true")
    assert "fsmonitor" in (later.denial or "")
    assert told[-1][0] == "git_changed_back"
    with monkeypatch.context() as limits:
        limits.setattr(git_watch, "LIMIT_S", 0.0)
        await box.sh(PLANTS["known nested"][0].format(s=sentinel))
        await box.runner.close()
    moved = nested.rename(tmp_path / "moved")
    result = await make(moved).sh("true")
    assert "fsmonitor" in (result.denial or ""), "the next run owes it, wherever the workspace is by then"
    assert git(moved / "vendor/x", "config", "alias.mine") == "!true\n"
    subprocess.run(["git", "-C", moved / "vendor/x", "status"], check=True, capture_output=True)
    assert not sentinel.exists()


@pytest.mark.clause("QLT-3", "BND-11")
async def test_without_a_look_before_no_command_starts(
    make: BoxMaker, nested: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without knowing what the person has, a look afterwards would take it away."""
    git(nested / "vendor/x", "config", "alias.mine", "!true")
    monkeypatch.setattr(git_watch, "LIMIT_S", 0.0)
    box = make(nested)
    with pytest.raises(WorkspaceRefused, match="No command is started"):
        await box.sh("touch ran")
    assert not (nested / "ran").exists()
    assert "ok" in await box.text("echo ok", scope="read-only")
    monkeypatch.setattr(git_watch, "LIMIT_S", 10.0)
    await box.text("true")
    assert git(nested / "vendor/x", "config", "alias.mine") == "!true\n"


@pytest.mark.clause("QLT-3", "BND-11")
async def test_native_writes_and_questions_wait_for_the_look(
    make: BoxMaker, nested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_session, "_PATIENCE_S", 0.0)
    whole = GitWatch.after

    async def slow(self: GitWatch, *rest: object) -> list[str]:
        await asyncio.sleep(0.2)
        return await whole(self)

    monkeypatch.setattr(GitWatch, "after", slow)
    box = make(nested)
    await box.sh(PLANTS["new repository"][0].format(s=tmp_path / "sentinel"))
    await box.runner.settled()
    git(nested / "n", "status")
    assert not (tmp_path / "sentinel").exists()


@pytest.mark.clause("PRF-2")
async def test_a_result_waits_for_quick_looks_alone(
    make: BoxMaker, nested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = GitWatch.after
    seconds = 0.3

    async def slow(self: GitWatch, *rest: object) -> list[str]:
        await asyncio.sleep(seconds)
        return await whole(self)

    monkeypatch.setattr(git_session, "_PATIENCE_S", 0.25)
    monkeypatch.setattr(GitWatch, "after", slow)
    box = make(nested)
    waited: list[bool] = []
    for seconds in (0.3, 0.3, 0.0, 0.0):  # noqa: B007 - the look above takes that long
        began = asyncio.get_running_loop().time()
        plant = PLANTS["new repository"][0].format(s=tmp_path / "sentinel")
        result = await box.sh(f"rm -rf n; {plant}")
        waited.append(asyncio.get_running_loop().time() - began >= 0.25)
        told = "fsmonitor" in (result.denial or "")
        await box.runner.settled()
    assert waited[0], "nobody knows yet how long a look takes here"
    assert not waited[1]
    assert told
    assert (await box.sh("true")).denial is None, "a quick look was waited for again, so that its own result told it"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into any folder; the area's tests run as another user too")
@pytest.mark.clause("QLT-3", "BND-11")
async def test_nothing_is_planted_behind_a_closed_door(make: BoxMaker, nested: Path, tmp_path: Path) -> None:
    (nested / "mine").mkdir(mode=0)
    sentinel = tmp_path / "sentinel"
    box = make(nested)
    plant = PLANTS["new repository"][0].format(s=sentinel)
    result = await box.sh(
        f"mkdir -p a/b; cd a/b; {plant}; chmod 0 n/.git/config n; cd ../..; chmod 0 a/b; chmod 0100 a"
    )
    for name in ("a", "a/b", "a/b/n"):
        assert f"{nested / name} was closed" in (result.denial or ""), name
    assert "mine" not in (result.denial or "")
    assert (nested / "mine").stat().st_mode & 0o777 == 0
    subprocess.run(["chmod", "-R", "u+rwX", "."], cwd=nested, check=True)
    subprocess.run(["git", "status"], cwd=nested / "a/b/n", capture_output=True, check=False)
    assert not sentinel.exists()
