"""What no command may read: the harness's own folders, homes, credential stores, ``deny_read`` (BND-16, BND-17)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import FIXTURES, Box, git

from drawbar.contracts.capability import Scope

SCOPES: tuple[Scope, ...] = ("workspace", "read-only")


READS = [
    "cat {p}",
    "cat /proc/self/root{p}",
    "cat /proc/1/root{p}",
    "cd /; cat .{p}",
    "ln -s {p} l; cat l; rm l",
    "cp {p} c && cat c",
    "dd if={p} 2>&1",
    "tar cf - {p} | cat",
    "python3 -c \"print(open('{p}').read())\"",
    "grep -r '' $(dirname {p})",
    "mv {p} stolen; cat stolen",
    "mount --bind / /mnt; cat /mnt{p}",
    "chmod -R 777 $(dirname {p}); cat {p}",
    "umount -l $(dirname {p}); cat {p}",
]


@pytest.mark.clause("BND-16")
@pytest.mark.parametrize("mode", ["workspace", "read-only", "off"])
async def test_the_harness_folders_are_out_of_reach(
    make: BoxMaker, git_repo: Callable[..., Path], far: Path, mode: str
) -> None:
    hidden = far / "data"
    (hidden / "runs").mkdir(parents=True)
    secret = hidden / "runs" / "events.jsonl"
    secret.write_text("SECRET-EVENT\n")
    socket_path = hidden / "1.sock"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(socket_path))
    server.listen()
    box = make(git_repo(), hidden=(hidden,), sandbox="off" if mode == "off" else "on")
    scope: Scope = "read-only" if mode == "read-only" else "workspace"
    for command in READS:
        result = await box.sh(command.replace("{p}", str(secret)), scope=scope)
        assert "SECRET-EVENT" not in result.output, command
    for command in (f"echo x >>{secret}", f"rm -rf {hidden}", f"mv {hidden} {hidden}2", f"touch {hidden}/new"):
        assert (await box.sh(command, scope=scope)).exit_code != 0, command
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect('{socket_path}')"
    assert (await box.run(("/usr/bin/python3", "-c", connect), scope=scope)).exit_code != 0
    server.close()
    assert secret.read_text() == "SECRET-EVENT\n"


@pytest.mark.clause("BND-16")
@pytest.mark.parametrize("mode", ["workspace", "read-only", "off"])
async def test_pinned_files_stay_readable(make: BoxMaker, git_repo: Callable[..., Path], far: Path, mode: str) -> None:
    hidden = far / "data"
    skill = hidden / "variants" / "v1" / "skills" / "release"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("how to release\n")
    (hidden / "secret").write_text("SECRET\n")
    box = make(git_repo(), hidden=(hidden,), readable=(skill,), sandbox="off" if mode == "off" else "on")
    scope: Scope = "read-only" if mode == "read-only" else "workspace"
    assert await box.text(f"cat {skill}/SKILL.md; ls {skill}", scope=scope) == "how to release\nSKILL.md\n"
    for command in (f"echo x >>{skill}/SKILL.md", f"touch {skill}/new", f"cat {hidden}/secret", f"touch {hidden}/x"):
        assert (await box.sh(command, scope=scope)).exit_code != 0, command
    assert await box.text(f"ls -A {hidden}", scope=scope) == "variants\n"


@pytest.mark.clause("BND-16")
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
async def test_a_hidden_folder_is_hidden_under_its_other_names(
    make: BoxMaker, git_repo: Callable[..., Path], far: Path
) -> None:
    """A folder mounted a second time elsewhere shows the same files."""
    (far / "real" / "data").mkdir(parents=True)
    (far / "real" / "data" / "secret").write_text("SECRET\n")
    (far / "again").mkdir()
    subprocess.run(["mount", "--bind", far / "real", far / "again"], check=True)
    try:
        box = make(git_repo(), hidden=(far / "real" / "data",))
        for name in ("real", "again"):
            result = await box.sh(f"cat {far}/{name}/data/secret")
            assert "SECRET" not in result.output, name
            assert result.exit_code != 0
    finally:
        subprocess.run(["umount", far / "again"], check=True)


@pytest.fixture
def home(far: Path) -> Path:
    """A home with private things, toolchains, and credentials in both."""
    home = far / "person"
    files = {
        ".ssh/id_rsa": "PRIVATE",
        ".aws/credentials": "PRIVATE",
        ".bash_history": "PRIVATE",
        "Documents/diary.txt": "PRIVATE",
        ".netrc": "PRIVATE",
        ".git-credentials": "PRIVATE",
        ".config/git/credentials": "PRIVATE",
        ".config/gh/hosts.yml": "PRIVATE",
        ".cargo/credentials.toml": "PRIVATE",
        ".cargo/credentials": "PRIVATE",
        ".m2/settings.xml": "PRIVATE",
        ".gem/credentials": "PRIVATE",
        ".gradle/gradle.properties": "PRIVATE",
        ".local/share/uv/credentials/x": "PRIVATE",
        ".cargo/registry/src/lib.rs": "open",
        ".rustup/settings.toml": "open",
        ".nvm/nvm.sh": "open",
        ".pyenv/version": "open",
        ".local/bin/tool": "open",
        ".gitconfig": "[user]\n\tname = open\n",
        ".config/git/ignore": "open",
        ".m2/repository/a.jar": "open",
        "programs/venv/bin/python": "open",
        "programs/venv/lib/x.py": "open",
        "programs/venv/pyvenv.cfg": "open",
        "mine/bin/run": "open",
        "mine/notes.txt": "PRIVATE",
    }
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return home


@pytest.mark.clause("BND-17")
@pytest.mark.parametrize("scope", SCOPES)
async def test_homes_are_masked_but_for_a_list(
    make: BoxMaker, git_repo: Callable[..., Path], home: Path, scope: Scope
) -> None:
    environ = {"HOME": str(home), "PATH": f"{home}/programs/venv/bin:{home}/mine/bin:{home}:/usr/bin:/bin"}
    box = make(git_repo(), environ=environ)
    shown = await box.sh(f"grep -rl PRIVATE {home}; grep -r PRIVATE ~; find {home} -type f", scope=scope)
    assert "PRIVATE" not in shown.output
    for path in sorted(home.rglob("*")):
        if not path.is_file():
            continue
        text = path.read_text()
        result = await box.sh(f"cat '{path}'", scope=scope)
        if "PRIVATE" in text:
            assert result.exit_code != 0, path
            assert "PRIVATE" not in result.output, path
        else:
            assert result.output == text, path
            assert (await box.sh(f"echo x >>'{path}'", scope=scope)).exit_code != 0
    assert (await box.sh("touch ~/new", scope=scope)).exit_code != 0
    assert not (home / "new").exists()


@pytest.mark.clause("BND-17")
async def test_what_gits_settings_include_shows_and_no_credential_does(
    make: BoxMaker, git_repo: Callable[..., Path], home: Path, far: Path
) -> None:
    (home / "work").mkdir()
    (far / "apart").write_text("PRIVATE-APART")
    (home / "work" / "settings").write_text("[user]\n\temail = work@example.org\n[include]\n\tpath = more\n")
    (home / "work" / "more").write_text("[alias]\n\tlast = log -1\n")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = open\n[include]\n\tpath = ~/work/settings # work\n[other]\n\tpath = mine/notes.txt\n"
        "[include]\n\tpath = .ssh/id_rsa\n\tpath = Documents\n"
    )
    box = make(git_repo(), environ={"HOME": str(home), "PATH": os.environ["PATH"]})
    shown = await box.text(f"cat {home}/work/settings {home}/work/more")
    assert "work@example.org" in shown
    assert "last = log" in shown
    for path in (".ssh/id_rsa", "Documents/diary.txt", "mine/notes.txt"):
        assert "PRIVATE" not in (await box.sh(f"cat {home}/{path}")).output, path


@pytest.mark.clause("BND-17")
@pytest.mark.parametrize("variable", ["JAVA_HOME", "VIRTUAL_ENV", "PATH"])
async def test_a_named_toolchain_in_the_home_shows_and_the_home_itself_never(
    make: BoxMaker, git_repo: Callable[..., Path], home: Path, variable: str
) -> None:
    tools = home / "apps" / "jdk"
    for name in ("bin/java", "lib/modules"):
        (tools / name).parent.mkdir(parents=True, exist_ok=True)
        (tools / name).write_text("open")
    (home / "apps" / "notes").write_text("PRIVATE")
    value = f"{tools}/bin:/usr/bin:/bin" if variable == "PATH" else str(tools)
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]} | {variable: value}
    box = make(git_repo(), environ=environ)
    assert await box.text(f"cat {tools}/bin/java {tools}/lib/modules") == "openopen"
    assert "PRIVATE" not in (await box.sh(f"cat {home}/apps/notes")).output
    whole = make(git_repo(name="again"), environ=environ | {variable: str(home)})
    assert "PRIVATE" not in (await whole.sh(f"/bin/cat {home}/apps/notes {home}/.netrc")).output


@pytest.mark.clause("BND-17")
@pytest.mark.parametrize("scope", SCOPES)
async def test_every_users_home_is_masked(
    make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path, scope: Scope
) -> None:
    other = tmp_path / "own-home"
    other.mkdir()
    box = make(git_repo(), environ={"HOME": str(other), "PATH": os.environ["PATH"]})
    for home in ("/root", "/home"):
        if os.path.isdir(home):
            assert (await box.sh(f"ls {home}", scope=scope)).exit_code != 0
            assert (await box.sh(f"cat {home}/.bashrc {home}/*/.bashrc", scope=scope)).exit_code != 0


@pytest.mark.clause("BND-17")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root could read these at all")
async def test_credential_stores_of_the_machine_are_masked(box: Box) -> None:
    for path in ("/etc/shadow", "/etc/gshadow", "/etc/ssl/private", "/etc/sudoers"):
        if os.path.exists(path):
            assert (await box.sh(f"cat {path} || ls {path}/")).exit_code != 0, path


@pytest.mark.clause("BND-17")
async def test_a_store_named_by_a_variable_is_masked(make: BoxMaker, git_repo: Callable[..., Path], far: Path) -> None:
    (far / "key.json").write_text("PRIVATE")
    (far / "clusters").mkdir()
    (far / "clusters" / "c").write_text("PRIVATE")
    environ = dict(os.environ) | {
        "GOOGLE_APPLICATION_CREDENTIALS": str(far / "key.json"),
        "KUBECONFIG": f"{far}/clusters:/nonexistent",
    }
    box = make(git_repo(), environ=environ)
    result = await box.sh(f"cat {far}/key.json {far}/clusters/c")
    assert "PRIVATE" not in result.output


@pytest.mark.clause("BND-17")
async def test_a_store_inside_the_workspace_is_masked(make: BoxMaker, home: Path) -> None:
    """A repository of one's settings holds what the settings hold."""
    git(home / ".config", "init", "-q")
    box = make(home / ".config", environ={"HOME": str(home), "PATH": os.environ["PATH"]})
    result = await box.sh("cat gh/hosts.yml git/credentials; cat git/ignore; echo x >new")
    assert "PRIVATE" not in result.output
    assert "open" in result.output
    assert (home / ".config" / "new").exists()


