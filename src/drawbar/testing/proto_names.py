"""Field names of Google's JSON, which may be spelt ``inlineData`` or ``inline_data`` (MDL-11)."""

from __future__ import annotations

import re
from typing import Any, Final, cast

__all__ = ["in_camel_case"]

_FREE: Final = frozenset(
    {
        "args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema",
        "partMetadata", "labels",
    }
)  # fmt: skip
"""Fields whose content has names of somebody else's."""


def in_camel_case(value: Any) -> Any:
    """``value`` with every name of the service's own in the one spelling."""
    if isinstance(value, list):
        return [in_camel_case(one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    named = {_camel(name): one for name, one in cast("dict[str, Any]", value).items()}
    return {name: one if name in _FREE else in_camel_case(one) for name, one in named.items()}


def _camel(name: str) -> str:
    return re.sub(r"(?<=[a-z\d])_([a-z])", lambda match: match[1].upper(), name)
