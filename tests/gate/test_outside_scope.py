"""The scope ``outside``: one exact command, a person's yes each time, once, and never where nobody is asked (BND-9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.gate.kit import call, gate, grant_for, judged, workspace

from drawbar.boundary.gate import PolicyGate
from drawbar.boundary.hooks import HookAnswer, Rewritten
from drawbar.contracts.boundary import StandingRule, Verdict
from drawbar.contracts.tool import ToolCall

SCOPES = ("read-only", "workspace", "outside")


def attended(root: Path, **changes: Any) -> PolicyGate:
    return gate(root, **{"approval": "ask", "scopes": SCOPES, **changes})


async def outside(of: PolicyGate, command: str = "id", **more: Any) -> Verdict:
    return await judged(of, "bash", command=command, scope="outside", **more)


@pytest.mark.clause("BND-6", "BND-9")
@pytest.mark.parametrize("mode", ["ask", "auto-workspace"])
@pytest.mark.parametrize("sandbox", [{}, {"sandbox": "off"}, {"sandbox": "off", "explicit_off": True}])
async def test_a_person_is_asked_each_time_whatever_else_passes(
    tmp_path: Path, mode: str, sandbox: dict[str, Any]
) -> None:
    made = attended(workspace(tmp_path), approval=mode, **sandbox)
    asked = await outside(made)
    assert (asked.outcome, asked.scope, asked.proposed, asked.rule) == ("ask", "outside", None, "scope:outside")
    assert "outside the sandbox" in asked.message
    granted = await outside(made, grant=grant_for(asked))
    assert (granted.outcome, granted.scope, granted.rule) == ("allow", "outside", "approval:a_1")
    assert (await judged(made, "bash", command="id", scope="outside")).code == "already_ran"
    another = await made.judge(call("bash", "c2", command="id", scope="outside"))
    assert another.outcome == "ask", "the same words in a new call are a new question"


@pytest.mark.clause("BND-6", "BND-9", "QLT-4")
async def test_no_rule_ever_covers_it(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    rules = tuple(
        StandingRule(f"a_{scope}", "bash", scope, pattern)  # type: ignore[arg-type]
        for scope in SCOPES
        for pattern in ("id", "id *")
    )
    made = attended(root, standing=rules)
    for rule in rules:
        made.remember(rule)
    assert (await outside(made)).outcome == "ask"
    assert (await judged(made, "bash", command="id")).outcome == "allow", "what makes the line above mean something"


@pytest.mark.clause("BND-6", "BND-9", "PLAN-2")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"approval": "read-only"}, "scope_unavailable"),
        ({"approval": "never"}, "scope_unavailable"),
        ({"approval": "never", "sandbox": "off", "explicit_off": True}, "scope_unavailable"),
        ({"asks": False}, "scope_unavailable"),
        ({"plan": True}, "plan_mode"),
        ({"scopes": ("read-only", "workspace")}, "not_capable"),
        ({"scopes": ("read-only", "workspace"), "approval": "auto-workspace"}, "not_capable"),
    ],
)
async def test_where_nobody_may_allow_it_it_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    root = workspace(tmp_path)
    asked = await outside(attended(root))
    made = attended(root, **changes)
    for grant in (None, grant_for(asked)):
        verdict = await outside(made, grant=grant)
        assert (verdict.outcome, verdict.code, verdict.cause) == ("refuse", code, "policy")
        assert "outside" in verdict.message


@pytest.mark.clause("BND-3", "BND-9")
async def test_a_yes_holds_for_the_call_that_was_asked_about_and_for_its_run(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    made = attended(root)
    asked = await outside(made)
    yes = grant_for(asked)
    assert (await outside(made, "id -u", grant=yes)).outcome == "ask", "other words"
    assert (await judged(made, "bash", command="id", grant=yes)).outcome == "ask", "another scope"
    other = await made.judge(call("bash", "c2", command="id", scope="outside"), grant=yes)
    assert other.outcome == "ask", "another call"
    assert (await outside(attended(root), grant=yes)).outcome == "ask", "another run"
    assert (await outside(made, grant=yes)).outcome == "allow"
    assert (await outside(made, grant=yes)).code == "already_ran"
    assert (await outside(made, grant=grant_for(asked, "a_2"))).code == "already_ran"


@pytest.mark.clause("BND-3", "BND-9", "QLT-11")
async def test_a_yes_is_no_yes_to_another_working_directory(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    from tests.gate.kit import pinned

    made = gate(pinned(root, root / "d"), approval="ask", scopes=SCOPES)
    asked = await outside(made, "make install")
    (root / "d").rename(root / "old")
    (root / "d").mkdir()
    assert (await outside(made, "make install", grant=grant_for(asked))).outcome == "ask"


@pytest.mark.clause("BND-3", "BND-9")
async def test_a_hook_that_rewrites_into_it_is_judged_as_it(tmp_path: Path) -> None:
    class Rewriting:
        name = "rewriting"

        async def __call__(self, tool_call: ToolCall, tool_input: Any) -> HookAnswer:
            return Rewritten({"command": "id", "scope": "outside"})

    root = workspace(tmp_path)
    made = attended(root, before_tool=[Rewriting()], approval="auto-workspace")
    assert (await judged(made, "bash", command="ls")).scope == "outside"
    unattended = attended(root, before_tool=[Rewriting()], approval="never")
    assert (await judged(unattended, "bash", command="ls")).code == "scope_unavailable"


@pytest.mark.clause("BND-9")
async def test_looking_at_a_decision_answers_no_question(tmp_path: Path) -> None:
    made = attended(workspace(tmp_path))
    told = await made.explain(call("bash", command="id", scope="outside"))
    assert told.verdict.outcome == "ask"
    assert (await outside(made, grant=grant_for(told.verdict))).outcome == "ask"