@pytest.mark.bug("APR-08")
@pytest.mark.clause("BND-17")
@pytest.mark.parametrize("scope", SCOPES)
async def test_denied_files_are_closed_to_the_shell(
    make: BoxMaker, git_repo: Callable[..., Path], scope: Scope
) -> None:
    root = git_repo({"README.md": "r\n"})
    (root / ".env").write_text("KEY=PRIVATE\n")
    (root / "app").mkdir()
    (root / "app" / ".env").write_text("KEY=PRIVATE\n")
    box = make(root, deny_read=(".env",))
    for line in (FIXTURES / "APR-08" / "cases.jsonl").read_text().splitlines():
        case = json.loads(line)
        result = await box.sh(case["cmd"], scope=scope)
        assert "PRIVATE" not in result.output, case
        assert case["want"] == "deny"
    more = (
        "cat app/.env",
        "cp .env c; cat c",
        "mv app app2; cat app2/.env; mv app2 app",
        "ln .env l; cat l",
        "rm .env",
    )
    for command in more:
        result = await box.sh(command, scope=scope)
        assert "PRIVATE" not in result.output
        assert result.exit_code != 0 or command.startswith("mv"), command
    assert (root / ".env").read_text() == (root / "app" / ".env").read_text() == "KEY=PRIVATE\n"


