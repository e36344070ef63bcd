"""A stream of bytes through the redactor: what is no UTF-8 comes out as it went in (CLI-6, CON-32).

The redactor works on text. Each byte that belongs to no well-formed character stands in it as one of 128 private
characters, whose own encodings are likewise taken apart into bytes; so the way to text and back loses nothing,
whatever comes in and wherever it is cut.
"""

from __future__ import annotations

import codecs
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Final

from drawbar.stores.redaction.encodings import learnable

if TYPE_CHECKING:
    from drawbar.stores.redaction.redactor import SecretRedactor

__all__ = ["ByteRedactor", "learn_bytes"]

_FIRST: Final = 0x10FF80
"""The private characters at the very end of Unicode stand for the bytes 0x80 to 0xff."""
_ESCAPED: Final = 0xDC00
"""Where ``surrogateescape`` puts those bytes."""
_TO_PRIVATE: Final = {_ESCAPED + byte: _FIRST + byte - 0x80 for byte in range(0x80, 0x100)}
_TO_ESCAPED: Final = {private: escaped for escaped, private in _TO_PRIVATE.items()}
_PRIVATE: Final = re.compile(f"[{chr(_FIRST)}-{chr(_FIRST + 0x7F)}]")


class ByteRedactor:
    """Redacts one stream of bytes, piece by piece; the joined pieces equal the whole redacted at once.

    Args:
        redactor: what is looked for.
    """

    def __init__(self, redactor: SecretRedactor) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._stream = redactor.stream()

    def feed(self, data: bytes) -> bytes:
        """Take the next piece; gives what can no longer turn out to be part of a secret."""
        return _bytes(self._stream.feed(_text(self._decoder.decode(data))))

    def end(self) -> bytes:
        """The stream is over: gives what was held back."""
        last = self._stream.feed(_text(self._decoder.decode(b"", final=True)))
        return _bytes(last + self._stream.end())


def learn_bytes(redactor: SecretRedactor, value: bytes, kind: str) -> bool:
    """Learn a secret that may be no UTF-8, as :meth:`SecretRedactor.add` learns text.

    Returns:
        whether it can be told from ordinary text; what can't is not looked for (SEC-05).
    """
    decoded = value.decode("utf-8", "surrogateescape").strip()
    text = _text(decoded)
    if not learnable(text):
        return False
    redactor.add(text, kind)
    if text != decoded:
        # The redactor would encode the private characters; what others send is the encoded bytes.
        raw = decoded.encode("utf-8", "surrogateescape")
        percent = re.sub(rb"[\x80-\xff]", lambda found: b"%%%02X" % found[0][0], raw).decode()
        for form in (b64encode(raw).decode().rstrip("="), raw.hex(), percent, _lower_escapes(percent)):
            redactor.add(form, kind)
    return True


def _lower_escapes(percent: str) -> str:
    return re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), percent)


def _text(decoded: str) -> str:
    if decoded.isascii():
        return decoded
    apart = _PRIVATE.sub(lambda found: found[0].encode().decode("ascii", "surrogateescape"), decoded)
    return apart.translate(_TO_PRIVATE)


def _bytes(text: str) -> bytes:
    if text.isascii():
        return text.encode()
    return text.translate(_TO_ESCAPED).encode("utf-8", "surrogateescape")
