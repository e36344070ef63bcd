"""OpenAI's responses on the wire (MDL-2)."""

from __future__ import annotations

from drawbar.contracts.model import Account, RequestSettings
from drawbar.models.openai_address import ServerAddress
from drawbar.models.responses_builder import MAX_REQUEST_BYTES, ResponsesBuilder
from drawbar.models.responses_decode import PROTOCOL, ResponsesDecoder

__all__ = ["ResponsesWire"]


class ResponsesWire:
    """A :class:`~drawbar.models.client.Wire` for one account."""

    protocol = PROTOCOL
    max_request_bytes = MAX_REQUEST_BYTES

    def __init__(self, account: Account) -> None:
        self._server = ServerAddress(account.base_url)

    def path(self, model: str) -> str:
        return self._server.path("/responses")

    def headers(self, account: Account) -> dict[str, str]:
        return self._server.headers(account)

    def builder(self, settings: RequestSettings) -> ResponsesBuilder:
        return ResponsesBuilder(settings)

    def decoder(self, *, status: int, request_id: str | None) -> ResponsesDecoder:
        return ResponsesDecoder(status=status, request_id=request_id)
