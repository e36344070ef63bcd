"""Gemini's generateContent on the wire: Google's API and what speaks it (MDL-2)."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urlsplit

from drawbar.contracts.model import Account, RequestSettings
from drawbar.models.gemini_builder import MAX_REQUEST_BYTES, GeminiBuilder
from drawbar.models.gemini_decode import PROTOCOL, GeminiDecoder

__all__ = ["GeminiWire"]

_VERSION: Final = re.compile(r"v\d+[a-z\d]*")


class GeminiWire:
    """A :class:`~drawbar.models.client.Wire` for one account; its address may name a version or leave it out."""

    protocol = PROTOCOL
    max_request_bytes = MAX_REQUEST_BYTES

    def __init__(self, account: Account) -> None:
        path = urlsplit(account.base_url).path.rstrip("/")
        last = path.rpartition("/")[2]
        if last == "v1":
            # The client takes this version off every address, since most paths bring it.
            self._root = "/v1"
        elif _VERSION.fullmatch(last) or path.endswith("/publishers/google"):
            self._root = ""
        else:
            self._root = "/v1beta"

    def path(self, model: str) -> str:
        name = model if model.startswith("tunedModels/") else f"models/{model.removeprefix('models/')}"
        return f"{self._root}/{quote(name, safe='/@.-_')}:streamGenerateContent?alt=sse"

    def headers(self, account: Account) -> dict[str, str]:
        secret = account.secret.strip()
        return {"x-goog-api-key": secret} if secret else {}

    def builder(self, settings: RequestSettings) -> GeminiBuilder:
        return GeminiBuilder(settings)

    def decoder(self, *, status: int, request_id: str | None) -> GeminiDecoder:
        return GeminiDecoder(status=status, request_id=request_id)
