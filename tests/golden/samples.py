"""One of everything that is written, with fixed values: what the golden files were made from."""

from __future__ import annotations

from typing import Any

from drawbar.contracts.capability import CapabilitySet, SubagentRights
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.human import (
    Answer,
    ApprovalRequested,
    ApprovalResolved,
    Choice,
    Dialog,
    Question,
    QuestionAnswered,
    QuestionRequested,
)
from drawbar.contracts.events.lifecycle import (
    AgentMessage,
    CompactionEnded,
    CompactionStarted,
    Completed,
    ContextSnapshot,
    ExtensionNotice,
    Failed,
    GoalChanged,
    NetworkDecided,
    ReactionAdded,
    RetryEnded,
    RetryStarted,
    SandboxChanged,
    Started,
    StatusChanged,
)
from drawbar.contracts.events.message import (
    MessageCompleted,
    MessageDelta,
    MessageDropped,
    MessageQueued,
    MessageSteered,
)
from drawbar.contracts.events.progress import Checkpoint, CheckRun, Heartbeat, TodoItem, TodoUpdated
from drawbar.contracts.events.tool import (
    ArtifactAdded,
    Decision,
    FileChanged,
    ToolCompleted,
    ToolDelta,
    ToolRefused,
    ToolStarted,
)
from drawbar.contracts.events.usage import AccountStatus, Limit, RequestUsage, Usage, UsageUpdated
from drawbar.contracts.run import LogHead, RunRecord, VariantPin
from drawbar.stores.owner import Owner

RUN = "r_01jd00000000000000000000aa"
SESSION = "s_01jd00000000000000000000ab"
MESSAGE = "m_01jd00000000000000000000ac"
APPROVAL = "a_01jd00000000000000000000ad"
QUESTION = "q_01jd00000000000000000000ae"
CALL = "toolu_01"
DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
FIRST_MS = 1_796_040_000_000

CAPABILITIES = CapabilitySet(
    tools=("bash", "read", "write"),
    plugins=("notes",),
    scopes=("read-only", "workspace"),
    network=("example.org",),
    connectors=("tracker",),
    subagents=SubagentRights(depth=1, max_children=4),
    questions=True,
)

STARTED = Started(
    run_id=RUN,
    session_id=SESSION,
    engine="native",
    harness_version="0.1.0",
    account="anthropic",
    model="model-1",
    workspace_root="/home/someone/projekt-ü",
    capabilities_digest=DIGEST,
    approval_mode="ask",
    sandbox="on",
    automatic=False,
)

EVENTS: list[Payload] = [
    STARTED,
    StatusChanged(to="running"),
    ContextSnapshot(
        request=1, model="model-1", system_sha256=DIGEST, tools_sha256=DIGEST, messages=2,
        last_message_sha256=DIGEST, body_sha256=DIGEST, bytes=4096,
    ),
    MessageQueued(message_id=MESSAGE, text="and run the tests", reason="busy"),
    MessageDelta(message_id=MESSAGE, block=0, kind="text", text='Ich lese "a.py" → ✓\n\ttab'),
    MessageDelta(message_id=MESSAGE, block=1, kind="reasoning", text=""),
    MessageCompleted(message_id=MESSAGE, entry_id="e1", role="assistant", text="Done.", stop_reason="stop"),
    MessageSteered(message_id=MESSAGE, entry_id="e2", text="also b.py"),
    MessageDropped(message_id=MESSAGE, reason="cleared"),
    ToolStarted(
        call_id=CALL, tool="bash", arguments={"command": "pytest -q", "limits": [1, 2.5, None, True]},
        arguments_sha256=DIGEST, entry_id="e1", scope="workspace",
        decision=Decision(outcome="allow", rule="mode:ask", by="person", us=84, reason="asked"),
    ),
    ToolDelta(call_id=CALL, stream="output", text="1 passed\n"),
    ToolCompleted(
        call_id=CALL, cause="ok", exit_code=0, duration_ms=1200, preview="1 passed", sha256=DIGEST,
        artifact="artifacts/out.txt", entry_id="e3",
    ),
    ToolRefused(
        call_id="toolu_02", tool="write", arguments={"path": "../x"}, code="outside_root", cause="policy",
        message="The path leaves the workspace.", entry_id="e4",
    ),
    FileChanged(path="src/a b.py", change="modified", before=DIGEST, after=DIGEST, call_id=CALL),
    ArtifactAdded(
        path="artifacts/out.txt", sha256=DIGEST, bytes=9, media_type="text/plain", call_id=CALL, reason="output"
    ),
    ApprovalRequested(
        approval_id=APPROVAL, call_id=CALL, tool="bash", arguments={"command": "make"}, scope="outside",
        reason="it leaves the workspace", rule="make *",
    ),
    StatusChanged(to="waiting_for_approval"),
    ApprovalResolved(approval_id=APPROVAL, decision="deny", by="person", message="not now"),
    StatusChanged(to="running"),
    QuestionRequested(
        question_id=QUESTION,
        questions=[
            Question(
                text="Which layout?", header="Layout", multiple=False, free_text=True,
                choices=[Choice(label="Wide", description="one column", sketch="+---+\n|   |\n+---+")],
            )
        ],
        ui_sketch=True,
        dialog=Dialog(kind="select", title="Layout", options=["Wide"]),
    ),
    StatusChanged(to="waiting_for_input"),
    QuestionAnswered(question_id=QUESTION, answers=[Answer(choices=["Wide"], text="please")], by="person"),
    StatusChanged(to="running"),
    RetryStarted(attempt=1, cause="overloaded", wait_ms=1500, message="the provider asked to wait"),
    RetryEnded(attempt=1, ok=True),
    CompactionStarted(reason="window", context_tokens=180_000, context_window=200_000),
    CompactionEnded(ok=True, tokens_before=180_000, entry_id="e5"),
    UsageUpdated(
        totals=Usage(input_tokens=10, cache_read_tokens=20, cache_write_tokens=30, output_tokens=40),
        requests=1,
        request=RequestUsage(
            input_tokens=10, output_tokens=40, reasoning_tokens=5, request=1, model="model-1",
            reasoning_summary="Looked at the test.", raw={"input_tokens": 10},
        ),
        context_tokens=60,
    ),
    AccountStatus(
        account="anthropic",
        limits=[Limit(name="requests", window_s=60, limit=50.0, remaining=49.0, resets_at="2026-11-30T12:01:00Z")],
    ),
    TodoUpdated(items=[TodoItem(text="read", status="completed"), TodoItem(text="fix", status="in_progress")]),
    Checkpoint(
        files_changed=["src/a b.py"], checks=[CheckRun(command="pytest -q", exit_code=0)],
        todo=[TodoItem(text="fix", status="pending")], blocked=False,
    ),
    Heartbeat(steps=3, elapsed_s=30.5, last_tool="bash", running_tools=["bash"], oldest_tool_s=2.25),
    ExtensionNotice(source="harness", code="context_file", message="AGENTS.md was read.", details={"bytes": 12}),
    ReactionAdded(message_id=MESSAGE, reaction="+1", by="person"),
    AgentMessage(message_id=MESSAGE, from_="lead", to="helper", text="Look at b.py."),
    GoalChanged(status="active", by="person", reason="set", round=1, unverified=False),
    NetworkDecided(call_id=CALL, host="example.org", port=443, allowed=True, rule="network:example.org"),
    SandboxChanged(state="off", by="person", reason="typed on the command line"),
    Completed(outcome="done"),
]  # fmt: skip

