"""Where a server of OpenAI's protocols is and how it wants to be asked, told by its address (MDL-2, MDL-14)."""

from __future__ import annotations

from urllib.parse import urlsplit

from drawbar.contracts.model import Account

__all__ = ["ServerAddress"]


class ServerAddress:
    """An account's base URL, read once.

    Args:
        base_url: of the account.
    """

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        self._host = (parts.hostname or "").lower()
        path = parts.path.rstrip("/")
        # An address that ends in another version than v1, or in none of a gateway's own, is taken as it is.
        self._version = "/v1" if path == "" or path.endswith("/v1") else ""

    def path(self, of: str) -> str:
        """Where ``of`` (such as ``/responses``) is, below the base URL without its version."""
        return self._version + of

    def within(self, domain: str) -> bool:
        """Whether the host is ``domain`` or below it."""
        return self._host == domain or self._host.endswith(f".{domain}")

    def headers(self, account: Account) -> dict[str, str]:
        """The credential's header; none for a server that wants none."""
        secret = account.secret.strip()
        if not secret:
            return {}
        if self.within("azure.com"):
            return {"api-key": secret}
        return {"authorization": f"Bearer {secret}"}
