"""Payloads of what was spent and what a provider said of its limits (CON-17 … CON-19)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from drawbar.contracts.codec import Free, FreeJson, Ident, Meta, Record
from drawbar.contracts.events.base import Payload

MAX_SUMMARY = 4000
Summary = Annotated[str, Meta(max_length=MAX_SUMMARY, extra_json_schema={"x-redaction": "free"})]


class Usage(Record):
    """Disjoint counters: uncached input, cache reads, cache writes, output with reasoning inside (CON-17).

    None means that the provider did not say; unknown is not zero (QLT-17).
    """

    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


class RequestUsage(Usage):
    """One provider request's own figures, with the vendor's raw counters beside them."""

    request: int = 0
    model: Ident | None = None
    ok: bool = True
    reasoning_summary: (
        Annotated[str, Meta(max_length=MAX_SUMMARY, extra_json_schema={"x-redaction": "free"})] | None
    ) = None
    raw: FreeJson = None


class UsageUpdated(Payload):
    """Totals are cumulative for the run; ``context_tokens`` is the size of the latest request."""

    event: ClassVar[str] = "usage.updated"
    totals: Usage
    requests: int
    request: RequestUsage
    context_tokens: int | None = None


class Limit(Record):
    """A provider's own reading: never inferred (CON-18)."""

    name: Ident
    window_s: int | None = None
    balance: float | None = None
    limit: float | None = None
    remaining: float | None = None
    resets_at: Ident | None = None
    source: Ident = "headers"


class AccountStatus(Payload):
    event: ClassVar[str] = "account.status"
    account: Ident
    ok: bool = True
    limits: list[Limit] = []
    message: Free | None = None
