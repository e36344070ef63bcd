"""Strategies: secrets, the disguises that texts put them in, and texts full of pieces that look like parts of them."""

from __future__ import annotations

import base64
import html
import json
import shlex
from urllib.parse import quote, quote_plus

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from tests.redaction.samples import FORMATS, MIXED, jwt, key_block

from drawbar.stores.redaction import SecretRedactor
from drawbar.stores.redaction.encodings import learnable

__all__ = ["cuts", "disguised", "disguises", "redactors", "secrets", "split", "texts", "unhurried"]

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
"""Others may use the machine."""

_PLACEHOLDERS = " ".join(
    f"[redacted:{kind}]" for kind in [*FORMATS, "known-0", "known-1", "known-2", "known-3", "acme"]
)
SPECIAL = "\"\\/'\n\t $&<>%+`é😀-_="

secrets = st.one_of(
    st.text(alphabet=MIXED, min_size=8, max_size=40),
    st.text(alphabet=MIXED[:12] + SPECIAL, min_size=9, max_size=24),
    # Few letters: values that overlap themselves and each other.
    st.text(alphabet="abc", min_size=8, max_size=14),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=20),
).filter(lambda value: learnable(value) and value == value.strip() and "\r" not in value and value not in _PLACEHOLDERS)


def json_escaped(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]


def fully_escaped(value: str) -> str:
    """Every character as a JSON escape, half a pair at a time outside the basic plane."""
    data = value.encode("utf-16-be")
    return "".join(f"\\u{data[at]:02x}{data[at + 1]:02X}" for at in range(0, len(data), 2))


def fully_percent(value: str) -> str:
    return "".join(f"%{byte:02X}" if byte < 0x80 else f"%{byte:02x}" for byte in value.encode())


disguises = {
    "as it is": lambda value: value,
    "JSON": json_escaped,
    "JSON, ASCII only": lambda value: json.dumps(value)[1:-1],
    "JSON, slashes escaped": lambda value: json_escaped(value).replace("/", "\\/"),
    "JSON, all escaped": fully_escaped,
    "JSON in JSON": lambda value: json_escaped(json_escaped(value)),
    "JSON in JSON in JSON": lambda value: json_escaped(json_escaped(json.dumps(value)[1:-1])),
    "URL": lambda value: quote(value, safe=""),
    "URL path": quote,
    "form": quote_plus,
    "URL, all escaped": fully_percent,
    "URL in JSON": lambda value: json_escaped(quote(value)),
    "JSON in URL": lambda value: quote(json_escaped(value)),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 with a line end": lambda value: base64.b64encode(value.encode() + b"\n").decode(),
    "base64 for URLs": lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
    "base64, one byte in": lambda value: base64.b64encode(b"\x00" + value.encode() + b"\xff").decode(),
    "base64, two bytes in": lambda value: base64.b64encode(b"ab" + value.encode() + b"cd").decode(),
    "wrapped base64": lambda value: base64.encodebytes(value.encode()).decode().rstrip("\n"),
    "hex": lambda value: value.encode().hex(),
    "HEX": lambda value: value.encode().hex().upper(),
    "HTML": html.escape,
    "HTML, quotes kept": lambda value: html.escape(value, quote=False),
    "shell": shlex.quote,
    "double quotes of a shell": lambda value: "".join("\\" + c if c in '"\\$`' else c for c in value),
    "line ends of Windows": lambda value: value.replace("\n", "\r\n"),
}
"""Each encoding a secret may stand in, by name."""


@st.composite
def disguised(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    """One of ``values`` in one disguise, maybe with further characters escaped that need not be."""
    text = disguises[draw(st.sampled_from(sorted(disguises)))](draw(values))
    if draw(st.booleans()):
        at = draw(st.integers(0, max(0, len(text) - 1)))
        if text[at : at + 1].isalnum() and ord(text[at]) < 0x80 and "\\" not in text[max(0, at - 5) : at]:
            escape = draw(st.sampled_from(["\\u{:04x}", "\\u{:04X}", "%{:02X}", "\\x{:02x}"]))
            if "%" not in text[max(0, at - 2) : at]:
                text = text[:at] + escape.format(ord(text[at])) + text[at + 1 :]
    return text


def tokens() -> list[str]:
    """One text of each public format, with what belongs around it."""
    return [before + make() + after for rows in FORMATS.values() for before, make, after in rows]


_DECOYS = (
    *(
        "sk-",
        "sk-ant-",
        "eyJ",
        "AKIA",
        "-----BEGIN ",
        "-----",
        "://",
        "Bearer ",
        "_TOKEN",
        "API_KEY",
        "=",
        "@",
        ":",
        "/",
    ),
    *("\\", "\\\\", "\\u", "\\u00", "\\ud83d", "\\ude00", '"', "'", "%", "%4", "%25", "é", "😀", "\n", "\\n", " ", "}"),
    *("[redacted:", "]", "[", "[redacted:jwt]", "[redacted:known-0]", "task-", "x" * 40, "A" * 80, "12345678", "3m"),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "the quick brown fox", "MIIEpAIBAAKCAQEA"),
)
_LONG = (
    *("sk-ant-" + "aB1-" * 200, "Bearer " + "a1" * 300, jwt() + "x" * 600, key_block(size=1500), "M" * 530),
    *(
        "https://a:" + "b" * 600,
        key_block(size=900, end="\\n"),
        "-----BEGIN PRIVATE KEY-----\n" + ("A" * 64 + "\n") * 12,
    ),
)


@st.composite
def texts(draw: st.DrawFn, known: list[str], *, long: bool = False) -> str:
    """Known values in disguises, tokens, parts of both, and decoys, in any order and side by side."""
    value = st.sampled_from(known)
    part = st.builds(lambda text, size: text[:size], st.one_of(value, st.sampled_from(tokens())), st.integers(0, 30))
    pieces = [
        disguised(value),
        disguised(st.sampled_from(tokens())),
        st.sampled_from(tokens()),
        part,
        st.sampled_from(_DECOYS),
    ]
    if long:
        pieces.append(st.sampled_from(_LONG))
    return "".join(draw(st.lists(st.one_of(pieces), max_size=7)))


@st.composite
def redactors(draw: st.DrawFn, least: int = 1) -> tuple[SecretRedactor, list[str]]:
    """A redactor and the values it knows."""
    known = draw(st.lists(secrets, min_size=least, max_size=4, unique=True))
    return SecretRedactor((value, f"known-{number}") for number, value in enumerate(known)), known


@st.composite
def cuts(draw: st.DrawFn, text: str) -> list[str]:
    """``text`` in pieces, from single characters to everything."""
    size = draw(st.sampled_from([1, 2, 5, 40, 2000]))
    pieces: list[str] = []
    while text:
        at = draw(st.integers(1, size))
        pieces.append(text[:at])
        text = text[at:]
    return pieces


def split(redactor: SecretRedactor, pieces: list[str]) -> list[str]:
    """What a stream gives out for each piece and at its end."""
    stream = redactor.stream()
    return [*map(stream.feed, pieces), stream.end()]
