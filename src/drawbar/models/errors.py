"""What a failed attempt was: one table from status, code and text to a kind (MDL-5).

Kinds: ``auth``, ``rate_limit``, ``quota``, ``overloaded``, ``context_overflow``, ``refused``, ``bad_request``
and ``transport``. Nothing is retried here; the kind tells the retry policy what it may do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

from drawbar.contracts import codec
from drawbar.contracts.errors import ProviderError
from drawbar.models.google_error import quota_verdict, stated_delay_s

__all__ = ["Kind", "classify", "response_error", "retry_after_s", "stream_error", "transport_error"]

Kind = Literal["auth", "rate_limit", "quota", "overloaded", "context_overflow", "refused", "bad_request", "transport"]

MAX_MESSAGE: Final = 2000
"""Characters of a provider's own words that an error carries."""

# Spoken by error type or code alone, wherever it appears: in a response body or inside a stream.
_BY_TYPE: Final[dict[str, Kind]] = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "billing_error": "quota",
    "insufficient_quota": "quota",
    "overloaded_error": "overloaded",
    "api_error": "overloaded",
    "timeout_error": "overloaded",
    "server_error": "overloaded",
    "request_too_large": "context_overflow",
    "context_length_exceeded": "context_overflow",
    "content_filter": "refused",
    "content_policy_violation": "refused",
    "image_content_policy_violation": "refused",
    "bio_policy": "refused",
    "misalignment_policy_violation": "refused",
    "not_found_error": "bad_request",
    "invalid_request_error": "bad_request",
    # What a response may fail with after it was accepted; the same content would fail again.
    "invalid_prompt": "bad_request",
    "data_residency_mismatch": "bad_request",
    "invalid_image": "bad_request",
    "invalid_image_format": "bad_request",
    "invalid_base64_image": "bad_request",
    "invalid_image_url": "bad_request",
    "invalid_image_mode": "bad_request",
    "image_too_large": "bad_request",
    "image_too_small": "bad_request",
    "image_parse_error": "bad_request",
    "image_file_too_large": "bad_request",
    "unsupported_image_media_type": "bad_request",
    "empty_image_file": "bad_request",
    # Google's status words.
    "UNAUTHENTICATED": "auth",
    "PERMISSION_DENIED": "auth",
    "RESOURCE_EXHAUSTED": "rate_limit",
    "UNAVAILABLE": "overloaded",
    "INTERNAL": "overloaded",
    "DEADLINE_EXCEEDED": "overloaded",
    "INVALID_ARGUMENT": "bad_request",
    "FAILED_PRECONDITION": "bad_request",
    "NOT_FOUND": "bad_request",
}

_BY_STATUS: Final[dict[int, Kind]] = {
    401: "auth",
    402: "quota",
    403: "auth",
    408: "transport",
    413: "context_overflow",
    429: "rate_limit",
}

# Plain texts, compiled when the first error comes: most processes never see one.
_QUOTA: Final = (
    r"credit balance|insufficient[_ ](?:quota|credit|funds)|exceeded your current quota|payment required"
    r"|plan and billing|(?:api )?usage limits?\b.*regain access"
)
_OVERFLOW: Final = (
    r"prompt is too long|input is too long|context[_ ](?:length|window|limit|size)|maximum context"
    r"|exceeds? the (?:model'?s? )?(?:maximum|max)(?: number of)?(?: input)? tokens|too many (?:input )?tokens"
)
_AUTH: Final = r"api key (?:not valid|not found|expired)"
_REFUSED: Final = r"content[_ ](?:filter|policy)|content management policy|violat\w+ .{0,40}usage policy"


def classify(status: int | None, error_type: str | None, text: str) -> Kind:
    """The kind of a failure, by status, code and text together.

    A rate limit is never taken for an overflow, though both speak of tokens; an exhausted account that
    answers with a plain 400 or 429 is still ``quota``, because waiting does not help it.

    Args:
        status: the HTTP status; None or 200 for an error inside a stream.
        error_type: the provider's own type or code, if it gave one.
        text: its message.
    """
    if status is not None and 300 <= status < 400:
        # A redirect is not followed: the credential was meant for the host that was named.
        return "bad_request"
    stated = _BY_TYPE.get(error_type or "")
    if stated == "quota" or _says(_QUOTA, text):
        return "quota"
    if status == 429 or stated == "rate_limit":
        return "rate_limit"
    if stated == "auth" or status in (401, 403) or _says(_AUTH, text):
        return "auth"
    if stated in ("context_overflow", "refused"):
        return stated
    if _says(_OVERFLOW, text):
        return "context_overflow"
    if _says(_REFUSED, text):
        return "refused"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if stated is not None:
        return stated
    # Inside a stream the request was already accepted, so an error of no known type is the server's.
    return "overloaded" if status is None or status >= 500 else "bad_request"


