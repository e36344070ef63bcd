"""From Gemini's stream to deltas and one whole message (MDL-2, MDL-4, QLT-14).

Each event is a whole response that holds the next parts. There is no terminal event: a reply is whole when a
finish reason was read and the stream has ended, or when the prompt was blocked. Only the first candidate is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from drawbar.contracts.events.usage import RequestUsage
from drawbar.contracts.model import Completed, Delta, ToolCallBlock
from drawbar.models.call_arguments import unique_id
from drawbar.models.errors import stream_error, transport_error
from drawbar.models.gemini_call import GeminiCall
from drawbar.models.gemini_reply import GeminiReply, RawPart, TextPart
from drawbar.models.gemini_usage import counts_anything, gemini_usage
from drawbar.models.halves import loads_halves
from drawbar.models.sse import ServerEvent
from drawbar.stores.history import well_formed

__all__ = ["PROTOCOL", "GeminiDecoder"]

PROTOCOL: Final = "gemini"

_NUMBERED: Final = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: "OTHER"}
"""Reasons that come as numbers from some clients' relays; beyond these Google's two services count differently."""

_REFUSALS: Final = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    }
)
_UNUSABLE: Final = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"})
"""The service could not read its own model; another attempt mostly mends it."""

Fields = Mapping[str, Any]


class GeminiDecoder:
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
        self._reply = GeminiReply()
        self._usage: Fields = {}
        self._id: str | None = None
        self._stand_in_id = ""
        self._model: str | None = None
        self._raw_finish: str | None = None
        self._finish: str | None = None
        self._blocked = False
        self._explanation: str | None = None

    def feed(self, event: ServerEvent) -> list[Delta]:
        data = event.data.strip()
        if self.finished or not data or data == b"[DONE]":
            return []
        value = self._parse(data)
        # An error may come as the only item of a list, as the service's other framing has it.
        if isinstance(value, list) and len(cast("list[Any]", value)) == 1:
            value = cast("list[Any]", value)[0]
        if not isinstance(value, Mapping):
            raise self._unreadable("an event is no JSON object")
        return self._take(cast("Fields", value))

    def feed_whole(self, message: Mapping[str, Any]) -> list[Delta]:
        deltas = self._take(message)
        self.end()
        if not self.finished:
            raise self._unreadable("the reply is no whole response")
        return deltas

    def end(self) -> None:
        """The stream ended; what the finish reason said counts now.

        Raises:
            ProviderError: the service gave the reply up as malformed, or refuses the history for a lost signature.
        """
        if self._finish in _UNUSABLE:
            raise transport_error(
                f"the reply can't be used: {self._explanation or self._finish}",
                status=self._status,
                usage=self.usage(ok=False),
                request_id=self._request_id,
                cause="malformed_reply",
            )
        if self._finish == "MISSING_THOUGHT_SIGNATURE":
            said = self._explanation or "a call in the conversation lacks its thought signature"
            raise self._reported({"error": {"status": "INVALID_ARGUMENT", "message": said}})
        self.finished = self._finish is not None

    def usage(self, *, ok: bool) -> RequestUsage | None:
        if not self._usage:
            return None
        return gemini_usage(self._usage, model=self._model, summary=self._reply.summary, ok=ok)

    def completed(self, headers: Mapping[str, str] | None = None) -> Completed:
        assert self.finished, "a reply is complete only after its end"
        content: list[dict[str, Any]] = []
        calls: list[ToolCallBlock] = []
        taken: set[str] = set()
        for block in self._reply.blocks:
            if isinstance(block, GeminiCall):
                call = self._call(block, len(calls), taken)
                calls.append(call)
                entry = {"type": "toolCall", "id": call.id, "name": call.name, "arguments": call.arguments}
                content.append({**entry, **_beside(block.beside)})
            elif isinstance(block, RawPart):
                content.append({"type": "providerBlock", "protocol": PROTOCOL, "raw": block.fields})
            else:
                content.append(_said(block))
        stop, refused = self._stop(calls=bool(calls))
        message: dict[str, Any] = {"role": "assistant", "content": content, "api": PROTOCOL, "stopReason": stop}
        if self._raw_finish is not None:
            message["rawStopReason"] = self._raw_finish
        if self._id:
            message["responseId"] = self._id
        if stop == "error":
            what = "refused to answer" if refused else "gave the reply up"
            message["errorMessage"] = self._explanation or f"the provider {what} ({self._finish})"
        return Completed(
            message=message,
            calls=tuple(calls),
            stop_reason="refusal" if refused else stop,
            raw_stop_reason=self._raw_finish,
            usage=self.usage(ok=True) or RequestUsage(model=self._model),
            skipped=self.skipped,
            headers=headers or {},
        )

    # -- pieces -----------------------------------------------------------------------------------

    def _parse(self, data: bytes) -> Any:
        try:
            return loads_halves(data)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(f"an event is not valid JSON: {error}") from error

    def _take(self, fields: Fields) -> list[Delta]:
        usage = fields.get("usageMetadata")
        if isinstance(usage, Mapping) and counts_anything(cast("Fields", usage)):
            self._usage = well_formed(usage)
        if fields.get("error"):
            raise self._reported(well_formed(dict(fields)))
        self._id = self._id or _text(fields.get("responseId"))
        self._model = self._model or _text(fields.get("modelVersion"))
        feedback = fields.get("promptFeedback")
        if isinstance(feedback, Mapping):
            self._judge(cast("Fields", feedback))
        candidates = fields.get("candidates")
        if not isinstance(candidates, list):
            self.skipped += not (isinstance(usage, Mapping) or isinstance(feedback, Mapping))
            return []
        for candidate in cast("list[Any]", candidates):
            if not isinstance(candidate, Mapping):
                raise self._unreadable("a candidate is no object")
            chosen = cast("Fields", candidate)
            if chosen.get("index", 0) == 0:
                return self._choose(chosen)
        return []

    def _choose(self, candidate: Fields) -> list[Delta]:
        content = candidate.get("content")
        parts: Any = cast("Fields", content).get("parts") if isinstance(content, Mapping) else None
        deltas: list[Delta] = []
        for part in cast("list[Any]", parts) if isinstance(parts, list) else ():
            if not isinstance(part, Mapping):
                raise self._unreadable("a part is no object")
            try:
                deltas += self._reply.take(cast("Fields", part))
            except TypeError as error:
                raise self._unreadable(str(error)) from error
        self._end_with(candidate.get("finishReason"), candidate.get("finishMessage"))
        return deltas

    def _judge(self, feedback: Fields) -> None:
        before = self._raw_finish
        self._end_with(feedback.get("blockReason"), feedback.get("blockReasonMessage"))
        self._blocked = self._blocked or self._raw_finish != before

    def _end_with(self, reason: Any, explanation: Any) -> None:
        if type(reason) is int and reason > 0:
            self._raw_finish, self._finish = str(reason), _NUMBERED.get(reason, str(reason))
        elif (word := _text(reason)) and not word.endswith("_UNSPECIFIED"):
            self._raw_finish = self._finish = word
        else:
            return
        self._explanation = _text(explanation)

    # -- outcomes ---------------------------------------------------------------------------------

    def _stop(self, *, calls: bool) -> tuple[str, bool]:
        """Pi's word, and whether the provider refused."""
        if self._blocked or self._finish in _REFUSALS:
            return "error", True
        if self._finish == "STOP":
            return "toolUse" if calls else "stop", False
        return "length" if self._finish == "MAX_TOKENS" else "error", False

    def _call(self, call: GeminiCall, number: int, taken: set[str]) -> ToolCallBlock:
        fault = call.fault
        if self._finish == "MAX_TOKENS":
            fault = "the reply was cut off by the output limit, so its arguments may not be whole"
        elif self._finish != "STOP" or self._blocked:
            fault = f"the reply ended with {self._finish}, not with a complete tool call"
        elif not call.whole:
            fault = "the rest of its arguments did not come"
        elif not call.name:
            fault = "it names no tool"
        return ToolCallBlock(
            id=self._call_id(call.id, number, taken), name=call.name, arguments=call.arguments, error=fault
        )

    def _call_id(self, given: str, number: int, taken: set[str]) -> str:
        """The call's id, or one of its own where the service gave none, unique in the conversation."""
        if not given:
            given = f"call_{self._own_id()}_{number}"
        return unique_id(given, taken)

    def _own_id(self) -> str:
        """What sets this reply's calls apart from those of others."""
        import uuid

        self._stand_in_id = self._stand_in_id or uuid.uuid4().hex
        return self._id or self._stand_in_id

    def _unreadable(self, what: str) -> Exception:
        return transport_error(
            f"the reply can't be read: {what}",
            status=self._status,
            usage=self.usage(ok=False),
            request_id=self._request_id,
            cause="unreadable_event",
        )

    def _reported(self, payload: Fields) -> Exception:
        return stream_error(payload, status=self._status, usage=self.usage(ok=False), request_id=self._request_id)


def _said(part: TextPart) -> dict[str, Any]:
    beside = dict(part.beside)
    signature = beside.get("thoughtSignature")
    if part.kind == "text" and part.text.strip():
        return {"type": "text", "text": part.text, **_beside(beside)}
    if not isinstance(signature, str) or not signature:
        kind: dict[str, Any] = {"type": "text", "text": part.text}
        return {**(kind if part.kind == "text" else {"type": "thinking", "thinking": part.text}), **_beside(beside)}
    del beside["thoughtSignature"]
    entry: dict[str, Any] = {"type": "thinking", "thinking": part.text, "thinkingSignature": signature}
    if part.kind == "text":
        # No text of its own: it is encrypted reasoning, and goes back as the part that it came on.
        entry |= {"thinking": "", "redacted": True}
        if part.text:
            beside["text"] = part.text
    return {**entry, **_beside(beside)}


def _beside(fields: dict[str, Any]) -> dict[str, Any]:
    return {"providerFields": fields} if fields else {}


def _text(value: Any) -> str | None:
    return well_formed(value) if isinstance(value, str) and value else None
