"""One GET over the run's allow-list: each hop decided anew, the reply bounded while it comes (BND-13, ENG-6)."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urljoin, urlsplit

from drawbar.boundary.hosts import HostRefused, join_host, split_host
from drawbar.contracts.boundary import NetworkGate
from drawbar.contracts.errors import NotPermitted

if TYPE_CHECKING:
    import ssl

__all__ = ["MAX_BODY_BYTES", "FetchFailed", "Fetched", "Place", "fetch", "place_of"]

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
"""How much of a reply is taken, after decompression."""

_MOST_HOPS: Final = 5
_CHUNK: Final = 64 * 1024
_PORTS: Final = {"http": 80, "https": 443}
_LONGEST_URL: Final = 8192


class FetchFailed(Exception):
    """Nothing was fetched; the text says why and what to do next."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a URL points: the host in its one spelling, and what to ask it for."""

    url: str
    scheme: str
    host: str
    port: int
    path: str

    @property
    def entry(self) -> str:
        """The host as the allow-list would name it."""
        return self.host if self.port in _PORTS.values() else join_host(self.host, self.port)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A reply, or where a redirect leads that wasn't followed (``elsewhere``, with the reason)."""

    url: str
    status: int = 0
    content_type: str = ""
    body: bytes = b""
    cut: bool = False
    elsewhere: str | None = None
    why_not: str = ""


def place_of(url: str) -> Place:
    """Read a URL strictly.

    Raises:
        FetchFailed: when it is none of http or https, names no host, or carries a user's name.
    """
    try:
        parts = urlsplit(url)
        if len(url) > _LONGEST_URL or any(char <= " " or char == "\x7f" for char in url):
            raise FetchFailed("a URL holds no white space or control characters and is at most 8 KiB long")
        if parts.scheme not in _PORTS:
            raise FetchFailed("only http:// and https:// URLs can be fetched")
        if "@" in parts.netloc:
            raise FetchFailed("a URL with a user's name or password isn't fetched")
        host, port = split_host(parts.netloc)
    except HostRefused as error:
        raise FetchFailed(f"the URL names no host that can be reached: {error}") from error
    except ValueError as error:
        raise FetchFailed(f"this is no URL: {error}") from error
    port = port or _PORTS[parts.scheme]
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    if parts.query:
        path += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~-._?[]")
    shown = host if port == _PORTS[parts.scheme] else join_host(host, port)
    return Place(f"{parts.scheme}://{shown}{path}", parts.scheme, host, port, path)


async def fetch(
    place: Place,
    network: NetworkGate,
    *,
    hosts: tuple[str, ...],
    call_id: str,
    trust: ssl.SSLContext | None = None,
) -> Fetched:
    """Get ``place``, following redirects only to what is allowed.

    Args:
        hosts: that this one call may reach besides the policy's own.
        trust: whom to believe about names; None takes the system's certificates.

    Raises:
        FetchFailed: when nothing came back.
        NotPermitted: when the first host isn't allowed.
    """
    for hop in range(_MOST_HOPS):
        try:
            fetched = await _get(place, network, hosts, call_id, trust)
        except NotPermitted as error:
            if hop == 0:
                raise
            return Fetched(url=place.url, elsewhere=place.url, why_not=error.message)
        if fetched.elsewhere is None:
            return fetched
        try:
            further = place_of(urljoin(place.url, fetched.elsewhere))
        except (FetchFailed, ValueError) as error:
            return Fetched(url=place.url, elsewhere=fetched.elsewhere, why_not=str(error))
        if place.scheme == "https" and further.scheme == "http":
            return Fetched(url=place.url, elsewhere=further.url, why_not="it leads from https to http")
        place = further
    raise FetchFailed(f"over {_MOST_HOPS} redirects, the last to {place.url}")


async def _get(
    place: Place, network: NetworkGate, hosts: tuple[str, ...], call_id: str, trust: ssl.SSLContext | None
) -> Fetched:
    import ssl

    import h11

    try:
        connected = await network.connect(place.host, place.port, hosts=hosts, call_id=call_id)
    except OSError as error:
        raise FetchFailed(f"{place.host}:{place.port} can't be reached: {error}") from error
    options: dict[str, Any] = {}
    if place.scheme == "https":
        options = {"ssl": trust or ssl.create_default_context(), "server_hostname": place.host.strip("[]")}
    with contextlib.ExitStack() as undo:
        undo.callback(connected.close)
        try:
            reader, writer = await asyncio.open_connection(sock=connected, **options)
        except ssl.SSLCertVerificationError as error:
            raise FetchFailed(f"{place.host} isn't who it says: {error.verify_message}") from error
        except (OSError, ssl.SSLError) as error:
            raise FetchFailed(f"no secure connection to {place.host}: {error}") from error
        undo.pop_all()
    try:
        return await _exchange(place, reader, writer)
    except (OSError, h11.ProtocolError, zlib.error, EOFError) as error:
        raise FetchFailed(f"the connection to {place.host} broke off or spoke no HTTP ({error})") from error
    finally:
        writer.transport.abort()


async def _exchange(place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Fetched:
    import h11

    side = h11.Connection(h11.CLIENT, max_incomplete_event_size=_CHUNK)
    host = place.host if place.port == _PORTS[place.scheme] else join_host(place.host, place.port)
    fields = [
        *(("Host", host), ("User-Agent", "drawbar"), ("Accept", "text/html, text/*, application/json, */*;q=0.5")),
        *(("Accept-Encoding", "gzip, deflate"), ("Connection", "close")),
    ]
    writer.write(side.send(h11.Request(method="GET", target=place.path, headers=fields)) or b"")
    writer.write(side.send(h11.EndOfMessage()) or b"")
    await writer.drain()
    events = _events(side, reader)
    head = await anext(events)
    found = {name: value.decode("latin-1") for name, value in head.headers}
    location = found.get(b"location")
    if head.status_code in (301, 302, 303, 307, 308) and location:
        return Fetched(url=place.url, status=head.status_code, elsewhere=location)
    body, cut = await _body(events, found.get(b"content-encoding", "identity").strip().lower())
    return Fetched(place.url, head.status_code, found.get(b"content-type", ""), body, cut)


async def _events(side: Any, reader: asyncio.StreamReader) -> AsyncGenerator[Any]:
    import h11

    while True:
        event = side.next_event()
        if event is h11.NEED_DATA:
            side.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.InformationalResponse):
            continue
        elif isinstance(event, (h11.Response, h11.Data)):
            yield event
        elif isinstance(event, h11.EndOfMessage):
            return
        else:
            raise EOFError("it ended early")


async def _body(events: AsyncGenerator[Any], coding: str) -> tuple[bytes, bool]:
    """The body, decompressed, up to its cap; whether something was left out."""
    if coding in ("gzip", "x-gzip", "deflate"):
        inflate: Any = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    elif coding in ("identity", ""):
        inflate = None
    else:
        raise FetchFailed(f"the reply is compressed as {coding!a}, which nobody asked for")
    body = bytearray()
    async for event in events:
        data = bytes(event.data)
        while data:
            room = MAX_BODY_BYTES - len(body)
            if room <= 0:
                return bytes(body), True
            if inflate is None:
                body += data[:room]
                data = data[room:]
            else:
                body += inflate.decompress(data, room)
                data = inflate.unconsumed_tail
    return bytes(body), False
