"""Capability sets: only intersection combines two, and it never widens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbar.contracts.capability import SCOPES, CapabilitySet, SubagentRights
from drawbar.contracts.codec import decode, encode

names = st.lists(st.sampled_from(["read", "write", "bash", "grep", "edit"]), max_size=6).map(tuple)
sets = st.builds(
    CapabilitySet,
    tools=names,
    plugins=names,
    scopes=st.lists(st.sampled_from(SCOPES), max_size=3).map(tuple),
    network=st.lists(st.sampled_from(["packages.example", "docs.example"]), max_size=2).map(tuple),
    connectors=names,
    subagents=st.builds(SubagentRights, depth=st.integers(0, 3), max_children=st.integers(0, 50)),
    questions=st.booleans(),
)


def within(inner: CapabilitySet, outer: CapabilitySet) -> bool:
    return (
        set(inner.tools) <= set(outer.tools)
        and set(inner.plugins) <= set(outer.plugins)
        and set(inner.scopes) <= set(outer.scopes)
        and set(inner.network) <= set(outer.network)
        and set(inner.connectors) <= set(outer.connectors)
        and inner.subagents.depth <= outer.subagents.depth
        and inner.subagents.max_children <= outer.subagents.max_children
        and inner.questions <= outer.questions
    )


@pytest.mark.clause("BND-2", "RUN-5")
@given(sets, sets, sets)
def test_intersection_never_widens_and_order_never_matters(
    a: CapabilitySet, b: CapabilitySet, c: CapabilitySet
) -> None:
    both = a.intersect(b)
    assert within(both, a)
    assert within(both, b)
    assert both == b.intersect(a)
    assert both.intersect(c) == a.intersect(b.intersect(c))
    assert both.intersect(a) == both


@pytest.mark.clause("BND-2")
@given(sets)
def test_the_digest_is_of_the_meaning_not_of_the_spelling(a: CapabilitySet) -> None:
    shuffled = CapabilitySet(
        tools=tuple(reversed(a.tools * 2)),
        plugins=tuple(reversed(a.plugins)),
        scopes=tuple(reversed(a.scopes)),
        network=tuple(reversed(a.network)),
        connectors=tuple(reversed(a.connectors)),
        subagents=a.subagents,
        questions=a.questions,
    )
    assert a.digest() == shuffled.digest()
    assert decode(encode(a.normalised()), CapabilitySet, what="set").digest() == a.digest()


@pytest.mark.clause("BND-2")
def test_any_difference_changes_the_digest() -> None:
    base = CapabilitySet(tools=("read",), scopes=("read-only",))
    others = [
        CapabilitySet(tools=("read", "bash"), scopes=("read-only",)),
        CapabilitySet(tools=("read",), scopes=("read-only", "workspace")),
        CapabilitySet(tools=("read",), scopes=("read-only",), network=("packages.example",)),
        CapabilitySet(tools=("read",), scopes=("read-only",), questions=True),
        CapabilitySet(tools=("read",), scopes=("read-only",), subagents=SubagentRights(depth=1)),
    ]
    assert len({base.digest(), *(other.digest() for other in others)}) == 6
