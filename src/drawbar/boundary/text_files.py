"""Text files as bytes: which encoding and byte order mark they have, without ever losing a byte (QLT-10)."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Final

__all__ = ["TextFile", "UndecodableText", "read_text"]

# The longer marks first: UTF-32's begins with UTF-16's.
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class UndecodableText(ValueError):
    """The bytes after a UTF-16 or UTF-32 mark aren't text of that encoding."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's text without its mark. Bytes that aren't UTF-8 stand in ``text`` as half surrogates."""

    mark: bytes
    encoding: str
    text: str

    @property
    def clean(self) -> bool:
        """Whether all of it is valid in its encoding."""
        return self.encoding != "utf-8" or not any("\udc80" <= char <= "\udcff" for char in self.text)

    def encode(self, text: str) -> bytes:
        """``text`` as this file keeps it, mark included."""
        return self.mark + text.encode(self.encoding, _errors(self.encoding))


def read_text(data: bytes) -> TextFile:
    """Decode ``data`` so that encoding it again gives the same bytes.

    Raises:
        UndecodableText: a UTF-16 or UTF-32 file with errors in it.
    """
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    try:
        text = data[len(mark) :].decode(encoding, _errors(encoding))
    except UnicodeDecodeError as error:
        raise UndecodableText(f"the file isn't valid {encoding.upper()} text") from error
    return TextFile(mark, encoding, text)


def _errors(encoding: str) -> str:
    return "surrogateescape" if encoding == "utf-8" else "strict"
