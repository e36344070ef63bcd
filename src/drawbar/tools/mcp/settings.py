"""``mcp.toml``: which servers there are, by name, and how each is reached (PRO-3).

A program that is named here is started as the person's own, so a server is as trusted as whoever wrote the file.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from drawbar.contracts.codec import encode
from drawbar.contracts.errors import AccountUnavailable, InvalidInput
from drawbar.stores.credentials import CredentialRef, fetch_credential

__all__ = ["MAX_BYTES", "SERVERS_FILE", "ServerSettings", "Value", "parse_servers"]

SERVERS_FILE: Final = "mcp.toml"
MAX_BYTES: Final = 1024 * 1024
DEFAULT_LIMIT_S: Final = 60.0
LONGEST_LIMIT_S: Final = 1680.0
"""As long as the longest command (BND-18)."""

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)){0,23}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_STDIO: Final = frozenset({"command", "args", "env", "cwd"})
_HTTP: Final = frozenset({"url", "headers"})
_COMMON: Final = frozenset({"timeout_s", "tools", "enabled"})
_REFERENCES: Final = ("env", "file", "command", "keyring")
_SECRET_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"})

Value = str | CredentialRef
"""A text as it stands in the file, or where the text is kept."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """One server.

    Args:
        name: as it stands in the tools' names.
        source: the file that names it.
        argv: the program and its arguments, for a server over standard input and output.
        env: further variables of its environment.
        cwd: where it starts; None is the person's home: in a workspace many a launcher runs
            what the workspace brings (QLT-3).
        url: its address, for one over streamable HTTP.
        headers: sent with each request.
        timeout_s: seconds for one call, its start included.
        tools: the only tools that are taken, by the server's own names; None takes all.
        enabled: whether it is used at all.
    """

    name: str
    source: str
    argv: tuple[str, ...] = ()
    env: tuple[tuple[str, Value], ...] = ()
    cwd: Path | None = None
    url: str = ""
    headers: tuple[tuple[str, Value], ...] = ()
    timeout_s: float = DEFAULT_LIMIT_S
    tools: tuple[str, ...] | None = None
    enabled: bool = True

    @property
    def transport(self) -> Literal["stdio", "http"]:
        return "http" if self.url else "stdio"

    @property
    def where(self) -> str:
        """The command line or the address, without any secret."""
        return self.url or " ".join(self.argv)

    def digest(self) -> str:
        """Hex over all that says which program or address it is; references count, what they refer to doesn't."""
        told: list[Any] = [self.name, self.argv, str(self.cwd or ""), self.url]
        told += [[name, value if isinstance(value, str) else str(value)] for name, value in (*self.env, *self.headers)]
        return hashlib.sha256(encode(told, canonical=True)).hexdigest()

    def values(self, environ: Mapping[str, str], learn: Any) -> dict[str, str]:
        """The variables or headers, fetched now.

        Args:
            environ: where references to variables are looked up.
            learn: told each fetched secret, so that it is redacted from then on.

        Raises:
            InvalidInput: one can't be had; it is named, never quoted.
        """
        found: dict[str, str] = {}
        for name, value in self.headers if self.url else self.env:
            if isinstance(value, str):
                found[name] = value
                continue
            try:
                found[name] = fetch_credential(value, environ, account=self.name)
            except AccountUnavailable as error:
                why = error.message.partition(": ")[2] or error.message
                raise InvalidInput(f"MCP server {self.name}: {name}: {why}", field=name) from error
            learn(found[name], f"mcp:{self.name}:{name}")
        return found


def parse_servers(raw: bytes, *, where: str) -> list[ServerSettings]:
    """Read and check a file's content.

    Args:
        raw: the bytes.
        where: the file, for messages.

    Raises:
        InvalidInput: naming file, server and key.
    """
    try:
        values = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{where} is not valid TOML: {error}", path=where) from error
    unknown = sorted(set(values) - {"servers"})
    if unknown:
        raise InvalidInput(f"{where}: unknown key {unknown[0]!r}; servers stand in tables such as [servers.files]",
                           field=unknown[0])  # fmt: skip
    tables = values.get("servers", {})
    if not isinstance(tables, dict):
        raise InvalidInput(f"{where}: servers must be a table of servers", field="servers")
    return [_server(name, table, where) for name, table in cast("dict[str, Any]", tables).items()]


