"""The table of event types: tag to payload schema (CON-10)."""

from __future__ import annotations

from typing import Final

from drawbar.contracts.events import human, lifecycle, message, progress, tool, usage
from drawbar.contracts.events.base import Payload

__all__ = ["PAYLOADS", "RETIRED", "payload_type"]

PAYLOADS: Final[dict[str, type[Payload]]] = {
    kind.event: kind
    for kind in (
        lifecycle.Started,
        lifecycle.ContextSnapshot,
        message.MessageDelta,
        message.MessageCompleted,
        message.MessageQueued,
        message.MessageSteered,
        message.MessageDropped,
        tool.ToolStarted,
        tool.ToolDelta,
        tool.ToolCompleted,
        tool.ToolRefused,
        lifecycle.RetryStarted,
        lifecycle.RetryEnded,
        lifecycle.CompactionStarted,
        lifecycle.CompactionEnded,
        human.ApprovalRequested,
        human.ApprovalResolved,
        human.QuestionRequested,
        human.QuestionAnswered,
        lifecycle.ExtensionNotice,
        lifecycle.ReactionAdded,
        lifecycle.AgentMessage,
        progress.TodoUpdated,
        progress.Checkpoint,
        progress.Heartbeat,
        tool.ArtifactAdded,
        tool.FileChanged,
        usage.UsageUpdated,
        usage.AccountStatus,
        lifecycle.StatusChanged,
        lifecycle.Failed,
        lifecycle.Completed,
        lifecycle.GoalChanged,
        lifecycle.NetworkDecided,
        lifecycle.SandboxChanged,
    )
}

RETIRED: Final[dict[str, str]] = {"checklist.updated": "todo.updated"}
"""Still read under their new name, never written (CON-9)."""


def payload_type(tag: str) -> type[Payload] | None:
    """The schema of an event type, retired names included; None for a type this release doesn't know."""
    return PAYLOADS.get(RETIRED.get(tag, tag))
