"""The official SDK as an oracle: its types read our bodies, with no field that they don't know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

WHY = "the google-genai package isn't installed (dependency group dev)"


def body_faults(body: Mapping[str, Any]) -> list[str]:
    """What in a request the SDK's types would not allow; empty when it fits."""
    types = pytest.importorskip("google.genai.types", reason=WHY)
    config = {name: value for name, value in body.items() if name != "contents"}
    config |= config.pop("generationConfig", {})
    found: list[str] = []
    for kind, value in [(types.GenerateContentConfig, config), *((types.Content, one) for one in body["contents"])]:
        try:
            kind.model_validate(value)
        except ValueError as error:
            found.append(str(error))
    return found
