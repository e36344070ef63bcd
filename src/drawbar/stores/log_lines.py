"""Reading a log as what it is: lines of any content, most of them events, none of them trusted (QLT-5, CON-15)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from drawbar.contracts.codec import Raw, Record, as_object, decoder, encode, loads
from drawbar.contracts.events.base import Event
from drawbar.stores.regular_file import open_regular

__all__ = ["MAX_LINE", "ArtifactReference", "RawLine", "Unreadable", "parse_line", "raw_lines", "well_formed"]

MAX_LINE: Final = 64 * 1024 * 1024
"""Bytes of the longest line that is read; a longer payload lies in an artifact (CON-15)."""

_CHUNK: Final = 1024 * 1024
_BLANK: Final = b"\0 \t\r"
_ENVELOPE: Final = frozenset({"seq", "at", "type", "payload", "chain"})
_EVENT = decoder(Event)


class RawLine(NamedTuple):
    """One line of a file: ``number`` counts from 1, ``offset`` and ``length`` are bytes without the line end.

    ``data`` is None for a line over the limit. ``whole`` is False for a last line without its end: it is torn.
    """

    number: int
    offset: int
    length: int
    data: bytes | None
    whole: bool


class ArtifactReference(Record, omit_defaults=False):
    """What stands in for a payload that is kept as a file beside the log (CON-15)."""

    payload_artifact: str
    sha256: str
    bytes: int


class Unreadable(NamedTuple):
    """Why a line is no event: ``torn``, ``corrupt``, ``invalid-utf8`` or ``too-long``."""

    kind: str


def raw_lines(path: Path, offset: int = 0, *, max_line: int = MAX_LINE) -> Iterator[RawLine]:
    """The lines of ``path`` from byte ``offset``, streamed in bounded memory.

    Args:
        path: the file.
        offset: where a line begins; lines are numbered from there.
        max_line: bytes after which a line's content is passed over.

    Raises:
        FileNotFoundError, InvalidInput: as :func:`~drawbar.stores.regular_file.open_regular`.
    """
    with open(open_regular(path), "rb", buffering=0) as file:
        file.seek(offset)
        number = 1
        parts: list[bytes] = []
        held = 0
        while chunk := file.read(_CHUNK):
            pieces = chunk.split(b"\n")
            last = pieces.pop()
            for piece in pieces:
                length = held + len(piece)
                if length > max_line:
                    data = None
                elif parts:
                    data = b"".join((*parts, piece))
                else:
                    data = piece
                yield RawLine(number, offset, length, data, True)
                offset += length + 1
                number += 1
                held = 0
                parts.clear()
            held += len(last)
            if held > max_line:
                parts.clear()
            elif last:
                parts.append(last)
        if held:
            yield RawLine(number, offset, held, b"".join(parts) if held <= max_line else None, False)


def parse_line(line: RawLine, next_seq: int) -> Event | Unreadable:
    """The event in a line, read as leniently as its content allows (CON-8, SES-25).

    Args:
        line: as :func:`raw_lines` gives it.
        next_seq: taken for a record of an older build that has no number of its own.
    """
    if not line.whole:
        return Unreadable("torn")
    if line.data is None:
        return Unreadable("too-long")
    try:
        event = _EVENT.decode(line.data)
    except (ValueError, RecursionError):
        return _salvage(line.data, next_seq)
    return event if line.data.isascii() or _is_utf8(line.data) else Unreadable("invalid-utf8")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _salvage(data: bytes, next_seq: int) -> Event | Unreadable:
    """What can still be read of a line that is no event of ours: an older build's, or one padded by a power cut."""
    data = data.strip(_BLANK)
    if not _is_utf8(data):
        return Unreadable("invalid-utf8")
    found = as_object(_any_json(data))
    if found is None or not isinstance(kind := found.get("type"), str):
        return Unreadable("corrupt")
    seq, at, chain = found.get("seq"), found.get("at"), found.get("chain")
    payload = found["payload"] if "payload" in found else {k: v for k, v in found.items() if k not in _ENVELOPE}
    return Event(
        seq=seq if isinstance(seq, int) and not isinstance(seq, bool) else next_seq,
        at=at if isinstance(at, str) else "",
        type=well_formed(kind),
        payload=Raw(encode(well_formed(payload))),
        chain=chain if isinstance(chain, str) else "",
    )


def _any_json(data: bytes) -> Any:
    try:
        return loads(data)
    except (ValueError, RecursionError):
        pass
    try:
        # It takes what the strict reader refuses, half a surrogate pair above all (SES-14).
        return json.loads(data, parse_constant=lambda _name: None)
    except (ValueError, RecursionError):
        return None


def well_formed(value: Any) -> Any:
    """The same JSON value with every half of a surrogate pair replaced, so that it can be encoded."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {well_formed(key): well_formed(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (list, tuple)):
        return [well_formed(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
