"""What Gemini's generateContent refuses, in its own words as far as they are known (MDL-11).

Strict where the real service is: unknown fields at every level, turns, that each call is answered right after it,
names, declarations, image types, thinking by generation, and the thought signature of a call under way.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

from drawbar.contracts import codec
from drawbar.testing.gemini_models import generation_of
from drawbar.testing.json_schema_shape import schema_fault
from drawbar.testing.proto_names import in_camel_case
from drawbar.testing.speech import ApiError

__all__ = ["check_gemini_request"]

MAX_BODY_BYTES: Final = 20 * 1024 * 1024
MAX_DECLARATIONS: Final = 512
_TOP: Final = frozenset(
    {
        "contents", "systemInstruction", "tools", "toolConfig", "safetySettings", "generationConfig", "cachedContent",
        "model", "labels", "serviceTier", "store",
    }
)  # fmt: skip
_GENERATION: Final = frozenset(
    {
        "stopSequences", "responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities",
        "candidateCount", "maxOutputTokens", "temperature", "topP", "topK", "seed", "presencePenalty",
        "frequencyPenalty", "responseLogprobs", "logprobs", "enableEnhancedCivicAnswers", "speechConfig",
        "thinkingConfig", "imageConfig", "mediaResolution",
    }
)  # fmt: skip
_TOOLS: Final = frozenset(
    {"functionDeclarations", "googleSearch", "codeExecution", "urlContext", "googleSearchRetrieval", "computerUse"}
)
_DECLARATION: Final = frozenset(
    {"name", "description", "behavior", "parameters", "parametersJsonSchema", "response", "responseJsonSchema"}
)
_DATA: Final = {
    "text": None,
    "inlineData": frozenset({"mimeType", "data", "displayName"}),
    "fileData": frozenset({"mimeType", "fileUri", "displayName"}),
    "functionCall": frozenset({"id", "name", "args", "partialArgs", "willContinue"}),
    "functionResponse": frozenset({"id", "name", "response", "parts", "willContinue", "scheduling"}),
    "executableCode": frozenset({"id", "language", "code"}),
    "codeExecutionResult": frozenset({"id", "outcome", "output"}),
    "toolCall": frozenset({"id", "toolType", "args"}),
    "toolResponse": frozenset({"id", "toolType", "response"}),
}
_BESIDE: Final = frozenset({"thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"})
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_IMAGES: Final = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/webp": b"RIFF",
    "image/heic": b"",
    "image/heif": b"",
}
_LEVELS: Final = frozenset({"MINIMAL", "LOW", "MEDIUM", "HIGH"})

Fields = Mapping[str, Any]


def check_gemini_request(headers: Mapping[str, str], body: bytes, *, model: str) -> dict[str, Any]:
    """The parsed request.

    Args:
        headers: names in lower case.
        body: as received.
        model: as the path names it, without its collection.

    Raises:
        ApiError: for what the service would refuse.
    """
    if not (headers.get("x-goog-api-key") or headers.get("authorization", "").startswith("Bearer ")):
        raise ApiError(
            "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or "
            "other form of API consumer identity to call this API.",
            status=403,
            kind="PERMISSION_DENIED",
        )
    if len(body) > MAX_BODY_BYTES:
        _refuse(f"Request payload size exceeds the limit: {MAX_BODY_BYTES} bytes.")
    try:
        fields = codec.as_object(in_camel_case(codec.loads(body)))
    except (ValueError, RecursionError) as error:
        raise ApiError(f"Invalid JSON payload received. {error}", kind="INVALID_ARGUMENT") from error
    if fields is None:
        _refuse("Invalid JSON payload received. Expected an object.")
    _known(fields, _TOP, "")
    system = fields.get("systemInstruction")
    if system is not None:
        content = _object(system, "system_instruction")
        _known(content, frozenset({"role", "parts"}), " at 'system_instruction'")
        _check_parts(content, "system_instruction", only_text=True)
    _check_tools(fields.get("tools"))
    _check_generation(_object(fields.get("generationConfig", {}), "generation_config"), model)
    contents = fields.get("contents")
    if not isinstance(contents, list) or not contents:
        _refuse("* GenerateContentRequest.contents: contents is not specified")
    _check_contents(cast("list[Any]", contents), signed=generation_of(model) >= (3, 0))
    return fields


# -- settings ---------------------------------------------------------------------------------------


def _check_generation(fields: Fields, model: str) -> None:
    _known(fields, _GENERATION, " at 'generation_config'")
    most = fields.get("maxOutputTokens")
    if most is not None and (type(most) is not int or most < 1):
        _refuse("Unable to submit request because it has a maxOutputTokens value out of the supported range from 1.")
    if "thinkingConfig" in fields:
        _check_thinking(_object(fields["thinkingConfig"], "generation_config.thinking_config"), model)


def _check_thinking(thinking: Fields, model: str) -> None:
    _known(
        thinking,
        frozenset({"includeThoughts", "thinkingBudget", "thinkingLevel"}),
        " at 'generation_config.thinking_config'",
    )
    generation = generation_of(model)
    pro = "pro" in model
    if generation < (2, 5):
        _refuse("Unable to submit request because thinking is not supported by this model.")
    level, budget = thinking.get("thinkingLevel"), thinking.get("thinkingBudget")
    if level is not None and budget is not None:
        _refuse("You can only set only one of thinking budget and thinking level.")
    if level is not None:
        if str(level).upper() not in _LEVELS:
            _refuse(
                f"Invalid value at 'generation_config.thinking_config.thinking_level' (type.googleapis.com/"
                f'google.ai.generativelanguage.v1beta.ThinkingConfig.ThinkingLevel), "{level}"'
            )
        if generation < (3, 0):
            _refuse("Thinking level is not supported for this model.")
        if pro and (level == "MINIMAL" or (level == "MEDIUM" and generation == (3, 0))):
            _refuse(f"Thinking level {level} is not supported for this model. Please retry with other thinking level.")
    if budget is not None:
        if type(budget) is not int:
            _refuse("Invalid value at 'generation_config.thinking_config.thinking_budget' (TYPE_INT32)")
        if budget == 0 and pro:
            _refuse("Budget 0 is invalid. This model only works in thinking mode.")
        least, most = (128, 32768) if pro else (512, 24576)
        if budget not in (0, -1) and not least <= budget <= most:
            _refuse(f"The thinking budget {budget} is invalid. Please choose a value between {least} and {most}.")


def _check_tools(tools: Any) -> None:
    if tools is None:
        return
    if not isinstance(tools, list):
        _refuse("Invalid value at 'tools'")
    names: list[str] = []
    for at, tool in enumerate(cast("list[Any]", tools)):
        fields = _object(tool, f"tools[{at}]")
        _known(fields, _TOOLS, f" at 'tools[{at}]'")
        declared: Any = fields.get("functionDeclarations", [])
        if not isinstance(declared, list):
            _refuse(f"Invalid value at 'tools[{at}].function_declarations'")
        for number, one in enumerate(cast("list[Any]", declared)):
            names.append(_declaration(one, f"tools[{at}].function_declarations[{number}]"))
    for name in names:
        if names.count(name) > 1:
            _refuse(f"Duplicate function declaration found: {name}")
    if len(names) > MAX_DECLARATIONS:
        _refuse(f"At most {MAX_DECLARATIONS} function declarations are allowed.")


def _declaration(value: Any, where: str) -> str:
    fields = _object(value, where)
    _known(fields, _DECLARATION, f" at '{where}'")
    name = _checked_name(fields.get("name"), f"{where}.name")
    if "parameters" in fields and "parametersJsonSchema" in fields:
        _refuse(f"* GenerateContentRequest.{where}: only one of parameters and parametersJsonSchema can be set")
    schema = fields.get("parametersJsonSchema", fields.get("parameters"))
    if schema is not None:
        fault = schema_fault(schema)
        if fault or not isinstance(schema, dict) or str(cast("Fields", schema).get("type", "")).lower() != "object":
            _refuse(f"* GenerateContentRequest.{where}.parameters: {fault or 'the schema should be of type OBJECT'}")
    return name


# -- contents ---------------------------------------------------------------------------------------


def _check_contents(contents: list[Any], *, signed: bool) -> None:
    kinds: list[list[Fields]] = []
    expected = "user"
    for at, value in enumerate(contents):
        where = f"contents[{at}]"
        content = _object(value, where)
        _known(content, frozenset({"role", "parts"}), f" at '{where}'")
        role = content.get("role", "user")
        if role not in ("user", "model"):
            _refuse("Please use a valid role: user, model.")
        if role != expected:
            _refuse("Please ensure that multiturn requests alternate between user and model.")
        expected = "model" if role == "user" else "user"
        kinds.append(_check_parts(content, where, model=role == "model"))
        _check_pairs(kinds)
    if expected == "user":
        _refuse("Please ensure that multiturn requests end with a user role or a function response.")
    if signed:
        _check_signatures(kinds)


def _check_pairs(turns: list[list[Fields]]) -> None:
    """The last turn answers the calls of the one before, each of them, in their order."""
    calls = [part["functionCall"] for part in turns[-2] if "functionCall" in part] if len(turns) > 1 else []
    results = [part["functionResponse"] for part in turns[-1] if "functionResponse" in part]
    if results and not calls:
        _refuse("Please ensure that function response turn comes immediately after a function call turn.")
    if len(results) != len(calls):
        _refuse(
            "Please ensure that the number of function response parts is equal to the number of function call parts "
            "of the function call turn."
        )
    for at, (call, result) in enumerate(zip(calls, results, strict=True)):
        if call["name"] != result["name"] or call.get("id") != result.get("id"):
            _refuse(f"Function response {at} ({result['name']}) does not answer function call {at} ({call['name']}).")
    if results and "functionResponse" not in turns[-1][0]:
        _refuse("Please ensure that function response parts come before other parts of their turn.")


def _check_signatures(turns: list[list[Fields]]) -> None:
    """Each step since the user last spoke must begin its calls with a signature."""
    spoke = [at for at, parts in enumerate(turns) if at % 2 == 0 and not any("functionResponse" in p for p in parts)]
    for at in range((spoke or [0])[-1] + 1, len(turns), 2):
        first = next((part for part in turns[at] if "functionCall" in part), None)
        if first is not None and not first.get("thoughtSignature"):
            _refuse(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                f"work correctly. Function call `{first['functionCall']['name']}`, position {at}."
            )


def _check_parts(content: Fields, where: str, *, model: bool = False, only_text: bool = False) -> list[Fields]:
    parts = content.get("parts")
    if not isinstance(parts, list) or not parts:
        _refuse(f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty.")
    found = [_object(part, f"{where}.parts[{at}]") for at, part in enumerate(cast("list[Any]", parts))]
    for at, part in enumerate(found):
        _check_part(part, f"{where}.parts[{at}]", model=model)
        if only_text and "text" not in part:
            _refuse("Request contains an invalid argument: system instructions are texts.")
    if model and all(part.get("thought") is True for part in found):
        _refuse(f"* GenerateContentRequest.{where}.parts: a model turn needs more than thoughts.")
    return found


def _check_part(part: Fields, where: str, *, model: bool) -> None:
    _known(part, frozenset(_DATA) | _BESIDE, f" at '{where}'")
    data = [name for name in _DATA if name in part]
    if len(data) != 1:
        _refuse(f"* GenerateContentRequest.{where}.data: required oneof field 'data' must have one initialized field")
    kind = data[0]
    signature = part.get("thoughtSignature")
    if signature is not None:
        if not model:
            _refuse(f"Invalid value at '{where}.thought_signature': only model turns carry thought signatures")
        _decoded(signature, f"{where}.thought_signature")
    if kind == "text":
        text = part["text"]
        if not isinstance(text, str):
            _refuse(f"Invalid value at '{where}.text' (TYPE_STRING)")
        if not text.strip() and not signature and not part.get("thought"):
            _refuse("Unable to submit request because it must have a text parameter.")
        return
    inner = _object(part[kind], f"{where}.{kind}")
    _known(inner, cast("frozenset[str]", _DATA[kind]), f" at '{where}.{kind}'")
    if kind == "functionCall":
        _check_call(inner, where, model=model)
    elif kind == "functionResponse":
        _check_response(inner, where, model=model)
    elif kind == "inlineData":
        _check_inline(inner, where, model=model)


def _check_call(call: Fields, where: str, *, model: bool) -> None:
    if not model:
        _refuse("Please ensure that function call turn comes immediately after a user turn.")
    _checked_name(call.get("name"), f"{where}.function_call.name")
    _object(call.get("args", {}), f"{where}.function_call.args")


def _check_response(response: Fields, where: str, *, model: bool) -> None:
    if model:
        _refuse("Please ensure that function response turn comes immediately after a function call turn.")
    _checked_name(response.get("name"), f"{where}.function_response.name")
    if not isinstance(response.get("response"), dict):
        _refuse(f"Invalid value at '{where}.function_response.response' (type.googleapis.com/google.protobuf.Struct)")


def _check_inline(data: Fields, where: str, *, model: bool) -> None:
    kind = data.get("mimeType")
    raw = _decoded(data.get("data"), f"{where}.inline_data.data")
    if model:
        return
    if kind not in _IMAGES:
        _refuse(f"Unsupported MIME type: {kind}")
    if not raw.startswith(_IMAGES[str(kind)]):
        _refuse("Unable to process input image. Please retry or report in https://developers.generativeai.google/")


def _decoded(value: Any, where: str) -> bytes:
    try:
        if not isinstance(value, str) or not value:
            raise ValueError
        return base64.b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
    except (ValueError, binascii.Error):
        _refuse(f"Invalid value at '{where}' (TYPE_BYTES), Base64 decoding failed for {str(value)[:40]!r}")


def _checked_name(name: Any, where: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        _refuse(
            f"* GenerateContentRequest.{where}: Invalid function name. Must start with a letter or an underscore. Must "
            "be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum "
            "length of 64."
        )
    return name


def _known(fields: Fields, known: frozenset[str], where: str) -> None:
    for name in fields:
        if name not in known:
            _refuse(f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.')


def _object(value: Any, where: str) -> Fields:
    fields = codec.as_object(value)
    if fields is None:
        _refuse(f"Invalid value at '{where}': expected an object.")
    return fields


def _refuse(message: str) -> NoReturn:
    raise ApiError(message, kind="INVALID_ARGUMENT")
