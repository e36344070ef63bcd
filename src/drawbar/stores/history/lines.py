"""A history as lines, whatever it holds: bounded memory, and sound records told apart from damage (QLT-5)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from drawbar.contracts.codec import as_object, encode, loads
from drawbar.stores.history.text import well_formed

__all__ = ["BOM", "LINE_LIMIT", "Line", "Piece", "declared_ids", "encode_line", "parse", "read_lines", "split_damaged"]

LINE_LIMIT = 64 * 2**20
"""Bytes of the longest line that is read (CON-15); a longer one is skipped and reported."""

BOM = b"\xef\xbb\xbf"
_CHUNK = 2**20
_SALVAGE_TRIES = 64
_DECODER = json.JSONDecoder()
_IDS = re.compile(rb'"id"\s*:\s*"([^"\\]{1,128})"\s*,\s*"parentId"\s*:\s*(?:null|"([^"\\]{0,128})")')


class Line(NamedTuple):
    """One line; ``data`` is without its line end, and None when the line is over :data:`LINE_LIMIT`."""

    number: int
    offset: int
    size: int
    data: bytes | None
    ended: bool


class Piece(NamedTuple):
    """A stretch of a damaged line: a sound record in it, or bytes that are none (``record`` None)."""

    offset: int
    size: int
    record: dict[str, Any] | None


def read_lines(stream: BinaryIO, *, offset: int = 0, number: int = 1) -> Iterator[Line]:
    """The lines of ``stream`` from where it stands; only the line at hand is in memory.

    Args:
        stream: a buffered binary file; only LF ends a line, as a JSON string may hold any other separator.
        offset: where in the file the stream stands, in bytes.
        number: the number of the first line.
    """
    while data := stream.readline(LINE_LIMIT + 1):
        size = len(data)
        ended = data.endswith(b"\n")
        if size > LINE_LIMIT and not ended:
            size, ended = _skip_to_line_end(stream, size)
            yield Line(number, offset, size - ended, None, ended)
        else:
            yield Line(number, offset, size - ended, data[:-1] if ended else data, ended)
        offset += size
        number += 1


def _skip_to_line_end(stream: BinaryIO, size: int) -> tuple[int, bool]:
    while part := stream.readline(_CHUNK):
        size += len(part)
        if part.endswith(b"\n"):
            return size, True
    return size, False


def parse(data: bytes) -> Any:
    """The JSON value that ``data`` holds, read as leniently as is safe.

    Invalid UTF-8 becomes U+FFFD, a lone surrogate escape stays one, a number too large for a float becomes
    infinite; what JSON itself forbids (NaN, control characters, trailing bytes) is refused.

    Raises:
        ValueError: it is no JSON, or nested too deep to be read.
    """
    try:
        return loads(data)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(data.decode("utf-8", "replace"), parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def encode_line(record: dict[str, Any]) -> bytes:
    """``record`` as one line with its end; what can't be written as JSON is made fit first (SES-14)."""
    try:
        return encode(record) + b"\n"
    except (ValueError, TypeError, RecursionError):
        return encode(well_formed(record)) + b"\n"


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def split_damaged(data: bytes, offset: int) -> list[Piece]:
    """A line that isn't one JSON object, as the sound records still in it and the stretches between.

    Seen in the wild: a record padded by zero bytes after a power cut, a record glued to the torn start of
    another, two whole records on one line. A record inside damage counts only if it is unmistakably an entry
    or a header, so that an object nested in a torn entry is never taken for one.

    Args:
        data: the line.
        offset: where it starts in the file; the pieces' offsets are in the file too.
    """
    padded = data.strip(b"\0 \t\r")
    if padded and len(padded) < len(data) and (whole := _try_object(padded)) is not None:
        start = data.find(padded[:1])
        return _with_gaps(data, offset, [(start, start + len(padded), whole)])
    return _with_gaps(data, offset, _salvage(data))


def _try_object(data: bytes) -> dict[str, Any] | None:
    try:
        return as_object(parse(data))
    except ValueError:
        return None


def _salvage(data: bytes) -> list[tuple[int, int, dict[str, Any]]]:
    text = data.decode("utf-8", "surrogateescape")
    found: list[tuple[int, int, dict[str, Any]]] = []
    at = chars = size = 0
    for _ in range(_SALVAGE_TRIES):
        start = text.find('{"type"', at)
        if start < 0:
            break
        try:
            record, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            at = start + 1
            continue
        if _unmistakable(record):
            size += _bytes(text, chars, start)
            length = _bytes(text, start, end)
            found.append((size, size + length, record))
            size, chars, at = size + length, end, end
        else:
            at = start + 1
    return found


def _bytes(text: str, start: int, end: int) -> int:
    return len(text[start:end].encode("utf-8", "surrogateescape"))


def _unmistakable(value: Any) -> bool:
    record = as_object(value)
    if record is None or not isinstance(record.get("id"), str) or not isinstance(record.get("timestamp"), str):
        return False
    return record.get("type") == "session" or ("parentId" in record and isinstance(record.get("type"), str))


def _with_gaps(data: bytes, offset: int, found: list[tuple[int, int, dict[str, Any]]]) -> list[Piece]:
    pieces: list[Piece] = []
    at = 0
    for start, end, record in found:
        if data[at:start].strip():
            pieces.append(Piece(offset + at, start - at, None))
        pieces.append(Piece(offset + start, end - start, record))
        at = end
    if data[at:].strip():
        pieces.append(Piece(offset + at, len(data) - at, None))
    return pieces


def declared_ids(fragment: bytes) -> tuple[str, str | None] | None:
    """``(id, parentId)`` that the start of a damaged entry still shows, so that the tree can be joined past it."""
    match = _IDS.search(fragment[:1024])
    if match is None:
        return None
    own, parent = match.groups()
    return own.decode("utf-8", "replace"), parent.decode("utf-8", "replace") if parent else None
