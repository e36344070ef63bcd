"""The accounts file: which accounts a person set up, each with a reference to its credential (MDL-1).

The file decides which programs are started for a credential and where keys are sent, so one that others may
write is refused.
"""

from __future__ import annotations

import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.run import ApprovalMode
from drawbar.stores.credentials import CredentialRef
from drawbar.stores.providers import PRESETS

__all__ = ["ACCOUNT_ID", "AccountEntry", "AccountFile", "Budgets", "account_entry", "read_account_file"]

ACCOUNT_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_KEYS: Final = {
    "preset", "protocol", "base_url", "credential", "model", "effort", "approval", "sandbox", "limits", "headers",
    "context_window",
}  # fmt: skip
_CREDENTIALS: Final = ("env", "file", "command", "keyring")
_LIMITS: Final = ("run_usd", "day_usd", "run_tokens", "day_tokens")
_MAX_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Budgets:
    """What an account may spend, in US dollars or tokens of all kinds; None is no limit (MDL-9)."""

    run_usd: float | None = None
    day_usd: float | None = None
    run_tokens: int | None = None
    day_tokens: int | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, name) is not None for name in _LIMITS)


@dataclass(frozen=True, slots=True)
class AccountEntry:
    """One account as it was set up; its credential isn't fetched yet."""

    id: str
    protocol: str
    base_url: str
    credential: CredentialRef
    model: str | None = None
    effort: str | None = None
    approval: ApprovalMode | None = None
    sandbox: Literal["on", "off"] | None = None
    budgets: Budgets = Budgets()
    headers: tuple[tuple[str, str], ...] = ()
    context_window: int | None = None
    source: str = "file"


@dataclass(frozen=True, slots=True)
class AccountFile:
    """What the file says; ``default`` is the account that is taken when none is named."""

    default: str | None = None
    accounts: tuple[AccountEntry, ...] = field(default=())


def read_account_file(path: Path) -> AccountFile:
    """Read and check the file; one that isn't there holds nothing.

    Raises:
        InvalidInput: naming file, account and key, or saying who else may write the file.
    """
    try:
        with path.open("rb") as file:
            mode = path.stat().st_mode
            raw = file.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return AccountFile()
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror}", path=str(path)) from error
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InvalidInput(
            f"{path} can be written by others, who could send your keys elsewhere; run: chmod 600 {path}",
            path=str(path),
        )
    if len(raw) > _MAX_BYTES:
        raise InvalidInput(f"{path} is larger than 1 MiB; that is no accounts file", path=str(path))
    try:
        values = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}", path=str(path)) from error
    unknown = sorted(set(values) - {"default", "accounts"})
    if unknown:
        raise InvalidInput(f"{path}: unknown key {unknown[0]!r}; known are accounts, default", field=unknown[0])
    tables = values.get("accounts", {})
    if not isinstance(tables, dict):
        raise InvalidInput(f"{path}: accounts must be a table of accounts", field="accounts")
    entries = tuple(
        account_entry(name, table, where=str(path)) for name, table in cast("dict[str, Any]", tables).items()
    )
    default = values.get("default")
    if default is not None and default not in {entry.id for entry in entries} | set(PRESETS):
        raise InvalidInput(f"{path}: default names {default!r}, which is no account of this file", field="default")
    return AccountFile(default=default, accounts=entries)


