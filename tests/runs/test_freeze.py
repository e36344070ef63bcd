"""What a run may do is frozen at its start, and only ever narrowed."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbar.contracts.errors import InvalidInput
from drawbar.runs.freeze import approval_mode, caller_capabilities, freeze

MODES = ["ask", "auto-workspace", "read-only", "never", None]
TOOLS = ["read", "write", "bash"]


@pytest.mark.clause("RUN-2", "RUN-5")
@given(
    st.lists(st.sampled_from(TOOLS), unique=True) | st.none(),
    st.lists(st.sampled_from(["read-only", "workspace", "outside"]), unique=True) | st.none(),
)
def test_a_requested_set_only_narrows(tools: list[str] | None, scopes: list[str] | None) -> None:
    caller = caller_capabilities(TOOLS)
    frozen = freeze(caller, narrow_tools=tools, narrow_scopes=scopes)
    assert set(frozen.tools) == set(TOOLS if tools is None else tools)
    assert set(frozen.scopes) <= {"read-only", "workspace"}
    if scopes is not None:
        assert set(frozen.scopes) <= set(scopes)
    assert frozen.network == ()
    assert not frozen.questions


@pytest.mark.clause("RUN-1", "RUN-5")
def test_an_unknown_name_is_refused_by_field() -> None:
    caller = caller_capabilities(TOOLS)
    with pytest.raises(InvalidInput, match="narrow_tools: no such tool: rm"):
        freeze(caller, narrow_tools=["rm"], narrow_scopes=None)
    with pytest.raises(InvalidInput, match="narrow_scopes: no such scope: moon"):
        freeze(caller, narrow_tools=None, narrow_scopes=["moon"])


@pytest.mark.clause("BND-6")
def test_the_stricter_of_account_and_project_holds() -> None:
    for left, right in itertools.product(MODES, MODES):
        mode = approval_mode(left, right, automatic=False)  # pyright: ignore[reportArgumentType]
        for strict in ("read-only", "ask"):
            if strict in (left, right):
                assert mode == strict
                break
    assert approval_mode(None, None, automatic=False) == "ask"
    assert approval_mode("auto-workspace", None, automatic=False) == "auto-workspace"
    assert approval_mode("never", "ask", automatic=False) == "ask"
    assert approval_mode("never", "auto-workspace", automatic=False) == "never"


@pytest.mark.clause("BND-6", "RUN-6", "RUN-35")
@pytest.mark.parametrize("mode", MODES)
def test_unattended_turns_every_mode_but_read_only_into_never(mode: str | None) -> None:
    expected = "read-only" if mode == "read-only" else "never"
    assert approval_mode(mode, None, automatic=True) == expected  # pyright: ignore[reportArgumentType]
