"""New network hosts in the gate: named by the call, put to a person, good for that call (BND-6, BND-13)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.gate.kit import SPECS, call, gate, grant_for, judged, policy, workspace

from drawbar.boundary.gate import PolicyGate
from drawbar.boundary.hooks import HookAnswer, Rewritten
from drawbar.contracts.boundary import StandingRule
from drawbar.contracts.codec import Request
from drawbar.contracts.tool import ToolCall, ToolSpec

NEW = "new.example"


def host_rule(pattern: str, rule_id: str = "a_1", **more: Any) -> StandingRule:
    return StandingRule(rule_id, "network", "workspace", pattern, **more)


@pytest.mark.clause("BND-6", "BND-13")
@pytest.mark.parametrize(
    ("mode", "listed", "new"),
    [
        ("ask", "allow", "ask"),
        ("auto-workspace", "allow", "ask"),
        ("read-only", "allow", "refuse"),
        ("never", "allow", "refuse"),
    ],
)
async def test_the_table_for_a_tool_that_reaches_the_network(tmp_path: Path, mode: str, listed: str, new: str) -> None:
    made = gate(workspace(tmp_path), approval=mode)
    for host in ("listed.example", "LISTED.example.", "below.listed.example", "listed.example:443"):
        verdict = await judged(made, "fetch", host=host)
        assert (verdict.outcome, verdict.hosts) == (listed, ()), host
    for host in (NEW, "listed.example:8443", "notlisted.example", "listed.example.evil.example"):
        verdict = await judged(made, "fetch", host=host)
        assert verdict.outcome == new, host
        if new == "refuse":
            assert (verdict.code, verdict.cause) == ("host_not_listed", "policy")
        else:
            assert host.lower().split(":")[0] in verdict.message
            assert verdict.hosts == ()


@pytest.mark.clause("BND-6", "BND-13")
async def test_a_yes_opens_the_hosts_for_that_call_alone(tmp_path: Path) -> None:
    made = gate(workspace(tmp_path), approval="ask")
    asked = await judged(made, "fetch", host="NEW.example")
    assert asked.outcome == "ask"
    granted = await judged(made, "fetch", grant=grant_for(asked), host="NEW.example")
    assert (granted.outcome, granted.hosts, granted.rule) == ("allow", (NEW,), "approval:a_1")
    assert (await judged(made, "fetch", grant=grant_for(asked), host="NEW.example")).outcome == "ask"


@pytest.mark.clause("BND-6", "BND-13")
async def test_a_command_that_passes_by_its_mode_still_asks_for_its_new_hosts(tmp_path: Path) -> None:
    made = gate(workspace(tmp_path), approval="auto-workspace")
    assert (await judged(made, "bash", command="make", hosts=["listed.example"])).outcome == "allow"
    asked = await judged(made, "bash", command="make", hosts=["listed.example", NEW])
    assert (asked.outcome, asked.rule) == ("ask", "mode:auto-workspace")
    assert asked.proposed is not None
    assert (asked.proposed.tool, asked.proposed.scope, asked.proposed.pattern) == ("network", "workspace", NEW)
    granted = await judged(made, "bash", grant=grant_for(asked), command="make", hosts=["listed.example", NEW])
    assert (granted.outcome, granted.hosts) == ("allow", (NEW,))


@pytest.mark.clause("BND-6", "SES-18", "QLT-4")
async def test_a_saved_host_holds_for_every_tool_and_covers_exactly_itself(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    made = gate(root, approval="auto-workspace", standing=(host_rule(NEW), host_rule("api.example:8443", "a_2")))
    fetched = await judged(made, "fetch", host=NEW)
    assert (fetched.outcome, fetched.hosts, fetched.rule) == ("allow", (NEW,), "standing:a_1")
    both = await judged(made, "bash", command="make", hosts=[f"{NEW}:443", "api.example:8443"])
    assert (both.outcome, both.rule) == ("allow", "standing:a_1, standing:a_2")
    assert both.hosts == (f"{NEW}:443", "api.example:8443")
    for host in ("sub.new.example", f"{NEW}:22", "api.example", "api.example:443", "w.example", "example"):
        assert (await judged(made, "fetch", host=host)).outcome == "ask", host
    elsewhere = gate(root, approval="ask", standing=(host_rule(NEW, root="/another/project"),))
    assert (await judged(elsewhere, "fetch", host=NEW)).outcome == "ask"
    for wrong in ("bash", "fetch", "web_fetch"):
        rule = StandingRule("a_1", wrong, "workspace", NEW)
        assert (await judged(gate(root, approval="ask", standing=(rule,)), "fetch", host=NEW)).outcome == "ask"


@pytest.mark.clause("BND-6", "SES-18")
async def test_hosts_never_narrow_what_else_is_asked(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    made = gate(root, approval="ask", standing=(host_rule(NEW),))
    asked = await judged(made, "bash", command="npm test", hosts=[NEW])
    assert asked.outcome == "ask"
    assert asked.proposed is not None
    assert (asked.proposed.tool, asked.proposed.pattern) == ("bash", "npm test *")
    made.remember(asked.proposed)
    allowed = await judged(made, "bash", command="npm test", hosts=[NEW])
    assert (allowed.outcome, allowed.hosts) == ("allow", (NEW,))
    only_command = gate(root, approval="ask", standing=(StandingRule("a_3", "bash", "workspace", "npm test"),))
    host_left = await judged(only_command, "bash", command="npm test", hosts=[NEW, "two.example:81"])
    assert host_left.outcome == "ask"
    assert host_left.proposed is not None
    assert host_left.proposed.pattern == f"{NEW} two.example:81"
    only_command.remember(host_left.proposed)
    assert (await judged(only_command, "bash", command="npm test", hosts=[NEW])).outcome == "allow"


@pytest.mark.clause("BND-9", "PLAN-2")
async def test_where_there_is_no_network_hosts_are_refused(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    for changes in ({}, {"approval": "read-only"}, {"scopes": ("read-only",)}, {"plan": True}):
        verdict = await judged(gate(root, **changes), "bash", command="ls", scope="read-only", hosts=["listed.example"])
        assert (verdict.outcome, verdict.code) == ("refuse", "no_network"), changes
    narrowed = await judged(gate(root, approval="read-only"), "bash", command="ls", hosts=["listed.example"])
    assert narrowed.code == "no_network"
    assert (await judged(gate(root, plan=True), "fetch", host="listed.example")).code == "plan_mode"


@pytest.mark.clause("BND-13", "BND-3")
@pytest.mark.parametrize(
    "host",
    [
        "",
        "a b",
        "a\0b",
        "user@new.example",
        "http://new.example/",
        "..",
        "a..b",
        "0x7f.1",
        "169.254.169.254",
        "a:0",
        "[::1",
    ],
)
async def test_what_names_no_host_is_no_question(tmp_path: Path, host: str) -> None:
    made = gate(workspace(tmp_path), approval="ask")
    verdict = await judged(made, "fetch", host=host)
    assert (verdict.outcome, verdict.code, verdict.cause) == ("refuse", "invalid_arguments", "policy")
    many = [f"h{number}.example" for number in range(40)]
    assert (await judged(made, "bash", command="make", hosts=many)).code == "invalid_arguments"


@pytest.mark.clause("BND-3", "BND-13")
async def test_hosts_that_a_hook_rewrote_are_judged_again(tmp_path: Path) -> None:
    class Rewriting:
        name = "rewriting"

        async def __call__(self, tool_call: ToolCall, tool_input: Any) -> HookAnswer:
            return Rewritten({"host": NEW})

    made = gate(workspace(tmp_path), approval="never", before_tool=[Rewriting()])
    assert (await judged(made, "fetch", host="listed.example")).code == "host_not_listed"
    asking = gate(workspace(tmp_path / "b"), approval="ask", before_tool=[Rewriting()])
    asked = await judged(asking, "fetch", host="listed.example")
    assert asked.outcome == "ask"
    granted = await judged(asking, "fetch", grant=grant_for(asked), host="listed.example")
    assert granted.hosts == (NEW,)


@pytest.mark.clause("BND-6")
async def test_a_command_without_a_sandbox_is_asked_about_as_a_whole(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    off = gate(root, approval="auto-workspace", sandbox="off", explicit_off=True)
    assert (await judged(off, "bash", command="make", hosts=[NEW])).outcome == "allow"
    made = gate(root, approval="ask", scopes=("workspace", "outside"))
    asked = await judged(made, "bash", command="make", scope="outside", hosts=[NEW])
    assert (asked.outcome, asked.proposed) == ("ask", None)
    assert "network" in asked.message


@pytest.mark.clause("QLT-2", "BND-13")
async def test_a_list_or_a_tool_that_cannot_be_read_opens_nothing(tmp_path: Path) -> None:
    class Input(Request):
        pass

    root = workspace(tmp_path)
    made = gate(root, network=("http://not a host",))
    assert (await judged(made, "fetch", host="x.example")).code == "gate_fault"

    def fails(_input: Any) -> Any:
        raise RuntimeError("no hosts today")

    for hosts in (fails, lambda _input: [7], lambda _input: None):
        spec = ToolSpec("odd", "", Input, "internal", hosts=hosts)
        of = policy(root, tools=frozenset({"odd"}))
        verdict = await PolicyGate(of, {"odd": spec, **SPECS}, homes=()).judge(call("odd"))
        assert (verdict.outcome, verdict.code, verdict.cause) == ("refuse", "gate_fault", "fault")


@pytest.mark.clause("BND-13", "CLI-6")
async def test_a_decision_can_be_looked_at(tmp_path: Path) -> None:
    told = await gate(workspace(tmp_path), approval="ask").explain(call("fetch", host=NEW))
    assert (told.verdict.outcome, told.verdict.rule) == ("ask", "mode:ask")
    assert NEW in told.verdict.message
