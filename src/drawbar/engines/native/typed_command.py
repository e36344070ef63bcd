"""A command that the person typed with ``!``, as the history keeps it: Pi's own kind of message (RUN-7)."""

from __future__ import annotations

from typing import Any

from drawbar.contracts.tool import ToolResult

__all__ = ["bash_execution"]

_NOT_RUN_TO_ITS_END = frozenset({"aborted", "timeout", "unknown"})


def bash_execution(command: str, result: ToolResult, timestamp: int) -> dict[str, Any]:
    """The ``bashExecution`` message of a command and its result; the model sees both as a user message.

    Args:
        command: as typed and redacted.
        result: admitted: bounded and redacted. One that never ran says why in its text.
        timestamp: milliseconds since the epoch.
    """
    message: dict[str, Any] = {"role": "bashExecution", "command": command, "output": result.joined}
    if result.exit_code is not None:
        message["exitCode"] = result.exit_code
    never_ran = result.is_error and result.exit_code is None
    message["cancelled"] = never_ran or result.cause in _NOT_RUN_TO_ITS_END
    message["truncated"] = result.artifact is not None
    if result.artifact is not None:
        message["fullOutputPath"] = result.artifact
    message["timestamp"] = timestamp
    return message
