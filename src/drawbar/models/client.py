"""One request and one streamed reply over HTTP, for any protocol; no retries here (MDL-2, MDL-5 … MDL-7).

A protocol brings its :class:`Wire`: path, credential header, builder and decoder.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from drawbar.contracts import codec
from drawbar.contracts.clock import Clock
from drawbar.contracts.errors import AccountUnavailable, ProviderError
from drawbar.contracts.events.usage import RequestUsage
from drawbar.contracts.model import (
    Account,
    Completed,
    Delta,
    EncodedRequest,
    RequestBuilder,
    RequestSettings,
    StreamEvent,
)
from drawbar.models.errors import response_error, transport_error
from drawbar.models.http import HttpChannel, checked_base_url
from drawbar.models.sse import MAX_EVENT_BYTES, EventTooLarge, ServerEvent, SseParser

if TYPE_CHECKING:
    import httpx2

__all__ = ["Decoder", "HttpProvider", "Wire"]

MAX_ERROR_BODY: Final = 256 * 1024
DRAIN_LIMIT_S: Final = 0.05
"""How long the end of a finished reply is waited for, so that its connection can be used again."""


class Decoder(Protocol):
    """Reads one reply of one protocol; pure: events in, deltas out (QLT-14).

    Attributes:
        finished: the provider's terminal event was read; only now does the reply count.
        skipped: events of unknown type, counted (MDL-4).
    """

    finished: bool
    skipped: int

    def feed(self, event: ServerEvent) -> list[Delta]:
        """The deltas that one event carries.

        Raises:
            ProviderError: the provider reported an error, or the event is unreadable (``cause:
                unreadable_event``).
        """
        ...

    def feed_whole(self, message: Mapping[str, Any]) -> list[Delta]:
        """A reply that came as one JSON object, from a server that doesn't stream."""
        ...

    def end(self) -> None:
        """The stream ended. A protocol whose terminal sign is the end itself may finish here."""
        ...

    def usage(self, *, ok: bool) -> RequestUsage | None:
        """What the provider has said so far that it bills; None when it has said nothing (QLT-17)."""
        ...

    def completed(self, headers: Mapping[str, str] | None = None) -> Completed:
        """The whole reply; only after :attr:`finished`."""
        ...


class Wire(Protocol):
    """What sets one protocol apart on the wire.

    Attributes:
        protocol: its id (MDL-2).
        max_request_bytes: the largest body that the provider takes.
    """

    protocol: str
    max_request_bytes: int

    def path(self, model: str) -> str:
        """Where requests for ``model`` go, below the base URL; with its query, if it needs one."""
        ...

    def headers(self, account: Account) -> dict[str, str]:
        """The protocol's own headers, the credential among them; names in lower case."""
        ...

    def builder(self, settings: RequestSettings) -> RequestBuilder: ...

    def decoder(self, *, status: int, request_id: str | None) -> Decoder: ...


class HttpProvider:
    """A client of one account (a :class:`~drawbar.contracts.model.Provider`).

    Args:
        wire: the protocol that the account speaks.
        account: with the resolved credential; its ``headers`` are added to each request.
        clock: for stated waits that are given as dates.
        idle_timeout_s: seconds without a byte after which an attempt has failed (MDL-7).
        transport: in place of the real network, for embedding programs.

    Raises:
        InvalidInput: when the account's base URL is none.
        AccountUnavailable: when its credential or one of its headers can't be sent.
    """

    def __init__(
        self,
        wire: Wire,
        account: Account,
        *,
        clock: Clock,
        idle_timeout_s: float = 300.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.protocol = wire.protocol
        self._wire = wire
        self._clock = clock
        self._http = HttpChannel(checked_base_url(account.base_url), idle_timeout_s=idle_timeout_s, transport=transport)
        self._headers = _headers(wire, account)

    def builder(self, settings: RequestSettings) -> RequestBuilder:
        """An empty builder for one conversation.

        Raises:
            InvalidInput: for settings that no request could be made from (no model, two tools of one name, …).
        """
        return self._wire.builder(settings)

    @asynccontextmanager
    async def stream(self, request: EncodedRequest) -> AsyncGenerator[_Reply]:
        """Send ``request`` and read the reply; leaving the context closes the connection at once (MDL-6).

        Raises:
            ProviderError: on any failed attempt, with its kind and what is known of its usage.
        """
        most = self._wire.max_request_bytes
        if request.size > most:
            raise ProviderError(
                f"the request is {request.size} bytes; the provider takes {most} at most",
                kind="context_overflow",
                usage=RequestUsage(input_tokens=0, output_tokens=0, ok=False),
            )
        response = await self._http.post(self._wire.path(request.model), self._headers, b"".join(request.body))
        try:
            if response.status_code != 200:
                raise await self._failure(response)
            async with aclosing(_Reply(self._wire, self._http, response)) as reply:
                yield reply
                # A finished reply has nothing left to abort: its connection is kept for the next request.
                await reply.drain()
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close the account's connections."""
        await self._http.close()

    async def _failure(self, response: httpx2.Response) -> ProviderError:
        body = b""
        try:
            async with aclosing(self._http.chunks(response)) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) >= MAX_ERROR_BODY:
                        break
        except ProviderError:
            # The status has said it already; a body cut short adds nothing.
            pass
        return response_error(response.status_code, response.headers, body, now_ms=self._clock.now_ms())


