"""From a response's stream events to deltas and one whole message (MDL-2, MDL-4, QLT-14).

The terminal events are ``response.completed`` and ``response.incomplete``; ``response.failed`` and ``error`` fail
the attempt. Items count as their last event states them; pieces are what is shown meanwhile. An event of a type
that isn't known is skipped and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from drawbar.contracts.events.usage import MAX_SUMMARY, RequestUsage
from drawbar.contracts.model import Completed, Delta, ToolCallBlock
from drawbar.models.call_arguments import strict_object, unique_id
from drawbar.models.errors import stream_error, transport_error
from drawbar.models.halves import Halves, loads_halves
from drawbar.models.responses_items import PROTOCOL, Item, Items, Part
from drawbar.models.responses_usage import responses_usage
from drawbar.models.sse import ServerEvent

__all__ = ["PROTOCOL", "ResponsesDecoder"]

_PIECES: Final[dict[str, tuple[str, str]]] = {
    "response.output_text.delta": ("text", "content_index"),
    "response.refusal.delta": ("refusal", "content_index"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index"),
    "response.reasoning_text.delta": ("reasoning", "content_index"),
    "response.function_call_arguments.delta": ("input", ""),
    "response.custom_tool_call_input.delta": ("input", ""),
}
_BEGUN: Final = frozenset({"response.created", "response.queued", "response.in_progress"})
_ENDS: Final = frozenset({"response.completed", "response.incomplete"})
_FAILED: Final = frozenset({"response.failed", "response.cancelled"})
_REPEATS: Final = frozenset(
    {
        "response.content_part.added",
        "response.content_part.done",
        "response.output_text.done",
        "response.output_text.annotation.added",
        "response.refusal.done",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
        "response.reasoning_summary_text.done",
        "response.reasoning_text.done",
        "response.function_call_arguments.done",
        "response.custom_tool_call_input.done",
        "keepalive",
    }
)
"""Events that say what the item says once more when it is done."""
_PROGRESS: Final = (
    "response.web_search_call.",
    "response.file_search_call.",
    "response.code_interpreter_call",
    "response.image_generation_call.",
    "response.mcp_",
    "response.shell_call",
    "response.apply_patch_call",
)
"""Beginnings of events about tools that the provider runs itself, whose items are kept when they are done."""

_STOP_WORDS: Final = {"completed": "stop", "max_output_tokens": "length", "content_filter": "error"}


class ResponsesDecoder:
    """Reads one reply (a :class:`~drawbar.models.client.Decoder`).

    Args:
        status: the HTTP status that the reply came with, for errors.
        request_id: the provider's own, for errors.
    """

    def __init__(self, *, status: int = 200, request_id: str | None = None) -> None:
        self.finished = False
        self.skipped = 0
        self._status = status
        self._request_id = request_id
        self._items = Items()
        self._response: Mapping[str, Any] = {}
        self._usage: Mapping[str, Any] = {}
        self._halves = Halves()

    def feed(self, event: ServerEvent) -> list[Delta]:
        data = event.data.strip()
        if self.finished or not data or data == b"[DONE]":
            return []
        try:
            value: Any = loads_halves(data)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(f"an event is not valid JSON: {error}") from error
        if not isinstance(value, dict):
            raise self._unreadable("an event is no JSON object")
        fields = cast("dict[str, Any]", value)
        kind = fields.get("type")
        return self._apply(kind if isinstance(kind, str) else event.name, fields)

    def feed_whole(self, message: Mapping[str, Any]) -> list[Delta]:
        if message.get("error") or message.get("status") in ("failed", "cancelled"):
            raise self._reported(message)
        if not isinstance(message.get("output"), list) and not isinstance(message.get("status"), str):
            raise self._unreadable("the reply is no response")
        return self._end(message)

    def end(self) -> None:
        """The end of the stream says nothing here."""

    def usage(self, *, ok: bool) -> RequestUsage | None:
        return responses_usage(self._usage, model=self._model, ok=ok) if self._usage else None

    def completed(self, headers: Mapping[str, str] | None = None) -> Completed:
        assert self.finished, "a reply is complete only after its terminal event"
        content: list[dict[str, Any]] = []
        calls: list[ToolCallBlock] = []
        taken: set[str] = set()
        for item, entry in self._items.entries():
            if entry["type"] == "toolCall":
                entry["id"] = unique_id(entry["id"], taken)
                call = self._call(item, entry)
                # A custom tool's text isn't JSON; kept as a field, it survives whatever reads the history.
                custom = item.kind == "custom_tool_call"
                entry["arguments"] = {"input": call.arguments} if custom else call.arguments
                calls.append(call)
            content.append(entry)
        raw, refusal = self._reason, self._refusal()
        stop = "error" if refusal else _STOP_WORDS.get(raw or "", "error")
        if stop == "stop" and calls:
            stop = "toolUse"
        message: dict[str, Any] = {"role": "assistant", "content": content, "api": PROTOCOL, "stopReason": stop}
        if raw is not None:
            message["rawStopReason"] = raw
        if response_id := _text(self._response, "id"):
            message["responseId"] = response_id
        if stop == "error":
            message["errorMessage"] = refusal or f"the provider ended the reply as {raw or 'nothing it named'}"
        usage = self.usage(ok=True) or RequestUsage(model=self._model)
        usage.reasoning_summary = self._summary()
        return Completed(
            message=message,
            calls=tuple(calls),
            stop_reason="refusal" if refusal else stop,
            raw_stop_reason=raw,
            usage=usage,
            skipped=self.skipped,
            headers=headers or {},
        )

    # -- events -----------------------------------------------------------------------------------

    def _apply(self, kind: str, fields: dict[str, Any]) -> list[Delta]:
        piece = _PIECES.get(kind)
        if piece is not None:
            return self._piece(kind, fields, cast("Part", (piece[0], _index(fields, piece[1]))))
        from drawbar.stores.history import well_formed

        fields = well_formed(fields)
        if kind == "response.output_item.added":
            self._items.open(fields.get("output_index"), self._part(kind, fields, "item"))
        elif kind == "response.output_item.done":
            raw = self._part(kind, fields, "item")
            item = self._items.find(fields) or self._items.open(fields.get("output_index"), raw)
            return self._items.close(item, raw)
        elif kind in _ENDS:
            return self._end(self._part(kind, fields, "response"))
        elif kind in _FAILED:
            raise self._reported(self._part(kind, fields, "response"))
        elif kind == "error" or (kind == "" and fields.get("error")):
            raise self._reported(fields)
        elif kind in _BEGUN:
            self._take(self._part(kind, fields, "response"))
        elif kind not in _REPEATS and not kind.startswith(_PROGRESS):
            self.skipped += 1
        return []

    def _piece(self, kind: str, fields: Mapping[str, Any], part: Part) -> list[Delta]:
        item, text = self._items.find(fields), fields.get("delta")
        if item is None:
            raise self._unreadable(f"a {kind} event speaks of an item that wasn't begun")
        if not isinstance(text, str):
            raise self._unreadable(f"a {kind} event holds no text")
        return self._items.say(item, part, self._halves.join(text, (id(item), part))) if text else []

    def _take(self, response: Mapping[str, Any]) -> None:
        self._response = response
        usage = response.get("usage")
        if isinstance(usage, Mapping) and usage:
            self._usage = cast("Mapping[str, Any]", usage)

    def _end(self, response: Mapping[str, Any]) -> list[Delta]:
        self._take(response)
        deltas = self._items.close_all(response.get("output"))
        self.finished = True
        return deltas

    def _part(self, kind: str, fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        value = fields.get(name)
        if not isinstance(value, Mapping):
            raise self._unreadable(f"a {kind} event lacks its {name}")
        return cast("Mapping[str, Any]", value)

    # -- outcomes ---------------------------------------------------------------------------------

    @property
    def _model(self) -> str | None:
        return _text(self._response, "model")

    @property
    def _reason(self) -> str | None:
        """The provider's word for the end: why it is incomplete, else the status."""
        details = self._response.get("incomplete_details")
        reason = _text(cast("Mapping[str, Any]", details), "reason") if isinstance(details, Mapping) else None
        return reason or _text(self._response, "status")

    def _refusal(self) -> str:
        said = "".join(item.text("refusal") for item, part in self._items.blocks if part == 0)
        if not said and self._reason == "content_filter":
            return "the provider's filter stopped the answer"
        return said

    def _summary(self) -> str | None:
        """The provider's explicit summary alone, never raw reasoning (CON-19)."""
        parts = [text for item, at in self._items.blocks if at == 0 for text in item.texts("summary")]
        return "\n\n".join(parts)[:MAX_SUMMARY] or None

    def _call(self, item: Item, entry: Mapping[str, Any]) -> ToolCallBlock:
        arguments: Any = item.text("input")
        if item.kind == "custom_tool_call":
            fault = "it calls a custom tool, whose input is free text"
        else:
            arguments, fault = strict_object(arguments)
        if self._reason == "max_output_tokens":
            fault = "the reply was cut off by the output limit, so its arguments may not be whole"
        elif self._reason != "completed" or item.raw.get("status") in ("incomplete", "in_progress"):
            fault = f"the reply ended with {self._reason or 'no status'}, not with a complete tool call"
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

    def _reported(self, fields: Mapping[str, Any]) -> Exception:
        self._take(fields)
        if not fields.get("error"):
            # The event has its code where others have the type; a response may have failed without a word.
            said = fields.get("message") or f"the response is {fields.get('status') or 'in error'}"
            fields = {"error": {"type": fields.get("code"), "message": said}}
        return stream_error(fields, status=self._status, usage=self.usage(ok=False), request_id=self._request_id)


def _index(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name) if name else 0
    return value if isinstance(value, int) else 0


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) and value else None
