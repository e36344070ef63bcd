"""An HTTP client for servers that aren't models: what one response may hold is bounded (PRO-3, ARC-6)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import httpx2

__all__ = ["bounded_client"]

_CONNECT_S: Final = 15.0


def bounded_client(
    headers: Mapping[str, str], *, silence_s: float, largest: int, on_status: Callable[[int], None]
) -> httpx2.AsyncClient:
    """A client, which the caller closes.

    Args:
        headers: sent with each request.
        silence_s: seconds without a byte after which a response has failed.
        largest: bytes that one response may hold; one with more fails with the library's own ``ReadError``.
        on_status: told each response's status.
    """
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        async def __aiter__(self) -> AsyncGenerator[bytes]:
            left = largest
            async for chunk in self._inner:
                left -= len(chunk)
                if left < 0:
                    raise httpx2.ReadError(f"a response of more than {largest:,} bytes")
                yield chunk

        async def aclose(self) -> None:
            await self._inner.aclose()

    class Transport(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            response = await super().handle_async_request(request)
            on_status(response.status_code)
            response.stream = Bounded(response.stream)
            return response

    timeout = httpx2.Timeout(_CONNECT_S, read=silence_s)
    return httpx2.AsyncClient(headers=dict(headers), timeout=timeout, transport=Transport())
