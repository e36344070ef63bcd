"""JSON bytes of anything a conversation can hold; the last step before a request (QLT-7)."""

from __future__ import annotations

from typing import Any

from drawbar.contracts import codec

__all__ = ["encode_json"]


def encode_json(value: Any) -> bytes:
    """Compact JSON; never raises for the content of ``value``.

    The plain encoder refuses lone surrogates and values nested past its limit; only then is the value mended.
    """
    try:
        return codec.encode(value)
    except (UnicodeEncodeError, RecursionError, TypeError, ValueError, OverflowError):
        from drawbar.stores.history import well_formed

        return codec.encode(well_formed(value))
