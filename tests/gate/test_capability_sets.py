"""Capability sets: values that only ever narrow (BND-2, RUN-5, QLT-4)."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import drawbar
from drawbar.contracts.capability import SCOPES, CapabilitySet, SubagentRights
from drawbar.runs.freeze import caller_capabilities, freeze

NAMES = st.lists(st.sampled_from(["read", "write", "bash", "ask_user", "a", "b"]), max_size=6).map(tuple)
SETS = st.builds(
    CapabilitySet,
    tools=NAMES,
    plugins=NAMES,
    scopes=st.lists(st.sampled_from(SCOPES), max_size=4).map(tuple),
    network=st.lists(st.sampled_from(["a.example", "b.example", "c.example:8443"]), max_size=4).map(tuple),
    connectors=NAMES,
    subagents=st.builds(SubagentRights, depth=st.integers(0, 4), max_children=st.integers(0, 9)),
    questions=st.booleans(),
)
LISTS = ("tools", "plugins", "scopes", "network", "connectors")


def within(narrow: CapabilitySet, wide: CapabilitySet) -> bool:
    return (
        all(set(getattr(narrow, name)) <= set(getattr(wide, name)) for name in LISTS)
        and narrow.subagents.depth <= wide.subagents.depth
        and narrow.subagents.max_children <= wide.subagents.max_children
        and narrow.questions <= wide.questions
    )


@pytest.mark.clause("BND-2", "QLT-4")
@given(SETS, SETS, SETS)
def test_intersection_is_the_greatest_set_that_both_allow(
    one: CapabilitySet, two: CapabilitySet, three: CapabilitySet
) -> None:
    both = one.intersect(two)
    assert within(both, one)
    assert within(both, two)
    assert both == two.intersect(one)
    assert both.intersect(three) == one.intersect(two.intersect(three))
    assert one.intersect(one) == one.normalised()
    assert not (within(three, one) and within(three, two)) or within(three, both)


@pytest.mark.clause("BND-2")
@given(SETS, SETS)
def test_a_digest_is_of_what_a_set_allows_and_not_of_how_it_is_written(one: CapabilitySet, two: CapabilitySet) -> None:
    same = within(one, two) and within(two, one)
    assert (one.digest() == two.digest()) == same


@pytest.mark.clause("BND-2")
def test_every_field_takes_part_in_the_intersection() -> None:
    full = CapabilitySet(
        tools=("t",),
        plugins=("p",),
        scopes=SCOPES,
        network=("n",),
        connectors=("c",),
        subagents=SubagentRights(depth=1, max_children=1),
        questions=True,
    )
    empty = CapabilitySet()
    assert full.intersect(empty) == empty
    for name in full.__struct_fields__:
        assert getattr(full, name) != getattr(empty, name), f"{name} isn't tried"


@pytest.mark.clause("BND-2", "RUN-5", "BND-9")
@given(
    tools=st.lists(st.sampled_from(["read", "bash"]), max_size=3) | st.none(),
    scopes=st.lists(st.sampled_from(SCOPES), max_size=3) | st.none(),
    attended=st.booleans(),
)
def test_freezing_never_widens(tools: Any, scopes: Any, attended: bool) -> None:
    caller = caller_capabilities(["read", "bash", "ask_user"], network=["a.example"], attended=attended)
    frozen = freeze(caller, narrow_tools=tools, narrow_scopes=scopes)
    assert within(frozen, caller)
    if not attended:
        assert "outside" not in frozen.scopes
        assert "ask_user" not in frozen.tools
        assert not frozen.questions


@pytest.mark.clause("BND-2")
def test_nothing_in_the_program_joins_two_sets() -> None:
    """Sets are made in two places: from the caller's rights, and from what was asked for to narrow them."""
    source = Path(drawbar.__file__).parent
    makers: set[str] = set()
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", getattr(node.func, "attr", "")) == "CapabilitySet"
            ):
                makers.add(str(path.relative_to(source)))
    assert makers <= {"contracts/capability.py", "runs/freeze.py"}, makers
    public = {name for name in vars(CapabilitySet) if not name.startswith("_")}
    assert public - set(CapabilitySet.__struct_fields__) == {"intersect", "normalised", "digest"}
