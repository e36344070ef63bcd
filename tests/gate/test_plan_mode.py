"""Plan mode in the gate: what only looks may run, the rest is refused by name before anybody is asked (PLAN-2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.gate.kit import CALLS, SPECS, call, gate, grant_for, judged, policy, workspace

from drawbar.boundary.gate import PolicyGate
from drawbar.boundary.plan_mode import changing_command
from drawbar.contracts.codec import Request
from drawbar.contracts.tool import ToolSpec
from drawbar.tools.registry import builtin_tools

CLAUSE = {"read", "grep", "find", "ls", "skill_load", "todo_write", "session_name", "get_capabilities", "ask_user"}
JOBS = {"job_output", "job_stop"}
"""They look at, and end, what a command of the read-only scope started."""


@pytest.mark.clause("PLAN-2", "BND-3")
async def test_what_only_looks_passes_and_nothing_else(tmp_path: Path) -> None:
    made = gate(workspace(tmp_path), plan=True, approval="ask", scopes=("read-only", "workspace", "outside"))
    for tool, arguments in CALLS.items():
        verdict = await judged(made, tool, **arguments)
        if SPECS[tool].plan_mode_safe or tool == "bash":
            assert (verdict.outcome, verdict.scope) == ("allow", "read-only"), tool
        else:
            assert (verdict.outcome, verdict.code, verdict.cause) == ("refuse", "plan_mode", "policy"), tool
            assert tool in verdict.message


@pytest.mark.clause("PLAN-2")
def test_the_built_in_tools_that_plan_mode_offers_are_those_of_the_clause() -> None:
    specs = [tool.spec for tool in builtin_tools()]
    assert {spec.name for spec in specs if spec.plan_mode_safe} <= CLAUSE | JOBS
    assert {spec.name for spec in specs} & {"read", "grep", "find", "ls", "todo_write", "get_capabilities"} <= {
        spec.name for spec in specs if spec.plan_mode_safe
    }


@pytest.mark.clause("PLAN-2")
@pytest.mark.parametrize("kind", ["write", "execute"])
async def test_a_tool_that_changes_things_is_not_safe_because_it_says_so(tmp_path: Path, kind: Any) -> None:
    class Input(Request):
        path: str = "x"

    spec = ToolSpec(
        "liar",
        "",
        Input,
        kind,
        paths=SPECS["write"].paths if kind == "write" else lambda _input: (),
        command=lambda _input: "rm x",
        plan_mode_safe=True,
    )
    made = PolicyGate(policy(workspace(tmp_path), tools=frozenset({"liar"}), plan=True), {"liar": spec}, homes=())
    assert (await made.judge(call("liar"))).code == "plan_mode"


@pytest.mark.clause("PLAN-2")
@pytest.mark.parametrize("asks", [True, False])
async def test_the_refusal_comes_before_a_question(tmp_path: Path, asks: bool) -> None:
    root = workspace(tmp_path)
    normal = gate(root, approval="ask")
    asked = await judged(normal, "write", **CALLS["write"])
    made = gate(root, plan=True, approval="ask", asks=asks)
    assert (await judged(made, "write", grant=grant_for(asked), **CALLS["write"])).code == "plan_mode"
    assert (await judged(made, "bash", command="git push", scope="read-only")).code == "plan_mode"
    assert (await judged(made, "bash", command="rm -rf build")).rule == "plan:command"


CHANGING = [
    ("rm -rf build", "rm"),
    ("/bin/rm x", "rm"),
    ("ls && rm x", "rm"),
    ("echo $(rm x)", "rm"),
    ("if true; then rm x; fi", "rm"),
    ("find . -name x | xargs rm -f", "rm"),
    ("env A=1 rm x", "rm"),
    ("timeout -k 5 10 rm x", "rm"),
    ("sudo -n rm x", "rm"),
    ("mv a b", "mv"),
    ("cp a /tmp/../etc/x", "cp"),
    ("cp /tmp/a b", "cp"),
    ("rm -f", "rm"),
    ("touch a", "touch"),
    ("'rm' x", "rm"),
    ("git commit -m x", "git commit"),
    ("git --no-pager push", "git push"),
    ("git checkout main", "git checkout"),
    ("npm install", "npm install"),
    ("pip install x", "pip install"),
    ("cargo add x", "cargo add"),
    ("make install", "make install"),
    ("curl https://x.example", "curl"),
    ("kill 1", "kill"),
    ("sed -i s/a/b/ f", "sed -i"),
    ("perl -pi -e x f", "perl -pi"),
    ("find . -delete", "find -delete"),
    ("vim x", "vim"),
]

LOOKING = [
    "ls -la",
    "git status",
    "git log --oneline -5",
    "git stash list",
    "git branch -a",
    "grep -rn rm src",
    "echo 'rm x'",
    "cat make install",
    "npm ls",
    "pip list",
    "sed -n 1,5p f",
    "find . -name x",
    "mkdir -p /tmp/x && cp a /tmp/x 2>/dev/null || true",
    "touch /tmp/x $TMPDIR/y",
    "python3 -m pytest -q",
    "make test",
    "rm 'x",
    "",
]


@pytest.mark.clause("PLAN-2")
@pytest.mark.parametrize(("command", "name"), CHANGING)
async def test_a_command_that_changes_things_is_refused_by_name(tmp_path: Path, command: str, name: str) -> None:
    verdict = await judged(gate(workspace(tmp_path), plan=True), "bash", command=command)
    assert (verdict.outcome, verdict.code, verdict.rule) == ("refuse", "plan_mode", "plan:command")
    assert f"`{name}`" in verdict.message


@pytest.mark.clause("PLAN-2")
@pytest.mark.parametrize("command", LOOKING)
async def test_a_command_that_looks_is_left_to_the_read_only_scope(tmp_path: Path, command: str) -> None:
    assert changing_command(command) is None
    if command:
        verdict = await judged(gate(workspace(tmp_path), plan=True), "bash", command=command)
        assert (verdict.outcome, verdict.scope) == ("allow", "read-only")
