"""Ids: a one-letter kind and a lower-case ULID, monotonic within a process (CON-2)."""

from __future__ import annotations

import os
import threading
import time

__all__ = ["KINDS", "is_id", "new_id"]

KINDS = {"run": "r", "session": "s", "approval": "a", "question": "q", "message": "m", "call": "c"}
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM_BITS = 80
_lock = threading.Lock()
_last = 0


def new_id(kind: str) -> str:
    """A new id such as ``r_01jd…``; ``kind`` is a key of :data:`KINDS`.

    Within a process ids sort in order of creation, even when the wall clock steps back or many are
    drawn in one millisecond.
    """
    global _last
    with _lock:
        value = (time.time_ns() // 1_000_000) << _RANDOM_BITS | int.from_bytes(os.urandom(10))
        if value <= _last:
            value = _last + 1
        _last = value
    digits = [""] * 26
    for place in range(25, -1, -1):
        value, digit = divmod(value, 32)
        digits[place] = _ALPHABET[digit]
    return f"{KINDS[kind]}_{''.join(digits)}"


def is_id(text: str, kind: str) -> bool:
    """Whether ``text`` has the form of an id of ``kind``."""
    return (
        len(text) == 28 and text[:2] == f"{KINDS[kind]}_" and text[2] <= "7" and all(c in _ALPHABET for c in text[2:])
    )
