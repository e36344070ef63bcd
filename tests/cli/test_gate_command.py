"""``drawbar gate decide``: the gate's own answer, and nothing but an answer (CLI-6, BND-3, BND-4)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import MakeRepo

from drawbar.contracts.boundary import StandingRule
from drawbar.stores.approvals import ApprovalStore

DRAWBAR = [sys.executable, "-m", "drawbar.surfaces.cli.main"]
KEYS = ["decision", "code", "cause", "message", "resolved_paths", "rule"]
LS = '{"command": "ls"}'


class Here:
    """A repository in which the gate is asked; nothing of it may change."""

    def __init__(self, repo: Path, root: Path) -> None:
        self.repo = repo
        self.root = root

    def ask(self, *argv: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*DRAWBAR, "gate", "decide", *argv],
            cwd=self.repo,
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
        )

    def decide(self, code: int, *argv: str, stdin: bytes = b"") -> dict[str, Any]:
        done = self.ask(*argv, stdin=stdin)
        assert done.returncode == code, done
        assert done.stdout.endswith(b"\n")
        assert done.stdout.count(b"\n") == 1
        answer = json.loads(done.stdout)
        assert list(answer) == KEYS
        assert (answer["decision"] == "allow") is (code == 0)
        assert (answer["code"] is None) is (answer["cause"] is None) is (code == 0)
        return answer

    def policy(self, **policy: Any) -> str:
        path = self.repo.parent / "policy.json"
        path.write_text(json.dumps({"root": str(self.repo), "tools": [], **policy}))
        return str(path)


@pytest.fixture
def here(git_repo: MakeRepo, data_root: Path) -> Iterator[Here]:
    repo = git_repo({"a.txt": "one\n", "sub/b.txt": "two\n", "secret.key": "x"}, name="a folder\nof two lines")
    before = snapshot(repo)
    yield Here(repo, data_root)
    assert snapshot(repo) == before, "deciding changed something"


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_ino)
        for path in folder.rglob("*")
        if ".git" not in path.parts
    }


@pytest.mark.clause("CLI-6", "BND-6")
def test_each_decision_its_form_and_its_exit_code(here: Here) -> None:
    asked = here.decide(3, "--root", ".", "--tool", "bash", "--input", LS)
    assert (asked["decision"], asked["code"], asked["cause"], asked["rule"]) == (
        "ask",
        "needs_approval",
        "policy",
        "mode:ask",
    )
    allowed = here.decide(0, "--root", ".", "--tool", "read", "--input", '{"path": "sub/../a.txt"}')
    assert allowed == {
        "decision": "allow", "code": None, "cause": None, "message": "",
        "resolved_paths": [str(here.repo / "a.txt")], "rule": "mode:ask",
    }  # fmt: skip
    refused = here.decide(3, "--root", ".", "--plan", "--tool", "write", "--input", '{"path": "n", "content": ""}')
    assert (refused["decision"], refused["code"], refused["cause"]) == ("refuse", "plan_mode", "policy")
    assert refused["message"]
    assert not here.root.exists(), "deciding made a data root"


@pytest.mark.clause("CLI-6", "BND-6")
@pytest.mark.parametrize(
    ("mode", "tool", "given", "decision"),
    [
        ("auto-workspace", "bash", {"command": "ls"}, "allow"),
        ("auto-workspace", "write", {"path": "new", "content": ""}, "allow"),
        ("read-only", "write", {"path": "new", "content": ""}, "refuse"),
        ("read-only", "read", {"path": "a.txt"}, "allow"),
        ("never", "read", {"path": "/etc/hostname"}, "refuse"),
        ("ask", "read", {"path": "/etc/hostname"}, "ask"),
    ],
)
def test_approval_is_the_mode_of_the_folder(here: Here, mode: str, tool: str, given: Any, decision: str) -> None:
    code = 0 if decision == "allow" else 3
    answer = here.decide(code, "--root", ".", "--approval", mode, "--tool", tool, "--input", json.dumps(given))
    assert answer["decision"] == decision


@pytest.mark.clause("CLI-6")
def test_the_arguments_may_come_from_standard_input(here: Here) -> None:
    given = json.dumps({"path": "new", "content": "x" * 300_000}).encode()
    answer = here.decide(0, "--root", ".", "--approval", "never", "--tool", "write", "--input", "-", stdin=given)
    assert answer["resolved_paths"] == [str(here.repo / "new")]


@pytest.mark.clause("CLI-6", "BND-1")
def test_the_folder_is_the_working_directory_of_the_run(here: Here) -> None:
    answer = here.decide(0, "--root", "sub", "--tool", "read", "--input", '{"path": "b.txt"}')
    assert answer["resolved_paths"] == [str(here.repo / "sub" / "b.txt")]
    assert here.decide(0, "--root", "sub", "--tool", "read", "--input", '{"path": "../a.txt"}')["decision"] == "allow"


@pytest.mark.clause("CLI-6", "BND-16", "BND-17")
def test_settings_saved_rules_and_hidden_folders_count(here: Here) -> None:
    (here.root / "config").mkdir(parents=True, mode=0o700)
    (here.root / "config" / "config.toml").write_text('deny_read = ["*.key"]\n')
    rule = StandingRule(id="a_1", tool="bash", scope="workspace", pattern="git log *", root=str(here.repo))
    other = StandingRule(id="a_2", tool="bash", scope="workspace", pattern="ls *", root=str(here.repo / "sub"))
    store = ApprovalStore(here.root / "approvals.jsonl")
    store.add(rule)
    store.add(other)
    before = snapshot(here.root)
    covered = here.decide(0, "--root", ".", "--tool", "bash", "--input", '{"command": "git log -3"}')
    assert covered["rule"] == "standing:a_1"
    assert here.decide(3, "--root", ".", "--tool", "bash", "--input", '{"command": "ls -l"}')["decision"] == "ask"
    closed = here.decide(3, "--root", ".", "--tool", "read", "--input", '{"path": "secret.key"}')
    assert (closed["code"], closed["rule"]) == ("unreachable_path", "path:deny_read")
    given = json.dumps({"path": str(here.root / "approvals.jsonl")})
    hidden = here.decide(3, "--root", ".", "--tool", "read", "--input", given)
    assert hidden["rule"] == "path:hidden"
    assert snapshot(here.root) == before


@pytest.mark.clause("CLI-6", "BND-4")
def test_a_policy_lets_its_own_tools_pass_and_no_other(here: Here) -> None:
    policy = here.policy(tools=["read", "bash"], typed_tools=["raise_decision"], deny_read=["*.key"])
    assert here.decide(0, "--policy", policy, "--tool", "read", "--input", '{"path": "a.txt"}')["rule"]
    assert here.decide(0, "--policy", policy, "--tool", "bash", "--input", LS)["rule"] == "mode:never"
    assert here.decide(0, "--policy", policy, "--tool", "raise_decision", "--input", '{"any": [1]}')
    assert (
        here.decide(3, "--policy", policy, "--tool", "write", "--input", '{"path": "n", "content": ""}')["code"]
        == "not_capable"
    )
    assert here.decide(3, "--policy", policy, "--tool", "raise_other", "--input", "{}")["code"] == "unknown_tool"
    assert (
        here.decide(3, "--policy", policy, "--tool", "read", "--input", '{"path": "secret.key"}')["rule"]
        == "path:deny_read"
    )
    assert (
        here.decide(3, "--policy", policy, "--tool", "read", "--input", '{"path": "/etc/hostname"}')["decision"]
        == "refuse"
    )


@pytest.mark.clause("CLI-6", "BND-4")
@pytest.mark.parametrize(
    ("policy", "tool", "given", "decision"),
    [
        ({"tools": ["bash"], "scopes": ["read-only"]}, "bash", {"command": "ls", "scope": "workspace"}, "refuse"),
        ({"tools": ["bash"], "scopes": ["read-only"]}, "bash", {"command": "ls"}, "allow"),
        ({"tools": ["write"], "plan": True}, "write", {"path": "n", "content": ""}, "refuse"),
        ({"tools": ["write"], "approval": "ask"}, "write", {"path": "n", "content": ""}, "ask"),
        ({"tools": ["write"], "approval": "read-only"}, "write", {"path": "n", "content": ""}, "refuse"),
        ({"tools": ["write"], "network": "off"}, "write", {"path": "n", "content": ""}, "allow"),
        ({"tools": ["write"], "network": ["example.com"]}, "write", {"path": "n", "content": ""}, "allow"),
    ],
)
def test_every_key_of_a_policy_counts(here: Here, policy: dict[str, Any], tool: str, given: Any, decision: str) -> None:
    code = 0 if decision == "allow" else 3
    answer = here.decide(code, "--policy", here.policy(**policy), "--tool", tool, "--input", json.dumps(given))
    assert answer["decision"] == decision


@pytest.mark.clause("CLI-6")
@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ('{"tools": []}', "root"),
        ('{"root": "."}', "tools"),
        ('{"root": ".", "tools": [], "extra": 1}', "typed_tools"),
        ('{"root": ".", "tools": ["raed"]}', "did you mean 'read'"),
        ('{"root": ".", "tools": [], "typed_tools": ["bash"]}', "built-in"),
        ('{"root": ".", "tools": [], "scopes": ["everything"]}', "everything"),
        ('{"root": ".", "tools": [], "network": "on"}', "network"),
        ('{"root": ".", "tools": [], "network": ["http://x"]}', "network"),
        ('{"root": ".", "tools": [], "approval": "yolo"}', "yolo"),
        ('{"root": ".", "tools": [], "plan": 1}', "plan"),
        ('{"root": "/", "tools": []}', "root of the file system"),
        ('{"root": "./missing", "tools": []}', "missing"),
        ("[]", "object"),
        ("{", "policy"),
        ("", "policy"),
    ],
)
def test_a_policy_that_is_wrong_is_bad_usage_and_says_where(here: Here, policy: str, said: str) -> None:
    path = here.repo.parent / "p.json"
    path.write_text(policy)
    done = here.ask("--policy", str(path), "--tool", "read", "--input", '{"path": "a.txt"}')
    assert (done.returncode, done.stdout) == (2, b""), done
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr


@pytest.mark.clause("CLI-6", "BND-1", "BND-5")
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--tool", "read", "--input", "{}"], "--policy FILE"),
        (["--root", ".", "--policy", "p", "--tool", "read", "--input", "{}"], "--policy FILE"),
        (["--policy", "p", "--approval", "ask", "--tool", "read", "--input", "{}"], "--approval"),
        (["--policy", "nowhere", "--tool", "read", "--input", "{}"], "nowhere"),
        (["--root", ".", "--tool", "read", "--input", "{"], "JSON"),
        (["--root", ".", "--tool", "read", "--input", ""], "JSON"),
        (["--root", ".", "--tool", "read", "--input", "{} {}"], "JSON"),
        (["--root", ".", "--tool", "read"], "--input"),
        (["--root", ".", "--input", "{}"], "--tool"),
        (["--root", "/", "--tool", "read", "--input", "{}"], "root of the file system"),
        (["--root", "nowhere", "--tool", "read", "--input", "{}"], "nowhere"),
        (["--root", ".", "--engine", "pi", "--tool", "read", "--input", "{}"], "'pi' isn't built yet"),
        (
            ["--root", ".", "--engine", "claude-code", "--tool", "read", "--input", "{}"],
            "'claude-code' isn't built yet",
        ),
        (["--root", ".", "--engine", "other", "--tool", "read", "--input", "{}"], "no engine 'other'"),
        (["--root", ".", "--approval", "yes", "--tool", "read", "--input", "{}"], "yes"),
    ],
)
def test_bad_usage(here: Here, argv: list[str], said: str) -> None:
    done = here.ask(*argv)
    assert (done.returncode, done.stdout) == (2, b""), done
    assert said in done.stderr.decode()


@pytest.mark.clause("CLI-6", "QLT-2")
@pytest.mark.parametrize(
    "given", ["[]", "3", "null", '"x"', '{"path": 3}', '{"path": "a\\u0000b"}', '{"path": "\\ud800"}']
)
def test_arguments_that_fit_no_schema_are_the_gates_to_refuse(here: Here, given: str) -> None:
    done = here.ask("--root", ".", "--tool", "read", "--input", given)
    assert done.returncode in (2, 3)
    assert b"Traceback" not in done.stderr
    if done.returncode == 3:
        assert json.loads(done.stdout)["cause"] == "policy"


@pytest.mark.clause("CLI-6", "BND-4")
def test_a_link_out_is_resolved_and_a_name_of_any_bytes_is_shown(here: Here, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "out").symlink_to("/etc/hostname")
    os.close(os.open(os.fsencode(work) + b"/\xff", os.O_CREAT))
    (work / "in").symlink_to(os.fsdecode(b"\xff"))
    answer = here.decide(3, "--root", str(work), "--approval", "never", "--tool", "read", "--input", '{"path": "out"}')
    assert answer["resolved_paths"] == [os.path.realpath("/etc/hostname")]
    answer = here.decide(0, "--root", str(work), "--tool", "read", "--input", '{"path": "in"}')
    assert answer["resolved_paths"] == [f"{work}/\\xff"]
