"""Chat completions on the wire: OpenAI, and the many servers and gateways that speak it (MDL-2, MDL-14)."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from drawbar.contracts.model import Account, RequestSettings
from drawbar.models.chat_builder import MAX_REQUEST_BYTES, ChatBuilder, ChatHabits
from drawbar.models.chat_decode import PROTOCOL, ChatDecoder

__all__ = ["ChatWire"]

_PATH: Final = "/chat/completions"


class ChatWire:
    """A :class:`~drawbar.models.client.Wire` for one account, whose address tells the server's habits."""

    protocol = PROTOCOL
    max_request_bytes = MAX_REQUEST_BYTES

    def __init__(self, account: Account) -> None:
        self._host = (urlsplit(account.base_url).hostname or "").lower()
        path = urlsplit(account.base_url).path.rstrip("/")
        # An address that ends in another version than v1, or in none of a gateway's own, is taken as it is.
        self._path = f"/v1{_PATH}" if path == "" or path.endswith("/v1") else _PATH

    def path(self, model: str) -> str:
        return self._path

    def headers(self, account: Account) -> dict[str, str]:
        secret = account.secret.strip()
        if not secret:
            return {}
        if self._is("azure.com"):
            return {"api-key": secret}
        return {"authorization": f"Bearer {secret}"}

    def builder(self, settings: RequestSettings) -> ChatBuilder:
        return ChatBuilder(settings, self._habits(settings.model))

    def decoder(self, *, status: int, request_id: str | None) -> ChatDecoder:
        return ChatDecoder(status=status, request_id=request_id)

    def _habits(self, model: str) -> ChatHabits:
        if self._is("openai.com") or self._is("azure.com"):
            return ChatHabits(limit_field="max_completion_tokens")
        if self._is("mistral.ai"):
            return ChatHabits(exact_id=9)
        if self._is("openrouter.ai"):
            return ChatHabits(marks=model.startswith("anthropic/"))
        return ChatHabits()

    def _is(self, domain: str) -> bool:
        return self._host == domain or self._host.endswith(f".{domain}")
