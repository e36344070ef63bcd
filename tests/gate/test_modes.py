"""Approval modes: the whole table, how modes combine, and what passes with the sandbox off (BND-6)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.gate.kit import CALLS, gate, grant_for, judged, workspace

from drawbar.boundary.modes import effective_mode, stricter
from drawbar.contracts.boundary import StandingRule

MODES = ("ask", "auto-workspace", "read-only", "never")

# mode → reads in root, writes and edits, Bash in `workspace`, Bash in `read-only`, reads outside
TABLE = {
    "ask": ("allow", "ask", "ask", "allow", "ask"),
    "auto-workspace": ("allow", "allow", "allow", "allow", "ask"),
    "read-only": ("allow", "refuse", "refuse", "allow", "refuse"),
    "never": ("allow", "allow", "allow", "allow", "refuse"),
}


@pytest.mark.clause("BND-6")
@pytest.mark.parametrize("mode", MODES)
async def test_the_table(tmp_path: Path, mode: str) -> None:
    made = gate(workspace(tmp_path), approval=mode)
    in_root, writes, command, read_only, outside = TABLE[mode]
    secret = str(tmp_path / "outside" / "secret.txt")
    for tool, arguments, want in [
        ("read", {"path": "a.txt"}, in_root),
        ("ls", {"path": "."}, in_root),
        ("read", {"path": "not there"}, in_root),
        ("write", CALLS["write"], writes),
        ("edit", CALLS["edit"], writes),
        ("bash", {"command": "touch x", "scope": "workspace"}, command),
        ("bash", {"command": "touch x", "scope": "read-only"}, read_only),
        ("read", {"path": secret}, outside),
        ("ls", {"path": str(tmp_path / "outside")}, outside),
        ("read", {"path": "/nowhere/at/all"}, outside),
        ("todo_write", {}, "allow"),
    ]:
        verdict = await judged(made, tool, **arguments)
        assert verdict.outcome == want, (tool, arguments, verdict.message)
        if verdict.outcome == "refuse":
            assert verdict.cause == "policy"


@pytest.mark.clause("BND-6")
@pytest.mark.bug("APR-14")
async def test_the_mode_read_only_narrows_what_was_left_open_and_nothing_else(tmp_path: Path) -> None:
    made = gate(workspace(tmp_path), approval="read-only")
    open_scope = await judged(made, "bash", command="ls")
    assert (open_scope.outcome, open_scope.scope, open_scope.rule) == ("allow", "read-only", "scope:read-only")
    assert (await judged(made, "bash", command="ls", scope="workspace")).code == "read_only"
    assert (await judged(made, "write", **CALLS["write"])).code == "read_only"


@pytest.mark.clause("BND-6", "CON-6")
@pytest.mark.parametrize("mode", ["ask", "auto-workspace"])
async def test_where_nobody_is_asked_an_ask_is_a_refusal(tmp_path: Path, mode: str) -> None:
    made = gate(workspace(tmp_path), approval=mode, asks=False)
    for tool, arguments in [*CALLS.items(), ("read", {"path": "/etc/hostname"})]:
        verdict = await judged(made, tool, **arguments)
        assert verdict.outcome != "ask"
        if verdict.outcome == "refuse":
            assert (verdict.code, verdict.cause) == ("needs_approval", "policy")
    assert (await judged(made, "read", path="/etc/hostname")).code == "needs_approval"


@pytest.mark.clause("BND-6")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("scope", [None, "read-only", "workspace"])
async def test_bash_with_the_sandbox_off(tmp_path: Path, mode: str, explicit: bool, scope: str | None) -> None:
    made = gate(workspace(tmp_path), approval=mode, sandbox="off", explicit_off=explicit)
    verdict = await judged(made, "bash", command="ls", scope=scope)
    if explicit and mode in ("auto-workspace", "never"):
        assert (verdict.outcome, verdict.rule) == ("allow", f"mode:{mode}:sandbox-off")
    elif mode in ("ask", "auto-workspace"):
        assert verdict.outcome == "ask"
        assert "sandbox is off" in verdict.message
    else:
        assert verdict.outcome == "refuse"
        assert verdict.code == ("read_only" if mode == "read-only" and scope == "workspace" else "sandbox_off")


@pytest.mark.clause("BND-6")
async def test_with_the_sandbox_off_files_keep_their_rules(tmp_path: Path) -> None:
    made = gate(workspace(tmp_path), approval="ask", sandbox="off")
    assert (await judged(made, "write", **CALLS["write"])).outcome == "ask"
    assert (await judged(made, "read", path="a.txt")).outcome == "allow"


@pytest.mark.clause("BND-6")
async def test_a_rule_saved_for_the_sandbox_says_nothing_without_it(tmp_path: Path) -> None:
    rule = StandingRule("a_1", "bash", "workspace", "npm test")
    off = gate(workspace(tmp_path), approval="ask", sandbox="off", standing=(rule,))
    assert (await judged(off, "bash", command="npm test")).outcome == "ask"
    off.remember(StandingRule("a_2", "bash", "workspace", "npm test"))
    assert (await judged(off, "bash", command="npm test")).rule == "session:a_2"


@pytest.mark.clause("BND-6")
def test_modes_combine_to_the_stricter_and_unattended_asks_nobody() -> None:
    order = ("read-only", "ask", "auto-workspace")
    for (place, first), (other, second) in itertools.product(enumerate(order), repeat=2):
        assert stricter(first, second) == order[min(place, other)]
        assert effective_mode(first, second, unattended=False) == order[min(place, other)]
    for account, project in itertools.product(MODES, (None, *MODES)):
        mode: Any = effective_mode(account, project, unattended=True)  # type: ignore[arg-type]
        assert mode == ("read-only" if "read-only" in (account, project) else "never")
    assert effective_mode("auto-workspace", None, unattended=False) == "auto-workspace"
    assert stricter("never", "auto-workspace") == "never"
    assert stricter("never", "ask") == "ask"


@pytest.mark.clause("BND-3", "BND-6")
async def test_a_grant_opens_exactly_what_was_asked_and_once(tmp_path: Path) -> None:
    made = gate(workspace(tmp_path), approval="ask")
    asked = await judged(made, "bash", command="rm -r build")
    assert (asked.outcome, asked.code, asked.cause) == ("ask", None, None)
    for wrong in (
        grant_for(asked, arguments_sha256="0" * 64),
        grant_for(asked, scope="read-only"),
        grant_for(asked, scope="outside"),
    ):
        assert (await judged(made, "bash", grant=wrong, command="rm -r build")).outcome == "ask"
    assert (await judged(made, "bash", grant=grant_for(asked), command="rm -r other")).outcome == "ask"
    granted = await judged(made, "bash", grant=grant_for(asked), command="rm -r build")
    assert (granted.outcome, granted.rule, granted.by) == ("allow", "approval:a_1", "tester")
    assert (await judged(made, "bash", grant=grant_for(asked), command="rm -r build")).outcome == "ask"


@pytest.mark.clause("BND-3", "BND-6")
async def test_a_grant_opens_no_refusal(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    asking = gate(root, approval="ask")
    asked = await judged(asking, "write", **CALLS["write"])
    for changes in ({"approval": "read-only"}, {"plan": True}, {"tools": frozenset[str]()}, {"scopes": ("read-only",)}):
        strict = gate(root, **changes)
        assert (await judged(strict, "write", grant=grant_for(asked), **CALLS["write"])).outcome == "refuse"
    never = gate(root, approval="never")
    secret = {"path": str(tmp_path / "outside" / "secret.txt")}
    outside = await judged(asking, "read", **secret)
    assert (await judged(never, "read", grant=grant_for(outside), **secret)).outcome == "refuse"


@pytest.mark.clause("BND-3", "BND-6")
async def test_a_yes_to_a_path_is_no_yes_to_where_the_link_leads_by_then(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    harmless, secret = tmp_path / "outside" / "notes.txt", tmp_path / "outside" / "secret.txt"
    harmless.write_text("notes")
    (root / "link").symlink_to(harmless)
    made = gate(root, approval="ask")
    asked = await judged(made, "read", path="link")
    assert str(harmless) in asked.message
    (root / "link").unlink()
    (root / "link").symlink_to(secret)
    again = await judged(made, "read", grant=grant_for(asked), path="link")
    assert again.outcome == "ask"
    assert str(secret) in again.message
    granted = await judged(made, "read", grant=grant_for(again, "a_2"), path="link")
    assert granted.outcome == "allow"


@pytest.mark.clause("BND-3", "BND-6")
async def test_a_yes_to_a_write_is_no_yes_to_another_file(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "link").symlink_to("a.txt")
    made = gate(root, approval="ask")
    asked = await judged(made, "write", path="link", content="x")
    (root / "link").unlink()
    (root / "link").symlink_to("d/precious.txt")
    (root / "d" / "precious.txt").write_text("precious")
    assert (await judged(made, "write", grant=grant_for(asked), path="link", content="x")).outcome == "ask"


@pytest.mark.clause("BND-3")
async def test_a_grant_from_before_says_nothing_about_a_path_outside(tmp_path: Path) -> None:
    """A gate that didn't ask (a new process) can't know where the path led when a person said yes."""
    root = workspace(tmp_path)
    secret = {"path": str(tmp_path / "outside" / "secret.txt")}
    asked = await judged(gate(root, approval="ask"), "read", **secret)
    assert (await judged(gate(root, approval="ask"), "read", grant=grant_for(asked), **secret)).outcome == "ask"
