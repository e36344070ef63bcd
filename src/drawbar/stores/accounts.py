"""Accounts: named credentials, resolved when a run starts and never swapped (RUN-4, MDL-1).

They come from an embedding program, from the accounts file, and from common environment variables, in this
order; of two with one name the first counts. A credential is fetched when it is needed, and registered for
redaction before anything can write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from drawbar.contracts.engine import Redactor
from drawbar.contracts.errors import AccountUnavailable
from drawbar.contracts.model import Account
from drawbar.stores.account_file import AccountEntry, read_account_file
from drawbar.stores.credentials import CredentialRef, fetch_credential
from drawbar.stores.providers import PRESETS, Preset

__all__ = ["ACCOUNTS_FILE", "Accounts"]

ACCOUNTS_FILE: Final = "accounts.toml"


class Accounts:
    """The accounts of one harness.

    Args:
        environ: where keys are looked for.
        redactor: learns each credential before anything can write it.
        extra: accounts that the embedding program brings.
        file: the accounts file; None is none. It is read at the first need, and anew for each run.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        redactor: Redactor,
        extra: Iterable[Account] = (),
        *,
        file: Path | None = None,
    ) -> None:
        self._environ = environ
        self._redactor = redactor
        self._extra = {account.id: account for account in extra}
        self._file = file
        for account in self._extra.values():
            redactor.add(account.secret, f"{account.id}-credential")
        for preset in PRESETS.values():
            for key in preset.keys:
                redactor.add(environ.get(key, ""), "credential")

    def entries(self) -> list[AccountEntry]:
        """All that can be used now, in the order in which they are offered.

        Raises:
            InvalidInput: the accounts file is wrong.
        """
        found: dict[str, AccountEntry] = {}
        for account in self._extra.values():
            found[account.id] = AccountEntry(
                id=account.id,
                protocol=account.protocol,
                base_url=account.base_url,
                credential=CredentialRef("none"),
                model=account.model,
                effort=account.effort,
                headers=account.headers,
                source="program",
            )
        if self._file is not None:
            for entry in read_account_file(self._file).accounts:
                found.setdefault(entry.id, entry)
        for name, preset in PRESETS.items():
            entry = self._offered(name, preset)
            if entry is not None:
                found.setdefault(name, entry)
        return list(found.values())

    def list(self) -> list[Account]:
        """As :meth:`entries`, without fetching any credential."""
        return [self._account(entry, secret="") for entry in self.entries()]

    def resolve(self, wanted: str | None) -> Account:
        """The account of that name, or the one that is taken when none is named.

        Raises:
            AccountUnavailable: saying how to get one, or why its credential can't be had.
            InvalidInput: the accounts file is wrong.
        """
        entry = self.entry(wanted)
        if entry.id in self._extra:
            return self._extra[entry.id]
        secret = fetch_credential(entry.credential, self._environ, account=entry.id)
        self._redactor.add(secret, f"{entry.id}-credential")
        return self._account(entry, secret=secret)

    def entry(self, wanted: str | None) -> AccountEntry:
        """The account of that name as it was set up; None takes the default, else the first.

        Raises:
            As :meth:`resolve`, but that no credential is fetched.
        """
        entries = {entry.id: entry for entry in self.entries()}
        if wanted is None and self._file is not None:
            wanted = read_account_file(self._file).default
        if wanted is not None:
            if wanted in entries:
                return entries[wanted]
            known = ", ".join(entries) or "none"
            raise AccountUnavailable(f"no account is called {wanted!r}; known accounts: {known}", account=wanted)
        for entry in entries.values():
            return entry
        raise AccountUnavailable(
            "no model account: set ANTHROPIC_API_KEY or OPENAI_API_KEY (with …_BASE_URL for a gateway), describe one "
            "in accounts.toml of the config folder, or try the embedded scripted model with `drawbar demo`"
        )

    def _offered(self, name: str, preset: Preset) -> AccountEntry | None:
        """An account that the environment holds a key for."""
        key = next((key for key in preset.keys if self._environ.get(key)), None)
        if key is None:
            return None
        base_url = self._environ.get(preset.base_url_key) or preset.base_url
        return AccountEntry(
            id=name,
            protocol=preset.protocol_at(base_url),
            base_url=base_url,
            credential=CredentialRef("env", name=key),
            model=self._environ.get(preset.model_key) or preset.model or None,
            source="environment",
        )

    @staticmethod
    def _account(entry: AccountEntry, *, secret: str) -> Account:
        return Account(
            id=entry.id,
            protocol=entry.protocol,
            base_url=entry.base_url,
            secret=secret,
            model=entry.model,
            effort=entry.effort,
            headers=entry.headers,
        )
