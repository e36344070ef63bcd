"""The output items of a response while they stream, and the history blocks that they become (MDL-2).

Messages, reasoning and calls are modelled; an item of any other type is kept whole as a ``providerBlock``. Each
item is one block, in the order in which the items began; only the further parts of a reasoning summary are
blocks of their own, as they are paragraphs of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from drawbar.contracts import codec
from drawbar.contracts.model import Delta

__all__ = ["PROTOCOL", "Item", "Items"]

PROTOCOL: Final = "openai-responses"
Kind = Literal["text", "refusal", "summary", "reasoning", "input"]
Part = tuple[Kind, int]

_SHOWN: Final[dict[str, Literal["text", "reasoning", "tool_input"]]] = {
    "text": "text",
    "summary": "reasoning",
    "reasoning": "reasoning",
    "input": "tool_input",
}
_PART_KINDS: Final[dict[str, tuple[Kind, str]]] = {
    "output_text": ("text", "text"),
    "refusal": ("refusal", "refusal"),
    "summary_text": ("summary", "text"),
    "reasoning_text": ("reasoning", "text"),
}
_INPUTS: Final = {"function_call": "arguments", "custom_tool_call": "input"}

Fields = Mapping[str, Any]


@dataclass(slots=True)
class Item:
    """One output item; ``raw`` is the latest the provider said of it as a whole, ``done`` whether that is all."""

    raw: dict[str, Any]
    done: bool = False
    streamed: dict[Part, list[str]] = field(default_factory=dict[Part, list[str]])

    @property
    def kind(self) -> str:
        return str(self.raw.get("type"))

    @property
    def summarised(self) -> bool:
        """Whether a summary was given, which is shown in place of raw reasoning."""
        return any(kind == "summary" for kind, _ in self.streamed)

    def stated(self) -> Iterator[tuple[Part, str]]:
        """The texts that ``raw`` holds, each with its place."""
        where = _INPUTS.get(self.kind)
        if where is not None:
            yield ("input", 0), _text(self.raw, where)
        for name in ("content", "summary"):
            for at, part in enumerate(_objects(self.raw.get(name))):
                known = _PART_KINDS.get(str(part.get("type")))
                if known is not None:
                    yield (known[0], at), _text(part, known[1])

    def texts(self, kind: Kind) -> list[str]:
        """What was said of ``kind``, part by part: as stated at the end, else as it streamed."""
        said = {part: "".join(pieces) for part, pieces in self.streamed.items()}
        said |= {part: text for part, text in self.stated() if text}
        return [said[part] for part in sorted(said) if part[0] == kind]

    def text(self, kind: Kind) -> str:
        return "".join(self.texts(kind))


@dataclass(slots=True)
class Items:
    """All items of one response.

    ``blocks`` says for each block of the message which item it is of, and which part of its summary.
    """

    blocks: list[tuple[Item, int]] = field(default_factory=list[tuple[Item, int]])
    _by_index: dict[int, Item] = field(default_factory=dict[int, Item])

    def find(self, fields: Fields) -> Item | None:
        """The item that an event speaks of: by its index, by its id where there is none."""
        index = fields.get("output_index")
        if isinstance(index, int):
            return self._by_index.get(index)
        wanted = fields.get("item_id")
        return next((item for item in self._by_index.values() if wanted and item.raw.get("id") == wanted), None)

    def open(self, index: Any, raw: Fields) -> Item:
        item = Item(dict(raw))
        self._by_index[index if isinstance(index, int) else len(self._by_index)] = item
        self.blocks.append((item, 0))
        return item

    def close(self, item: Item, raw: Fields) -> list[Delta]:
        """The item as a whole; the deltas of what hadn't streamed."""
        item.raw, item.done = dict(raw), True
        deltas: list[Delta] = []
        for part, text in item.stated():
            if part not in item.streamed:
                deltas += self.say(item, part, text)
        return deltas

    def close_all(self, output: Any) -> list[Delta]:
        """What the end of the response lists: for what didn't stream, or didn't to its end."""
        nothing_streamed = not self._by_index
        deltas: list[Delta] = []
        for at, raw in enumerate(_objects(output)):
            item = self._listed(at, raw)
            if item is None and nothing_streamed:
                item = self.open(at, raw)
            if item is not None and not item.done:
                deltas += self.close(item, raw)
        return deltas

    def say(self, item: Item, part: Part, text: str) -> list[Delta]:
        """Take one piece of a text; the delta to show, if it is to be shown."""
        item.streamed.setdefault(part, []).append(text)
        shown = _SHOWN.get(part[0])
        if not text or shown is None or (part[0] == "reasoning" and item.summarised):
            return []
        return [Delta(shown, self._block(item, part[1] if part[0] == "summary" else 0), text)]

    def entries(self) -> Iterator[tuple[Item, dict[str, Any]]]:
        """The blocks in history form, each with its item."""
        for item, part in self.blocks:
            yield item, (_further(item, part) if part else _entry(item))

    def _listed(self, at: int, raw: Fields) -> Item | None:
        named = self.find({"item_id": raw.get("id")})
        beside = self._by_index.get(at)
        return named or (beside if beside is not None and beside.kind == raw.get("type") else None)

    def _block(self, item: Item, part: int) -> int:
        for at, (held, number) in enumerate(self.blocks):
            if held is item and number == part:
                return at
        self.blocks.append((item, part))
        return len(self.blocks) - 1


def _entry(item: Item) -> dict[str, Any]:
    if item.kind == "message" and (item.text("text") or not item.text("refusal")):
        return _message(item)
    if item.kind == "reasoning":
        summary = item.texts("summary")
        said = summary[0] if summary else item.text("reasoning")
        whole = {key: value for key, value in item.raw.items() if value is not None}
        # The whole item, as this history format keeps reasoning of this protocol; its provider wants it unchanged.
        return {"type": "thinking", "thinking": said, "thinkingSignature": codec.encode(whole).decode()}
    if item.kind in _INPUTS:
        return _call(item)
    return {"type": "providerBlock", "protocol": PROTOCOL, "raw": item.raw}


def _further(item: Item, part: int) -> dict[str, Any]:
    summary = item.texts("summary")
    return {"type": "thinking", "thinking": summary[part] if part < len(summary) else ""}


def _message(item: Item) -> dict[str, Any]:
    rest: dict[str, Any] = {key: item.raw[key] for key in ("id", "phase") if item.raw.get(key) is not None}
    parts = [
        {key: value for key, value in part.items() if key != "logprobs"} for part in _objects(item.raw.get("content"))
    ]
    if len(parts) > 1:
        rest["content"] = parts
    elif parts and parts[0].get("annotations"):
        rest["annotations"] = parts[0]["annotations"]
    entry: dict[str, Any] = {"type": "text", "text": item.text("text")}
    return {**entry, "providerFields": rest} if rest else entry


def _call(item: Item) -> dict[str, Any]:
    modelled = {"call_id", "name", "status", _INPUTS[item.kind]}
    if item.kind == "function_call":
        modelled.add("type")
    rest = {key: value for key, value in item.raw.items() if key not in modelled and value is not None}
    entry: dict[str, Any] = {
        "type": "toolCall",
        "id": _text(item.raw, "call_id") or _text(item.raw, "id"),
        "name": _text(item.raw, "name"),
        "arguments": {},
    }
    return {**entry, "providerFields": rest} if rest else entry


def _objects(value: Any) -> Iterator[Fields]:
    if isinstance(value, list):
        yield from (cast("Fields", one) for one in cast("list[Any]", value) if isinstance(one, Mapping))


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
