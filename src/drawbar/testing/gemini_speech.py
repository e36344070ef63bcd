"""Gemini's generateContent as the scripted model speaks it: its parts, its implicit caching, its errors (MDL-11)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from drawbar.contracts import codec
from drawbar.testing.cache_accounting import CacheUsage, Unit, tokens_of
from drawbar.testing.gemini_models import generation_of
from drawbar.testing.gemini_rules import check_gemini_request
from drawbar.testing.scenario import Block, Turn
from drawbar.testing.speech import ApiError, Facts, Reply

__all__ = ["GeminiSpeech"]

DEFAULT_SIGNATURE: Final = "c2NyaXB0ZWQ="
_PATH: Final = re.compile(r"/v1(?:beta)?/models/([^/:]+):(streamGenerateContent|generateContent)")
_FAULTS: Final = {
    "rate_limit": (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "status": (500, "INTERNAL", "An internal error has occurred. Please retry."),
}
_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_CODES: Final = {status: code for code, status in _STATUSES.items()}
_STOPS: Final = {"end_turn": "STOP", "tool_use": "STOP", "max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}
"""What the words of the scenario file mean here; other words are sent as they are."""

Part = dict[str, Any]


class GeminiSpeech:
    """A :class:`~drawbar.testing.speech.Speech`.

    A signature of the scenario goes where the service puts it: on the first call of the reply, else on an empty
    text at its end. Calls have ids from generation 3 on. A call whose arguments are no object ends the reply as
    the service ends it, which then says that the call was malformed.
    """

    protocol = "gemini"
    malformed = b'data: {"candidates": [{"content": {"parts": [{"te\r\n\r\n'

    def takes(self, path: str) -> bool:
        return _PATH.fullmatch(path) is not None

    def check(self, path: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        route, _, query = path.partition("?")
        if route.endswith(":streamGenerateContent") and "alt=sse" not in query.split("&"):
            raise ApiError("scripted model: a stream needs alt=sse", kind="INVALID_ARGUMENT")
        return check_gemini_request(headers, body, model=_model(path))

    def facts(self, path: str, request: Mapping[str, Any]) -> Facts:
        declared = [one for tool in request.get("tools", []) for one in tool.get("functionDeclarations", [])]
        return Facts(
            model=_model(path),
            streams=":streamGenerateContent" in path,
            system=_text_of(request.get("systemInstruction", {})),
            last=_text_of(request["contents"][-1]),
            tools=tuple(one["name"] for one in declared),
        )

    def units(self, request: dict[str, Any]) -> Sequence[Unit]:
        pieces = [["tools", request.get("tools")], ["system", request.get("systemInstruction")]]
        pieces += [["content", content] for content in request["contents"]]
        return [Unit(codec.encode(piece, canonical=True), marked=True) for piece in pieces]

    def render(self, turn: Turn, *, facts: Facts, number: int, cache: CacheUsage, chunk_chars: int) -> Reply:
        parts, malformed = _parts(turn, number, facts.model)
        usage = _usage(parts, cache)
        usage = {name: value for name, value in {**usage, **(turn.usage or {})}.items() if value is not None}
        stop = turn.stop_reason or ("MALFORMED_FUNCTION_CALL" if malformed is not None else "STOP")
        stop = _STOPS.get(stop, stop)
        ends: dict[str, Any] = {"finishReason": stop, "index": 0}
        if malformed is not None and stop == "MALFORMED_FUNCTION_CALL":
            ends["finishMessage"] = f"Malformed function call: {malformed}"
        head = {"modelVersion": facts.model, "responseId": f"resp-{number:04d}"}
        early = {name: usage[name] for name in ("promptTokenCount", "totalTokenCount") if name in usage}
        events = [
            _event({"candidates": [{"content": _content([piece]), "index": 0}], "usageMetadata": early, **head})
            for part in parts
            for piece in _pieces(part, chunk_chars)
        ]
        last = {"content": _content([{"text": ""}]), **ends}
        events.append(_event({"candidates": [last], "usageMetadata": usage, **head}))
        whole = {"candidates": [{"content": _content(parts), **ends}], "usageMetadata": usage, **head}
        return Reply(tuple(events), codec.encode(whole), usage)

    def headers(self, number: int) -> dict[str, str]:
        return {"server": "scaffolding on HTTPServer2"}

    def error_body(self, kind: str, message: str, number: int, status: int) -> bytes:
        return codec.encode(_error(status, kind, message))

    def error_event(self, kind: str, message: str) -> bytes:
        return _event(_error(_CODES.get(kind, 500), kind, message))

    def fault(self, kind: str) -> tuple[int, str, str]:
        return _FAULTS[kind]


def _error(status: int, kind: str, message: str) -> dict[str, Any]:
    word = kind if kind.isupper() else _STATUSES.get(status, "UNKNOWN")
    return {"error": {"code": status, "message": message, "status": word}}


def _model(path: str) -> str:
    match = _PATH.match(path)
    return match[1] if match else ""


def _parts(turn: Turn, number: int, model: str) -> tuple[list[Part], str | None]:
    """The parts of the reply, and the text of a call that the service would not have parsed."""
    parts: list[Part] = []
    malformed: str | None = None
    signature = DEFAULT_SIGNATURE if generation_of(model) >= (3, 0) and any(one.tool for one in turn.reply) else None
    for at, block in enumerate(turn.reply):
        if block.text is not None:
            parts.append({"text": block.text})
        elif block.thinking is not None:
            parts.append({"text": block.thinking, "thought": True})
            signature = DEFAULT_SIGNATURE if block.signature is None else block.signature
        elif block.redacted is not None:
            signature = block.redacted
        elif block.raw is not None:
            parts.append(dict(block.raw))
        else:
            arguments = _arguments(block)
            if arguments is None:
                malformed = f"call:{block.tool}{block.arguments_text or codec.encode(block.arguments).decode()}"
                continue
            call: Part = {"name": block.tool, "args": arguments}
            if block.id or generation_of(model) >= (3, 0):
                call["id"] = block.id or f"c{number:04d}x{at}"
            parts.append({"functionCall": call})
    if signature:
        signed = next((part for part in parts if "functionCall" in part), None)
        if signed is None:
            signed = {"text": ""}
            parts.append(signed)
        signed["thoughtSignature"] = signature
    return parts, malformed


def _arguments(block: Block) -> dict[str, Any] | None:
    if block.arguments_text is None:
        return {} if block.arguments is None else codec.as_object(block.arguments)
    try:
        return codec.as_object(codec.loads(block.arguments_text))
    except ValueError:
        return None


def _usage(parts: list[Part], cache: CacheUsage) -> dict[str, Any]:
    thoughts = tokens_of(sum(len(part["text"].encode()) for part in parts if part.get("thought") is True))
    said = tokens_of(sum(len(codec.encode(part)) for part in parts if part.get("thought") is not True))
    # A count of zero is left out, as in all of the service's JSON.
    counts = {"cachedContentTokenCount": cache.read, "candidatesTokenCount": said, "thoughtsTokenCount": thoughts}
    return {
        "promptTokenCount": cache.total,
        **{name: count for name, count in counts.items() if count},
        "totalTokenCount": cache.total + said + thoughts,
    }


def _pieces(part: Part, size: int) -> Iterator[Part]:
    text = part.get("text")
    if not isinstance(text, str) or "thoughtSignature" in part or not text:
        yield part
        return
    for at in range(0, len(text), size):
        yield {**part, "text": text[at : at + size]}


def _content(parts: list[Part]) -> dict[str, Any]:
    return {"parts": parts, "role": "model"}


def _event(payload: Mapping[str, Any]) -> bytes:
    return b"data: %s\r\n\r\n" % codec.encode(payload)


def _text_of(content: Mapping[str, Any]) -> str:
    texts: list[str] = []
    for part in cast("list[Part]", content.get("parts", [])):
        if "text" in part:
            texts.append(part["text"])
        elif "functionResponse" in part:
            texts += [str(value) for value in part["functionResponse"]["response"].values()]
    return "\n".join(texts)
