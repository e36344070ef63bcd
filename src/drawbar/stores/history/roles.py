"""What each kind of stored message becomes for the model: a user, assistant or toolResult message (SES-1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drawbar.contracts.codec import as_object

__all__ = [
    "GAP",
    "KNOWN_ROLES",
    "branch_summary_message",
    "compaction_message",
    "custom_message",
    "gap_message",
    "plain_text",
    "user_text",
    "visible_message",
]

Message = dict[str, Any]

KNOWN_ROLES = frozenset(
    {"user", "assistant", "toolResult", "bashExecution", "custom", "system", "hookMessage"}
    | {"branchSummary", "compactionSummary"}
)
"""``hookMessage`` is version 2's ``custom``; the summaries exist in memory only; ``system`` isn't sent."""

GAP = (
    "[Part of this conversation is missing here: its history file was damaged, and what stood between the "
    "messages before and after this note could not be read.]"
)


def user_text(text: str, timestamp: Any = None) -> Message:
    """A user message of one text block; ``timestamp`` is kept when the source had one."""
    message: Message = {"role": "user", "content": [{"type": "text", "text": text}]}
    if timestamp is not None:
        message["timestamp"] = timestamp
    return message


def gap_message() -> Message:
    """The visible mark of a hole in the branch (SES-2)."""
    return user_text(GAP)


def compaction_message(summary: str) -> Message:
    """What stands for everything that a compaction summarised."""
    return user_text(f"The conversation up to here was compacted. Its summary:\n\n<summary>\n{summary}\n</summary>")


def branch_summary_message(summary: str) -> Message:
    """What stands for a branch that was left."""
    return user_text(
        "The conversation went down another branch and came back from it. A summary of that branch:\n\n"
        f"<summary>\n{summary}\n</summary>"
    )


def custom_message(content: Any, timestamp: Any = None) -> Message:
    """What an extension or the harness put into the conversation, as the user message that the model sees."""
    if isinstance(content, str):
        return user_text(content, timestamp)
    message: Message = {"role": "user", "content": content if isinstance(content, list) else []}
    if timestamp is not None:
        message["timestamp"] = timestamp
    return message


def visible_message(message: Mapping[str, Any]) -> Message | None:
    """``message`` as the model sees it, or None when it doesn't.

    A role that nobody knows becomes a user message with its text, or None when it has none.
    """
    role, timestamp = message.get("role"), message.get("timestamp")
    match role:
        case "user" | "assistant" | "toolResult":
            return dict(message) if not isinstance(message, dict) else message
        case "custom" | "hookMessage":
            return custom_message(message.get("content"), timestamp)
        case "bashExecution":
            return None if message.get("excludeFromContext") else user_text(_bash_text(message), timestamp)
        case "compactionSummary":
            return compaction_message(_string(message.get("summary")))
        case "branchSummary":
            return branch_summary_message(_string(message.get("summary")))
        case "system":
            return None
        case _:
            text = plain_text(message.get("content"))
            return user_text(f"[A message of the unknown role {role!r}]\n{text}", timestamp) if text.strip() else None


def plain_text(content: Any) -> str:
    """The text in a message's content, in whatever form that is."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    blocks = [block if isinstance(block, str) else (as_object(block) or {}).get("text") for block in content]  # pyright: ignore[reportUnknownVariableType]
    return "\n".join(text for text in blocks if isinstance(text, str))


def _bash_text(message: Mapping[str, Any]) -> str:
    output = _string(message.get("output"))
    parts = [f"Ran `{_string(message.get('command'))}`", f"```\n{output}\n```" if output else "(no output)"]
    code = message.get("exitCode")
    if message.get("cancelled"):
        parts.append("(the command was cancelled)")
    elif isinstance(code, int) and code != 0:
        parts.append(f"It exited with code {code}.")
    if message.get("truncated"):
        where = message.get("fullOutputPath")
        parts.append(f"[The output was cut. All of it: {where}]" if isinstance(where, str) else "[The output was cut.]")
    return "\n".join(parts)


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
