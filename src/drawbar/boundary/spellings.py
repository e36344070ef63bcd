"""What a model's path argument may mean: Pi's normalisation of arguments, and the spellings that a read tries.

Pure text, no file is looked at; whoever opens a candidate checks it as strictly as the plain one (BND-4, ENG-6).
"""

from __future__ import annotations

import os
import re
import unicodedata
from typing import Final

__all__ = ["normalised", "read_spellings", "readings"]

_SPACES: Final = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_HALF_DAY: Final = re.compile(r" (AM|PM)\.", re.IGNORECASE)


def readings(argument: str, *, base: str, home: str) -> tuple[str, ...]:
    """The absolute paths that an argument may mean, the likeliest first.

    The first is Pi's reading: Unicode spaces become plain ones, one leading ``@`` is dropped, ``~`` and a
    ``file://`` address are resolved. Where that changed something the argument to the letter comes second,
    since a folder may really be called ``@types``.

    Args:
        argument: as the model gave it.
        base: the absolute folder that a relative path starts from.
        home: what ``~`` stands for.

    Raises:
        ValueError: for an empty path, a NUL, or a ``file://`` address of another host.
    """
    if not argument.strip():
        raise ValueError("is empty")
    if "\0" in argument:
        raise ValueError("holds a NUL character")
    plain = _SPACES.sub(" ", argument)
    if plain.startswith("@"):
        plain = plain[1:]
    first = normalised(_expanded(plain, home) or ".", base)
    if plain == argument:
        return (first,)
    return (first, normalised(_expanded(argument, home), base))


def normalised(path: str, base: str) -> str:
    """``path`` made absolute and lexically clean: no ``.``, ``..``, doubled or trailing slash."""
    clean = os.path.normpath(path if path.startswith("/") else f"{base}/{path}")
    return clean[1:] if clean.startswith("//") else clean


def read_spellings(path: str) -> tuple[str, ...]:
    """Other spellings of a missing path, in the order in which a read tries them (BND-4).

    A screenshot's name may hold U+202F before ``AM.`` or ``PM.``, a name from another system may be
    decomposed (NFD), and an apostrophe may be U+2019.
    """
    decomposed = unicodedata.normalize("NFD", path)
    found = dict.fromkeys(
        (
            _HALF_DAY.sub("\u202f\\1.", path),
            decomposed,
            path.replace("'", "\u2019"),
            decomposed.replace("'", "\u2019"),
        )
    )
    found.pop(path, None)
    return tuple(found)


def _expanded(path: str, home: str) -> str:
    if path == "~":
        return home
    if path.startswith("~/"):
        return home + path[1:]
    if path.startswith("file://"):
        return _from_address(path)
    return path


def _from_address(address: str) -> str:
    from urllib.parse import unquote_to_bytes

    host, slash, path = address.removeprefix("file://").partition("/")
    if host not in ("", "localhost") or not slash:
        raise ValueError("is a file:// address of another host")
    found = os.fsdecode(unquote_to_bytes("/" + path))
    if "\0" in found:
        raise ValueError("holds a NUL character")
    return found
