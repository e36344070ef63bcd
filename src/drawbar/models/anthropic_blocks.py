"""The content blocks of an Anthropic reply while they stream, each giving its history entry at the end (MDL-2).

Text, thinking and tool calls are modelled. Fields of theirs that are not stay beside them in
``providerFields``, and a block of any other type is kept whole as a ``providerBlock``; the encoder sends both
back unchanged.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, cast

from drawbar.contracts import codec
from drawbar.contracts.model import Delta

__all__ = ["HIDDEN_REASONING", "PROVIDER_FIELDS", "Block", "open_block"]

PROVIDER_FIELDS: Final = "providerFields"
HIDDEN_REASONING: Final = "[Reasoning redacted]"
"""The readable stand-in for encrypted reasoning, as the history format has it."""


class Block:
    """One block at its position in the message; pieces are collected and joined once."""

    modelled: ClassVar[frozenset[str]] = frozenset({"type"})

    def __init__(self, position: int, raw: dict[str, Any]) -> None:
        self._position = position
        self._raw = raw

    def opening(self) -> list[Delta]:
        """What the block already holds when it starts."""
        return []

    def add(self, delta: dict[str, Any]) -> Delta | None:
        """Take one piece; the delta to show, empty when there is nothing to show, None when it isn't known."""
        raise NotImplementedError

    def entry(self) -> dict[str, Any]:
        """The block in history form."""
        raise NotImplementedError

    def arguments(self) -> tuple[Any, str | None]:
        """``(arguments, fault)`` of a tool call."""
        raise NotImplementedError

    def _with_rest(self, entry: dict[str, Any]) -> dict[str, Any]:
        rest = {k: v for k, v in self._raw.items() if k not in self.modelled and v is not None and v != []}
        if rest:
            entry[PROVIDER_FIELDS] = rest
        return entry


class _Text(Block):
    modelled = frozenset({"type", "text"})

    def __init__(self, position: int, raw: dict[str, Any]) -> None:
        super().__init__(position, raw)
        self._pieces: list[str] = [_text(raw, "text")]

    def opening(self) -> list[Delta]:
        return [Delta("text", self._position, self._pieces[0])] if self._pieces[0] else []

    def add(self, delta: dict[str, Any]) -> Delta | None:
        kind = delta["type"]
        if kind == "text_delta":
            piece = _text(delta, "text")
            self._pieces.append(piece)
            return Delta("text", self._position, piece)
        if kind == "citations_delta":
            citations = cast("list[Any]", self._raw.get("citations") or [])
            self._raw["citations"] = [*citations, delta["citation"]]
            return Delta("text", self._position, "")
        return None

    def entry(self) -> dict[str, Any]:
        return self._with_rest({"type": "text", "text": "".join(self._pieces)})


