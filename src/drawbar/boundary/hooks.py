"""What may look at a call before it runs (BND-3): the answer types, and how an answer is waited for.

An answer counts only if it is one of the three types here. A hook that raises, hangs, is cancelled or answers
anything else blocks the call, with a cause that differs from a refusal (QLT-2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from drawbar.contracts.tool import ToolCall

__all__ = [
    "Allowed",
    "BeforeTool",
    "HookAnswer",
    "HookFault",
    "HookRunner",
    "HookTimeout",
    "Refused",
    "Rewritten",
    "hook_name",
]


@dataclass(frozen=True, slots=True)
class Allowed:
    """Nothing against the call, as far as this hook goes."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The call must not run; ``message`` goes to the model."""

    message: str


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The call may run with these arguments instead; they are judged again from the schema on."""

    arguments: Any


HookAnswer = Allowed | Refused | Rewritten
_ANSWERS: Final = (Allowed, Refused, Rewritten)


class BeforeTool(Protocol):
    """A hook: gets the call as it would run now and the typed input, and answers (BND-3)."""

    name: str

    def __call__(self, call: ToolCall, tool_input: Any) -> Awaitable[HookAnswer]: ...


class HookFault(Exception):
    """The hook didn't give an answer that can be read."""


class HookTimeout(Exception):
    """The hook didn't answer in time."""


class HookRunner:
    """Asks hooks, one at a time, and owns the tasks of those that wouldn't end."""

    def __init__(self) -> None:
        # The loop holds tasks weakly; one that ignores its cancellation must stay known until it ends.
        self._left_behind: set[asyncio.Future[Any]] = set()

    async def ask(self, hook: BeforeTool, call: ToolCall, tool_input: Any, limit_s: float) -> HookAnswer:
        """Wait at most ``limit_s`` seconds for the answer of one hook.

        A hook that ignores its cancellation is left behind, so that the call is refused in time whatever it does.

        Raises:
            HookFault: when it raised, gave up or answered something else.
            HookTimeout: when it didn't answer in time.
        """
        task = asyncio.ensure_future(_guarded(hook, call, tool_input))
        self._left_behind.add(task)
        task.add_done_callback(self._left_behind.discard)
        try:
            done, _ = await asyncio.wait({task}, timeout=max(limit_s, 0.0))
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not done:
            task.cancel()
            raise HookTimeout(f"the hook `{hook_name(hook)}` did not answer within {limit_s:.1f} s")
        if task.cancelled():
            raise HookFault(f"the hook `{hook_name(hook)}` gave up")
        answer = task.result()
        if isinstance(answer, BaseException):
            raise HookFault(f"the hook `{hook_name(hook)}` failed: {type(answer).__name__}: {answer}") from answer
        if not isinstance(answer, _ANSWERS):
            raise HookFault(f"the hook `{hook_name(hook)}` gave an answer that can't be read")
        return answer


async def _guarded(hook: BeforeTool, call: ToolCall, tool_input: Any) -> Any:
    try:
        return await hook(call, tool_input)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        # Not even SystemExit out of a hook may take the run down with it.
        return error


def hook_name(hook: object) -> str:
    """How messages and rules call a hook."""
    return str(getattr(hook, "name", None) or getattr(hook, "__qualname__", None) or type(hook).__name__)
