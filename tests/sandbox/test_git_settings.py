"""Git's settings inside a sandbox are a copy: ordinary work records there, programs stay there (BND-11, QLT-1)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import Box, git

from drawbar.boundary.git_config import ConfigUnreadable, Entry, filtered, parse, rewritten
from drawbar.boundary.git_harmless import carried, harmless

USER = "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b"
words = st.text(alphabet=st.sampled_from('ab /~.$;#"\\=[]\té'), min_size=1, max_size=10)


@pytest.fixture
def upstream(box: Box, tmp_path: Path) -> Path:
    """A remote below the root, so that a command can push to it."""
    git(box.root, "init", "-q", "--bare", "up.git")
    git(box.root, "remote", "add", "origin", str(box.root / "up.git"))
    return box.root / "up.git"


@pytest.mark.clause("BND-11", "QLT-1")
async def test_what_ordinary_work_records_reaches_the_persons_configuration(box: Box, upstream: Path) -> None:
    await box.text("git push -q -u origin main")
    assert git(box.root, "rev-parse", "--abbrev-ref", "@{u}") == "origin/main\n"
    await box.text("git branch -m renamed && git branch --unset-upstream && git branch -u origin/main")
    assert git(box.root, "config", "branch.renamed.merge") == "refs/heads/main\n"
    assert "branch.main" not in git(box.root, "config", "-l", "--local")
    await box.text("git remote add second https://example.invalid/x.git")
    assert git(box.root, "remote") == "origin\nsecond\n"
    await box.text("git init -q . && git sparse-checkout set src && test ! -e docs")
    assert git(box.root, "sparse-checkout", "list") == "src\n"
    assert git(box.root, "status", "--short", "-uno") == ""


@pytest.mark.clause("BND-11", "QLT-3")
async def test_what_names_a_program_stays_in_the_session_and_is_said(box: Box, upstream: Path, tmp_path: Path) -> None:
    before = (box.root / ".git/config").read_bytes()
    sentinel = tmp_path / "sentinel"
    result = await box.sh(
        f"git config core.fsmonitor 'touch {sentinel}' && git config alias.st '!touch {sentinel}' && "
        f"git config remote.origin.url 'ext::touch {sentinel}' && "
        f"git config branch.x.remote 'ext::touch {sentinel}' && git config include.path ../evil && "
        "git config user.name Else"
    )
    assert result.cause == "ok"
    assert (box.root / ".git/config").read_bytes() == before
    for name in ("core.fsmonitor", "alias.st", "remote.origin.url", "branch.x.remote", "include.path"):
        assert name in (result.denial or "")
    assert await box.text("git config user.name") == "Else\n", "it holds for the session's own commands"
    again = await box.sh("true")
    assert again.denial is None, "said once"
    more = await box.sh("git config pager.log false")
    assert "pager.log" in (more.denial or "")
    assert "fsmonitor" not in (more.denial or "")
    git(box.root, "status")
    assert not sentinel.exists()


@pytest.mark.clause("BND-11")
async def test_a_change_of_the_persons_own_meanwhile_is_kept(box: Box) -> None:
    await box.text("git config branch.a.remote .")
    git(box.root, "config", "alias.mine", "status")
    await box.text("git config alias.mine && git config branch.b.remote .")
    listed = git(box.root, "config", "-l", "--local")
    assert "alias.mine=status" in listed
    assert "branch.a.remote=." in listed
    assert "branch.b.remote=." in listed


@pytest.mark.clause("BND-11")
async def test_whatever_a_command_makes_of_the_copies_harms_nothing(box: Box, tmp_path: Path) -> None:
    before = (box.root / ".git/config").read_bytes()
    secret = tmp_path / "secret"
    secret.write_text('[branch "x"]\n\tremote = origin\n')
    for command in (
        f"f=$(readlink .git/config); rm $f; ln -s {secret} $f",
        "f=$(readlink .git/config); rm -f $f; mkfifo $f",
        "f=$(readlink .git/config); rm -f $f; head -c 3000000 /dev/zero >$f",
        "f=$(readlink .git/config); rm -rf $(dirname $f)/*",
        "f=$(readlink .git/config); printf '[branch \"x\"\\n' >$f",
    ):
        await box.sh(command)
        assert (box.root / ".git/config").read_bytes() == before, command
    await box.text("git status && git config branch.y.remote .")
    assert "branch.y.remote" in git(box.root, "config", "-l", "--local")


@pytest.mark.clause("BND-11", "QLT-1")
async def test_submodules_come_and_go(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    root = git_repo({"a": "a\n"})
    git(root, "clone", "-q", str(root), "vendor-source")
    (root / ".git/info/exclude").write_text("vendor-source\n")
    box = make(root)
    allow = f"{USER}; git -c protocol.file.allow=always"
    await box.text(f"{allow} submodule --quiet add ./vendor-source lib && git commit -qm Add")
    await box.text("git submodule deinit -q -f lib")
    await box.text(f"{allow} submodule --quiet update --init lib && test -e lib/a")
    assert git(root, "config", "submodule.lib.active") == "true\n"
    assert git(root, "-C", "lib", "log", "-1", "--format=%s")
    await box.text(f"{USER}; git rm -q -f lib && git commit -qm Remove")
    assert git(root, "status", "--short", "-uno") == ""


@pytest.mark.clause("BND-11", "QLT-3")
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(words, st.sampled_from(["remote", "merge", "x"]), words), min_size=1, max_size=4))
def test_entries_are_read_and_written_as_git_does(tmp_path: Path, given_: list[tuple[str, str, str]]) -> None:
    file = tmp_path / "config"
    file.unlink(missing_ok=True)
    wanted = [Entry("branch", name, key, value) for name, key, value in given_]
    file.write_text(rewritten("[core]\n\tbare = false\n", wanted, lambda entry: entry.section == "branch"))
    said = subprocess.run(["git", "config", "-z", "-l", "-f", file], capture_output=True, check=True).stdout.decode()
    pairs = [tuple(item.split("\n", 1)) for item in said.split("\0") if item]
    assert [pair for pair in pairs if pair[0] != "core.bare"] == [(e.name, e.value) for e in wanted]
    for entry in wanted:
        subprocess.run(
            ["git", "config", "--add", "-f", file, f"branch.{entry.subsection}.{entry.key}", "y"], check=True
        )
    assert sum(1 for entry in parse(file.read_text()) if entry.value == "y") >= len(wanted)


@pytest.mark.clause("QLT-3")
def test_what_git_might_read_otherwise_is_not_read() -> None:
    for text in ("a = b\n", "[core\n", '[core "a]\n', "[core]\n\tx = \\q\n", '[core]\nx = "a\n', "[core]\nx y\n", "\0"):
        with pytest.raises(ConfigUnreadable):
            parse(text)
    kept, dropped = filtered("[core]\n\ta = 1 # x\n\tb = 2\n", lambda entry: entry.key != "a")
    assert (kept, [entry.key for entry in dropped]) == ("[core]\n\tb = 2\n", ["a"])


RUNS = {
    *("core.fsmonitor", "core.hookspath", "core.sshcommand", "core.pager", "core.editor", "core.gitproxy"),
    *("core.askpass", "core.attributesfile", "core.alternaterefscommand", "alias.x", "include.path", "pager.log"),
    *("gpg.program", "gpg.ssh.defaultkeycommand", "user.signingkey", "sequence.editor", "diff.external"),
    *("credential.helper", "credential.https://x.helper", "diff.x.textconv", "diff.x.command", "filter.x.clean"),
    *("filter.x.process", "merge.x.driver", "merge.tool", "mergetool.x.cmd", "difftool.x.cmd", "browser.x.cmd"),
    *("remote.x.uploadpack", "remote.x.receivepack", "remote.x.vcs", "remote.x.proxy", "url.ext::x.insteadof"),
    *("includeif.gitdir:/.path", "gc.recentobjectshook", "uploadpack.packobjectshook", "http.proxy", "trailer.x.cmd"),
    *("protocol.ext.allow", "protocol.allow", "submodule.x.update", "branch.x.mergeoptions", "interactive.difffilter"),
    *("instaweb.httpd", "web.browser", "man.x.cmd", "guitool.x.cmd", "sendemail.smtpserver", "tar.x.command"),
    *("lfs.customtransfer.x.path", "core.commentstring", "hook.x.command", "receive.procreceiverefs"),
}


@pytest.mark.clause("QLT-3", "BND-11")
def test_no_setting_that_runs_a_program_is_called_harmless() -> None:
    for name in RUNS:
        section, _, rest = name.partition(".")
        subsection, _, key = rest.rpartition(".")
        entry = Entry(section, subsection or None, key, "!/evil")
        assert not harmless(entry, base=Path("/w/r/.git"), root=Path("/w/r")), name
        assert not carried(entry), name


@pytest.mark.clause("BND-11", "QLT-1", "QLT-3")
async def test_a_copied_repository_is_one_of_its_own(box: Box, upstream: Path, tmp_path: Path) -> None:
    """The link to the session's copy, which a command sees as ``.git/config``, means nothing to the person."""
    sentinel = tmp_path / "sentinel"
    (box.root / ".git/info/exclude").write_text("copy*\n")
    result = await box.sh(
        f"mkdir copy && cp -a .git file.txt src copy && git -C copy status --short && {USER}; "
        "git -C copy commit -q --allow-empty -m Copied"
    )
    assert result.cause == "ok"
    assert result.denial is None
    assert git(box.root / "copy", "remote", "get-url", "origin") == f"{upstream}\n"
    assert not (box.root / "copy/.git/config").is_symlink()
    git(box.root / "copy", "config", "user.name", "Else")
    assert "Else" not in git(box.root, "config", "-l")
    result = await box.sh(f"git config core.fsmonitor 'touch {sentinel}'; cp -a .git copy2; mkdir c; mv copy2 c/.git")
    assert "c/.git/config: core.fsmonitor" in (result.denial or "")
    git(box.root / "c", "status")
    assert not sentinel.exists()
