"""The gate's order and its answers: what is decided by what, and that nothing stays open (BND-3)."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.gate.kit import CALLS, SPECS, call, gate, judged, open_descriptors, pinned, policy, workspace

from drawbar.boundary.gate import PolicyGate, arguments_digest
from drawbar.boundary.gate_codes import CODES, cause_of
from drawbar.boundary.hooks import Allowed, HookAnswer, Refused, Rewritten
from drawbar.contracts.tool import ToolCall


@dataclass
class Hook:
    """Answers as it is told, and remembers what it saw."""

    answer: HookAnswer = field(default_factory=Allowed)
    name: str = "guard"
    seen: list[Any] = field(default_factory=list)

    async def __call__(self, tool_call: ToolCall, tool_input: Any) -> HookAnswer:
        self.seen.append((tool_call.arguments, tool_input))
        return self.answer


@pytest.mark.clause("BND-3")
@pytest.mark.parametrize("tool", sorted(CALLS))
async def test_what_nothing_speaks_against_is_allowed(tmp_path: Path, tool: str) -> None:
    verdict = await judged(gate(workspace(tmp_path)), tool, **CALLS[tool])
    assert (verdict.outcome, verdict.code, verdict.cause) == ("allow", None, None)
    assert isinstance(verdict.input, SPECS[tool].input)
    assert verdict.arguments == CALLS[tool]
    assert verdict.arguments_sha256 == arguments_digest(CALLS[tool])


@pytest.mark.clause("BND-3")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "path"),
        ({"path": 7}, "path"),
        ({"path": "a.txt", "offset": "3"}, "offset"),
        ({"path": "a.txt", "command": "ls"}, "command"),
        (["a.txt"], "object"),
        ("a.txt", "object"),
        (None, "object"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_with_what_to_send(
    tmp_path: Path, arguments: Any, named: str
) -> None:
    verdict = await gate(workspace(tmp_path)).judge(ToolCall("c", "read", arguments))
    assert (verdict.outcome, verdict.code, verdict.cause) == ("refuse", "invalid_arguments", "policy")
    assert named in verdict.message
    assert 'Send {"path": string, "offset"?: integer}' in verdict.message


@pytest.mark.clause("BND-3")
async def test_a_scope_that_does_not_exist_is_named_with_those_that_do(tmp_path: Path) -> None:
    verdict = await judged(gate(workspace(tmp_path)), "bash", command="ls", scope="everything")
    assert verdict.code == "invalid_arguments"
    assert '"scope"?: "outside" | "read-only" | "workspace"' in verdict.message


@pytest.mark.clause("BND-3")
async def test_arguments_that_are_no_unicode_or_hold_nul_are_refused(tmp_path: Path) -> None:
    made = gate(workspace(tmp_path))
    assert (await judged(made, "bash", command="echo \ud800")).code == "invalid_arguments"
    assert (await judged(made, "bash", command="echo \0")).code == "invalid_arguments"
    assert (await judged(made, "read", path="a\0b")).code == "invalid_path"


@pytest.mark.clause("BND-3")
async def test_an_unknown_tool_is_told_which_there_are(tmp_path: Path) -> None:
    verdict = await judged(gate(workspace(tmp_path), tools=frozenset({"read", "ls"})), "raed\x1b[2J", path="a.txt")
    assert (verdict.code, verdict.cause) == ("unknown_tool", "policy")
    assert "ls, read" in verdict.message
    assert "\x1b" not in verdict.message


@pytest.mark.clause("BND-2", "BND-3")
@pytest.mark.parametrize("tool", sorted(CALLS))
async def test_a_tool_outside_the_capability_set_is_refused(tmp_path: Path, tool: str) -> None:
    made = gate(workspace(tmp_path), tools=frozenset(SPECS) - {tool})
    verdict = await judged(made, tool, **CALLS[tool])
    assert (verdict.outcome, verdict.code, verdict.rule) == ("refuse", "not_capable", "capability")


@pytest.mark.clause("BND-2", "BND-3")
async def test_scopes_outside_the_capability_set_are_refused(tmp_path: Path) -> None:
    made = gate(workspace(tmp_path), scopes=("read-only",))
    assert (await judged(made, "write", path="n", content="")).code == "not_capable"
    assert (await judged(made, "bash", command="ls", scope="workspace")).code == "not_capable"
    narrowed = await judged(made, "bash", command="ls")
    assert (narrowed.outcome, narrowed.scope) == ("allow", "read-only")
    nothing = gate(workspace(tmp_path / "other"), scopes=())
    assert (await judged(nothing, "bash", command="ls")).code == "not_capable"


@pytest.mark.clause("BND-3")
async def test_plan_mode_changes_nothing_and_runs_commands_read_only(tmp_path: Path) -> None:
    made = gate(workspace(tmp_path), plan=True)
    for tool in ("write", "edit"):
        verdict = await judged(made, tool, **CALLS[tool])
        assert (verdict.code, verdict.rule) == ("plan_mode", "plan")
    assert (await judged(made, "bash", command="ls")).scope == "read-only"
    assert (await judged(made, "bash", command="ls", scope="workspace")).code == "plan_mode"
    assert (await judged(made, "bash", command="ls", scope="outside")).outcome == "refuse"
    assert (await judged(made, "read", path="a.txt")).outcome == "allow"
    off = gate(workspace(tmp_path / "off"), plan=True, sandbox="off", explicit_off=True)
    assert (await judged(off, "bash", command="ls")).code == "plan_mode"


@pytest.mark.clause("BND-3")
async def test_each_step_comes_before_the_next(tmp_path: Path) -> None:
    """One call that every step would refuse is refused by the earliest of those still in its way."""
    root = workspace(tmp_path)
    hook = Hook(Refused("no"))
    bad = {"path": "/etc/shadow", "content": ""}
    ways: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"tools": frozenset(), "plan": True, "approval": "read-only"}, {**bad, "x": 1}, "invalid_arguments"),
        ({"tools": frozenset(), "plan": True, "approval": "read-only"}, bad, "not_capable"),
        ({"plan": True, "approval": "read-only"}, bad, "plan_mode"),
        ({"approval": "read-only"}, bad, "outside_workspace"),
        ({"approval": "read-only"}, {"path": "new", "content": ""}, "hook_refused"),
    ]
    for changes, arguments, code in ways:
        made = gate(root, before_tool=[hook], last_word=lambda _call, _input: "never", **changes)
        assert (await judged(made, "write", **arguments)).code == code
    assert len(hook.seen) == 1, "the hook was asked only about the call that passed everything before it"
    made = gate(root, last_word=lambda _call, _input: "never", approval="read-only")
    assert (await judged(made, "write", path="new", content="")).code == "read_only"
    made = gate(root, last_word=lambda _call, _input: "never")
    last = await judged(made, "write", path="new", content="")
    assert (last.code, last.message) == ("last_word", "never")


@pytest.mark.clause("BND-3")
async def test_a_refusal_of_one_hook_ends_it(tmp_path: Path) -> None:
    first, second = Hook(Refused("not on a Friday"), name="calendar"), Hook()
    verdict = await judged(gate(workspace(tmp_path), before_tool=[first, second]), "read", path="a.txt")
    assert (verdict.code, verdict.cause, verdict.rule) == ("hook_refused", "policy", "hook:calendar")
    assert verdict.message == "not on a Friday"
    assert not second.seen


@pytest.mark.clause("BND-3")
async def test_a_rewritten_call_is_judged_again_from_the_schema_on(tmp_path: Path) -> None:
    root = workspace(tmp_path)

    async def after(arguments: Any) -> Any:
        return await judged(gate(root, before_tool=[Hook(Rewritten(arguments))]), "read", path="a.txt")

    assert (await after({"path": 3})).code == "invalid_arguments"
    assert (await after({"path": "/proc/self/environ"})).code == "unreachable_path"
    good = await after({"path": "d/../a.txt", "offset": 2})
    assert (good.outcome, good.input.offset) == ("allow", 2)
    assert good.arguments == {"path": "d/../a.txt", "offset": 2}
    assert good.arguments_sha256 == arguments_digest(good.arguments)


@pytest.mark.clause("BND-3")
async def test_later_hooks_see_the_rewritten_call_and_may_not_rewrite_again(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    before = open_descriptors()
    rewriting = Hook(Rewritten({"path": "d/../a.txt"}), name="first")
    watching = Hook()
    made = gate(root, before_tool=[rewriting, watching])
    assert (await judged(made, "read", path="a.txt")).outcome == "allow"
    assert watching.seen[0][0] == {"path": "d/../a.txt"}
    made = gate(root, before_tool=[rewriting, Hook(Rewritten({"path": "a.txt"}), name="second")])
    verdict = await judged(made, "read", path="a.txt")
    assert (verdict.outcome, verdict.code, verdict.cause) == ("refuse", "gate_fault", "fault")
    assert "second" in verdict.message
    assert open_descriptors() == before


@pytest.mark.clause("BND-3", "QLT-11")
async def test_the_root_must_be_the_pinned_one_to_the_last(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    made = gate(root)
    root.rename(tmp_path / "moved")
    for tool, arguments in CALLS.items():
        verdict = await judged(made, tool, **arguments)
        assert (verdict.outcome, verdict.code, verdict.cause) == ("refuse", "root_gone", "fault"), tool
    shutil.copytree(tmp_path / "moved", root)
    for tool, arguments in CALLS.items():
        assert (await judged(made, tool, **arguments)).code == "root_gone", tool


@pytest.mark.clause("BND-3", "QLT-11")
async def test_a_root_swapped_while_a_hook_thinks_stops_the_call(tmp_path: Path) -> None:
    root = workspace(tmp_path)

    class Swapping(Hook):
        async def __call__(self, tool_call: ToolCall, tool_input: Any) -> HookAnswer:
            root.rename(tmp_path / "elsewhere")
            root.mkdir()
            return Allowed()

    assert (await judged(gate(root, before_tool=[Swapping()]), "bash", command="ls")).code == "root_gone"


@pytest.mark.clause("BND-3")
async def test_allowed_targets_are_open_and_all_others_are_closed(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    before = open_descriptors()
    made = gate(root)
    verdict = await made.judge(call("read", path="a.txt"))
    assert verdict.targets[0].fd is not None
    assert os.pread(verdict.targets[0].fd, 99, 0) == b"alpha\n"
    assert not os.get_inheritable(verdict.targets[0].fd)
    verdict.close()
    verdict.close()
    asking = gate(root, approval="ask")
    for tool, arguments in (("write", CALLS["write"]), ("read", {"path": "/etc/hostname"})):
        asked = await asking.judge(call(tool, **arguments))
        assert (asked.outcome, asked.targets) == ("ask", [])
    assert (await made.judge(call("read", path="/etc/hostname"))).outcome == "refuse"
    assert open_descriptors() == before


@pytest.mark.clause("BND-3")
async def test_what_was_judged_is_what_is_open_whatever_happens_to_the_name(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    verdict = await gate(root).judge(call("read", path="a.txt"))
    (root / "a.txt").unlink()
    (root / "a.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    assert os.pread(verdict.targets[0].fd or -1, 99, 0) == b"alpha\n"
    verdict.close()


@pytest.mark.clause("BND-3")
async def test_explain_decides_without_leaving_anything_open_or_remembered(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    before = open_descriptors()
    made = gate(root, approval="ask")
    told = await made.explain(call("read", path=str(tmp_path / "outside" / "secret.txt")))
    assert told.verdict.outcome == "ask"
    assert told.resolved_paths == ((tmp_path / "outside" / "secret.txt").resolve(),)
    assert (await made.explain(call("read", path="d/../a.txt"))).resolved_paths == (root.resolve() / "a.txt",)
    assert (await made.explain(call("nothing"))).verdict.code == "unknown_tool"
    assert open_descriptors() == before


@pytest.mark.clause("BND-3", "QLT-2")
def test_every_code_says_whether_policy_or_a_fault_refused() -> None:
    assert {cause_of(code) for code in CODES} == {"policy", "fault"}
    assert cause_of("something_new") == "fault"


@pytest.mark.clause("BND-3")
async def test_the_time_taken_is_told(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    assert PolicyGate(policy(pinned(root)), SPECS) is not None
    assert 0 < (await judged(gate(root), "read", path="a.txt")).us < 5_000_000