class _Reply:
    """The events of one reply; the last is ``Completed``."""

    def __init__(self, wire: Wire, http: HttpChannel, response: httpx2.Response) -> None:
        self._status = response.status_code
        self._headers = {k: v for k, v in response.headers.items() if k != "set-cookie"}
        self._chunks = http.chunks(response)
        request_id = self._headers.get("request-id") or self._headers.get("x-request-id")
        self._decoder = wire.decoder(status=self._status, request_id=request_id)
        self._parser = SseParser()
        self._streams = _is_stream(self._headers.get("content-type", ""))
        self._ready: deque[StreamEvent] = deque()
        self._done = False
        self._error: ProviderError | None = None

    @property
    def usage(self) -> RequestUsage | None:
        """What the provider has said so far; None when it has said nothing."""
        return self._decoder.usage(ok=self._decoder.finished)

    def __aiter__(self) -> _Reply:
        return self

    async def __anext__(self) -> StreamEvent:
        while not self._ready:
            if self._error is not None:
                raise self._error
            if self._done:
                raise StopAsyncIteration
            await self._read()
        return self._ready.popleft()

    async def drain(self) -> None:
        """After a finished reply: read the body's end, if it comes at once."""
        if not self._decoder.finished:
            return
        try:
            async with asyncio.timeout(DRAIN_LIMIT_S):
                async for _ in self._chunks:
                    pass
        except (TimeoutError, ProviderError):
            pass

    async def aclose(self) -> None:
        await self._chunks.aclose()

    async def _read(self) -> None:
        """Take in what comes next; a failure is raised only after the deltas that came before it."""
        try:
            if self._streams:
                await self._read_chunk()
            else:
                await self._read_whole()
        except EventTooLarge as error:
            self._error = self._failed(str(error), cause="event_too_large")
        except ProviderError as error:
            error.usage = error.usage or self._decoder.usage(ok=False)
            error.status = error.status or self._status
            self._error = error
        if self._decoder.finished:
            self._done = True
            self._ready.append(self._decoder.completed(self._headers))

    async def _read_chunk(self) -> None:
        try:
            events = self._parser.feed(await anext(self._chunks))
        except StopAsyncIteration:
            # An event that the end of the stream cut off is unreadable; what was cut is the reply.
            for event in self._parser.end():
                try:
                    self._ready.extend(self._decoder.feed(event))
                except ProviderError as error:
                    if error.facts.get("cause") != "unreadable_event":
                        raise
            self._decoder.end()
            if not self._decoder.finished:
                raise self._failed(
                    "the reply ended before the provider said that it was complete", cause="cut"
                ) from None
            return
        for event in events:
            self._ready.extend(self._decoder.feed(event))

    async def _read_whole(self) -> None:
        """A reply that is not an event stream: one message or error as JSON, or somebody else's page."""
        body = bytearray()
        async for chunk in self._chunks:
            body += chunk
            if len(body) > MAX_EVENT_BYTES:
                raise EventTooLarge(f"the reply passed {MAX_EVENT_BYTES} bytes")
        try:
            message = codec.loads(bytes(body))
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, Mapping):
            kind = self._headers.get("content-type", "no content type")
            raise self._failed(f"the reply is neither an event stream nor a message, but {kind}", cause="not_a_reply")
        self._ready.extend(self._decoder.feed_whole(cast("Mapping[str, Any]", message)))

    def _failed(self, message: str, *, cause: str) -> ProviderError:
        return transport_error(message, status=self._status, usage=self._decoder.usage(ok=False), cause=cause)


def _headers(wire: Wire, account: Account) -> dict[str, str]:
    from drawbar import __version__

    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        # A compressed stream would be held back by the server until a block is full.
        "accept-encoding": "identity",
        "user-agent": f"drawbar/{__version__}",
    }
    own = wire.headers(account)
    headers.update(own)
    headers.update((name.lower(), value) for name, value in account.headers)
    for name, value in headers.items():
        # Checked here, because an HTTP library's own complaint would quote the credential.
        if not re.fullmatch(r"[!#-\x27*+.0-9A-Z^-z|~-]+", name) or not re.fullmatch(r"[\t -~]*", value):
            secret = account.secret.strip()
            what = "credential" if secret and secret in value else f"header {name!r}"
            raise AccountUnavailable(
                f"the {what} of account {account.id!r} can't be sent in an HTTP header: it holds "
                "line ends, control characters or letters beyond ASCII",
                account=account.id,
            )
    return headers


def _is_stream(content_type: str) -> bool:
    name = content_type.partition(";")[0].strip().lower()
    return name in ("", "text/event-stream")
