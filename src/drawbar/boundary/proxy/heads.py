"""What a request asks for, read strictly: what two programs could read in two ways is refused, never guessed.

A line ends with CR LF, there is one Host and it agrees with the target, and a body is framed in one way. The header
block is looked at as bytes first, because a parser that forgives a bare line feed or a folded line has already chosen
one of two readings.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from drawbar.boundary.hosts import HostRefused, split_host

if TYPE_CHECKING:
    import h11

__all__ = ["HEAD_LIMIT_BYTES", "BadHost", "BadRequest", "Target", "read_head", "target_of"]

HEAD_LIMIT_BYTES: Final = 64 * 1024
HEAD_LIMIT_S: Final = 30.0

_END: Final = b"\r\n\r\n"
_LOOSE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)|\0|\r\n[ \t]")
_NO_FORWARD: Final = frozenset({b"TRACE", b"TRACK"})
_HTTP: Final = re.compile(r"http://([^/?#]*)([^#]*)", re.IGNORECASE)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class BadRequest(Exception):
    """The request can't be carried out by a proxy; ``status`` and the text go back to whoever sent it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class BadHost(BadRequest):
    """The target names no host that could be decided on; ``text`` is what it says."""

    def __init__(self, text: str, why: HostRefused) -> None:
        super().__init__(400, str(why))
        self.text = text


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes: ``path`` is None for a tunnel."""

    host: str
    port: int
    path: bytes | None = None


async def read_head(reader: asyncio.StreamReader) -> bytes | None:
    """The header block of one request with its closing empty line; None when the client sent nothing and left.

    Raises:
        BadRequest: for one that is cut off, too long, too slow, or not plainly delimited.
    """
    try:
        async with asyncio.timeout(HEAD_LIMIT_S):
            head = await reader.readuntil(_END)
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise BadRequest(400, "the request ended within its header") from error
    except asyncio.LimitOverrunError as error:
        raise BadRequest(431, f"the request's header is over {HEAD_LIMIT_BYTES // 1024} KiB") from error
    except TimeoutError as error:
        raise BadRequest(408, f"the request's header was not complete within {HEAD_LIMIT_S:g} s") from error
    if _LOOSE.search(head[:-2]):
        raise BadRequest(400, "the request's header has a bare line end, a folded line or a zero byte")
    return head


def target_of(request: h11.Request) -> Target:
    """Where ``request`` goes.

    Raises:
        BadRequest: for anything but a tunnel and a plain HTTP request with an absolute target.
    """
    fields = [name for name, _ in request.headers]
    if b"transfer-encoding" in fields and b"content-length" in fields:
        raise BadRequest(400, "the request says twice how long its body is")
    if b"transfer-encoding" in fields and request.http_version < b"1.1":
        raise BadRequest(400, "HTTP/1.0 has no transfer encodings")
    method = bytes(request.method)
    if method == b"CONNECT":
        target = _tunnel(request, fields)
    elif method in _NO_FORWARD:
        raise BadRequest(405, f"{method.decode('ascii')} is not forwarded")
    else:
        target = _absolute(request)
    _compare_host(request, target)
    return target


def _tunnel(request: h11.Request, fields: list[bytes]) -> Target:
    if b"transfer-encoding" in fields or dict(request.headers).get(b"content-length", b"0") != b"0":
        raise BadRequest(400, "CONNECT has no body")
    text = request.target.decode("latin-1")
    host, port = _split(text)
    if port is None:
        raise BadRequest(400, f"CONNECT needs a port: {text[:200]!a} has none")
    return Target(host, port)


def _absolute(request: h11.Request) -> Target:
    text = request.target.decode("latin-1")
    found = _HTTP.fullmatch(text)
    if found is None:
        if _SCHEME.match(text):
            raise BadRequest(
                400, "this proxy forwards plain http:// requests; for anything else open a tunnel (CONNECT)"
            )
        raise BadRequest(400, "this is a proxy: it takes CONNECT and requests with an absolute http:// target")
    host, port = _split(found[1])
    path = found[2]
    return Target(host, 80 if port is None else port, (path if path.startswith("/") else "/" + path).encode("latin-1"))


def _split(text: str) -> tuple[str, int | None]:
    try:
        return split_host(text)
    except HostRefused as error:
        raise BadHost(text, error) from error


def _compare_host(request: h11.Request, target: Target) -> None:
    """A server behind the address may go by the Host field, so it must not name another host than was decided on."""
    given = [value for name, value in request.headers if name == b"host"]
    if not given:
        return  # HTTP/1.0; the parser refuses it for 1.1
    if len(given) > 1:
        raise BadRequest(400, "the request has several Host fields")
    try:
        host, port = split_host(given[0].decode("latin-1"))
    except HostRefused as error:
        raise BadRequest(400, f"the Host field names no host: {error}") from error
    expected = target.port if target.path is None else 80
    if host != target.host or (expected if port is None else port) != target.port:
        raise BadRequest(400, f"the Host field names another host than the target {target.host}:{target.port}")
