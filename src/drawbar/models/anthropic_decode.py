"""From Anthropic's stream events to deltas and one whole message (MDL-2, MDL-4, QLT-14).

The decoder is pure: events in, deltas out. A reply counts only once ``message_stop`` was read; an event
that can't be read, or that speaks of a block nobody opened, fails the attempt, because skipping it would
lose text silently. An event of a type that isn't known is skipped and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from drawbar.contracts import codec
from drawbar.contracts.events.usage import RequestUsage
from drawbar.contracts.model import Completed, Delta, ToolCallBlock
from drawbar.models.anthropic_blocks import Block, open_block
from drawbar.models.errors import stream_error, transport_error
from drawbar.models.sse import ServerEvent

__all__ = ["PROTOCOL", "ReplyDecoder"]

PROTOCOL: Final = "anthropic-messages"

_STOP_WORDS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
    "refusal": "error",
}
_CUT_BY_LIMIT: Final = frozenset({"max_tokens", "model_context_window_exceeded"})
_IGNORED: Final = frozenset({"ping", "content_block_stop"})


class ReplyDecoder:
    """Reads one reply.

    Attributes:
        finished: the provider's terminal event was read.
        skipped: events, and pieces of known blocks, of unknown type.

    Args:
        status: the HTTP status that the reply came with, for errors.
        request_id: the provider's own, for errors.
    """

    def __init__(self, *, status: int = 200, request_id: str | None = None) -> None:
        self.finished = False
        self.skipped = 0
        self._status = status
        self._request_id = request_id
        self._blocks: list[Block] = []
        self._open: dict[int, Block] = {}
        self._usage: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._stop_reason: str | None = None
        self._explanation: str | None = None
        self._joins_halves = False
        self._halves: dict[tuple[int, str], str] = {}

    def feed(self, event: ServerEvent) -> list[Delta]:
        """The deltas that one event carries.

        Raises:
            ProviderError: the provider reported an error, or the event is unreadable.
        """
        if self.finished:
            return []
        if not event.data:
            self.skipped += event.name not in _IGNORED
            return []
        fields = self._parse(event)
        kind = fields.get("type") or event.name
        try:
            return self._apply(kind, fields)
        except (KeyError, TypeError, AttributeError) as error:
            raise self._unreadable(f"a {kind} event lacks what it must carry ({error})") from error

    def feed_whole(self, message: Mapping[str, Any]) -> list[Delta]:
        """A reply that came as one JSON object, from a server that doesn't stream."""
        if message.get("type") == "error" or message.get("error"):
            raise self._reported(message)
        if not isinstance(message.get("content"), list):
            raise self._unreadable("the reply is no message")
        try:
            deltas = self._begin(dict(message))
        except (KeyError, TypeError, AttributeError) as error:
            raise self._unreadable(f"the message lacks what it must carry ({error})") from error
        self.finished = True
        return deltas

    def end(self) -> None:
        """The end of the stream says nothing here: ``message_stop`` is the terminal event."""

    def usage(self, *, ok: bool) -> RequestUsage | None:
        """What the provider has said so far that it bills; None when it has said nothing (QLT-17).

        Counts in a stream are cumulative: a later value replaced the earlier one (CON-17).
        """
        if not self._usage:
            return None
        written = _count(self._usage, "cache_creation_input_tokens")
        if written is None:
            by_lifetime = [v for v in _mapping(self._usage.get("cache_creation")).values() if type(v) is int]
            written = sum(by_lifetime) if by_lifetime else None
        return RequestUsage(
            input_tokens=_count(self._usage, "input_tokens"),
            cache_read_tokens=_count(self._usage, "cache_read_input_tokens"),
            cache_write_tokens=written,
            output_tokens=_count(self._usage, "output_tokens"),
            reasoning_tokens=_count(_mapping(self._usage.get("output_tokens_details")), "thinking_tokens"),
            model=_text(self._message.get("model")),
            ok=ok,
            raw=dict(self._usage),
        )

    def completed(self, headers: Mapping[str, str] | None = None) -> Completed:
        """The whole reply; only after :attr:`finished`."""
        assert self.finished, "a reply is complete only after its terminal event"
        content: list[dict[str, Any]] = []
        calls: list[ToolCallBlock] = []
        taken: set[str] = set()
        for block in self._blocks:
            entry = block.entry()
            if entry["type"] == "toolCall":
                entry["id"] = _unique(entry["id"], taken)
                calls.append(self._call(block, entry))
            content.append(entry)
        stop = _STOP_WORDS.get(self._stop_reason or "", "stop")
        message: dict[str, Any] = {"role": "assistant", "content": content, "api": PROTOCOL, "stopReason": stop}
        if self._stop_reason is not None:
            message["rawStopReason"] = self._stop_reason
        response_id = _text(self._message.get("id"))
        if response_id:
            message["responseId"] = response_id
        if stop == "error":
            message["errorMessage"] = self._explanation or "the provider refused to answer"
        return Completed(
            message=message,
            calls=tuple(calls),
            stop_reason="refusal" if stop == "error" else stop,
            raw_stop_reason=self._stop_reason,
            usage=self.usage(ok=True) or RequestUsage(),
            skipped=self.skipped,
            headers=headers or {},
        )

    # -- events -----------------------------------------------------------------------------------

    def _parse(self, event: ServerEvent) -> dict[str, Any]:
        try:
            value = codec.loads(event.data)
        except ValueError:
            value = self._parse_mending(event)
        if not isinstance(value, dict):
            raise self._unreadable("an event is no JSON object")
        return cast("dict[str, Any]", value)

    def _parse_mending(self, event: ServerEvent) -> Any:
        """JSON whose only fault is an escaped half of a surrogate pair: servers that cut text by UTF-16 units."""
        import json

        try:
            value = json.loads(event.data.decode("utf-8"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(f"an event is not valid JSON: {error}") from error
        if isinstance(value, dict) and cast("dict[str, Any]", value).get("type") == "content_block_delta":
            self._joins_halves = True
            return cast("Any", value)
        from drawbar.stores.history import well_formed

        return well_formed(value)

    def _join_halves(self, index: int, delta: dict[str, Any]) -> None:
        """Put a character together whose halves came in two pieces; a half without its other is replaced."""
        from drawbar.stores.history import well_formed

        for key, value in delta.items():
            if isinstance(value, str):
                text = self._halves.pop((index, key), "") + value
                if "\ud800" <= text[-1:] <= "\udbff":
                    self._halves[index, key] = text[-1]
                    text = text[:-1]
                delta[key] = well_formed(text)

    def _apply(self, kind: str, fields: dict[str, Any]) -> list[Delta]:
        if kind == "content_block_delta":
            return self._piece(fields["index"], fields["delta"])
        if kind == "content_block_start":
            return self._start(fields["index"], fields["content_block"])
        if kind == "message_start":
            return self._begin(fields["message"])
        if kind == "message_delta":
            delta = fields["delta"]
            self._stop(delta.get("stop_reason"), delta.get("stop_details"))
            self._count_usage(fields.get("usage"))
        elif kind == "message_stop":
            self.finished = True
        elif kind == "error":
            raise self._reported(fields)
        elif kind not in _IGNORED:
            self.skipped += 1
        return []

    def _begin(self, message: dict[str, Any]) -> list[Delta]:
        self._message = message
        self._count_usage(message.get("usage"))
        self._stop(message.get("stop_reason"), message.get("stop_details"))
        deltas: list[Delta] = []
        # Some servers send the event twice, some put whole blocks in it; what was opened already stays.
        if not self._blocks:
            for raw in message.get("content") or ():
                deltas += self._add(raw)
        return deltas

    def _start(self, index: int, raw: dict[str, Any]) -> list[Delta]:
        deltas = self._add(raw)
        self._open[index] = self._blocks[-1]
        return deltas

    def _add(self, raw: dict[str, Any]) -> list[Delta]:
        block = open_block(len(self._blocks), raw, PROTOCOL)
        self._blocks.append(block)
        return block.opening()

    def _piece(self, index: int, delta: dict[str, Any]) -> list[Delta]:
        block = self._open.get(index)
        if block is None:
            raise self._unreadable(f"a piece of block {index} came before the block")
        if self._joins_halves:
            self._join_halves(index, delta)
        piece = block.add(delta)
        if piece is None:
            self.skipped += 1
        return [piece] if piece and piece.text else []

    def _stop(self, reason: Any, details: Any) -> None:
        if isinstance(reason, str):
            self._stop_reason = reason
            self._explanation = _text(_mapping(details).get("explanation"))

    def _count_usage(self, usage: Any) -> None:
        self._usage.update({key: value for key, value in _mapping(usage).items() if value is not None})

    # -- outcomes ---------------------------------------------------------------------------------

    def _call(self, block: Block, entry: dict[str, Any]) -> ToolCallBlock:
        arguments, fault = block.arguments()
        if self._stop_reason in _CUT_BY_LIMIT:
            fault = "the reply was cut off by the output limit, so its arguments may not be whole"
        elif self._stop_reason != "tool_use":
            fault = f"the reply ended with {self._stop_reason or 'no stop reason'}, not with a complete tool call"
        elif not entry["name"]:
            fault = "it names no tool"
        return ToolCallBlock(id=entry["id"], name=entry["name"], arguments=arguments, error=fault)

    def _unreadable(self, what: str) -> Exception:
        return transport_error(
            f"the reply can't be read: {what}",
            status=self._status,
            usage=self.usage(ok=False),
            request_id=self._request_id,
            cause="unreadable_event",
        )

    def _reported(self, payload: Mapping[str, Any]) -> Exception:
        return stream_error(payload, status=self._status, usage=self.usage(ok=False), request_id=self._request_id)


def _unique(call_id: str, taken: set[str]) -> str:
    """``call_id``, or a new one when this reply has used it already or it is empty: pairs must stay matched."""
    name = call_id or "call"
    candidate, number = name, 1
    while candidate in taken or not candidate:
        number += 1
        candidate = f"{name}_{number}"
    taken.add(candidate)
    return candidate


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    value = usage.get(name)
    return value if type(value) is int and value >= 0 else None