def _server(name: str, table: Any, where: str) -> ServerSettings:
    here = f"{where}: server {name!r}"
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{here}: a name is 1 to 24 letters, digits, - and single _, and begins with a letter or digit", field=name
        )
    if not isinstance(table, dict):
        raise InvalidInput(f"{here} must be a table", field=name)
    fields = cast("dict[str, Any]", table)
    if ("command" in fields) == ("url" in fields):
        raise InvalidInput(f"{here}: give either command (a program) or url (an address)", field="command")
    known = _COMMON | (_STDIO if "command" in fields else _HTTP)
    for key in fields:
        if key not in known:
            raise InvalidInput(f"{here}: unknown key {key!r}; known are {', '.join(sorted(known))}", field=key)
    cwd = _text(fields, "cwd", here)
    command = _text(fields, "command", here)
    return ServerSettings(
        name=name,
        source=where,
        argv=() if command is None else (command, *(_texts(fields, "args", here) or ())),
        env=_values(fields, "env", _VARIABLE, here),
        cwd=None if cwd is None else _folder(cwd, here),
        url=_url(_text(fields, "url", here), here),
        headers=_values(fields, "headers", _HEADER, here),
        timeout_s=_limit(fields.get("timeout_s", DEFAULT_LIMIT_S), here),
        tools=_texts(fields, "tools", here),
        enabled=_flag(fields.get("enabled", True), here),
    )


def _text(fields: Mapping[str, Any], key: str, here: str) -> str | None:
    value = fields.get(key)
    if value is not None and not (isinstance(value, str) and value.strip() and "\0" not in value):
        raise InvalidInput(f"{here}: {key} must be a non-empty text", field=key)
    return value


def _texts(fields: Mapping[str, Any], key: str, here: str) -> tuple[str, ...] | None:
    value = fields.get(key)
    if value is None:
        return None
    items: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [None]
    if not all(isinstance(item, str) and "\0" not in item for item in items):
        raise InvalidInput(f"{here}: {key} must be a list of texts", field=key)
    return tuple(items)


def _values(fields: Mapping[str, Any], key: str, names: re.Pattern[str], here: str) -> tuple[tuple[str, Value], ...]:
    value = fields.get(key)
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise InvalidInput(f"{here}: {key} must be a table", field=key)
    found: list[tuple[str, Value]] = []
    for name, given in cast("dict[str, Any]", value).items():
        if not names.fullmatch(name):
            raise InvalidInput(f"{here}: {key}: {name!r} is no name for this", field=key)
        if isinstance(given, str) and key == "headers" and name.lower() in _SECRET_HEADERS:
            raise InvalidInput(
                f"{here}: {key}.{name}: the secret itself doesn't belong here; say where it is, such as "
                '{ env = "MY_TOKEN" }; the whole header is taken from there', field=key
            )  # fmt: skip
        found.append(
            (name, given if isinstance(given, str) and "\0" not in given else _reference(given, key, name, here))
        )
    return tuple(found)


def _reference(given: Any, key: str, name: str, here: str) -> CredentialRef:
    told = f"{here}: {key}.{name}"
    pairs = list(cast("dict[str, Any]", given).items()) if isinstance(given, dict) else []
    if len(pairs) != 1 or pairs[0][0] not in _REFERENCES:
        raise InvalidInput(
            f'{told} must be a text, or one of {", ".join(_REFERENCES)} as in {{ env = "NAME" }}', field=key
        )
    kind, value = pairs[0]
    if kind == "command":
        argv: list[Any] = cast("list[Any]", value) if isinstance(value, list) else []
        if not argv or not all(isinstance(word, str) and word for word in argv):
            raise InvalidInput(f'{told}.command is a list of words, such as ["pass", "show", "mine"]', field=key)
        return CredentialRef("command", argv=tuple(argv))
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{told}.{kind} must be a non-empty text", field=key)
    if kind == "file":
        return CredentialRef("file", path=Path(value))
    if kind == "keyring" and not all(value.rpartition("/")[::2]):
        raise InvalidInput(f"{told}.keyring is SERVICE/NAME", field=key)
    return CredentialRef(cast("Literal['env', 'keyring']", kind), name=value)


def _folder(text: str, here: str) -> Path:
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise InvalidInput(f"{here}: cwd must be an absolute path or begin with ~", field="cwd")
    return path


def _url(text: str | None, here: str) -> str:
    if text is None:
        return ""
    try:
        parts = urlsplit(text)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound, parts = False, urlsplit("")
    if not sound or text != text.strip():
        raise InvalidInput(f"{here}: url must be an address such as https://example.org/mcp", field="url")
    if parts.username or parts.password:
        raise InvalidInput(f"{here}: url holds a password; put it into headers, by reference", field="url")
    return text


def _limit(value: Any, here: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST_LIMIT_S:
        raise InvalidInput(f"{here}: timeout_s must be seconds, above 0 and at most {LONGEST_LIMIT_S:g}",
                           field="timeout_s")  # fmt: skip
    return float(value)


def _flag(value: Any, here: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{here}: enabled must be true or false", field="enabled")
    return value
