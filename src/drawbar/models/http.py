"""One HTTP client per account: limits, proxies, streaming; no retries and no total time-out (MDL-5 … MDL-7)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from drawbar.contracts.errors import InvalidInput
from drawbar.models.errors import transport_error

if TYPE_CHECKING:
    from collections.abc import Generator

    import httpx2

__all__ = ["CONNECT_LIMIT_S", "HttpChannel", "checked_base_url", "is_loopback"]

CONNECT_LIMIT_S: Final = 10.0
KEEP_ALIVE_S: Final = 120.0


def checked_base_url(url: str) -> str:
    """``url`` without a trailing slash or version, so that paths can be added.

    Raises:
        InvalidInput: when it is not an absolute ``http`` or ``https`` URL.
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise InvalidInput(f"the account's base URL is not an absolute http(s) URL: {url!r}", field="base_url")
    return url.rstrip("/").removesuffix("/v1")


def is_loopback(url: str) -> bool:
    """Whether ``url`` names this machine, which no proxy may stand before."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class HttpChannel:
    """Connections to one base URL, kept alive between requests; opened at the first.

    Args:
        base_url: as given by :func:`checked_base_url`.
        idle_timeout_s: seconds without a byte, in either direction, after which a request failed.
        transport: in place of the real network, for embedding programs.
    """

    def __init__(
        self, base_url: str, *, idle_timeout_s: float, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self._base_url = base_url
        self._idle_s = idle_timeout_s
        self._transport = transport
        self._client: httpx2.AsyncClient | None = None

    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> httpx2.Response:
        """Send ``body`` and return once the response's headers are there; the caller closes the response.

        Raises:
            ProviderError: of kind ``transport``.
        """
        client = self._client or self._open()
        with self.faults():
            request = client.build_request("POST", self._base_url + path, headers=dict(headers), content=body)
            return await client.send(request, stream=True)

    async def chunks(self, response: httpx2.Response) -> AsyncGenerator[bytes]:
        """The body as it arrives.

        Raises:
            ProviderError: of kind ``transport``.
        """
        with self.faults():
            async for chunk in response.aiter_bytes():
                yield chunk

    async def close(self) -> None:
        """Close every connection; a later request opens anew."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    @contextmanager
    def faults(self) -> Generator[None]:
        """Turn the client library's errors into ours, saying what was waited for."""
        import httpx2

        try:
            yield
        except httpx2.ConnectTimeout as error:
            raise transport_error(f"no connection within {CONNECT_LIMIT_S:g} s", cause="connect_timeout") from error
        except (httpx2.ReadTimeout, httpx2.WriteTimeout) as error:
            raise transport_error(f"nothing came or went for {self._idle_s:g} s", cause="idle") from error
        except httpx2.ConnectError as error:
            raise transport_error(f"could not connect to {self._base_url}: {_said(error)}", cause="connect") from error
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise transport_error(f"the connection failed: {_said(error)}", cause="connection") from error

    def _open(self) -> httpx2.AsyncClient:
        import httpx2

        options: dict[str, Any] = {}
        if self._transport is not None:
            options["transport"] = self._transport
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(self._idle_s, connect=CONNECT_LIMIT_S, pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=KEEP_ALIVE_S),
            follow_redirects=False,
            trust_env=not is_loopback(self._base_url),
            **options,
        )
        return self._client


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
