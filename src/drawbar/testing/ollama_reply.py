"""Ollama's own ``/api/chat`` and ``/api/generate`` replies, read for checks alone (MDL-2).

The harness itself speaks chat completions to Ollama. A line of the stream is an event here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, cast

from drawbar.contracts import codec
from drawbar.contracts.events.usage import RequestUsage
from drawbar.contracts.model import Completed, Delta, ToolCallBlock
from drawbar.models.errors import stream_error, transport_error
from drawbar.models.sse import ServerEvent

__all__ = ["OllamaDecoder"]

PROTOCOL: Final = "ollama-native"

Fields = Mapping[str, Any]
Kind = Literal["text", "reasoning"]


class OllamaDecoder:
    """Reads one reply (a :class:`~drawbar.models.client.Decoder`); a line that says ``done`` is its end.

    Args:
        status: the HTTP status that the reply came with, for errors.
    """

    def __init__(self, *, status: int = 200) -> None:
        self.finished = False
        self.skipped = 0
        self._status = status
        self._said: dict[Kind, list[str]] = {}
        self._calls: list[Fields] = []
        self._last: Fields = {}

    def feed(self, event: ServerEvent) -> list[Delta]:
        if self.finished or not event.data.strip():
            return []
        try:
            value = codec.loads(event.data)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(f"a line is not valid JSON: {error}") from error
        if not isinstance(value, Mapping):
            raise self._unreadable("a line is no JSON object")
        return self.feed_whole(cast("Fields", value))

    def feed_whole(self, message: Mapping[str, Any]) -> list[Delta]:
        if message.get("error"):
            raise stream_error(message, status=self._status, usage=self.usage(ok=False), request_id=None)
        self._last = message
        inner = codec.as_object(message.get("message")) or {}
        deltas = self._say("reasoning", inner.get("thinking") or message.get("thinking"))
        deltas += self._say("text", inner.get("content") or message.get("response"))
        calls: Any = inner.get("tool_calls")
        self._calls += [call for one in calls or () if (call := codec.as_object(one)) is not None]
        self.finished = message.get("done") is True
        return deltas

    def end(self) -> None:
        """The end of the stream says nothing here: the last line is the terminal event."""

    def usage(self, *, ok: bool) -> RequestUsage | None:
        read, said = self._last.get("prompt_eval_count"), self._last.get("eval_count")
        if not isinstance(read, int) and not isinstance(said, int):
            return None
        return RequestUsage(
            input_tokens=read if isinstance(read, int) else None,
            output_tokens=said if isinstance(said, int) else None,
            model=self._last.get("model"),
            ok=ok,
        )

    def completed(self, headers: Mapping[str, str] | None = None) -> Completed:
        assert self.finished, "a reply is complete only after its terminal event"
        content: list[dict[str, Any]] = []
        for kind, pieces in self._said.items():
            name = "thinking" if kind == "reasoning" else "text"
            content.append({"type": name, name: "".join(pieces)})
        calls = [self._call(one, number) for number, one in enumerate(self._calls)]
        content += [{"type": "toolCall", "id": one.id, "name": one.name, "arguments": one.arguments} for one in calls]
        reason = self._last.get("done_reason")
        cut = reason == "length"
        stop = "length" if cut else "toolUse" if calls else "stop"
        return Completed(
            message={"role": "assistant", "content": content, "api": PROTOCOL, "stopReason": stop},
            calls=tuple(calls),
            stop_reason=stop,
            raw_stop_reason=reason if isinstance(reason, str) else None,
            usage=self.usage(ok=True) or RequestUsage(),
            headers=headers or {},
        )

    def _say(self, kind: Kind, said: Any) -> list[Delta]:
        if not isinstance(said, str) or not said:
            return []
        self._said.setdefault(kind, []).append(said)
        return [Delta(kind, list(self._said).index(kind), said)]

    def _call(self, fields: Fields, number: int) -> ToolCallBlock:
        function = codec.as_object(fields.get("function")) or {}
        arguments = codec.as_object(function.get("arguments"))
        given, name = fields.get("id"), function.get("name")
        return ToolCallBlock(
            id=given if isinstance(given, str) and given else f"call_{number}",
            name=name if isinstance(name, str) else "",
            arguments=arguments or {},
            error=None if arguments is not None else "its arguments are no JSON object",
        )

    def _unreadable(self, what: str) -> Exception:
        return transport_error(f"the reply can't be read: {what}", status=self._status, cause="unreadable_event")
