"""Tool call ids in the form a provider takes, unique in a conversation, each result under its call's."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["WireIds"]

MAX_ID: Final = 64
_NOT_ID = re.compile(r"[^a-zA-Z0-9_-]")


class WireIds:
    """Maps ids of histories to ids of requests; the same calls in the same order give the same ids."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._latest: dict[str, str] = {}

    def of_call(self, call_id: str) -> str:
        """The wire id of a call; a name that an earlier call has in the request gets a number."""
        plain = _NOT_ID.sub("_", call_id)[:MAX_ID] or "call"
        wire, number = plain, 1
        while wire in self._taken:
            number += 1
            wire = f"{plain[: MAX_ID - 8]}_{number}"
        self._taken.add(wire)
        self._latest[call_id] = wire
        return wire

    def of_result(self, call_id: str) -> str:
        """The wire id of the latest call with this id, which was given one before.

        Raises:
            KeyError: for a result without its call.
        """
        return self._latest[call_id]

    def copy(self) -> WireIds:
        """One that goes on from here without changing this one."""
        other = WireIds()
        other._taken, other._latest = set(self._taken), dict(self._latest)
        return other
