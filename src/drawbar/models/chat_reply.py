"""What a chat completion has said so far: text, reasoning, refusal and calls, gathered from pieces (MDL-2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from drawbar.contracts import codec
from drawbar.contracts.model import Delta

__all__ = ["REASONING_FIELDS", "CallPieces", "ChatReply"]

REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
"""Where servers put reasoning; the one that was used is where it goes back to."""

Fields = Mapping[str, Any]


@dataclass(slots=True)
class CallPieces:
    """One tool call while it streams; ``block`` is its position among the message's blocks."""

    block: int
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(slots=True)
class ChatReply:
    """The blocks of one choice, in the order in which they began.

    ``order`` holds ``text``, ``thinking`` and the calls; ``reasoning_field`` is where reasoning came from, and
    ``details`` what came with it in parts that have to go back as they are.
    """

    text: list[str] = field(default_factory=list[str])
    reasoning: list[str] = field(default_factory=list[str])
    refusal: list[str] = field(default_factory=list[str])
    details: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    order: list[str | CallPieces] = field(default_factory=list[str | CallPieces])
    reasoning_field: str = ""
    _by_index: dict[Any, CallPieces] = field(default_factory=dict[Any, CallPieces])

    @property
    def calls(self) -> list[CallPieces]:
        return [one for one in self.order if isinstance(one, CallPieces)]

    def take(self, fields: Fields) -> list[Delta]:
        """One delta, or one whole message, of the choice; what is to be shown of it."""
        deltas: list[Delta] = []
        for name in REASONING_FIELDS:
            said = fields.get(name)
            if isinstance(said, str) and said:
                self.reasoning_field = self.reasoning_field or name
                if name == self.reasoning_field:
                    deltas += self._say("thinking", said)
        self._take_details(fields.get("reasoning_details"), deltas)
        deltas += self._content(fields.get("content"))
        refusal = fields.get("refusal")
        if isinstance(refusal, str) and refusal:
            self.refusal.append(refusal)
        for call in _objects(fields.get("tool_calls")):
            deltas += self._call(call)
        if (legacy := codec.as_object(fields.get("function_call"))) is not None:
            deltas += self._call({"index": "legacy", "function": legacy})
        return deltas

    def _content(self, content: Any) -> list[Delta]:
        if isinstance(content, str):
            return self._say("text", content)
        deltas: list[Delta] = []
        for part in _objects(content):
            if part.get("type") == "thinking":
                inner = part.get("thinking")
                said = inner if isinstance(inner, str) else "".join(str(one.get("text", "")) for one in _objects(inner))
                self.reasoning_field = self.reasoning_field or "content"
                deltas += self._say("thinking", said)
            elif isinstance(part.get("text"), str):
                deltas += self._say("text", part["text"])
        return deltas

    def _say(self, kind: str, said: str) -> list[Delta]:
        if not said:
            return []
        (self.text if kind == "text" else self.reasoning).append(said)
        if kind not in self.order:
            self.order.append(kind)
        return [Delta("text" if kind == "text" else "reasoning", self.order.index(kind), said)]

    def _take_details(self, details: Any, deltas: list[Delta]) -> None:
        for detail in _objects(details):
            piece = dict(detail)
            known = self._fitting(piece)
            if known is None:
                self.details.append(piece)
            else:
                for key, value in piece.items():
                    joins = key in ("text", "summary", "data") and isinstance(value, str)
                    known[key] = known.get(key, "") + value if joins and isinstance(known.get(key, ""), str) else value
            said = piece.get("text") or piece.get("summary")
            if isinstance(said, str) and said and self.reasoning_field in ("", "reasoning_details"):
                self.reasoning_field = "reasoning_details"
                deltas += self._say("thinking", said)

    def _fitting(self, piece: Fields) -> dict[str, Any] | None:
        """The part that ``piece`` goes on with: the last one of its index and kind."""
        index, kind = piece.get("index"), piece.get("type")
        if index is None:
            return None
        return next(
            (one for one in reversed(self.details) if (one.get("index"), one.get("type")) == (index, kind)), None
        )

    def _call(self, fields: Fields) -> list[Delta]:
        inner = codec.as_object(fields.get("function")) or {}
        call = self._open(fields)
        name, arguments = inner.get("name"), inner.get("arguments")
        if (given := codec.as_object(arguments)) is not None:
            arguments = codec.encode(given).decode()
        # Some servers repeat the name in every piece, some send it in pieces.
        if isinstance(name, str) and name and name != call.name:
            call.name += name
        if not isinstance(arguments, str) or not arguments:
            return []
        call.pieces.append(arguments)
        return [Delta("tool_input", call.block, arguments)]

    def _open(self, fields: Fields) -> CallPieces:
        """The call that a piece belongs to: by index, by id where there is none, else the last."""
        given = fields.get("id")
        call_id = given if isinstance(given, str) else ""
        index = fields.get("index")
        if index is None:
            index = ("id", call_id) if call_id else next(reversed(self._by_index), ("id", ""))
        call = self._by_index.get(index)
        if call is None or (call_id and call.id and call_id != call.id):
            call = self._by_index[index] = CallPieces(len(self.order))
            self.order.append(call)
        call.id = call.id or call_id
        return call


def _objects(value: Any) -> Iterable[Fields]:
    if not isinstance(value, list):
        return ()
    return (cast("Fields", one) for one in cast("list[Any]", value) if isinstance(one, Mapping))