def account_entry(name: str, table: Any, *, where: str) -> AccountEntry:
    """One account from its table.

    Args:
        name: its id.
        table: the parsed table.
        where: the file, for messages.

    Raises:
        InvalidInput: naming account and key.
    """
    here = f"{where}: account {name!r}"
    if not ACCOUNT_ID.fullmatch(name):
        raise InvalidInput(f"{here}: a name is 1 to 64 letters, digits, _ . and -, and begins with no sign", field=name)
    if not isinstance(table, dict):
        raise InvalidInput(f"{here} must be a table", field=name)
    fields = cast("dict[str, Any]", table)
    for key in fields:
        if key in ("key", "api_key", "secret", "token"):
            raise InvalidInput(
                f"{here}: the key itself doesn't belong here; name where it is, such as credential = "
                '{ env = "MY_KEY" }, { file = "~/.keys/mine" } or { command = ["pass", "show", "mine"] }',
                field=key,
            )
        if key not in _KEYS:
            raise InvalidInput(f"{here}: unknown key {key!r}; known are {', '.join(sorted(_KEYS))}", field=key)
    preset = fields.get("preset")
    known = PRESETS.get(preset) if isinstance(preset, str) else None
    if preset is not None and known is None:
        raise InvalidInput(f"{here}: preset must be one of {', '.join(PRESETS)}", field="preset")
    base_url = _string(fields, "base_url", here) or (known.base_url if known else None)
    protocol = _string(fields, "protocol", here) or (known.protocol_at(base_url or "") if known else None)
    if protocol is None or base_url is None:
        missing = "protocol" if protocol is None else "base_url"
        raise InvalidInput(f"{here}: {missing} is missing; give it, or a preset ({', '.join(PRESETS)})", field=missing)
    return AccountEntry(
        id=name,
        protocol=protocol,
        base_url=base_url,
        credential=_credential(fields.get("credential"), known.keys if known else (), here),
        model=_string(fields, "model", here) or (known.model if known and known.model else None),
        effort=_string(fields, "effort", here),
        approval=_one_of(fields, "approval", get_args(ApprovalMode), here),
        sandbox=_one_of(fields, "sandbox", ("on", "off"), here),
        budgets=_budgets(fields.get("limits"), here),
        headers=_headers(fields.get("headers"), here),
        context_window=_count(fields.get("context_window"), "context_window", here),
    )


def _credential(value: Any, keys: tuple[str, ...], here: str) -> CredentialRef:
    if value is None:
        return CredentialRef("env", name=keys[0]) if keys else CredentialRef("none")
    ways = ", ".join(_CREDENTIALS)
    if not isinstance(value, dict) or len(cast("dict[str, Any]", value)) != 1:
        raise InvalidInput(f'{here}: credential is one of {ways}, such as {{ env = "MY_KEY" }}', field="credential")
    (kind, named), *_ = cast("dict[str, Any]", value).items()
    if kind == "command":
        argv: list[Any] = cast("list[Any]", named) if isinstance(named, list) else []
        if not argv or not all(isinstance(word, str) and word for word in argv):
            raise InvalidInput(f'{here}: credential.command is a list of words, such as ["pass", "show", "mine"]',
                               field="credential")  # fmt: skip
        return CredentialRef("command", argv=tuple(argv))
    if kind not in _CREDENTIALS or not isinstance(named, str) or not named:
        raise InvalidInput(f"{here}: credential is one of {ways}, each a non-empty text", field="credential")
    if kind == "file":
        return CredentialRef("file", path=Path(named))
    if kind == "keyring" and not all(named.rpartition("/")[::2]):
        raise InvalidInput(f"{here}: credential.keyring is SERVICE/NAME", field="credential")
    return CredentialRef(cast("Literal['env', 'keyring']", kind), name=named)


def _budgets(value: Any, here: str) -> Budgets:
    if value is None:
        return Budgets()
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {"": None}
    found: dict[str, Any] = {}
    for name, limit in fields.items():
        number = isinstance(limit, int | float) and not isinstance(limit, bool) and 0 < limit < float("inf")
        if name not in _LIMITS or not number or (name.endswith("_tokens") and not isinstance(limit, int)):
            raise InvalidInput(f"{here}: limits are positive numbers called {', '.join(_LIMITS)}", field="limits")
        found[name] = limit
    return Budgets(**found)


def _headers(value: Any, here: str) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise InvalidInput(f"{here}: headers is a table of texts", field="headers")
    fields = cast("Mapping[str, Any]", value)
    if not all(isinstance(text, str) for text in fields.values()):
        raise InvalidInput(f"{here}: headers is a table of texts", field="headers")
    return tuple(fields.items())


def _string(fields: Mapping[str, Any], key: str, here: str) -> str | None:
    value = fields.get(key)
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise InvalidInput(f"{here}: {key} must be a non-empty text", field=key)
    return value


def _one_of(fields: Mapping[str, Any], key: str, words: tuple[str, ...], here: str) -> Any:
    value = fields.get(key)
    if value is not None and value not in words:
        raise InvalidInput(f"{here}: {key} must be one of {', '.join(words)}", field=key)
    return value


def _count(value: Any, key: str, here: str) -> int | None:
    if value is not None and (type(value) is not int or value < 1):
        raise InvalidInput(f"{here}: {key} must be a positive whole number", field=key)
    return value
