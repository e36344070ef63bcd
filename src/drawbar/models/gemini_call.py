"""A function call of Gemini's, whole in one part or in pieces that name a place in its arguments (QLT-14)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from drawbar.contracts import codec

__all__ = ["GeminiCall"]

_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d{1,6})\]|\[['\"]([^'\"\]]*)['\"]\]")
_VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue")

Fields = Mapping[str, Any]


@dataclass(slots=True)
class GeminiCall:
    """One call while it streams.

    Attributes:
        beside: what its part carried besides, such as a thought signature.
        whole: no further piece was announced.
        fault: why its arguments can't be used, if they can't.
    """

    id: str = ""
    name: str = ""
    beside: dict[str, Any] = field(default_factory=dict[str, Any])
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    whole: bool = False
    fault: str | None = None
    _growing: set[str] = field(default_factory=set[str])

    @property
    def text(self) -> str:
        return codec.encode(self.arguments).decode()

    def take(self, fields: Fields) -> None:
        """The call, or its next piece."""
        self.id = self.id or _text(fields.get("id"))
        self.name = self.name or _text(fields.get("name"))
        given = fields.get("args")
        if isinstance(given, Mapping):
            self.arguments.update(cast("Fields", given))
        elif given is not None:
            self.fault = "its arguments are no JSON object"
        pieces: Any = fields.get("partialArgs")
        for piece in cast("list[Any]", pieces) if isinstance(pieces, list) else ():
            if not (isinstance(piece, Mapping) and self._put(cast("Fields", piece))):
                self.fault = "its arguments came in pieces that don't fit together"
        self.whole = fields.get("willContinue") is not True

    def _put(self, piece: Fields) -> bool:
        path = _text(piece.get("jsonPath"))
        steps = _steps(path)
        kind = next((name for name in _VALUES if name in piece), None)
        if not steps or kind is None:
            return False
        value = None if kind == "nullValue" else piece[kind]
        holder: Any = self.arguments
        for step, after in zip(steps, [*steps[1:], None], strict=True):
            if not _has_room(holder, step):
                return False
            if after is None:
                before = _at(holder, step) if path in self._growing else None
                holder[step] = before + value if isinstance(before, str) and isinstance(value, str) else value
            else:
                if _at(holder, step) is None:
                    holder[step] = [] if isinstance(after, int) else {}
                holder = holder[step]
        (self._growing.add if piece.get("willContinue") is True else self._growing.discard)(path)
        return True


def _steps(path: str) -> list[str | int]:
    """``$.a[0]['b']`` as keys and indexes; empty for what isn't such a path."""
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            return []
        steps.append(int(match[2]) if match[2] is not None else match[1] if match[1] is not None else match[3])
        at = match.end()
    return steps if path.startswith("$") else []


def _has_room(holder: Any, step: str | int) -> bool:
    """Whether ``step`` leads into ``holder``; a list grows by one at its end, as its items come."""
    if isinstance(step, str):
        return isinstance(holder, dict)
    if not isinstance(holder, list) or step > len(cast("list[Any]", holder)):
        return False
    if step == len(cast("list[Any]", holder)):
        cast("list[Any]", holder).append(None)
    return True


def _at(holder: Any, step: str | int) -> Any:
    return holder.get(step) if isinstance(step, str) else holder[step]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
