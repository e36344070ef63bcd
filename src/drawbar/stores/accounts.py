"""Accounts: named credentials, resolved when a run starts and never swapped (RUN-4, MDL-1).

Today they come from common environment variables; the value is registered for redaction and never written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from drawbar.contracts.engine import Redactor
from drawbar.contracts.errors import AccountUnavailable
from drawbar.contracts.model import Account

__all__ = ["Accounts"]

_ANTHROPIC_URL = "https://api.anthropic.com"
_ANTHROPIC_MODEL = "claude-sonnet-5"
_LATER = ("OPENAI_API_KEY", "GEMINI_API_KEY")


class Accounts:
    """The accounts of one harness.

    Args:
        environ: where keys are looked for.
        redactor: learns each credential before anything can write it.
        extra: accounts that the embedding program brings.
    """

    def __init__(self, environ: Mapping[str, str], redactor: Redactor, extra: Iterable[Account] = ()) -> None:
        self._accounts = {account.id: account for account in extra}
        self._environ = environ
        key = environ.get("ANTHROPIC_API_KEY")
        if key:
            account = Account(
                id="anthropic",
                protocol="anthropic-messages",
                base_url=environ.get("ANTHROPIC_BASE_URL") or _ANTHROPIC_URL,
                secret=key,
                model=environ.get("ANTHROPIC_MODEL") or _ANTHROPIC_MODEL,
            )
            self._accounts.setdefault(account.id, account)
        for account in self._accounts.values():
            redactor.add(account.secret, f"{account.id}-credential")

    def list(self) -> list[Account]:
        """All that can be used now."""
        return list(self._accounts.values())

    def resolve(self, wanted: str | None) -> Account:
        """The account of that name, or the only (first) one.

        Raises:
            AccountUnavailable: saying how to get one.
        """
        if wanted is not None:
            if wanted in self._accounts:
                return self._accounts[wanted]
            known = ", ".join(self._accounts) or "none"
            raise AccountUnavailable(f"no account is called {wanted!r}; known accounts: {known}", account=wanted)
        for account in self._accounts.values():
            return account
        later = [name for name in _LATER if self._environ.get(name)]
        hint = f" ({', '.join(later)} is set, but its provider isn't supported yet.)" if later else ""
        raise AccountUnavailable(
            "no model account: set ANTHROPIC_API_KEY (and ANTHROPIC_BASE_URL for a gateway), or try the "
            f"embedded scripted model with `drawbar demo`.{hint}"
        )
