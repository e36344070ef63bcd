"""Choosing the turn of a request and sending it at its pace, with its fault (MDL-11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Generic, TypeVar

from drawbar.testing.http_server import Responder
from drawbar.testing.scenario import Expect, Fault, Pace, Turn
from drawbar.testing.speech import ApiError, Facts, Speech

__all__ = ["Finished", "Script", "play_body", "play_fault_response"]

R = TypeVar("R")

_RESPONSES: Final = frozenset({"rate_limit", "overloaded", "status"})
FOREVER: Final = 10**8


class Finished(Exception):
    """The connection was closed as the fault demands; nothing more can be sent."""


class Script(Generic[R]):
    """Turns in order, each used once."""

    def __init__(self, turns: Sequence[Turn | Callable[[R], Turn]], on_missing: str, at_end: str, pace: Pace) -> None:
        self._turns = list(turns)
        self._left = list(range(len(self._turns)))
        self._on_missing = on_missing
        self._at_end = at_end
        self.pace = pace

    def next(self, facts: Facts, received: R) -> tuple[int, Turn]:
        """The turn for a request of these ``facts``, and its number.

        Raises:
            ApiError: when the scenario has none, or the one at hand expects something else.
        """
        if not self._left and self._at_end == "repeat" and self._turns:
            self._left = [len(self._turns) - 1]
        missing = "the scenario has no further turn"
        for number in list(self._left):
            entry = self._turns[number]
            turn = entry if isinstance(entry, Turn) else entry(received)
            unmet = _unmet(turn.expect, facts) if turn.expect else None
            if unmet is None:
                self._left.remove(number)
                return number, turn
            missing = f"turn {number} of the scenario expects {unmet}"
            if self._on_missing == "error":
                break
        raise ApiError(f"scripted model: {missing}", kind="scenario_error")


async def play_fault_response(
    fault: Fault, headers: Mapping[str, str] | None, responder: Responder, number: int, speech: Speech
) -> int | None:
    """Play a fault that comes before any reply; its status, or None when the reply goes on."""
    if fault.kind == "hang":
        await asyncio.sleep(FOREVER if fault.seconds is None else fault.seconds)
        return None
    if fault.kind not in _RESPONSES:
        return None
    status, kind, message = speech.fault(fault.kind)
    if fault.kind == "status":
        status = fault.status
    fields = {"content-type": "application/json", **speech.headers(number), **(headers or {})}
    if fault.retry_after_s is not None:
        fields["retry-after"] = f"{fault.retry_after_s:g}"
    body = speech.error_body(fault.error_type or kind, fault.message or message, number, status)
    if fault.body is not None:
        body = fault.body.encode()
        fields["content-type"] = "text/html"
    await responder.whole(status, fields, body)
    return status


async def play_body(
    events: Sequence[bytes],
    pace: Pace,
    fault: Fault | None,
    responder: Responder,
    speech: Speech,
) -> None:
    """Send the events of a reply, up to its fault.

    Raises:
        Finished: when the fault closed the connection.
    """
    events = list(events)
    if fault and fault.kind == "malformed":
        events.insert(_after(fault, events), speech.malformed)
    elif fault and fault.kind == "overloaded_stream":
        _status, kind, message = speech.fault("overloaded")
        failed = speech.error_event(fault.error_type or kind, fault.message or message)
        events = [*events[: _after(fault, events)], failed]
    held: list[bytes] = []
    if fault and fault.kind in ("cut", "silence"):
        events, held = _stop_at(fault, events)
    await _pause(pace.first_ms)
    size = 1 if fault and fault.kind == "drip" else pace.chunk_bytes
    for piece in events if size is None else _cut_up(b"".join(events), size):
        await responder.send(piece)
        await _pause(pace.each_ms)
    if fault and fault.kind == "cut":
        await responder.cut(reset=fault.reset)
        raise Finished
    if fault and fault.kind == "silence":
        await asyncio.sleep(FOREVER if fault.seconds is None else fault.seconds)
    for piece in held:
        await responder.send(piece)


def _stop_at(fault: Fault, events: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    if fault.after_bytes is not None:
        whole = b"".join(events)
        return [whole[: fault.after_bytes]], [whole[fault.after_bytes :]]
    at = _after(fault, events)
    return events[:at], events[at:]


def _after(fault: Fault, events: list[bytes]) -> int:
    """How many events go before the fault: by default all but the last two, so after some content."""
    return max(0, len(events) - 2) if fault.after_events is None else fault.after_events


def _cut_up(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


async def _pause(millis: float) -> None:
    if millis:
        await asyncio.sleep(millis / 1000)


def _unmet(expect: Expect, facts: Facts) -> str | None:
    """What a request lacks, in words; None when it has everything."""
    if expect.tool is not None and expect.tool not in facts.tools:
        return f"the tool {expect.tool!r} to be offered"
    if expect.system is not None and expect.system not in facts.system:
        return f"{expect.system!r} in the system prompt"
    if expect.text is not None and expect.text not in facts.last:
        return f"{expect.text!r} in the last message"
    return None
