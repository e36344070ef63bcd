"""From chat completion chunks to deltas and one whole message (MDL-2, MDL-4, QLT-14).

The terminal sign is ``[DONE]``; a server that doesn't send it has said the end with a finish reason. Only the
first choice is read. Whatever is beside it (filters, log probabilities, timings) is known and not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from drawbar.contracts.events.usage import RequestUsage
from drawbar.contracts.model import Completed, Delta, ToolCallBlock
from drawbar.models.call_arguments import strict_object, unique_id
from drawbar.models.chat_reply import CallPieces, ChatReply
from drawbar.models.chat_usage import chat_usage
from drawbar.models.errors import stream_error, transport_error
from drawbar.models.halves import Halves, loads_halves
from drawbar.models.sse import ServerEvent

__all__ = ["PROTOCOL", "ChatDecoder"]

PROTOCOL: Final = "openai-chat"

_STOP_WORDS: Final = {
    "stop": "stop",
    "eos": "stop",
    "length": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
    "content_filter": "error",
}
_COMPLETE: Final = frozenset({"tool_calls", "function_call", "stop", "eos"})
"""Reasons that say a call is whole: some servers end naturally after one (``stop``)."""


class ChatDecoder:
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
        self._reply = ChatReply()
        self._usage: Mapping[str, Any] = {}
        self._id: str | None = None
        self._model: str | None = None
        self._finish: str | None = None
        self._halves = Halves()

    def feed(self, event: ServerEvent) -> list[Delta]:
        if self.finished:
            return []
        data = event.data.strip()
        if data == b"[DONE]":
            self.finished = True
            return []
        if not data:
            return []
        return self._take(self._parse(data), "delta")

    def feed_whole(self, message: Mapping[str, Any]) -> list[Delta]:
        if "choices" not in message and not message.get("error"):
            raise self._unreadable("the reply is no chat completion")
        deltas = self._take(message, "message")
        self.finished = True
        return deltas

    def end(self) -> None:
        """Without ``[DONE]`` a finish reason is the terminal sign."""
        self.finished = self.finished or self._finish is not None

    def usage(self, *, ok: bool) -> RequestUsage | None:
        return chat_usage(self._usage, model=self._model, ok=ok) if self._usage else None

    def completed(self, headers: Mapping[str, str] | None = None) -> Completed:
        assert self.finished, "a reply is complete only after its terminal event"
        reply = self._reply
        content: list[dict[str, Any]] = []
        calls: list[ToolCallBlock] = []
        taken: set[str] = set()
        for one in reply.order:
            if isinstance(one, CallPieces):
                call = self._call(one, taken)
                calls.append(call)
                content.append({"type": "toolCall", "id": call.id, "name": call.name, "arguments": call.arguments})
            elif one == "text":
                content.append({"type": "text", "text": "".join(reply.text)})
            else:
                content.append(self._thinking())
        if reply.details and "thinking" not in reply.order:
            content.insert(0, self._thinking())
        refused = bool(reply.refusal) or self._finish == "content_filter"
        stop = "error" if refused else _STOP_WORDS.get(self._finish or "", "toolUse" if calls else "stop")
        message: dict[str, Any] = {"role": "assistant", "content": content, "api": PROTOCOL, "stopReason": stop}
        if self._finish is not None:
            message["rawStopReason"] = self._finish
        if self._id:
            message["responseId"] = self._id
        if refused:
            message["errorMessage"] = "".join(reply.refusal) or "the provider's filter stopped the answer"
        return Completed(
            message=message,
            calls=tuple(calls),
            stop_reason="refusal" if refused else stop,
            raw_stop_reason=self._finish,
            usage=self.usage(ok=True) or RequestUsage(model=self._model),
            skipped=self.skipped,
            headers=headers or {},
        )

    # -- pieces -----------------------------------------------------------------------------------

    def _parse(self, data: bytes) -> Mapping[str, Any]:
        try:
            value = loads_halves(data)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(f"an event is not valid JSON: {error}") from error
        if not isinstance(value, dict):
            raise self._unreadable("an event is no JSON object")
        fields = cast("dict[str, Any]", value)
        from drawbar.stores.history import well_formed

        # Only what is said comes in pieces whose halves are still to be joined.
        return {name: part if name == "choices" else well_formed(part) for name, part in fields.items()}

    def _take(self, fields: Mapping[str, Any], part: str) -> list[Delta]:
        if fields.get("error"):
            self._count(fields)
            raise stream_error(fields, status=self._status, usage=self.usage(ok=False), request_id=self._request_id)
        self._id = self._id or _text(fields.get("id"))
        self._model = self._model or _text(fields.get("model"))
        self._count(fields)
        choices = fields.get("choices")
        if not isinstance(choices, list):
            self.skipped += not ("usage" in fields or "x_groq" in fields)
            return []
        for choice in cast("list[Any]", choices):
            if not isinstance(choice, Mapping):
                raise self._unreadable("a choice is no object")
            chosen = cast("Mapping[str, Any]", self._halves.join_all(choice))
            if chosen.get("index", 0) == 0:
                return self._choose(chosen, part)
        return []

    def _choose(self, choice: Mapping[str, Any], part: str) -> list[Delta]:
        said = choice.get(part)
        if said is None:
            said = choice.get("delta" if part == "message" else "message")
        deltas = self._reply.take(cast("Mapping[str, Any]", said)) if isinstance(said, Mapping) else []
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish = finish
            if finish == "error":
                raise stream_error(choice, status=self._status, usage=self.usage(ok=False), request_id=self._request_id)
        return deltas

    def _count(self, fields: Mapping[str, Any]) -> None:
        groq = fields.get("x_groq")
        beside: Any = cast("Mapping[str, Any]", groq).get("usage") if isinstance(groq, Mapping) else None
        for usage in (fields.get("usage"), beside):
            if isinstance(usage, Mapping) and usage:
                self._usage = cast("Mapping[str, Any]", usage)
                return

    # -- outcomes ---------------------------------------------------------------------------------

    def _thinking(self) -> dict[str, Any]:
        reply = self._reply
        # The name of the field is what a server needs to get its reasoning back where it put it.
        entry: dict[str, Any] = {
            "type": "thinking",
            "thinking": "".join(reply.reasoning),
            "thinkingSignature": reply.reasoning_field or "reasoning_details",
        }
        if reply.details:
            entry["providerFields"] = {"reasoning_details": reply.details}
        return entry

    def _call(self, pieces: CallPieces, taken: set[str]) -> ToolCallBlock:
        text = pieces.text
        arguments, fault = strict_object(text)
        if self._finish == "length":
            fault = "the reply was cut off by the output limit, so its arguments may not be whole"
        elif self._finish not in _COMPLETE:
            fault = f"the reply ended with {self._finish or 'no stop reason'}, not with a complete tool call"
        elif not pieces.name:
            fault = "it names no tool"
        return ToolCallBlock(id=unique_id(pieces.id, taken), name=pieces.name, arguments=arguments, error=fault)

    def _unreadable(self, what: str) -> Exception:
        return transport_error(
            f"the reply can't be read: {what}",
            status=self._status,
            usage=self.usage(ok=False),
            request_id=self._request_id,
            cause="unreadable_event",
        )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
