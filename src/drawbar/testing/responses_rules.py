"""What OpenAI's responses refuse, in its own words as far as they are known (MDL-11).

Strict where the real service is: unknown parameters, items and parts; that each call has its output and each output
its call; ids and their beginnings; what can't be looked up where nothing is stored; reasoning that nothing follows;
schemas; images.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

from drawbar.contracts import codec
from drawbar.testing.json_schema_shape import schema_fault
from drawbar.testing.speech import ApiError

__all__ = ["check_responses_request"]

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
MAX_ID: Final = 64
MAX_TOOLS: Final = 128
MIN_OUTPUT_TOKENS: Final = 16
_TOP: Final = frozenset(
    {
        "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options",
        "max_output_tokens", "max_tool_calls", "temperature", "top_p", "top_logprobs", "reasoning", "text", "include",
        "store", "background", "metadata", "previous_response_id", "conversation", "prompt", "prompt_cache_key",
        "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "service_tier", "truncation", "user",
        "context_management",
    }
)  # fmt: skip
_INCLUDABLE: Final = frozenset(
    {
        "reasoning.encrypted_content", "message.output_text.logprobs", "message.input_image.image_url",
        "file_search_call.results", "web_search_call.results", "web_search_call.action.sources",
        "code_interpreter_call.outputs", "computer_call_output.output.image_url",
    }
)  # fmt: skip
_FIELDS: Final = {
    "reasoning": frozenset({"type", "id", "summary", "content", "encrypted_content", "status"}),
    "function_call": frozenset(
        {"type", "id", "call_id", "name", "arguments", "namespace", "caller", "status"},
    ),
    "custom_tool_call": frozenset({"type", "id", "call_id", "name", "input", "namespace", "caller", "status"}),
    "function_call_output": frozenset({"type", "id", "call_id", "output", "caller", "name", "namespace", "status"}),
    "custom_tool_call_output": frozenset({"type", "id", "call_id", "output", "caller", "name", "namespace", "status"}),
}
_OTHERS: Final = frozenset(
    {
        "file_search_call", "web_search_call", "computer_call", "computer_call_output", "tool_search_call",
        "tool_search_output", "compaction", "image_generation_call", "code_interpreter_call", "local_shell_call",
        "local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output",
        "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "mcp_call", "program", "program_output",
        "item_reference",
    }
)  # fmt: skip
_PREFIXES: Final = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
_CALLS: Final = frozenset(
    {"function_call", "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call"}
)
_FUNCTION: Final = frozenset({"type", "name", "description", "parameters", "strict"})
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_EFFORTS: Final = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
_SUMMARIES: Final = frozenset({"auto", "concise", "detailed"})
_WITHOUT_REASONING: Final = re.compile(r"gpt-(?:3\.5|4)|chatgpt-4o")
_DATA_URL: Final = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_PART_TEXTS: Final = {
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "summary_text": "text",
    "reasoning_text": "text",
}
_PART_EXTRAS: Final = {"output_text": frozenset({"annotations", "logprobs"})}

Fields = Mapping[str, Any]


def check_responses_request(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The parsed request.

    Args:
        headers: names in lower case.
        body: as received.

    Raises:
        ApiError: for what the service would refuse.
    """
    if not (headers.get("authorization", "").startswith("Bearer ") or headers.get("api-key")):
        raise ApiError("You didn't provide an API key.", status=401, kind="invalid_request_error")
    if len(body) > MAX_BODY_BYTES:
        raise ApiError("Request body is too large.", status=413)
    try:
        fields = codec.as_object(codec.loads(body))
    except (ValueError, RecursionError) as error:
        raise ApiError(f"We could not parse the JSON body of your request. ({error})") from error
    if fields is None:
        raise ApiError("We could not parse the JSON body of your request.")
    _only(fields, _TOP, "")
    _check_options(fields)
    _check_reasoning(fields.get("reasoning"))
    _check_tools(fields.get("tools"))
    items = fields.get("input")
    if isinstance(items, str):
        return fields
    if not isinstance(items, list) or not items:
        _refuse("One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided.")
    _check_items(cast("list[Any]", items), stored=fields.get("store") is not False)
    return fields


