"""Messages out of a program's standard output: whatever else it prints there is noise, not the end (PRO-3).

Servers print banners and log lines, and some join two messages on a line. Each JSON object is taken for itself;
what lies between is counted, so that a program which only prints can be told from one that answers.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

__all__ = ["Flooded", "Framer"]

LONGEST_LINE: Final = 32 << 20
MOST_NOISE: Final = 16 << 20
_TRIES: Final = 32


class Flooded(Exception):
    """The program printed more than any message may hold, or more noise than a log may; the message says which."""


class Framer:
    """Takes bytes as they come and gives whole messages back."""

    def __init__(self, *, longest_line: int = LONGEST_LINE, most_noise: int = MOST_NOISE) -> None:
        self._rest = bytearray()
        self._longest = longest_line
        self._most_noise = most_noise
        self.noise = 0
        """Bytes so far that belonged to no message."""

    def feed(self, chunk: bytes) -> list[dict[str, Any]]:
        """The messages that the chunk completes.

        Raises:
            Flooded: a line, or all noise together, grew beyond its bound.
        """
        found: list[dict[str, Any]] = []
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            self._rest += part
            found += self._line(bytes(self._rest))
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > self._longest:
            raise Flooded(f"it printed a line of more than {self._longest:,} bytes")
        return found

    def _line(self, line: bytes) -> list[dict[str, Any]]:
        text = line.decode("utf-8", "replace")
        found: list[dict[str, Any]] = []
        decoder = json.JSONDecoder()
        at, used, tries = 0, 0, 0
        while tries < _TRIES and (start := text.find("{", at)) >= 0:
            try:
                value, at = decoder.raw_decode(text, start)
            except (ValueError, RecursionError):
                at, tries = start + 1, tries + 1
                continue
            if isinstance(value, dict) and "jsonrpc" in value:
                found.append(cast("dict[str, Any]", value))
                used += at - start
        self.noise += max(0, len(text) - used)
        if self.noise > self._most_noise:
            raise Flooded(f"it printed more than {self._most_noise:,} bytes that are no messages")
        return found
