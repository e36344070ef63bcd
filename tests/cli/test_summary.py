"""The short account at a run's end: counted from the events, unknown where nobody said (CLI-1)."""

from __future__ import annotations

import pytest
from tests.cli.kit import PLAIN, call, events

from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.human import ApprovalResolved
from drawbar.contracts.events.lifecycle import Completed, Failed, Started, StatusChanged
from drawbar.contracts.events.message import MessageCompleted
from drawbar.contracts.events.tool import FileChanged
from drawbar.contracts.events.usage import RequestUsage, Usage, UsageUpdated
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
