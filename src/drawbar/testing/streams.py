"""One recorded reply decoded by the harness's own decoders, as plain data (MDL-2, QLT-17).

For checking decoders against recordings that stay where they are: :func:`decode` takes a body, whole or in
pieces, and gives what the harness would make of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast

from drawbar.contracts import codec
from drawbar.contracts.errors import ProviderError
from drawbar.contracts.events.usage import RequestUsage
from drawbar.contracts.model import Completed, Delta
from drawbar.models.client import Decoder
from drawbar.models.errors import response_error
from drawbar.models.sse import ServerEvent, SseParser

__all__ = ["decode"]


def _anthropic(status: int) -> Decoder:
    from drawbar.models.anthropic_decode import ReplyDecoder

    return ReplyDecoder(status=status)


def _chat(status: int) -> Decoder:
    from drawbar.models.chat_decode import ChatDecoder

    return ChatDecoder(status=status)


def _responses(status: int) -> Decoder:
    from drawbar.models.responses_decode import ResponsesDecoder

    return ResponsesDecoder(status=status)


def _gemini(status: int) -> Decoder:
    from drawbar.models.gemini_decode import GeminiDecoder

    return GeminiDecoder(status=status)


def _ollama(status: int) -> Decoder:
    from drawbar.testing.ollama_reply import OllamaDecoder

    return OllamaDecoder(status=status)


DECODERS: Final[dict[str, Callable[[int], Decoder]]] = {
    "anthropic-messages": _anthropic,
    "openai-chat": _chat,
    "gemini-generate-content": _gemini,
    "ollama-native": _ollama,
    "openai-responses": _responses,
}


def decode(
    protocol: str,
    raw: bytes | Iterable[bytes],
    *,
    media: str = "sse",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Decode one body.

    Args:
        protocol: an id of MDL-2.
        raw: the body, or its pieces in order, cut anywhere.
        media: ``sse``, ``ndjson`` or ``json``.
        status: the HTTP status that it came with.
        headers: of the response, names in lower case.

    Returns:
        ``final_text``, ``tool_calls`` (each ``name``, ``arguments``, ``id``), ``stop_reason``, ``usage``
        (``uncached_input``, ``cache_read``, ``cache_write``, ``output``, ``reasoning``), ``reasoning_text`` and
        ``error`` (None, or ``{kind, message}``); of a failed reply what was shown of it, and what had been said of
        its usage.

    Raises:
        KeyError: for a protocol that isn't known.
    """
    pieces = [raw] if isinstance(raw, bytes) else raw
    decoder = DECODERS[protocol](status)
    shown: list[Delta] = []
    try:
        if status >= 300:
            raise response_error(status, headers or {}, b"".join(pieces), now_ms=0)
        return _told(_read(decoder, pieces, media, shown))
    except ProviderError as error:
        spent = error.usage if isinstance(error.usage, RequestUsage) else RequestUsage()
        return {
            "final_text": "".join(delta.text for delta in shown if delta.kind == "text"),
            "tool_calls": [],
            "stop_reason": None,
            "usage": _usage(spent),
            "reasoning_text": "".join(delta.text for delta in shown if delta.kind == "reasoning"),
            "error": {"kind": error.kind, "message": error.message},
        }


def _read(decoder: Decoder, pieces: Iterable[bytes], media: str, shown: list[Delta]) -> Completed:
    if media == "json":
        message = codec.loads(b"".join(pieces))
        if not isinstance(message, list):
            decoder.feed_whole(cast("Mapping[str, Any]", message))
            return decoder.completed()
        # A list holds the events of a stream whose framing is JSON itself.
        events = (ServerEvent("", codec.encode(one)) for one in cast("list[Any]", message))
    else:
        events = _lines(pieces) if media == "ndjson" else _events(pieces)
    for event in events:
        shown += decoder.feed(event)
    decoder.end()
    if not decoder.finished:
        raise ProviderError("the reply ended before its terminal event", kind="transport")
    return decoder.completed()


def _events(pieces: Iterable[bytes]) -> Iterator[ServerEvent]:
    parser = SseParser()
    for piece in pieces:
        yield from parser.feed(piece)
    yield from parser.end()


def _lines(pieces: Iterable[bytes]) -> Iterator[ServerEvent]:
    held: list[bytes] = []
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield ServerEvent("", b"".join([*held, line]))
            held.clear()
        held.append(rest)
    yield ServerEvent("", b"".join(held))


def _told(reply: Completed) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = reply.message["content"]
    return {
        "final_text": "".join(block["text"] for block in blocks if block["type"] == "text"),
        "tool_calls": [{"name": call.name, "arguments": call.arguments, "id": call.id} for call in reply.calls],
        "stop_reason": _word(reply.raw_stop_reason),
        "usage": _usage(reply.usage),
        "reasoning_text": "".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        "error": None,
    }


def _word(reason: str | None) -> str | int | None:
    """The provider's own word, which may be a number."""
    return int(reason) if reason and reason.isdecimal() else reason


def _usage(usage: RequestUsage) -> dict[str, int | None]:
    return {
        "uncached_input": usage.input_tokens,
        "cache_read": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
        "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
    }
