"""The spellings of a known secret value that are searched for as they stand (CON-31).

JSON, shell and percent escapes are not among them: those are undone on the text (``views``), which finds
every mix of them. Here are the encodings that change the letters themselves.
"""

from __future__ import annotations

import html
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote

__all__ = ["MIN_LENGTH", "learnable", "placeholder", "placeholder_kind", "spellings"]

MIN_LENGTH: Final = 8
"""Characters; a shorter value is a word like any other, and hiding it would ruin ordinary text (SEC-05)."""
_MIN_DISTINCT: Final = 3
_MIN_KEY_LINE: Final = 32
_OPENING: Final = "[redacted:"

# Defaults and words that stand in every second configuration file.
_ORDINARY: Final = frozenset(
    {"12345678", "123456789", "1234567890", "administrator", "anonymous", "changeit", "changeme", "development"}
    | {"disabled", "localhost", "passw0rd", "password", "password1", "postgres", "postgresql", "production"}
    | {"rabbitmq", "redacted", "required", "undefined", "username"}
)


def placeholder_kind(kind: str, value: str) -> str:
    """``kind`` as it is shown: lower case with hyphens, so that no encoding needs to escape it."""
    shown = re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-")[:60].strip("-")
    # A kind that repeats its value would show what it replaces.
    return "secret" if not shown or value.lower() in shown else shown


def placeholder(kind: str) -> str:
    """What stands in place of a secret; reads the same in JSON, HTML and a shell's double quotes."""
    return f"{_OPENING}{kind}]"


def learnable(value: str) -> bool:
    """Whether ``value`` can be hidden without hiding ordinary words with it."""
    return (
        len(value) >= MIN_LENGTH
        and len(set(value)) >= _MIN_DISTINCT
        and value.lower() not in _ORDINARY
        and _OPENING not in value
    )


def spellings(value: str, kinds: Iterable[str]) -> set[str]:
    """The forms of ``value`` to search for, each at least :data:`MIN_LENGTH` characters.

    Args:
        value: the secret.
        kinds: the kinds that placeholders show. No form is part of a placeholder or runs into one, so that
            redacting twice changes nothing.
    """
    marks = [placeholder(kind) for kind in kinds]
    found = {_clear_of(form, marks) for form in _forms(re.sub("[\ud800-\udfff]", "\ufffd", value).strip())}
    return {form for form in found if len(form) >= MIN_LENGTH and not any(form in mark for mark in marks)}


def _forms(value: str) -> Iterator[str]:
    for written in (value, value.replace(" ", "+")):
        yield written
        yield from _percent(written)
    yield from _markup(value)
    yield from _quoted(value)
    yield from _lines(value)
    data = value.encode()
    yield data.hex()
    yield data.hex().upper()
    yield from _base64(data)


def _percent(value: str) -> Iterator[str]:
    """Non-ASCII characters percent-encoded; the ASCII ones are undone by the view."""
    encoded = re.sub(r"[^\x00-\x7f]+", lambda match: quote(match.group()), value)
    yield encoded
    yield re.sub(r"%[0-9A-F]{2}", lambda match: match.group().lower(), encoded) if encoded != value else value


def _markup(value: str) -> Iterator[str]:
    escaped = html.escape(value, quote=False)
    yield escaped
    yield html.escape(value)
    yield escaped.replace('"', "&quot;")
    yield escaped.replace('"', "&#34;").replace("'", "&#39;")
    yield escaped.replace('"', "&quot;").replace("'", "&#39;")


def _quoted(value: str) -> Iterator[str]:
    """As shells write a single quote inside single quotes."""
    yield value.replace("'", "'\"'\"'")
    yield value.replace("'", "'\\''")
    yield value.replace("'", "''")


def _lines(value: str) -> Iterator[str]:
    """A value of several lines with other line ends, and its lines of key material each by itself."""
    lines = value.splitlines()
    if len(lines) > 1:
        yield "\n".join(lines)
        yield "\r\n".join(lines)
        yield from (line for line in lines if re.fullmatch(rf"[A-Za-z0-9+/=]{{{_MIN_KEY_LINE},}}", line))


def _base64(data: bytes) -> Iterator[str]:
    """Base64 by itself, with a line end, wrapped, and at each offset inside something longer."""
    for form in (data, data + b"\n"):
        for encode in (b64encode, urlsafe_b64encode):
            text = encode(form).decode()
            yield text
            yield text.rstrip("=")
        whole = b64encode(form).decode()
        for width in (64, 76):
            if len(whole) > width:
                lines = [whole[at : at + width] for at in range(0, len(whole), width)]
                yield "\n".join(lines)
                yield "\r\n".join(lines)
    for offset in range(3):
        padded = bytes(offset) + data
        # Only the characters that hold nothing but bits of the value: six bits each, from bit 8 * offset on.
        first, last = -(-8 * offset // 6), 8 * len(padded) // 6
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(padded).decode()[first:last]


def _clear_of(form: str, marks: list[str]) -> str:
    """``form`` without what could be the beginning or the end of a placeholder next to it, if enough is left."""
    clear = form
    while (at := clear.rfind("[")) >= 0 and _OPENING.startswith(clear[at:]):
        clear = clear[:at]
    while (at := clear.find("]")) >= 0 and any(mark.endswith(clear[: at + 1]) for mark in marks):
        clear = clear[at + 1 :]
    return clear if len(clear) >= MIN_LENGTH else form