PATTERNS = [
    ((".env",), {".env", "sub/.env"}),
    (("*.pem",), {"a.pem", "sub/b.pem"}),
    (("/a.pem",), {"a.pem"}),
    (("secrets/",), {"secrets/one", "secrets/deep/two", "sub/secrets/three"}),
    (("secrets/*",), {"secrets/one", "secrets/deep/two"}),
    (("secrets/**",), {"secrets/one", "secrets/deep/two"}),
    (("**/secrets/**",), {"secrets/one", "secrets/deep/two", "sub/secrets/three"}),
    (("sub/*.pem",), {"sub/b.pem"}),
    (("secrets/**/two",), {"secrets/deep/two"}),
    (("*.pem", "!a.pem"), {"sub/b.pem"}),
    (("sp ace",), {"sp ace"}),
    (("[ab].pem",), {"a.pem", "sub/b.pem"}),
]


@pytest.mark.clause("BND-17")
@pytest.mark.parametrize(("patterns", "closed"), PATTERNS, ids=[" ".join(patterns) for patterns, _ in PATTERNS])
async def test_deny_patterns_are_those_of_gitignore(
    make: BoxMaker, git_repo: Callable[..., Path], patterns: tuple[str, ...], closed: set[str]
) -> None:
    names = {".env", "a.pem", "c.txt", "sub/.env", "sub/b.pem", "sp ace"}
    names |= {"secrets/one", "secrets/deep/two", "sub/secrets/three"}
    root = git_repo(dict.fromkeys(names, "PRIVATE\n"))
    box = make(root, deny_read=patterns)
    result = await box.sh("find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 grep -l PRIVATE")
    readable = {line.removeprefix("./") for line in result.output.splitlines() if line.startswith("./")}
    assert readable == names - closed