END_FAILED = Failed(code="provider_error", error="provider_error", reason="The provider refused: overloaded.")
END_INTERRUPTED = StatusChanged(to="interrupted", code="user_abort", reason="stopped by a person")

OWNER = Owner(
    host="12d74212186969db",
    pid=4711,
    start_time=257902,
    boot_id="160434d0-bf03-424f-9437-1f40480ce047",
    socket="/run/user/1000/drawbar/8c1e/4711.sock",
)


def record(head: LogHead | None) -> RunRecord:
    """A record with every field set."""
    fields: dict[str, Any] = {
        "id": RUN,
        "session_id": SESSION,
        "status": "completed",
        "terminal_code": "completed",
        "terminal_reason": "the model ended the reply",
        "outcome": "done",
        "trigger": "user",
        "relation": "follow-up",
        "parent_run_id": "r_01jd00000000000000000000a1",
        "resumed_from_run_id": "r_01jd00000000000000000000a2",
        "title": "Fix the failing test ✓",
        "profile": "default",
        "engine": "native",
        "engine_version": "0.1.0",
        "harness_version": "0.1.0",
        "harness_scope": "project",
        "account": "anthropic",
        "model": "model-1",
        "effort": "high",
        "variant": VariantPin(scope="project", version="v3"),
        "capabilities_digest": CAPABILITIES.digest(),
        "working_directory": "/home/someone/projekt-ü/src",
        "workspace_root": "/home/someone/projekt-ü",
        "workspace_snapshot": {"kind": "git-snapshot", "repo": "ab12", "commit": "0" * 40, "omitted": 0},
        "worktree_id": "w1",
        "native_session_id": "0193",
        "native_history": "sessions/s/history/a.jsonl",
        "plan": False,
        "plan_outcome": "implemented",
        "automatic": False,
        "live": True,
        "goal_mode": {"status": "complete", "rounds": 2},
        "work_slice": {"calls": 10},
        "slice": {"number": 1},
        "usage": Usage(input_tokens=10, output_tokens=40),
        "loaded_skills": ["review"],
        "activated_plugins": [],
        "request_preview": "Fix the failing test",
        "created_at": "2026-11-30T12:00:00.000Z",
        "started_at": "2026-11-30T12:00:00.100Z",
        "ended_at": "2026-11-30T12:00:09.000Z",
        "schema_version": 1,
        "sandbox": "on",
        "approval": "ask",
        "log_head": head,
        "mode": "build",
        "harness": {"app": "demo"},
        "session_type": "chat",
        "attachment_count": 0,
        "exit_code": 0,
        "handoff_id": "h1",
    }
    return RunRecord(**fields)
