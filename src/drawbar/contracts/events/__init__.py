"""Event payloads: one schema a type, in one table (CON-9, CON-10)."""

from __future__ import annotations

from drawbar.contracts.events.base import Event, Payload
from drawbar.contracts.events.table import PAYLOADS, RETIRED, payload_type

__all__ = ["PAYLOADS", "RETIRED", "Event", "Payload", "payload_type"]