@pytest.mark.clause("BND-17")
async def test_denied_paths_outside_the_root(make: BoxMaker, git_repo: Callable[..., Path], far: Path) -> None:
    (far / "one.key").write_text("PRIVATE")
    (far / "vault").mkdir()
    (far / "vault" / "x").write_text("PRIVATE")
    (far / "plain").write_text("open")
    box = make(git_repo(), deny_read=(f"{far}/*.key", f"{far}/vault", f"{far}/missing"))
    result = await box.sh(f"cat {far}/one.key {far}/vault/x {far}/plain")
    assert "PRIVATE" not in result.output
    assert "open" in result.output


@pytest.mark.clause("BND-17")
async def test_too_many_denied_paths_refuse_the_call(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    from drawbar.contracts.errors import WorkspaceRefused

    root = git_repo()
    for number in range(201):
        (root / f"{number}.pem").write_text("x")
    for scope in SCOPES:
        with pytest.raises(WorkspaceRefused, match="deny_read closes 201 paths"):
            await make(root, deny_read=("*.pem",)).sh("true", scope=scope)


@pytest.mark.clause("BND-17")
async def test_what_could_not_be_looked_for_is_not_readable(
    make: BoxMaker, git_repo: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from drawbar.boundary import root_scan
    from drawbar.contracts.errors import WorkspaceRefused

    root = git_repo({f"d{n}/.env": "PRIVATE" for n in range(300)})
    box = make(root, deny_read=(".env",))
    monkeypatch.setattr(box.runner._scan, "_limit_s", 0.00001)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(WorkspaceRefused, match="closed by deny_read"):
        await box.sh("cat d1/.env", scope="read-only")
    assert root_scan.LIMIT_S == 3.0


@pytest.mark.clause("BND-17")
async def test_the_history_of_a_denied_file_is_unharmed(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    root = git_repo({".env": "KEY=PRIVATE\n", "a.txt": "a\n"})
    box = make(root, deny_read=(".env",))
    await box.text("echo b >>a.txt; git add a.txt; git -c user.name=x -c user.email=x@x commit -qm Change")
    assert git(root, "status", "--short") == ""


@pytest.mark.clause("BND-17")
@pytest.mark.parametrize(
    ("pattern", "moves"),
    [
        (".env", ("mv x y; cat y/.env", "mkdir d; mv x d; cat d/x/.env", "mv x/in in; cat in/.env")),
        ("x/.env", ("mv x y; cat y/.env", "mv x/in in; cat in/.env", "cp -r x z; cat z/.env", "mkdir d; mv x d")),
        ("x/in/*", ("mv x/in in; cat in/.env", "mv x y; cat y/in/.env", "mv x/in x/out; cat x/out/.env")),
        ("**/in/.env", ("mv x y; cat y/in/.env", "mv x/in x/out; cat x/out/.env", "mv x/in in2; cat in2/.env")),
    ],
)
async def test_a_renamed_folder_does_not_open_what_was_closed(
    make: BoxMaker, git_repo: Callable[..., Path], pattern: str, moves: tuple[str, ...]
) -> None:
    """Neither for the same command, nor for the next one, nor for a later run with the same pattern."""
    for number, move in enumerate(moves):
        root = git_repo({"x/in/a.txt": "a\n"}, name=f"repo{number}")
        closed = root / "x" / "in" / ".env" if "in" in pattern else root / "x" / ".env"
        closed.write_text("PRIVATE\n")
        (root / "x" / "in" / ".env").write_text("PRIVATE\n" if "in" in pattern or pattern == ".env" else "open\n")
        box = make(root, deny_read=(pattern,))
        first, _, second = move.partition("; ")
        await box.sh(first)
        for later in (box, make(root, deny_read=(pattern,))):
            for command in (first, second, move, "grep -rh . --include=.env ."):
                assert "PRIVATE" not in (await later.sh(command)).output, (move, command)


@pytest.mark.clause("BND-17", "QLT-1")
async def test_a_pattern_by_name_pins_no_folder(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    """Renames between folders stay renames where the pattern holds everywhere anyway."""
    root = git_repo({"x/a": "a\n", "y/b": "b\n", "x/.env": "PRIVATE\n"})
    box = make(root, deny_read=(".env", "*.pem"))
    await box.text("python3 -c \"import os; os.rename('x/a', 'y/a'); os.rename('y', 'z')\"")
    assert (root / "z" / "a").read_text() == "a\n"


@pytest.mark.clause("BND-10", "QLT-1")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's private folder")
async def test_a_socket_in_a_folder_that_is_closed_to_us_breaks_no_command(box: Box) -> None:
    """A database's private folder, say: root sees the socket, the sandbox's set-up may not pass the folder."""
    import socket
    import tempfile

    with tempfile.TemporaryDirectory(dir="/opt", prefix="drawbar-closed-") as folder:
        os.chown(folder, 65534, 65534)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(f"{folder}/db.sock")
        os.chown(f"{folder}/db.sock", 65534, 65534)
        listening.listen()
        try:
            assert await box.text("echo works") == "works\n"
            assert "Permission denied" in (await box.sh(f"ls {folder}")).output
        finally:
            listening.close()


@pytest.mark.clause("BND-17", "QLT-1")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's private folder")
async def test_what_is_closed_to_us_anyway_needs_no_mask(
    make: BoxMaker, git_repo: Callable[..., Path], far: Path
) -> None:
    """Root may look into another user's folder, but no command of its runs with that power."""
    (far / "theirs" / "deep").mkdir(parents=True)
    (far / "theirs" / "deep" / "key").write_text("PRIVATE")
    (far / "theirs").chmod(0o700)
    os.chown(far / "theirs", 1234, 1234)
    for mode in ("on", "off"):
        box = make(
            git_repo(name=mode), deny_read=(f"{far}/theirs/deep",), hidden=(far / "theirs" / "deep",), sandbox=mode
        )
        result = await box.sh(f"echo works; cat {far}/theirs/deep/key")
        assert result.output.startswith("works\n"), mode
        assert "PRIVATE" not in result.output, mode
