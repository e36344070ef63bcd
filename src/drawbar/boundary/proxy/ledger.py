"""Every decision in the record, and no flood of them: equal ones of a call share an event with their count (CON-9)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from drawbar.boundary.proxy.decisions import Decision
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.lifecycle import NetworkDecided

__all__ = ["Ledger"]

_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 64.0
_MOST_HOSTS: Final = 200
"""Different hosts of one call, allowed and refused each, that get an event of their own."""
_FURTHER: Final = "(further hosts)"

_Key = tuple[str, int, bool, str | None, str | None]


@dataclass(slots=True)
class _Call:
    """The decisions of one call that are known already, and how many of each wait to be written."""

    waiting: dict[_Key, int] = field(default_factory=dict[_Key, int])
    kinds: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    wait_s: float = _FIRST_WAIT_S
    timer: asyncio.TimerHandle | None = None


class Ledger:
    """Turns decisions into ``network.decided``.

    The first of its kind within a call is written at once, before anything is connected. Repeats are counted and
    written together, at intervals that double, and when the call ends. The counts add up to the decisions.

    Args:
        emit: appends an event to the run's log; whatever it raises refuses the decision that it was for.
    """

    def __init__(self, emit: Callable[[Payload], Any]) -> None:
        self._emit = emit
        self._calls: dict[str, _Call] = {}

    def record(self, call_id: str, decision: Decision) -> None:
        """Write ``decision`` down or count it."""
        call = self._calls.setdefault(call_id, _Call())
        key: _Key = (decision.host, decision.port, decision.allowed, decision.rule, decision.reason)
        if key not in call.waiting and call.kinds[decision.allowed] >= _MOST_HOSTS:
            key = (_FURTHER, 0, decision.allowed, None, "more different hosts than are recorded one by one")
        if key in call.waiting:
            call.waiting[key] += 1
            if call.timer is None:
                call.timer = asyncio.get_running_loop().call_later(call.wait_s, self._flush, call_id)
            return
        self._write(call_id, key, 1)
        call.waiting[key] = 0
        call.kinds[decision.allowed] += 1

    def end_call(self, call_id: str) -> None:
        """Write what still waits; a later decision of the same id starts anew."""
        if call_id in self._calls:
            self._flush(call_id)
            timer = self._calls.pop(call_id).timer
            if timer is not None:
                timer.cancel()

    def close(self) -> None:
        """End every call."""
        for call_id in list(self._calls):
            self.end_call(call_id)

    def _flush(self, call_id: str) -> None:
        call = self._calls[call_id]
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None
        call.wait_s = min(call.wait_s * 2, _LONGEST_WAIT_S)
        for key, count in call.waiting.items():
            if count:
                call.waiting[key] = 0
                # A log that takes no more ends the run by itself; the next first decision is refused.
                with contextlib.suppress(Exception):
                    self._write(call_id, key, count)

    def _write(self, call_id: str, key: _Key, count: int) -> None:
        host, port, allowed, rule, reason = key
        self._emit(
            NetworkDecided(
                call_id=call_id or None, host=host, port=port, allowed=allowed, rule=rule, reason=reason, count=count
            )
        )
