"""What a Gemini candidate has said so far: parts gathered into blocks, with what each carried besides (MDL-2).

Pieces of plain text join; a part that carries a signature stays a block of its own, because the signature is
taken back only on that part. A part of an unknown kind is kept whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from drawbar.contracts.model import Delta
from drawbar.models.gemini_call import GeminiCall
from drawbar.models.halves import Halves
from drawbar.stores.history import well_formed

__all__ = ["GeminiReply", "RawPart", "TextPart"]

Fields = Mapping[str, Any]
Kind = Literal["text", "thinking"]


@dataclass(slots=True)
class TextPart:
    """Text or a thought; without text it is nothing but the signature beside it."""

    kind: Kind
    pieces: list[str] = field(default_factory=list[str])
    beside: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(slots=True)
class RawPart:
    """A part as it came."""

    fields: dict[str, Any]


@dataclass(slots=True)
class GeminiReply:
    """The blocks of one candidate, in order."""

    blocks: list[TextPart | GeminiCall | RawPart] = field(default_factory=list[TextPart | GeminiCall | RawPart])
    _open_call: GeminiCall | None = None
    _halves: Halves = field(default_factory=Halves)

    @property
    def summary(self) -> str:
        """The thoughts, which the service gives as a summary alone."""
        return "".join(one.text for one in self.blocks if isinstance(one, TextPart) and one.kind == "thinking")

    def take(self, part: Fields) -> list[Delta]:
        """One part; what is to be shown of it.

        Raises:
            TypeError: when a part that is known lacks its form.
        """
        call = part.get("functionCall")
        if call is not None:
            if not isinstance(call, Mapping):
                raise TypeError("a function call is no object")
            return self._call(well_formed(call), _rest(part, "functionCall"))
        said = part.get("text")
        if said is not None:
            if not isinstance(said, str):
                raise TypeError("a text is no text")
            return self._say(
                "thinking" if part.get("thought") is True else "text", said, _rest(part, "text", "thought")
            )
        if part:
            self.blocks.append(RawPart(well_formed(dict(part))))
        return []

    def _say(self, kind: Kind, said: str, beside: dict[str, Any]) -> list[Delta]:
        said = self._halves.join(said, of=kind)
        if not said and not beside:
            return []
        last = self.blocks[-1] if self.blocks else None
        if beside or not isinstance(last, TextPart) or last.kind != kind or last.beside:
            last = TextPart(kind, beside=beside)
            self.blocks.append(last)
        if not said:
            return []
        last.pieces.append(said)
        return [Delta("text" if kind == "text" else "reasoning", len(self.blocks) - 1, said)]

    def _call(self, fields: Fields, beside: dict[str, Any]) -> list[Delta]:
        call = self._open_call
        if call is None or fields.get("name"):
            call = GeminiCall()
            self.blocks.append(call)
        call.beside.update(beside)
        call.take(fields)
        self._open_call = None if call.whole else call
        return [Delta("tool_input", self.blocks.index(call), call.text)] if call.whole else []


def _rest(part: Fields, *names: str) -> dict[str, Any]:
    return cast("dict[str, Any]", well_formed({key: value for key, value in part.items() if key not in names}))