class _Thinking(Block):
    modelled = frozenset({"type", "thinking", "signature"})

    def __init__(self, position: int, raw: dict[str, Any]) -> None:
        super().__init__(position, raw)
        self._pieces: list[str] = [_text(raw, "thinking")]
        self._signature: list[str] = [_text(raw, "signature")]

    def opening(self) -> list[Delta]:
        return [Delta("reasoning", self._position, self._pieces[0])] if self._pieces[0] else []

    def add(self, delta: dict[str, Any]) -> Delta | None:
        kind = delta["type"]
        if kind == "thinking_delta":
            piece = _text(delta, "thinking")
            self._pieces.append(piece)
            return Delta("reasoning", self._position, piece)
        if kind == "signature_delta":
            self._signature.append(_text(delta, "signature"))
            return Delta("reasoning", self._position, "")
        return None

    def entry(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": "thinking", "thinking": "".join(self._pieces)}
        signature = "".join(self._signature)
        if signature:
            entry["thinkingSignature"] = signature
        return self._with_rest(entry)


class _HiddenThinking(Block):
    modelled = frozenset({"type", "data"})

    def add(self, delta: dict[str, Any]) -> Delta | None:
        return None

    def entry(self) -> dict[str, Any]:
        entry = {"type": "thinking", "thinking": HIDDEN_REASONING, "redacted": True}
        return self._with_rest({**entry, "thinkingSignature": _text(self._raw, "data")})


class _ToolUse(Block):
    modelled = frozenset({"type", "id", "name", "input"})

    def __init__(self, position: int, raw: dict[str, Any]) -> None:
        super().__init__(position, raw)
        if raw.get("caller") == {"type": "direct"}:
            # The default, said aloud; older servers refuse to read it back.
            del raw["caller"]
        self._pieces: list[str] = []
        self._parsed: tuple[Any, str | None] | None = None

    def add(self, delta: dict[str, Any]) -> Delta | None:
        if delta["type"] != "input_json_delta":
            return None
        piece = _text(delta, "partial_json")
        self._pieces.append(piece)
        return Delta("tool_input", self._position, piece)

    def arguments(self) -> tuple[Any, str | None]:
        """The parsed object, or the text as it came and why it may not run (QLT-14)."""
        if self._parsed is None:
            self._parsed = _strict_object("".join(self._pieces), self._raw.get("input"))
        return self._parsed

    def entry(self) -> dict[str, Any]:
        arguments, fault = self.arguments()
        entry: dict[str, Any] = {
            "type": "toolCall",
            "id": _text(self._raw, "id"),
            "name": _text(self._raw, "name"),
            "arguments": {} if fault else arguments,
        }
        return self._with_rest(entry)


class _Unmodelled(Block):
    """A block of a type that isn't modelled, rebuilt as the server would have sent it whole."""

    def __init__(self, position: int, raw: dict[str, Any], protocol: str) -> None:
        super().__init__(position, raw)
        self._protocol = protocol
        self._input: list[str] = []

    def add(self, delta: dict[str, Any]) -> Delta | None:
        if delta["type"] == "input_json_delta":
            self._input.append(_text(delta, "partial_json"))
        else:
            self._merge(delta)
        return Delta("tool_input", self._position, "")

    def entry(self) -> dict[str, Any]:
        raw = dict(self._raw)
        if any(self._input):
            arguments, fault = _strict_object("".join(self._input), None)
            raw["input"] = {} if fault else arguments
        return {"type": "providerBlock", "protocol": self._protocol, "raw": raw}

    def _merge(self, delta: dict[str, Any]) -> None:
        """Strings and lists grow, anything else is replaced: how every delta of this protocol is meant."""
        for key, value in delta.items():
            if key == "type":
                continue
            if key == "citation":
                key, value = "citations", [value]
            held = self._raw.get(key)
            grows = (isinstance(held, str) and isinstance(value, str)) or (
                isinstance(held, list) and isinstance(value, list)
            )
            self._raw[key] = cast("Any", held) + value if grows else value


def open_block(position: int, raw: dict[str, Any], protocol: str) -> Block:
    """A block from its ``content_block``; ``raw`` is taken over.

    Raises:
        KeyError, TypeError, AttributeError: when it is not a block at all.
    """
    kind = raw["type"]
    if kind == "text":
        return _Text(position, raw)
    if kind == "tool_use":
        return _ToolUse(position, raw)
    if kind == "thinking":
        return _Thinking(position, raw)
    if kind == "redacted_thinking":
        return _HiddenThinking(position, raw)
    return _Unmodelled(position, raw, protocol)


def _strict_object(text: str, at_start: Any) -> tuple[Any, str | None]:
    """Arguments from the streamed text, or those that came with the block when no text followed."""
    nothing: dict[str, Any] = {}
    value = nothing if at_start in (None, "") else at_start
    if text:
        try:
            value = codec.loads(text)
        except ValueError as error:
            return text, f"its arguments are not valid JSON ({error})"
        except RecursionError:
            return text, "its arguments are nested too deeply"
    if not isinstance(value, dict):
        return value, "its arguments are not a JSON object"
    return cast("dict[str, Any]", value), None


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"{name} is not text")
    return value
