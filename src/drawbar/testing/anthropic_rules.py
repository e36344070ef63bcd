"""What Anthropic's Messages API refuses, in its own words as far as they are known (MDL-11).

Strict where the real service is: unknown fields, roles, pairing and order of tool calls and results, ids,
names, schemas, blank texts, cache markers, thinking signatures. Lenient where it is: consecutive messages of
one role are one turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

from drawbar.contracts import codec
from drawbar.testing.anthropic_content import CACHE_MARKERS, Checker, check_blocks, check_text, refuse
from drawbar.testing.json_schema_shape import schema_fault
from drawbar.testing.speech import ApiError

__all__ = ["MAX_BODY_BYTES", "check_request"]

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
NEWEST_VERSION: Final = "2026-10-21"
VERSIONS: Final = frozenset({"2023-01-01", "2023-06-01", NEWEST_VERSION})
_TOP: Final = frozenset(
    {
        "model", "messages", "max_tokens", "system", "tools", "tool_choice", "stream", "temperature", "top_p",
        "top_k", "stop_sequences", "metadata", "thinking", "output_config", "service_tier", "container",
        "inference_geo", "cache_control", "diagnostics", "context_management", "mcp_servers",
    }
)  # fmt: skip
_SAMPLING: Final = frozenset({"temperature", "top_p", "top_k"})
_TOOL: Final = frozenset(
    {"name", "description", "input_schema", "cache_control", "type", "strict", "eager_input_streaming", "defer_loading",
     "allowed_callers", "input_examples"}
)  # fmt: skip
_MANUAL_BUDGET_MIN: Final = 1024
_NO_BUDGETS: Final = re.compile(r"claude-(?:opus-4-[789]|(?:opus|sonnet|haiku|fable|mythos)-[5-9])")


def check_request(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The parsed request.

    Args:
        headers: names in lower case.
        body: as received.

    Raises:
        ApiError: for what the service would refuse.
    """
    if not headers.get("x-api-key") and not headers.get("authorization", "").startswith("Bearer "):
        raise ApiError("x-api-key header is required", status=401, kind="authentication_error")
    version = headers.get("anthropic-version")
    if not version:
        raise ApiError("anthropic-version: header is required")
    if version not in VERSIONS:
        raise ApiError(f'anthropic-version: "{version}" is not a valid version')
    if len(body) > MAX_BODY_BYTES:
        raise ApiError("Request exceeds the maximum size", status=413, kind="request_too_large")
    try:
        request = codec.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(f"The request body is not valid JSON: {error}") from error
    if not isinstance(request, dict):
        raise ApiError("The request body is not a JSON object")
    fields = cast("dict[str, Any]", request)
    known = _TOP - _SAMPLING if version == NEWEST_VERSION else _TOP
    try:
        _check_fields(fields, known)
    except ValueError as error:
        raise ApiError(str(error)) from error
    return fields


def _check_fields(request: dict[str, Any], known: frozenset[str]) -> None:
    for name in request:
        if name not in known:
            refuse(f"{name}: Extra inputs are not permitted")
    for name in ("model", "messages", "max_tokens"):
        if name not in request:
            refuse(f"{name}: Field required")
    model, limit = request["model"], request["max_tokens"]
    if not isinstance(model, str):
        refuse("model: Input should be a valid string")
    if not model:
        refuse("model: String should have at least 1 character")
    if type(limit) is not int:
        refuse("max_tokens: Input should be a valid integer")
    if limit < 1:
        refuse("max_tokens: Input should be greater than or equal to 1")
    if type(request.get("stream", False)) is not bool:
        refuse("stream: Input should be a valid boolean")
    _check_thinking(request.get("thinking"), limit, model)
    names = _check_tools(request.get("tools", []))
    _check_tool_choice(request.get("tool_choice"), names)
    checker = Checker(tools=names)
    _check_system(request.get("system"), checker)
    _check_messages(request["messages"], checker)
    markers = checker.markers + sum("cache_control" in tool for tool in request.get("tools", []))
    if markers > CACHE_MARKERS:
        refuse(f"A maximum of {CACHE_MARKERS} blocks with cache_control may be provided. Found {markers}.")


