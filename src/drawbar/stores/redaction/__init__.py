"""The one redactor of a process: everything that leaves memory passes it (CON-31 … CON-35, QLT-20)."""

from __future__ import annotations

from drawbar.stores.redaction.environment import known_from_environment
from drawbar.stores.redaction.payloads import payload_redactor, redact_payload
from drawbar.stores.redaction.raw_bytes import ByteRedactor, learn_bytes
from drawbar.stores.redaction.redactor import SecretRedactor

__all__ = [
    "ByteRedactor",
    "SecretRedactor",
    "known_from_environment",
    "learn_bytes",
    "payload_redactor",
    "redact_payload",
]
