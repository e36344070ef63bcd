"""When a failed request is tried again: the pure decision, over every kind and wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbar.contracts.errors import ProviderError
from drawbar.models.retry import GiveUp, RetryPolicy, Wait, after_failure

KINDS = ("auth", "rate_limit", "quota", "overloaded", "context_overflow", "refused", "bad_request", "transport")
POLICY = RetryPolicy()


def error(kind: str, *, after: float | None = None, **facts: str) -> ProviderError:
    return ProviderError("it failed", kind=kind, retry_after_s=after, **facts)


@pytest.mark.clause("MDL-5")
@pytest.mark.parametrize("kind", KINDS)
def test_only_what_a_wait_can_mend_is_tried_again(kind: str) -> None:
    step = after_failure(error(kind), 0, POLICY, chance=0.0)
    assert isinstance(step, Wait) == (kind in ("rate_limit", "overloaded", "transport"))


@pytest.mark.clause("QLT-15")
@pytest.mark.bug("PRV-02")
@given(after=st.floats(0, 100_000), retries=st.integers(0, 20), chance=st.floats(0, 1, exclude_max=True))
def test_a_stated_wait_is_kept_with_jitter_or_given_up_but_never_cut_short(
    after: float, retries: int, chance: float
) -> None:
    step = after_failure(error("rate_limit", after=after), retries, POLICY, chance=chance)
    if after > POLICY.stated_cap_s:
        assert step == GiveUp(resets_in_s=after)
    elif retries >= POLICY.attempts:
        assert isinstance(step, GiveUp)
    else:
        assert isinstance(step, Wait)
        assert step.stated
        assert after <= step.seconds <= max(after * 1.25, 0.25)


@pytest.mark.clause("QLT-15")
@given(retries=st.integers(0, 5), chance=st.floats(0, 1, exclude_max=True))
def test_unstated_waits_double_up_to_a_limit_and_are_spread(retries: int, chance: float) -> None:
    step = after_failure(error("overloaded"), retries, POLICY, chance=chance)
    assert isinstance(step, Wait)
    base = min(2.0**retries, POLICY.longest_s)
    assert base <= step.seconds <= base * 1.25


@pytest.mark.clause("MDL-5")
def test_patience_ends() -> None:
    assert isinstance(after_failure(error("transport"), POLICY.attempts, POLICY, chance=0.0), GiveUp)


@pytest.mark.clause("MDL-4", "MDL-5")
@pytest.mark.parametrize("cause", ["event_too_large", "not_a_reply"])
def test_what_would_be_the_same_again_is_not_tried(cause: str) -> None:
    assert isinstance(after_failure(error("transport", cause=cause), 0, POLICY, chance=0.0), GiveUp)