def response_error(status: int, headers: Mapping[str, str], body: bytes, *, now_ms: int) -> ProviderError:
    """The error of a response whose status says that it failed.

    Args:
        status: the HTTP status.
        headers: of the response, looked up in lower case.
        body: what could be read of it; any bytes.
        now_ms: wall time, for a ``retry-after`` given as a date.
    """
    payload = _parsed(body)
    error_type, text, request_id = _read_error(payload)
    if not text:
        text = "no explanation was given" if not body else _plain(body)
    wait = retry_after_s(headers, now_ms)
    return _error(
        quota_verdict(_detail(payload)) or classify(status, error_type, text),
        f"the provider answered {status}: {text}",
        status=status,
        retry_after_s=stated_delay_s(_detail(payload)) if wait is None else wait,
        error_type=error_type,
        request_id=request_id or headers.get("request-id"),
    )


def stream_error(payload: Mapping[str, Any], *, status: int, usage: Any, request_id: str | None) -> ProviderError:
    """The error that a provider sent inside a stream whose status had promised success."""
    error_type, text, stated_id = _read_error(payload)
    text = text or "no explanation was given"
    return _error(
        quota_verdict(_detail(payload)) or classify(None, error_type, text),
        f"the provider reported an error in its reply: {text}",
        status=status,
        retry_after_s=stated_delay_s(_detail(payload)),
        usage=usage,
        error_type=error_type,
        request_id=stated_id or request_id,
    )


def transport_error(message: str, *, status: int | None = None, usage: Any = None, **facts: Any) -> ProviderError:
    """A connection that failed, was silent, ended early, or carried something unreadable."""
    return _error("transport", message, status=status, usage=usage, **facts)


def retry_after_s(headers: Mapping[str, str], now_ms: int) -> float | None:
    """The wait that a response states, in seconds from now and never negative; None when it states none."""
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return max(0.0, millis / 1000)
    stated = headers.get("retry-after")
    seconds = _number(stated)
    if seconds is not None:
        return max(0.0, seconds)
    if stated is None:
        return None
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(stated)
    except ValueError:
        return None
    return max(0.0, at.timestamp() - now_ms / 1000)


def _says(pattern: str, text: str) -> bool:
    return re.search(pattern, text[:MAX_MESSAGE], re.IGNORECASE | re.DOTALL) is not None


def _error(kind: Kind, message: str, **rest: Any) -> ProviderError:
    return ProviderError(
        message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…",
        kind=kind,
        **{key: value for key, value in rest.items() if value is not None},
    )


def _parsed(body: bytes) -> Any:
    try:
        payload: Any = codec.loads(body)
    except ValueError:
        return None
    # Google answers a request for a list of responses with a list of one error.
    if isinstance(payload, list) and len(cast("list[Any]", payload)) == 1:
        return cast("list[Any]", payload)[0]
    return cast("Any", payload)


def _detail(payload: Any) -> Mapping[str, Any]:
    inner: Any = cast("Mapping[str, Any]", payload).get("error") if isinstance(payload, Mapping) else None
    return cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else {}


def _read_error(payload: Any) -> tuple[str | None, str, str | None]:
    """``(type or code, message, request id)`` from the shapes that providers and gateways use."""
    if not isinstance(payload, Mapping):
        return None, payload if isinstance(payload, str) else "", None
    fields = cast("Mapping[str, Any]", payload)
    request_id = fields.get("request_id")
    inner: Any = fields.get("error", fields)
    if isinstance(inner, Mapping):
        detail = cast("Mapping[str, Any]", inner)
        known = [value for value in map(detail.get, ("type", "code", "status")) if isinstance(value, str)]
        # A gateway may give a vague type beside a telling code.
        telling = (value for value in known if _BY_TYPE.get(value, "bad_request") != "bad_request")
        chosen = next(telling, known[0] if known else None)
        text = detail.get("message")
    else:
        chosen, text = None, inner
    return chosen, text if isinstance(text, str) else "", request_id if isinstance(request_id, str) else None


def _plain(body: bytes) -> str:
    """The start of a body that is not JSON (a proxy's page), tags dropped, on one line."""
    text = re.sub(r"<[^>]*>", " ", body[:4096].decode("utf-8", "replace"))
    return " ".join(text.split())[:300] or "an unreadable body"


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    # float() also reads "nan" and "inf", which no server means as a wait.
    return value if value is not None and abs(value) < 1e9 else None
