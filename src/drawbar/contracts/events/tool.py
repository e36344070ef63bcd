"""Payloads of tool calls: judged, started, streamed, ended or refused, and what changed on disk."""

from __future__ import annotations

from typing import ClassVar, Literal

from drawbar.contracts.codec import Free, FreeJson, Ident, Record
from drawbar.contracts.events.base import Payload

Cause = Literal["ok", "error", "timeout", "aborted", "unknown"]


class Decision(Record):
    """The gate's answer for a call that ran, and how long it took in microseconds."""

    outcome: Ident
    rule: Free | None = None
    by: Ident = "policy"
    us: int = 0
    reason: Free | None = None


class ToolStarted(Payload):
    """On disk before the call is carried out (CON-34, ACC-8)."""

    event: ClassVar[str] = "tool.started"
    call_id: Ident
    tool: Ident
    arguments: FreeJson
    arguments_sha256: Ident
    entry_id: Ident
    scope: Ident
    decision: Decision


class ToolDelta(Payload):
    """Live output of a running tool, coalesced."""

    event: ClassVar[str] = "tool.delta"
    call_id: Ident
    stream: Literal["stdout", "stderr", "output"]
    text: Free


class ToolCompleted(Payload):
    """Exactly one for each started call (QLT-12); ``tree`` is room for chapter 16."""

    event: ClassVar[str] = "tool.completed"
    call_id: Ident
    cause: Cause
    exit_code: int | None = None
    duration_ms: int | None = None
    preview: Free = ""
    sha256: Ident | None = None
    artifact: Ident | None = None
    entry_id: Ident | None = None
    tree: Ident | None = None


class ToolRefused(Payload):
    """The gate or a person said no, or a fault did (BND-3): ``cause`` tells which."""

    event: ClassVar[str] = "tool.refused"
    call_id: Ident
    tool: Ident
    arguments: FreeJson
    code: Ident
    cause: Literal["policy", "person", "fault"]
    message: Free
    entry_id: Ident | None = None


class FileChanged(Payload):
    """A native write: the path relative to the workspace root, hashes of the bytes (CON-25)."""

    event: ClassVar[str] = "file.changed"
    path: Free
    change: Literal["created", "modified", "deleted"]
    before: Ident | None = None
    after: Ident | None = None
    call_id: Ident | None = None


class ArtifactAdded(Payload):
    """A file that the run keeps beside its log (CON-25); ``path`` is relative to the run folder."""

    event: ClassVar[str] = "artifact.added"
    path: Ident
    sha256: Ident
    bytes: int
    media_type: Ident = "application/octet-stream"
    call_id: Ident | None = None
    reason: Ident | None = None
