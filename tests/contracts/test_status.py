"""Statuses move along allowed edges alone, and each failure has one terminal code."""

from __future__ import annotations

import pytest

from drawbar.contracts.errors import DrawbarError, ProviderError
from drawbar.contracts.status import ACTIVE, EDGES, SETTLED, TERMINAL_CODES, edge_allowed, terminal_code_of
from drawbar.runs.settlement import completed, failed, interrupted


@pytest.mark.clause("CON-3")
def test_the_edges_are_the_specified_ones() -> None:
    allowed = {(old, new) for old in EDGES for new in EDGES[old]}
    ends = {"interrupted", "completed", "failed"}
    expected = {("queued", "running"), ("queued", "failed"), ("queued", "interrupted")}
    for waiting in ("waiting_for_approval", "waiting_for_input"):
        expected |= {("running", waiting), (waiting, "running")} | {(waiting, end) for end in ends}
    expected |= {("running", end) for end in ends}
    assert allowed == expected
    assert set(EDGES) == ACTIVE | SETTLED
    assert not any(edge_allowed(old, new) for old in SETTLED for new in EDGES)


@pytest.mark.clause("CON-4", "CON-39")
def test_every_error_code_maps_to_a_known_terminal_code() -> None:
    def all_codes(kind: type[DrawbarError]) -> set[str]:
        return {kind.code}.union(*(all_codes(sub) for sub in kind.__subclasses__()))

    for code in all_codes(DrawbarError):
        assert terminal_code_of(code) in TERMINAL_CODES
    assert terminal_code_of("provider_error") == "provider_error"
    assert terminal_code_of("something_new") == "failed"


@pytest.mark.clause("CON-4", "RUN-29")
def test_settlements_carry_status_code_and_outcome() -> None:
    assert (completed().status, completed().code, completed().outcome) == ("completed", "completed", "done")
    stop = interrupted("user_abort", "stopped by a person")
    event = stop.event("running")
    assert event.event == "status.changed"
    assert (event.from_, event.to, event.code) == ("running", "interrupted", "user_abort")  # pyright: ignore[reportAttributeAccessIssue]
    broken = failed(ProviderError("no answer", kind="transport"))
    assert (broken.status, broken.code, broken.error) == ("failed", "provider_error", "provider_error")
    assert broken.reason == "transport: no answer. Check the account's address and the network."
    defect = failed(RuntimeError("boom"))
    assert (defect.code, defect.error) == ("failed", "internal_error")
    assert "boom" in (defect.reason or "")
