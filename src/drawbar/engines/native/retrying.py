"""Carries one model request through its retries, each of them visible (MDL-5, QLT-7, QLT-15)."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from drawbar.contracts.clock import Clock, stamp
from drawbar.contracts.errors import ProviderError
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.lifecycle import RetryEnded, RetryStarted
from drawbar.models.retry import GiveUp, RetryPolicy, after_failure

__all__ = ["EmptyReply", "Retrying"]

T = TypeVar("T")

_CONTENT: Final = re.compile(
    r"messages?\b|contents?\b|\binput\b|\bparts?\b|image|base64|thinking|reasoning|signature|encrypted|tool|\brole",
    re.I,
)
_REJECTED: Final = frozenset({400, 413, 422})


class EmptyReply(Exception):
    """An attempt ended well and said nothing at all; ``reply`` is what it gave, should nothing better come."""

    def __init__(self, reply: Any) -> None:
        super().__init__("the reply was empty")
        self.reply = reply


class Retrying:
    """Tries a request until it succeeds, can't, or has been tried enough.

    Args:
        policy: how patient to be.
        emit: writes ``retry.started`` and ``retry.ended``.
        clock: for the time at which a provider would answer again.
        simplify: leaves out of the conversation what a provider may stumble over; whether there was any. It is
            asked once a request, when the provider refuses the request's content (QLT-7).
    """

    def __init__(
        self, policy: RetryPolicy, emit: Callable[[Payload], Any], clock: Clock, simplify: Callable[[], bool]
    ) -> None:
        self._policy = policy
        self._emit = emit
        self._clock = clock
        self._simplify = simplify

    async def carry_out(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The result of the first attempt that succeeds.

        Args:
            attempt: one whole attempt; what it raises as :class:`ProviderError` may be tried again.

        Raises:
            ProviderError: the last attempt's, with the time of the next possible one in its message when the
                provider named one that is too far away to wait for.
            asyncio.CancelledError: at once, also during a wait.
        """
        made = failures = empty = 0
        mended = False
        while True:
            try:
                result = await attempt()
            except EmptyReply as nothing:
                self._ended(made, ok=True)
                if empty >= self._policy.empty:
                    return nothing.reply
                empty += 1
                made += 1
                await self._wait(made, "empty_reply", 0.0, "the model said nothing at all")
            except ProviderError as error:
                self._ended(made, ok=False, cause=error.kind)
                made += 1
                if not mended and _names_content(error) and self._simplify():
                    mended = True
                    await self._wait(made, error.kind, 0.0, error.message)
                    continue
                step = after_failure(error, failures, self._policy, chance=random.random())
                if isinstance(step, GiveUp):
                    raise self._final(error, step) from None
                failures += 1
                await self._wait(made, error.kind, step.seconds, error.message)
            except BaseException:
                self._ended(made, ok=False, cause="aborted")
                raise
            else:
                self._ended(made, ok=True)
                return result

    async def _wait(self, attempt: int, cause: str, seconds: float, message: str) -> None:
        self._emit(RetryStarted(attempt=attempt, cause=cause, wait_ms=round(seconds * 1000), message=message))
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self._ended(attempt, ok=False, cause="aborted")
            raise

    def _ended(self, attempt: int, *, ok: bool, cause: str | None = None) -> None:
        """The end of a retry; the first attempt is none."""
        if attempt:
            self._emit(RetryEnded(attempt=attempt, ok=ok, cause=cause))

    def _final(self, error: ProviderError, step: GiveUp) -> ProviderError:
        if step.resets_in_s is None:
            return error
        at = stamp(self._clock.now_ms() + round(step.resets_in_s * 1000))
        error.message = f"{error.message.rstrip('.')}; the provider answers again at {at}"
        error.args = (error.message,)
        error.facts["resets_at"] = at
        return error


def _names_content(error: ProviderError) -> bool:
    return error.kind == "bad_request" and error.status in _REJECTED and bool(_CONTENT.search(error.message))