def _check_options(fields: Fields) -> None:
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        _refuse("Missing required parameter: 'model'.")
    for name in ("stream", "store", "parallel_tool_calls", "background"):
        if not isinstance(fields.get(name, False), bool):
            _refuse(f"Invalid type for '{name}': expected a boolean.")
    if not isinstance(fields.get("instructions", ""), str):
        _refuse("Invalid type for 'instructions': expected a string.")
    limit = fields.get("max_output_tokens")
    if limit is not None and (type(limit) is not int or limit < MIN_OUTPUT_TOKENS):
        _refuse(f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {MIN_OUTPUT_TOKENS}.")
    include: Any = fields.get("include", [])
    for one in cast("list[Any]", include) if isinstance(include, list) else [include]:
        if one not in _INCLUDABLE:
            _refuse(f"Invalid value: '{one}'. Supported values are: {', '.join(sorted(_INCLUDABLE))}.")
        if one == "reasoning.encrypted_content" and _WITHOUT_REASONING.match(str(model)):
            _refuse("Encrypted content is not supported with this model.")


def _check_reasoning(reasoning: Any) -> None:
    if reasoning is None:
        return
    fields = codec.as_object(reasoning)
    if fields is None:
        _refuse("Invalid type for 'reasoning': expected an object.")
    _only(fields, frozenset({"effort", "summary", "generate_summary"}), "reasoning")
    for name, known in (("effort", _EFFORTS), ("summary", _SUMMARIES)):
        if fields.get(name) is not None and fields[name] not in known:
            _refuse(f"Invalid value: '{fields[name]}'. Supported values are: {', '.join(sorted(known))}.")


def _check_tools(tools: Any) -> None:
    if tools is None:
        return
    if not isinstance(tools, list):
        _refuse("Invalid type for 'tools': expected an array of objects.")
    names: set[str] = set()
    for at, tool in enumerate(cast("list[Any]", tools)):
        where = f"tools[{at}]"
        fields = codec.as_object(tool) or {}
        if fields.get("type") != "function":
            _refuse(f"Invalid value: '{fields.get('type')}'. Supported values are: 'function' and others. ({where})")
        _only(fields, _FUNCTION, where)
        name = _named(fields, f"{where}.name")
        if name in names:
            _refuse(f"Invalid 'tools': duplicate function name '{name}'.")
        names.add(name)
        if fields.get("strict") is not False:
            _refuse(f"Invalid schema for function '{name}': in strict mode every property must be required.")
        fault = schema_fault(fields.get("parameters"))
        if fault:
            _refuse(f"Invalid schema for function '{name}': {fault}")
    if len(names) > MAX_TOOLS:
        _refuse(f"Invalid 'tools': array too long. Expected an array with maximum length {MAX_TOOLS}.")


def _check_items(items: list[Any], *, stored: bool) -> None:
    calls: dict[tuple[str, str], int] = {}
    answered: set[tuple[str, str]] = set()
    seen: set[str] = set()
    for at, item in enumerate(items):
        where = f"input[{at}]"
        fields = codec.as_object(item)
        if fields is None:
            _refuse(f"Invalid type for '{where}': expected an object.")
        kind = fields.get("type", "message")
        if kind == "message":
            _check_message(fields, where)
        elif kind in _FIELDS:
            _only(fields, _FIELDS[str(kind)], where)
        elif kind not in _OTHERS:
            _refuse(f"Invalid value: '{kind}'. Supported values are: 'message', 'reasoning' and others. ({where})")
        _check_id(str(kind), fields, where, seen)
        if kind == "item_reference" and not stored:
            _not_found(fields.get("id"))
        if kind == "reasoning":
            _check_thought(fields, where, stored=stored)
            follower = next((one for one in items[at + 1 :] if _kind(one) != "reasoning"), None)
            if follower is None or not _of_the_model(follower):
                _refuse(
                    f"Item '{fields.get('id')}' of type 'reasoning' was provided without its required following item."
                )
        if kind in _CALLS:
            key = _check_call(str(kind), fields, where)
            if key in calls:
                _refuse(f"Duplicate call_id '{key[1]}' ({where}).")
            calls[key] = at
        elif str(kind).removesuffix("_output") in _CALLS:
            key = _check_output(str(kind), fields, where)
            if key not in calls:
                _refuse(f"No tool call found for {str(kind).replace('_', ' ')} with call_id {key[1]}.")
            if key in answered:
                _refuse(f"Duplicate output for call_id {key[1]} ({where}).")
            answered.add(key)
    for kind, call_id in calls:
        if (kind, call_id) not in answered:
            _refuse(f"No tool output found for {kind.replace('_', ' ')} {call_id}.")


def _kind(item: Any) -> str:
    return str((codec.as_object(item) or {}).get("type", "message"))


def _of_the_model(item: Any) -> bool:
    kind = _kind(item)
    return item.get("role") == "assistant" if kind == "message" else not kind.endswith("_call_output")


def _check_message(fields: Fields, where: str) -> None:
    role = fields.get("role")
    if role not in ("user", "assistant", "system", "developer"):
        _refuse(f"Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'.")
    _only(fields, frozenset({"type", "role", "content", "id", "status", "phase"}), where)
    content = fields.get("content")
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        _refuse(f"Invalid type for '{where}.content': expected one of an array of objects or string.")
    allowed = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image", "input_file")
    for number, part in enumerate(cast("list[Any]", content)):
        _check_part(part, f"{where}.content[{number}]", allowed)


def _check_thought(fields: Fields, where: str, *, stored: bool) -> None:
    summary, content = fields.get("summary"), fields.get("content")
    if not isinstance(summary, list):
        _refuse(f"Missing required parameter: '{where}.summary'.")
    for number, part in enumerate(cast("list[Any]", summary)):
        _check_part(part, f"{where}.summary[{number}]", ("summary_text",))
    for number, part in enumerate(cast("list[Any]", content) if isinstance(content, list) else []):
        _check_part(part, f"{where}.content[{number}]", ("reasoning_text",))
    encrypted = fields.get("encrypted_content")
    if encrypted is not None and (not isinstance(encrypted, str) or not encrypted):
        _refuse(f"Invalid type for '{where}.encrypted_content': expected a string.")
    if not encrypted and not stored:
        _not_found(fields.get("id"))


def _check_call(kind: str, fields: Fields, where: str) -> tuple[str, str]:
    if kind in _FIELDS:
        _named(fields, f"{where}.name")
        given = "arguments" if kind == "function_call" else "input"
        if not isinstance(fields.get(given), str):
            _refuse(f"Invalid type for '{where}.{given}': expected a string.")
    return kind, _call_id(fields, where)


def _check_output(kind: str, fields: Fields, where: str) -> tuple[str, str]:
    output = fields.get("output")
    if kind in _FIELDS and not isinstance(output, str):
        if not isinstance(output, list) or not output:
            _refuse(f"Invalid type for '{where}.output': expected one of an array of objects or string.")
        for number, part in enumerate(cast("list[Any]", output)):
            _check_part(part, f"{where}.output[{number}]", ("input_text", "input_image", "input_file"))
    return kind.removesuffix("_output"), _call_id(fields, where)


def _call_id(fields: Fields, where: str) -> str:
    call_id = fields.get("call_id")
    if not isinstance(call_id, str) or not call_id:
        _refuse(f"Missing required parameter: '{where}.call_id'.")
    if len(call_id) > MAX_ID:
        _refuse(f"Invalid '{where}.call_id': string too long. Expected a string with maximum length {MAX_ID}.")
    return str(call_id)


def _check_part(part: Any, where: str, allowed: tuple[str, ...]) -> None:
    fields = codec.as_object(part) or {}
    kind = str(fields.get("type"))
    if kind not in allowed:
        _refuse(f"Invalid value: '{kind}'. Supported values are: {', '.join(map(repr, allowed))}. ({where})")
    if kind == "input_image":
        _only(fields, frozenset({"type", "detail", "image_url", "file_id"}), where)
        url = fields.get("image_url")
        if not isinstance(url, str) or not _DATA_URL.fullmatch(url):
            _refuse(f"Invalid '{where}.image_url'. Expected a valid URL, but got a value with an invalid format.")
    elif kind in _PART_TEXTS:
        text = _PART_TEXTS[kind]
        _only(fields, frozenset({"type", text}) | _PART_EXTRAS.get(kind, frozenset()), where)
        if not isinstance(fields.get(text), str):
            _refuse(f"Missing required parameter: '{where}.{text}'.")


def _check_id(kind: str, fields: Fields, where: str, seen: set[str]) -> None:
    item_id = fields.get("id")
    if item_id is None:
        if kind == "reasoning":
            _refuse(f"Missing required parameter: '{where}.id'.")
        return
    prefix = _PREFIXES.get(kind, "")
    if not isinstance(item_id, str) or not item_id.startswith(prefix):
        _refuse(f"Invalid '{where}.id': '{item_id}'. Expected an ID that begins with '{prefix}'.")
    if prefix and len(item_id) > MAX_ID:
        _refuse(f"Invalid '{where}.id': string too long. Expected a string with maximum length {MAX_ID}.")
    if item_id in seen:
        _refuse(f"Duplicate item found with id {item_id}. Remove duplicate items from your input and try again.")
    seen.add(str(item_id))


def _named(fields: Fields, where: str) -> str:
    name = fields.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        _refuse(f"Invalid '{where}': string does not match pattern. Expected a string that matches '^[a-zA-Z0-9_-]+$'.")
    return str(name)


def _only(fields: Fields, known: frozenset[str], where: str) -> None:
    extra = sorted(set(fields) - known)
    if extra:
        _refuse(f"Unknown parameter: '{where + '.' if where else ''}{extra[0]}'.")


def _not_found(item_id: Any) -> NoReturn:
    raise ApiError(
        f"Item with id '{item_id}' not found. Items are not persisted when `store` is set to false. "
        "Try again with `store` set to true, or remove this item from your input.",
        status=404,
    )


def _refuse(message: str) -> NoReturn:
    raise ApiError(message)
