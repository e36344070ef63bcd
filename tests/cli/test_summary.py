"""The short account at a run's end: counted from the events, unknown where nobody said (CLI-1)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.kit import PLAIN, call, events

from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.human import ApprovalResolved
from drawbar.contracts.events.lifecycle import Completed, Failed, Started, StatusChanged
from drawbar.contracts.events.message import MessageCompleted
from drawbar.contracts.events.tool import FileChanged
from drawbar.contracts.events.usage import RequestUsage, Usage, UsageUpdated
from drawbar.surfaces.cli.output import GLYPHS, Look
from drawbar.surfaces.cli.summary import Account, payload_of


def account(*payloads: Payload) -> Account:
    tally = Account()
    for event in events(*payloads):
        tally.add(event, payload_of(event))
    return tally


def usage(**totals: int | None) -> UsageUpdated:
    return UsageUpdated(totals=Usage(**totals), requests=3, request=RequestUsage(request=3, model="claude-x"))


@pytest.mark.clause("CLI-1")
def test_the_account_says_files_checks_tokens_cost_and_run() -> None:
    tally = account(
        Started(run_id="r_1"),
        FileChanged(path="a.py", change="modified"),
        FileChanged(path="b.py", change="created"),
        FileChanged(path="b.py", change="modified"),
        FileChanged(path="tmp", change="created"),
        FileChanged(path="tmp", change="deleted"),
        *call("1", "bash", {"command": "pytest -q"}, cause="error", exit_code=1),
        *call("2", "bash", {"command": "pytest -q"}, exit_code=0),
        *call("3", "bash", {"command": "ruff check . | tail"}, exit_code=0),
        *call("4", "bash", {"command": "ls"}, exit_code=0),
        usage(input_tokens=1500, cache_read_tokens=20_000, cache_write_tokens=None, output_tokens=700),
        MessageCompleted(message_id="m", entry_id="e", role="assistant", text="Done."),
        Completed(),
    )
    assert tally.lines(PLAIN) == [
        "✓ completed in 1.6 s",
        "  files  a.py modified",
        "         b.py created",
        "         besides whatever 4 commands changed",
        "  checks pytest -q passed",
        "         ruff check . ran, result not told",
        "  tokens 21.5k in (20.0k from cache), 700 out, 3 requests",
        "  cost   unknown (no price for claude-x)",
        "  run    r_1",
    ]
    assert (tally.reply, tally.exit_code) == ("Done.", 0)


@pytest.mark.clause("CLI-1")
def test_a_price_makes_a_cost() -> None:
    tally = account(Started(run_id="r"), usage(input_tokens=10, output_tokens=1), Completed())
    assert "  cost   $0.0123" in tally.lines(PLAIN, lambda model, use: 0.01234)
    assert "  cost   $3.50" in tally.lines(PLAIN, lambda model, use: 3.5)


@pytest.mark.clause("QLT-17")
def test_unknown_is_not_zero() -> None:
    assert "  tokens unknown" in account(usage(input_tokens=None, output_tokens=None)).lines(PLAIN)
    assert "  tokens 12 in, unknown out, 3 requests" in account(usage(input_tokens=12)).lines(PLAIN)
    assert "  tokens none" in account(Started(run_id="r")).lines(PLAIN)


@pytest.mark.clause("CLI-1")
def test_a_run_without_work_says_so() -> None:
    lines = account(Started(run_id="r"), Completed()).lines(PLAIN)
    assert "  files  none changed" in lines
    assert "  checks none ran" in lines


@pytest.mark.clause("CLI-1", "RUN-35")
@pytest.mark.parametrize(
    ("payloads", "code"),
    [
        ([Completed()], 0),
        ([Failed(error="provider_error", reason="no such model")], 1),
        ([ApprovalResolved(approval_id="a", decision="deny", by="nobody"), Completed()], 3),
        ([ApprovalResolved(approval_id="a", decision="deny", by="terminal"), Completed()], 0),
        ([StatusChanged(from_="running", to="interrupted", code="user_abort")], 130),
        ([StatusChanged(from_="queued", to="running")], 1),
    ],
)
def test_the_exit_code_is_the_outcome(payloads: list[Payload], code: int) -> None:
    assert account(*payloads).exit_code == code


@pytest.mark.clause("CLI-1")
def test_a_failure_says_why() -> None:
    lines = account(Started(run_id="r"), Failed(error="provider_error", reason="no such model: x\x1b[2J")).lines(PLAIN)
    assert lines[:2] == ["✗ failed (provider_error) in 100 ms", "  no such model: x\\x1b[2J"]


@pytest.mark.clause("CLI-1")
def test_many_files_are_counted_and_names_are_one_line() -> None:
    tally = account(*[FileChanged(path=f"f\n{n}", change="created") for n in range(20)], Completed())
    lines = tally.lines(PLAIN)
    assert "  files  f\\n0 created" in lines
    assert "         and 8 more" in lines


@pytest.mark.clause("CLI-1")
def test_a_command_that_never_ran_changed_nothing_and_checked_nothing() -> None:
    tally = account(
        Started(run_id="r"),
        *call("1", "bash", {"command": "pytest"}, cause="error", exit_code=None),  # could not be started
        *call("2", "bash", {"command": "pytest"}, cause="aborted", exit_code=None, duration_ms=None),  # before it began
        Completed(),
    )
    assert tally.lines(PLAIN)[1:3] == ["  files  none changed", "  checks none ran"]


@pytest.mark.clause("CLI-1")
def test_a_command_that_could_only_read_changed_nothing() -> None:
    started, ended = call("1", "bash", {"command": "pytest -q"}, exit_code=0)
    started.scope = "read-only"
    tally = account(Started(run_id="r"), started, ended, Completed())
    assert tally.lines(PLAIN)[1:3] == ["  files  none changed", "  checks pytest -q passed"]


@pytest.mark.clause("CLI-1", "QLT-8")
@pytest.mark.parametrize(
    "end", [{"cause": "timeout"}, {"cause": "aborted"}, {"cause": "unknown", "duration_ms": None}, None]
)
def test_a_command_that_was_cut_short_may_have_changed_something(end: dict[str, Any] | None) -> None:
    started, ended = call("1", "bash", {"command": "pytest -q"}, **(end or {}))
    lines = account(Started(run_id="r"), started, *([] if end is None else [ended])).lines(PLAIN)
    assert "  files  only whatever 1 command changed" in lines


@pytest.mark.clause("RUN-35")
def test_an_ask_that_found_nobody_says_how_to_be_there() -> None:
    asked = ApprovalResolved(approval_id="a", decision="deny", by="nobody")
    said = "\n".join(
        account(Started(run_id="r"), asked, asked, Completed()).lines(Look(False, False, GLYPHS, columns=400))
    )
    assert "it went on without 2 approvals" in said
    assert said.count("asks found nobody") == 1
    assert "--approval auto-workspace" in said
    already = account(Started(run_id="r", approval_mode="auto-workspace"), asked, Completed()).lines(PLAIN)
    assert "--approval auto-workspace" not in "\n".join(already)
    off = account(Started(run_id="r", sandbox="off", approval_mode="auto-workspace"), asked, Completed()).lines(PLAIN)
    assert "  asks found nobody: run it in a terminal" in off
