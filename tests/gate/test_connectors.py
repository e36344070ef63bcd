"""Tools of other programs at the gate: asked about by every mode that asks, refused by every other (PRO-3, BND-3)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.gate.kit import SPECS, policy, workspace

from drawbar.boundary.gate import PolicyGate
from drawbar.boundary.open_arguments import OpenArguments
from drawbar.contracts.boundary import Grant, Policy, StandingRule, Verdict
from drawbar.contracts.tool import ToolCall, ToolSpec
from drawbar.models.tool_schema import tool_schema

NAME = "mcp__files__read"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "count": {"type": ["integer", "null"]},
        "mode": {"enum": ["fast", "slow", 1]},
        "tags": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "number"}}}},
    },
    "required": ["path"],
    "additionalProperties": False,
}
SPEC = ToolSpec(NAME, "Reads.", OpenArguments, "connector", schema=SCHEMA, origin="aaaa1111")


def gate(of: Policy, spec: ToolSpec = SPEC) -> PolicyGate:
    return PolicyGate(of, {**SPECS, NAME: spec})


def offered(tmp_path: Path, **changes: Any) -> Policy:
    root = tmp_path / "ws"
    return policy(root if root.is_dir() else workspace(tmp_path), tools=frozenset({*SPECS, NAME}), **changes)


async def judged(of: PolicyGate, arguments: Any, grant: Grant | None = None) -> Verdict:
    return await of.judge(ToolCall(id="c1", name=NAME, arguments=arguments), grant=grant)


@pytest.mark.clause("PRO-3", "BND-3", "BND-6")
@pytest.mark.parametrize(
    ("mode", "outcome"), [("ask", "ask"), ("auto-workspace", "ask"), ("read-only", "refuse"), ("never", "refuse")]
)
async def test_a_servers_tool_is_asked_about_or_refused_whatever_it_says_of_itself(
    tmp_path: Path, mode: Any, outcome: str
) -> None:
    verdict = await judged(gate(offered(tmp_path, approval=mode)), {"path": "x"})
    assert verdict.outcome == outcome
    if outcome == "refuse":
        assert verdict.code == "connector"
    else:
        assert "tool of another program" in verdict.message


@pytest.mark.clause("PRO-3", "BND-2")
async def test_a_run_without_the_tool_may_not_use_it(tmp_path: Path) -> None:
    verdict = await judged(gate(policy(workspace(tmp_path), approval="ask")), {"path": "x"})
    assert (verdict.outcome, verdict.code) == ("refuse", "not_capable")


@pytest.mark.clause("PRO-3", "PLAN-2")
async def test_plan_mode_has_no_servers_tools(tmp_path: Path) -> None:
    verdict = await judged(gate(offered(tmp_path, approval="ask", plan=True)), {"path": "x"})
    assert (verdict.outcome, verdict.code) == ("refuse", "plan_mode")


@pytest.mark.clause("PRO-3", "CON-6")
async def test_where_nobody_is_asked_it_does_not_run(tmp_path: Path) -> None:
    verdict = await judged(gate(offered(tmp_path, approval="ask", asks=False)), {"path": "x"})
    assert (verdict.outcome, verdict.code) == ("refuse", "needs_approval")


@pytest.mark.clause("PRO-3", "BND-3")
async def test_a_yes_holds_for_these_arguments_alone(tmp_path: Path) -> None:
    judge = gate(offered(tmp_path, approval="auto-workspace"))
    asked = await judged(judge, {"path": "x"})
    grant = Grant("a1", asked.arguments_sha256, asked.scope, "person")
    assert (await judged(judge, {"path": "y"}, grant)).outcome == "ask"
    allowed = await judged(judge, {"path": "x"}, grant)
    assert allowed.outcome == "allow"
    assert allowed.input == OpenArguments(values={"path": "x"})
    assert (await judged(judge, {"path": "x"}, grant)).outcome == "ask"


@pytest.mark.clause("PRO-3", "SES-18")
async def test_a_standing_rule_covers_the_tool_while_it_is_what_was_allowed(tmp_path: Path) -> None:
    rule = (await judged(gate(offered(tmp_path, approval="ask")), {"path": "x"})).proposed
    assert rule is not None
    assert (rule.tool, rule.pattern) == (NAME, "* @aaaa1111")
    ruled = offered(tmp_path, approval="ask", standing=(rule,))
    allowed = await judged(gate(ruled), {"path": "anything"})
    assert (allowed.outcome, allowed.rule) == ("allow", f"standing:{rule.id}")
    assert (await judged(gate(ruled, replace(SPEC, origin="bbbb2222")), {"path": "x"})).outcome == "ask"
    elsewhere = replace(rule, root="/somewhere/else")
    assert (
        await judged(gate(offered(tmp_path, approval="ask", standing=(elsewhere,))), {"path": "x"})
    ).outcome == "ask"
    narrowed = offered(tmp_path, approval="never", standing=(rule,))
    assert (await judged(gate(narrowed), {"path": "x"})).outcome == "refuse"


@pytest.mark.clause("PRO-3", "SES-18")
async def test_a_tool_without_an_origin_is_asked_about_each_time(tmp_path: Path) -> None:
    loose = StandingRule(id="a_1", tool=NAME, scope="outside", pattern="* @", root="")
    judge = gate(offered(tmp_path, approval="ask", standing=(loose,)), replace(SPEC, origin=""))
    verdict = await judged(judge, {"path": "x"})
    assert (verdict.outcome, verdict.proposed) == ("ask", None)


@pytest.mark.clause("PRO-3", "BND-3")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "must be an object"),
        ("{}", "must be an object"),
        ({}, "`path` is missing"),
        ({"path": 1}, "`path` must be string, not integer"),
        ({"path": "x", "other": 1}, "there is no field `other`"),
        ({"path": "x", "count": True}, "must be integer or null, not boolean"),
        ({"path": "x", "count": 1.5}, "must be integer or null, not number"),
        ({"path": "x", "mode": "odd"}, "must be one of 'fast', 'slow', 1"),
        ({"path": "x", "mode": True}, "must be one of"),
        ({"path": "x", "tags": [{"id": 1}, {"id": "x"}]}, "`tags`[1].id must be number, not string"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_with_the_field(tmp_path: Path, arguments: Any, said: str) -> None:
    verdict = await judged(gate(offered(tmp_path, approval="ask")), arguments)
    assert (verdict.outcome, verdict.code) == ("refuse", "invalid_arguments")
    assert said in verdict.message
    assert '"path": string' in verdict.message


@pytest.mark.clause("PRO-3")
async def test_arguments_that_fit_are_passed_on_as_they_are(tmp_path: Path) -> None:
    given = {"path": "x", "count": 2.0, "mode": 1, "tags": [{"id": 1, "more": None}, {}]}
    judge = gate(offered(tmp_path, approval="ask"))
    asked = await judged(judge, given)
    assert asked.outcome == "ask"
    assert tool_schema(SPEC) == SCHEMA
