"""The run record and the input that starts a run (CON-1, RUN-1)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from drawbar.contracts.codec import UNSET, Meta, Record, Request, UnsetType
from drawbar.contracts.events.usage import Usage
from drawbar.contracts.status import Outcome, Status

__all__ = [
    "ASKED_TRIGGERS",
    "NEVER_ASKED",
    "PREVIEW_CHARS",
    "ApprovalMode",
    "LogHead",
    "RunInput",
    "RunRecord",
    "VariantPin",
]

ApprovalMode = Literal["ask", "auto-workspace", "read-only", "never"]

NEVER_ASKED: Final[frozenset[str]] = frozenset({"probe", "improver", "reflection"})
"""Triggers whose runs are never asked about (CON-6)."""
ASKED_TRIGGERS: Final[frozenset[str]] = frozenset({"user", "slice", "side-question", "role"})

PREVIEW_CHARS: Final = 200


class VariantPin(Record):
    scope: str
    version: str


class LogHead(Record):
    """Where the log ended at settle, so that a cut tail shows (CON-11)."""

    seq: int
    chain: str


class RunRecord(Record):
    """One run, as ``run.json`` holds it.

    The file is patched as a raw object and this is a view of it (CON-37), so a field that this release
    doesn't know survives. ``model`` and ``effort`` are the launch's until the engine session opens.
    ``terminal_code`` is null on records written before it existed. ``mode``, ``harness``,
    ``session_type``, ``attachment_count``, ``exit_code`` and ``handoff_id`` are the application's own.
    """

    id: str
    session_id: str = ""
    status: Status = "queued"
    terminal_code: str | None = None
    terminal_reason: str | None = None
    outcome: Outcome | None = None
    trigger: str = "user"
    relation: str | None = None
    parent_run_id: str | None = None
    resumed_from_run_id: str | None = None
    title: str | None = None
    profile: str | None = None
    engine: str = "native"
    engine_version: str | None = None
    harness_version: str | None = None
    harness_scope: str | None = None
    account: str | None = None
    model: str | None = None
    effort: str | None = None
    variant: VariantPin | None = None
    capabilities_digest: str | None = None
    working_directory: str | None = None
    workspace_root: str | None = None
    workspace_snapshot: dict[str, Any] | None = None
    worktree_id: str | None = None
    native_session_id: str | None = None
    native_history: str | None = None
    plan: bool = False
    plan_outcome: str | None = None
    automatic: bool = False
    live: bool = False
    goal_mode: dict[str, Any] | None = None
    work_slice: dict[str, Any] | None = None
    slice: dict[str, Any] | None = None
    usage: Usage | None = None
    loaded_skills: list[str] | UnsetType = UNSET
    activated_plugins: list[str] | UnsetType = UNSET
    request_preview: str | None = None
    created_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    schema_version: int = 1
    sandbox: str | None = None
    approval: str | None = None
    log_head: LogHead | None = None
    mode: str | None = None
    harness: Any = None
    session_type: str | None = None
    attachment_count: int | None = None
    exit_code: int | None = None
    handoff_id: str | None = None


class RunInput(Request):
    """What ``sessions.run`` takes. What later features add is absent here and so refused by name.

    ``initial_bash`` is the command that a new interactive turn begins with; it must equal the text's leading ``!``
    command (RUN-7). ``cwd`` is the effective working directory; ``narrow_tools`` and ``narrow_scopes`` are a narrower
    requested set that is intersected with the caller's own (RUN-2, RUN-5).
    """

    text: str
    initial_bash: str | None = None
    session_id: str | None = None
    run_id: str | None = None
    session_dir: str | None = None
    resume: bool = False
    cwd: str | None = None
    account: str | None = None
    model: str | None = None
    effort: str | None = None
    trigger: str = "user"
    automatic: bool = False
    approval: ApprovalMode | None = None
    sandbox: Literal["on", "off"] | None = None
    ask_timeout_s: Annotated[float, Meta(ge=0)] = 0.0
    narrow_tools: list[str] | None = None
    narrow_scopes: list[str] | None = None
    title: str | None = None
    mode: str | None = None
    harness: Any = None
    session_type: str | None = None
    attachment_count: int | None = None
    handoff_id: str | None = None
    worktree_id: str | None = None
