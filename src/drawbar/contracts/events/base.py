"""The envelope of an event and the base of every payload (CON-11)."""

from __future__ import annotations

from typing import ClassVar

from drawbar.contracts.codec import Raw, Record


class Payload(Record, omit_defaults=False):
    """Base of every payload; ``event`` is its tag on the wire, an explicit string (ARC-3).

    Every field is written out: a line must say ``schema_version`` (CON-11), a terminal code (CON-39) or a zero
    counter (CON-23) itself, because a later release may read it with other defaults.
    """

    event: ClassVar[str] = ""


class Event(Record):
    """One line of ``events.jsonl`` as read: the payload stays raw until somebody needs it typed."""

    seq: int
    at: str
    type: str
    payload: Raw
    chain: str = ""
