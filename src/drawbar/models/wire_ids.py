"""Tool call ids in the form a provider takes, unique in a conversation, each result under its call's."""

from __future__ import annotations

import hashlib
import re
from typing import Final

__all__ = ["WireIds"]

MAX_ID: Final = 64
_NOT_ID = re.compile(r"[^a-zA-Z0-9_-]")


class WireIds:
    """Maps ids of histories to ids of requests; the same calls in the same order give the same ids.

    Args:
        longest: the most characters that the provider takes.
        exact: for a provider that takes ids of exactly this many letters and digits alone.
    """

    def __init__(self, longest: int = MAX_ID, *, exact: int | None = None) -> None:
        self._longest = longest
        self._exact = exact
        self._taken: set[str] = set()
        self._latest: dict[str, str] = {}

    def of_call(self, call_id: str) -> str:
        """The wire id of a call; a name that an earlier call has in the request gets a number."""
        number = 1
        wire = self._candidate(call_id, number)
        while wire in self._taken:
            number += 1
            wire = self._candidate(call_id, number)
        self._taken.add(wire)
        self._latest[call_id] = wire
        return wire

    def of_result(self, call_id: str) -> str:
        """The wire id of the latest call with this id, which was given one before.

        Raises:
            KeyError: for a result without its call.
        """
        return self._latest[call_id]

    def _candidate(self, call_id: str, number: int) -> str:
        if self._exact is not None:
            return self._of_exact_length(call_id, number, self._exact)
        plain = _NOT_ID.sub("_", call_id)[: self._longest] or "call"
        return plain if number == 1 else f"{plain[: self._longest - 8]}_{number}"

    @staticmethod
    def _of_exact_length(call_id: str, number: int, length: int) -> str:
        if number == 1 and len(call_id) == length and call_id.isascii() and call_id.isalnum():
            return call_id
        return hashlib.sha256(f"{number}:{call_id}".encode("utf-8", "surrogatepass")).hexdigest()[:length]

    def copy(self) -> WireIds:
        """One that goes on from here without changing this one."""
        other = WireIds(self._longest, exact=self._exact)
        other._taken, other._latest = set(self._taken), dict(self._latest)
        return other
