"""Payloads of a run's life: its start, its status, its end, and what the harness noticed on the way."""

from __future__ import annotations

from typing import ClassVar

from drawbar.contracts.codec import Free, FreeJson, Ident
from drawbar.contracts.events.base import Payload

SCHEMA_VERSION = 1
"""Of run records and event logs; line 0 of a log carries it (CON-11)."""


class Started(Payload):
    """Line 0: what was pinned when the run opened."""

    event: ClassVar[str] = "started"
    schema_version: int = SCHEMA_VERSION
    run_id: Ident = ""
    session_id: Ident = ""
    engine: Ident = ""
    harness_version: Ident = ""
    account: Ident | None = None
    model: Ident | None = None
    workspace_root: Free | None = None
    capabilities_digest: Ident | None = None
    approval_mode: Ident | None = None
    sandbox: Ident | None = None
    automatic: bool = False


class ContextSnapshot(Payload):
    """Digests of what one model request was made of (CON-34, ACC-3)."""

    event: ClassVar[str] = "context.snapshot"
    request: int = 0
    model: Ident | None = None
    system_sha256: Ident | None = None
    tools_sha256: Ident | None = None
    messages: int = 0
    last_message_sha256: Ident | None = None
    body_sha256: Ident | None = None
    bytes: int = 0


class StatusChanged(Payload, rename={"from_": "from"}):
    """One allowed edge (CON-3); an interruption carries its terminal code."""

    event: ClassVar[str] = "status.changed"
    from_: Ident = ""
    to: Ident = ""
    code: Ident | None = None
    reason: Free | None = None


class Completed(Payload):
    """Terminal: the model ended the reply (RUN-25)."""

    event: ClassVar[str] = "completed"
    outcome: Ident | None = None
    code: Ident = "completed"


class Failed(Payload):
    """Terminal: an error ended the reply; ``error`` is the stable code behind ``code``."""

    event: ClassVar[str] = "failed"
    code: Ident = "failed"
    error: Ident = "failed"
    reason: Free = ""


class ExtensionNotice(Payload):
    """Something the harness or a plugin noticed that a person should see; never silent."""

    event: ClassVar[str] = "extension.notice"
    source: Ident = "harness"
    code: Ident = ""
    message: Free = ""
    details: FreeJson = None


class ReactionAdded(Payload):
    event: ClassVar[str] = "reaction.added"
    message_id: Ident = ""
    reaction: Free = ""
    by: Ident = ""


class AgentMessage(Payload, rename={"from_": "from"}):
    """A message between agents (subagents, staff)."""

    event: ClassVar[str] = "agent.message"
    message_id: Ident = ""
    from_: Ident = ""
    to: Ident = ""
    text: Free = ""


class RetryStarted(Payload):
    event: ClassVar[str] = "retry.started"
    attempt: int = 0
    cause: Ident = ""
    wait_ms: int = 0
    message: Free | None = None


class RetryEnded(Payload):
    event: ClassVar[str] = "retry.ended"
    attempt: int = 0
    ok: bool = False
    cause: Ident | None = None


class CompactionStarted(Payload):
    """CON-20: the latest known sizes, absent where unknown."""

    event: ClassVar[str] = "compaction.started"
    reason: Ident = ""
    context_tokens: int | None = None
    context_window: int | None = None


class CompactionEnded(Payload):
    event: ClassVar[str] = "compaction.ended"
    ok: bool = False
    tokens_before: int | None = None
    tokens_after: int | None = None
    entry_id: Ident | None = None
    reason: Free | None = None


class SandboxChanged(Payload):
    """The sandbox of this run is not the ordinary one, and why (BND-6)."""

    event: ClassVar[str] = "sandbox.changed"
    state: Ident = ""
    by: Ident = ""
    reason: Free | None = None


class NetworkDecided(Payload):
    """One decision of the allow-list proxy, or ``count`` equal ones of the same call (BND-13)."""

    event: ClassVar[str] = "network.decided"
    call_id: Ident | None = None
    host: Free = ""
    port: int = 0
    allowed: bool = False
    rule: Ident | None = None
    reason: Free | None = None
    count: int = 1


class GoalChanged(Payload):
    event: ClassVar[str] = "goal.changed"
    status: Ident = ""
    by: Ident = ""
    reason: Free | None = None
    round: int = 0
    unverified: bool = False
