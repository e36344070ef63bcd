"""Chat completions on the wire: OpenAI, and the many servers and gateways that speak it (MDL-2, MDL-14)."""

from __future__ import annotations

from drawbar.contracts.model import Account, RequestSettings
from drawbar.models.chat_builder import MAX_REQUEST_BYTES, ChatBuilder, ChatHabits
from drawbar.models.chat_decode import PROTOCOL, ChatDecoder
from drawbar.models.openai_address import ServerAddress

__all__ = ["ChatWire"]


class ChatWire:
    """A :class:`~drawbar.models.client.Wire` for one account, whose address tells the server's habits."""

    protocol = PROTOCOL
    max_request_bytes = MAX_REQUEST_BYTES

    def __init__(self, account: Account) -> None:
        self._server = ServerAddress(account.base_url)

    def path(self, model: str) -> str:
        return self._server.path("/chat/completions")

    def headers(self, account: Account) -> dict[str, str]:
        return self._server.headers(account)

    def builder(self, settings: RequestSettings) -> ChatBuilder:
        return ChatBuilder(settings, self._habits(settings.model))

    def decoder(self, *, status: int, request_id: str | None) -> ChatDecoder:
        return ChatDecoder(status=status, request_id=request_id)

    def _habits(self, model: str) -> ChatHabits:
        if self._server.within("openai.com") or self._server.within("azure.com"):
            return ChatHabits(limit_field="max_completion_tokens")
        if self._server.within("mistral.ai"):
            return ChatHabits(exact_id=9)
        if self._server.within("openrouter.ai"):
            return ChatHabits(marks=model.startswith("anthropic/"))
        return ChatHabits()
