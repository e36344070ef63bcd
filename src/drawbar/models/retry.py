"""Whether a failed request is tried again, and after which wait: a pure decision (MDL-5, QLT-15)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drawbar.contracts.errors import ProviderError

__all__ = ["RETRIED", "GiveUp", "RetryPolicy", "Wait", "after_failure"]

RETRIED: Final = frozenset({"rate_limit", "overloaded", "transport"})
"""What a wait can mend. A quota or a bill isn't among them: waiting fills no purse."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How patient a conversation is.

    Args:
        attempts: the most retries of one request.
        first_s: the wait before the first retry when the provider states none; it doubles each time.
        longest_s: the longest wait that isn't stated.
        stated_cap_s: the longest stated wait that is sat out; above it the run settles with the time at which
            the provider would answer again.
        jitter: the share of a wait that is added at random, so that many runs don't come back at once.
        empty: the most retries of a reply that says nothing.
    """

    attempts: int = 6
    first_s: float = 1.0
    longest_s: float = 30.0
    stated_cap_s: float = 120.0
    jitter: float = 0.25
    empty: int = 2


@dataclass(frozen=True, slots=True)
class Wait:
    """Try again after ``seconds``; ``stated`` says that the provider named the time."""

    seconds: float
    stated: bool = False


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Don't. ``resets_in_s`` is the stated wait that was too long to sit out, None otherwise."""

    resets_in_s: float | None = None


def after_failure(error: ProviderError, retries: int, policy: RetryPolicy, *, chance: float) -> Wait | GiveUp:
    """What follows a failed attempt.

    Args:
        error: its kind and its stated wait decide.
        retries: how many were made for this request already.
        policy: how patient to be.
        chance: uniform in [0, 1), for the jitter.

    A stated wait is never cut short: it is kept with jitter on top, or the request is given up (PRV-02).
    """
    stated = error.retry_after_s
    if error.kind not in RETRIED or not _worth_it(error):
        return GiveUp()
    if stated is not None and stated > policy.stated_cap_s:
        return GiveUp(resets_in_s=stated)
    if retries >= policy.attempts:
        return GiveUp(resets_in_s=stated)
    spread = 1.0 + policy.jitter * chance
    if stated is not None:
        return Wait(stated * spread if stated else policy.first_s * policy.jitter * chance, stated=True)
    return Wait(min(policy.first_s * 2.0**retries, policy.longest_s) * spread)


def _worth_it(error: ProviderError) -> bool:
    """A reply that grew too large, or that is somebody else's page, would be the same the next time."""
    return error.facts.get("cause") not in ("event_too_large", "not_a_reply")
