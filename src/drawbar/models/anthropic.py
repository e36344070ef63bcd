"""Anthropic Messages on the wire: where requests go, and with which headers (MDL-2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drawbar.contracts.clock import Clock
from drawbar.contracts.model import Account, RequestSettings
from drawbar.models.anthropic_builder import MAX_REQUEST_BYTES, AnthropicBuilder
from drawbar.models.anthropic_decode import PROTOCOL, ReplyDecoder
from drawbar.models.client import HttpProvider

if TYPE_CHECKING:
    import httpx2

__all__ = ["AnthropicProvider", "AnthropicWire"]

API_VERSION: Final = "2023-06-01"
PATH: Final = "/v1/messages"


class AnthropicWire:
    """A :class:`~drawbar.models.client.Wire`."""

    protocol = PROTOCOL
    max_request_bytes = MAX_REQUEST_BYTES

    def path(self, model: str) -> str:
        return PATH

    def headers(self, account: Account) -> dict[str, str]:
        secret = account.secret.strip()
        return {"anthropic-version": API_VERSION, **({"x-api-key": secret} if secret else {})}

    def builder(self, settings: RequestSettings) -> AnthropicBuilder:
        return AnthropicBuilder(settings)

    def decoder(self, *, status: int, request_id: str | None) -> ReplyDecoder:
        return ReplyDecoder(status=status, request_id=request_id)


class AnthropicProvider(HttpProvider):
    """A client of an account that speaks Anthropic Messages; arguments as of :class:`HttpProvider`."""

    def __init__(
        self,
        account: Account,
        *,
        clock: Clock,
        idle_timeout_s: float = 300.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(AnthropicWire(), account, clock=clock, idle_timeout_s=idle_timeout_s, transport=transport)
