"""Which values of an environment are secrets, told by their names and by what they look like (CON-31, SEC-05)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

from drawbar.contracts.codec import loads
from drawbar.stores.redaction.encodings import learnable

__all__ = ["known_from_environment", "names_secret"]

_SECRET_NAME: Final = re.compile(
    r"(?:^|[_.-])(?:[a-z0-9]*(?:key|token|secret|password|passwd|passphrase|credential|apikey)s?|pass|pwd|auth|pat|dsn"
    r"|bearer|cookie|session|webhook|signature)[0-9]*(?:$|[_.-])"
)
_OTHER_NAME: Final = re.compile(
    r"(?:^|[_.-])public[_.-]|[_.-](?:id|name|file|path|dir|sock|socket|type|ttl|expiry|expires|count|limit|max|min|size"
    r"|length|version|algorithm|region|host|port|user|username|email|scope|scopes|enabled|header|prefix|format)$"
)
_LONG: Final = 20
"""Characters from which a value is no word of ordinary text, whatever it is made of."""
_URL_PASSWORD: Final = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:([^\s/]+)@")
_NUMBER: Final = re.compile(r"[+-]?[0-9][0-9.,:_-]*|0x[0-9a-fA-F]+")
_WORDS: Final = re.compile(r"[A-Za-z]?[a-z]+(?:[ _.:/-][A-Za-z]?[a-z]+)*|[A-Z]+(?:[ _.:/-][A-Z]+)*")
"""One word, or words joined as in names: nothing that only a secret would be."""


def names_secret(name: str) -> bool:
    """Whether a variable or field called ``name`` holds a secret by convention."""
    lowered = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return bool(_SECRET_NAME.search(lowered)) and not _OTHER_NAME.search(lowered)


def known_from_environment(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The secret values in ``environ`` as ``(value, kind)``, for :class:`SecretRedactor`.

    Taken are values of secret-named variables, passwords inside addresses whatever the name, and secret-named
    strings inside values that are JSON objects. Not taken are values that ordinary text may hold: short ones,
    words, numbers, switches, paths, addresses.

    Args:
        environ: such as ``os.environ``; read, never kept.
    """
    found: dict[str, str] = {}
    for name, value in environ.items():
        kind = f"env-{name}"
        for secret in _secrets(name, value.strip()):
            if learnable(secret):
                found.setdefault(secret, kind)
    return list(found.items())


def _secrets(name: str, value: str) -> Iterator[str]:
    address = _URL_PASSWORD.match(value)
    if address:
        yield address[1]
        yield unquote(address[1])
    if value.startswith("{"):
        yield from _in_json(value)
    if names_secret(name) and _is_distinct(value):
        yield value


def _in_json(value: str) -> Iterator[str]:
    """Secret-named strings of a JSON object, such as a service account's key file in one variable."""
    try:
        waiting: list[Any] = [loads(value)]
    except (ValueError, RecursionError):
        return
    while waiting:
        item = waiting.pop()
        if not isinstance(item, dict):
            continue
        for name, field in cast("dict[str, Any]", item).items():
            if isinstance(field, str) and names_secret(name) and _is_distinct(field):
                yield field
            waiting.append(field)


def _is_distinct(value: str) -> bool:
    """Whether ``value`` could not be meant when ordinary text holds it."""
    if _is_place(value) or _NUMBER.fullmatch(value):
        return False
    return len(value) >= _LONG or not _WORDS.fullmatch(value)


def _is_place(value: str) -> bool:
    """A path, a list of paths, a socket address, or a web address without anything secret in it."""
    if re.match(r"(?:[~./]|[A-Za-z]:\\|unix:)", value):
        return "\n" not in value and bool(re.search(r"[/\\]", value))
    return bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", value))
