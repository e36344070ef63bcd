"""Characters that a server cut in two, each half escaped in a piece of its own: joined, never dropped (PRV-07).

Servers that count text by UTF-16 units may end a piece after the first half of a surrogate pair. Such JSON is
refused by a strict parser, though nothing but the cut is wrong with it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

from drawbar.contracts import codec

__all__ = ["Halves", "loads_halves"]


def loads_halves(data: bytes) -> Any:
    """JSON that may hold escaped halves of surrogate pairs, which stay in its strings.

    Raises:
        ValueError: for what isn't JSON besides.
        RecursionError: for what is nested too deeply.
    """
    try:
        return codec.loads(data)
    except ValueError:
        import json

        return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)


class Halves:
    """Puts characters together whose halves came in two pieces of one text."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, str] = {}

    def join(self, text: str, of: Hashable) -> str:
        """``text`` well-formed, with the half that waited for it; its own last half waits in turn.

        Args:
            text: the next piece.
            of: which text it is a piece of. A half whose other never comes becomes U+FFFD.
        """
        if self._waiting:
            text = self._waiting.pop(of, "") + text
        if text.isascii():
            return text
        if "\ud800" <= text[-1] <= "\udbff":
            self._waiting[of] = text[-1]
            text = text[:-1]
        from drawbar.stores.history import well_formed

        return well_formed(text)

    def join_all(self, value: Any, of: tuple[Hashable, ...] = ()) -> Any:
        """Each string of a JSON value by :meth:`join`; members of a list are told apart by their ``index``."""
        if isinstance(value, str):
            return self.join(value, of) if value else value
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            return {key: self.join_all(part, (*of, key)) for key, part in fields.items()}
        if isinstance(value, list):
            parts = cast("list[Any]", value)
            return [self.join_all(part, (*of, _number(part, at))) for at, part in enumerate(parts)]
        return value


def _number(part: Any, at: int) -> Hashable:
    index: Any = cast("dict[str, Any]", part).get("index") if isinstance(part, dict) else None
    return index if isinstance(index, int) else at


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
