"""The official SDK's own request types as an oracle, read strictly: no field that they don't know."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Required, Union

from typing_extensions import is_typeddict


def request_faults(body: Mapping[str, Any]) -> list[str]:
    """What in ``body`` the SDK's types for a streamed request would not allow; empty when it fits."""
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    return faults(body, MessageCreateParamsStreaming, "$")


@cache
def hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def faults(value: Any, kind: Any, where: str) -> list[str]:
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if kind is Any or kind is object:
        return []
    if origin in (Required, NotRequired, typing.Annotated):
        return faults(value, arguments[0], where)
    if origin in (Union, UnionType):
        found = [faults(value, one, where) for one in arguments]
        return min(found, key=lambda problems: (len(problems), -max(map(len, problems), default=0)))
    if origin is Literal:
        return [] if value in arguments else [f"{where}: {value!r} is none of {arguments}"]
    if is_typeddict(kind):
        return dict_faults(value, kind, where)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return [] if isinstance(value, dict) else [f"{where}: no object"]
    if (isinstance(origin, type) and issubclass(origin, Iterable)) or getattr(kind, "__name__", "") == "SequenceNotStr":
        if not isinstance(value, list):
            return [f"{where}: no list"]
        return [fault for at, one in enumerate(value) for fault in faults(one, arguments[0], f"{where}[{at}]")]
    if kind in (None, NoneType):
        return [] if value is None else [f"{where}: not null"]
    if not isinstance(kind, type):
        return [f"{where}: {kind} is not understood by this check"]
    if issubclass(kind, Sequence) and not issubclass(kind, str | bytes):
        return [] if isinstance(value, list) else [f"{where}: no list"]
    fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    return [] if fits else [f"{where}: {value!r} is no {kind.__name__}"]


def dict_faults(value: Any, kind: Any, where: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where}: no object"]
    known = hints(kind)
    problems = [f"{where}.{name}: unknown to {kind.__name__}" for name in value if name not in known]
    problems += [f"{where}.{name}: missing" for name in kind.__required_keys__ if name not in value]
    for name, part in value.items():
        if name in known:
            problems += faults(part, known[name], f"{where}.{name}")
    return problems
