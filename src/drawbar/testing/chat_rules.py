"""What OpenAI's chat completions refuse, in its own words as far as they are known (MDL-11).

Strict where the real service is: unknown fields, roles, that each call is answered right after it, ids and
names, schemas, content parts, images. Lenient where it is: consecutive messages of one role.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

from drawbar.contracts import codec
from drawbar.testing.json_schema_shape import schema_fault
from drawbar.testing.speech import ApiError

__all__ = ["check_chat_request"]

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
MAX_ID: Final = 40
MAX_TOOLS: Final = 128
_TOP: Final = frozenset(
    {
        "model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options", "max_tokens",
        "max_completion_tokens", "temperature", "top_p", "n", "stop", "presence_penalty", "frequency_penalty",
        "logit_bias", "logprobs", "top_logprobs", "user", "seed", "response_format", "reasoning_effort", "verbosity",
        "metadata", "store", "service_tier", "prediction", "modalities", "audio", "prompt_cache_key",
        "safety_identifier", "web_search_options",
    }
)  # fmt: skip
_FIELDS: Final = {
    "system": frozenset({"role", "content", "name"}),
    "developer": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "assistant": frozenset({"role", "content", "name", "refusal", "tool_calls", "audio", "function_call"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}
_FUNCTION: Final = frozenset({"name", "description", "parameters", "strict"})
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_EFFORTS: Final = frozenset({"none", "minimal", "low", "medium", "high", "xhigh"})
_DATA_URL: Final = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_REASONING: Final = frozenset({"reasoning_content", "reasoning", "reasoning_details"})

Fields = Mapping[str, Any]


def check_chat_request(headers: Mapping[str, str], body: bytes, *, lenient: bool = False) -> dict[str, Any]:
    """The parsed request.

    Args:
        headers: names in lower case.
        body: as received.
        lenient: take the reasoning fields of servers that want reasoning back, which OpenAI itself refuses.

    Raises:
        ApiError: for what the service would refuse.
    """
    if not (headers.get("authorization", "").startswith("Bearer ") or headers.get("api-key")):
        raise ApiError("You didn't provide an API key.", status=401, kind="invalid_request_error")
    if len(body) > MAX_BODY_BYTES:
        raise ApiError("Request body is too large.", status=413)
    try:
        request = codec.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(f"We could not parse the JSON body of your request. ({error})") from error
    fields = codec.as_object(request)
    if fields is None:
        raise ApiError("We could not parse the JSON body of your request.")
    for name in fields:
        if name not in _TOP:
            _refuse(f"Unrecognized request argument supplied: {name}")
    _check_options(fields)
    offered = _check_tools(fields.get("tools"))
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        _refuse("Invalid 'messages': empty array. Expected an array with minimum length 1.")
    _check_messages(cast("list[Any]", messages), lenient=lenient)
    if "tools" in fields and not offered:
        _refuse("Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array.")
    return fields


def _check_options(fields: Fields) -> None:
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        _refuse("you must provide a model parameter")
    if "stream_options" in fields and not fields.get("stream"):
        _refuse("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
    if "max_tokens" in fields and "max_completion_tokens" in fields:
        _refuse("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
    for name in ("max_tokens", "max_completion_tokens"):
        value = fields.get(name)
        if value is not None and (type(value) is not int or value < 1):
            _refuse(f"Invalid type for '{name}': expected an integer of at least 1, but got {value!r} instead.")
    effort = fields.get("reasoning_effort")
    if effort is not None and effort not in _EFFORTS:
        _refuse(f"Invalid value: '{effort}'. Supported values are: {', '.join(sorted(_EFFORTS))}.")


def _check_tools(tools: Any) -> list[str]:
    if tools is None:
        return []
    if not isinstance(tools, list):
        _refuse("Invalid type for 'tools': expected an array of objects.")
    names: list[str] = []
    for at, tool in enumerate(cast("list[Any]", tools)):
        outer = codec.as_object(tool) or {}
        inner = codec.as_object(outer.get("function"))
        if inner is None or outer.get("type") != "function":
            _refuse(f"Missing required parameter: 'tools[{at}].function'.")
        extra = (set(inner) - _FUNCTION) | (set(outer) - {"type", "function"})
        if extra:
            _refuse(f"Unknown parameter: 'tools[{at}].{sorted(extra)[0]}'.")
        name = inner.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            _refuse(f"Invalid 'tools[{at}].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.")
        if name in names:
            _refuse(f"Invalid 'tools': duplicate function name '{name}'.")
        names.append(str(name))
        fault = schema_fault(inner.get("parameters", {"type": "object", "properties": {}}))
        if fault:
            _refuse(f"Invalid schema for function '{name}': {fault}")
    if len(names) > MAX_TOOLS:
        _refuse(f"Invalid 'tools': array too long. Expected an array with maximum length {MAX_TOOLS}.")
    return names


def _check_messages(messages: list[Any], *, lenient: bool) -> None:
    open_calls: list[str] = []
    opened_at = -1
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        fields = codec.as_object(message)
        if fields is None:
            _refuse(f"Invalid type for '{where}': expected an object.")
        role = fields.get("role")
        if role not in _FIELDS:
            _refuse(f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'tool'.")
        extra = set(fields) - _FIELDS[str(role)] - (_REASONING if lenient and role == "assistant" else frozenset())
        if extra:
            _refuse(f"Unknown parameter: '{where}.{sorted(extra)[0]}'.")
        if role == "tool":
            call_id = fields.get("tool_call_id")
            if call_id not in open_calls:
                _refuse(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceding message with "
                    f"'tool_calls'. ({where}: {call_id!r})"
                )
            open_calls.remove(str(call_id))
            _check_content(fields.get("content"), f"{where}.content", images=False)
            continue
        if open_calls:
            _unanswered(open_calls, opened_at)
        if role == "assistant":
            open_calls, opened_at = _check_assistant(fields, where), at
        else:
            _check_content(fields.get("content"), f"{where}.content", images=role == "user")
    if open_calls:
        _unanswered(open_calls, opened_at)


def _check_assistant(fields: Fields, where: str) -> list[str]:
    calls = fields.get("tool_calls")
    content = fields.get("content")
    if calls is None:
        if content is None:
            _refuse(f"Invalid value for 'content': expected a string, got null. ({where})")
        _check_content(content, f"{where}.content", images=False)
        return []
    if content is not None:
        _check_content(content, f"{where}.content", images=False)
    if not isinstance(calls, list) or not calls:
        _refuse(f"Invalid '{where}.tool_calls': empty array. Expected an array with minimum length 1.")
    found: list[str] = []
    for number, call in enumerate(cast("list[Any]", calls)):
        found.append(_check_call(call, f"{where}.tool_calls[{number}]"))
    if len(set(found)) != len(found):
        _refuse(f"Duplicate value for 'tool_call_id' of {found[0]} in {where}")
    return found


def _check_call(call: Any, where: str) -> str:
    fields = codec.as_object(call) or {}
    inner = codec.as_object(fields.get("function"))
    if fields.get("type") != "function" or inner is None:
        _refuse(f"Missing required parameter: '{where}.function'.")
    call_id = fields.get("id")
    if not isinstance(call_id, str) or not call_id:
        _refuse(f"Missing required parameter: '{where}.id'.")
    if len(str(call_id)) > MAX_ID:
        _refuse(f"Invalid '{where}.id': string too long. Expected a string with maximum length {MAX_ID}.")
    if not isinstance(inner.get("name"), str) or not _NAME.fullmatch(inner["name"]):
        _refuse(f"Invalid '{where}.function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.")
    if not isinstance(inner.get("arguments"), str):
        _refuse(f"Invalid type for '{where}.function.arguments': expected a string.")
    return str(call_id)


def _check_content(content: Any, where: str, *, images: bool) -> None:
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        _refuse(f"Invalid type for '{where}': expected one of a string or array of objects.")
    for at, part in enumerate(cast("list[Any]", content)):
        fields = codec.as_object(part) or {}
        kind = fields.get("type")
        if kind == "text" and isinstance(fields.get("text"), str):
            if set(fields) - {"type", "text"}:
                _refuse(f"Unknown parameter: '{where}[{at}].{sorted(set(fields) - {'type', 'text'})[0]}'.")
        elif kind == "image_url" and images:
            url = (codec.as_object(fields.get("image_url")) or {}).get("url")
            if not isinstance(url, str) or not _DATA_URL.fullmatch(url):
                _refuse("You uploaded an unsupported image. Please make sure your image is valid.")
        else:
            _refuse(f"Invalid value: '{kind}'. Supported values are: 'text'{', ' if images else ''}. ({where}[{at}])")


def _unanswered(calls: list[str], at: int) -> NoReturn:
    _refuse(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(calls)} (messages[{at}])"
    )


def _refuse(message: str) -> NoReturn:
    raise ApiError(message)