def _check_thinking(thinking: Any, limit: int, model: str) -> None:
    if thinking is None:
        return
    if not isinstance(thinking, dict):
        refuse("thinking: Input should be an object")
    fields = cast("dict[str, Any]", thinking)
    kind = fields.get("type")
    if kind not in ("enabled", "disabled", "adaptive", "between_tools"):
        refuse("thinking.type: Input should be 'enabled', 'disabled', 'adaptive' or 'between_tools'")
    if kind == "enabled":
        if _NO_BUDGETS.search(model):
            refuse(
                '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
                '"output_config.effort" to control thinking behavior.'
            )
        budget = fields.get("budget_tokens")
        if type(budget) is not int:
            refuse("thinking.enabled.budget_tokens: Field required")
        if budget < _MANUAL_BUDGET_MIN:
            refuse("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        if budget >= limit:
            refuse("`max_tokens` must be greater than `thinking.budget_tokens`.")
    elif "budget_tokens" in fields:
        refuse(f"thinking.{kind}.budget_tokens: Extra inputs are not permitted")


def _check_tools(tools: Any) -> list[str]:
    if not isinstance(tools, list):
        refuse("tools: Input should be a valid list")
    names: list[str] = []
    for at, item in enumerate(cast("list[Any]", tools)):
        where = f"tools.{at}.custom"
        if not isinstance(item, dict):
            refuse(f"tools.{at}: Input should be an object")
        tool = cast("dict[str, Any]", item)
        for field in tool:
            if field not in _TOOL:
                refuse(f"{where}.{field}: Extra inputs are not permitted")
        name = tool.get("name")
        if not isinstance(name, str) or not Checker.is_tool_name(name):
            refuse(f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if not isinstance(tool.get("description", ""), str):
            refuse(f"{where}.description: Input should be a valid string")
        if "cache_control" in tool:
            Checker.check_marker(tool["cache_control"], where)
        schema = tool.get("input_schema")
        if not isinstance(schema, dict):
            refuse(f"{where}.input_schema: Field required")
        if cast("dict[str, Any]", schema).get("type") != "object":
            refuse(f"{where}.input_schema.type: Input should be 'object'")
        fault = schema_fault(schema)
        if fault:
            refuse(f"{where}.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 ({fault})")
        names.append(name)
    if len(set(names)) != len(names):
        refuse("tools: Tool names must be unique.")
    return names


def _check_tool_choice(choice: Any, names: list[str]) -> None:
    if choice is None:
        return
    fields = cast("dict[str, Any]", choice) if isinstance(choice, dict) else {}
    if fields.get("type") not in ("auto", "any", "tool", "none"):
        refuse("tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'")
    if not names:
        refuse("tool_choice may only be specified while providing `tools`.")
    if fields["type"] == "tool" and fields.get("name") not in names:
        refuse(f"Tool '{fields.get('name')}' not found in provided tools")


def _check_system(system: Any, checker: Checker) -> None:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        refuse("system: Input should be a valid string or list")
    for at, item in enumerate(cast("list[Any]", system)):
        block = checker.fields(item, f"system.{at}", {"type", "text", "cache_control", "citations"})
        if block.get("type") != "text":
            refuse(f"system.{at}.type: Input should be 'text'")
        check_text(block.get("text"), f"system.{at}", "system")


def _check_messages(messages: Any, checker: Checker) -> None:
    if not isinstance(messages, list):
        refuse("messages: Input should be a valid list")
    if not messages:
        refuse("messages: at least one message is required")
    turns: list[tuple[str, list[dict[str, Any]], int]] = []
    for at, item in enumerate(cast("list[Any]", messages)):
        where = f"messages.{at}"
        message = checker.fields(item, where, {"role", "content"})
        role = message.get("role")
        if role not in ("user", "assistant"):
            refuse(f"{where}.role: Input should be 'user' or 'assistant'")
        blocks = check_blocks(message.get("content"), role, where, checker)
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, blocks, at))
    if turns[0][0] != "user":
        refuse('messages: first message must use the "user" role')
    if turns[-1][0] != "user":
        refuse("This model does not support assistant message prefill. The conversation must end with a user message.")
    _check_pairs(turns)


def _check_pairs(turns: list[tuple[str, list[dict[str, Any]], int]]) -> None:
    seen: set[str] = set()
    expected: list[str] = []
    for role, blocks, at in turns:
        if role == "assistant":
            expected = [block["id"] for block in blocks if block["type"] == "tool_use"]
            for call_id in expected:
                if call_id in seen:
                    refuse(f"messages.{at}: `tool_use` ids must be unique")
                seen.add(call_id)
            if blocks[-1]["type"] in ("thinking", "redacted_thinking"):
                refuse(f"messages.{at}: The final block in an assistant message cannot be `thinking`.")
            continue
        leading = _leading_results(blocks)
        missing = [call_id for call_id in expected if call_id not in leading]
        if missing:
            refuse(
                f"messages.{at - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        for call_id in results:
            if call_id not in expected:
                _unexpected(at, call_id)
            if results.count(call_id) > 1:
                refuse(
                    f"messages.{at}.content: each tool_use must have a single result. Found multiple `tool_result` "
                    f"blocks with id: {call_id}"
                )
        expected = []


def _leading_results(blocks: list[dict[str, Any]]) -> list[str]:
    """Ids of the results that stand before anything else."""
    leading: list[str] = []
    for block in blocks:
        if block["type"] != "tool_result":
            break
        leading.append(block["tool_use_id"])
    return leading


def _unexpected(at: int, call_id: str) -> NoReturn:
    refuse(
        f"messages.{at}.content: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each `tool_result` "
        "block must have a corresponding `tool_use` block in the previous message."
    )
