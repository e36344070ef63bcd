"""Tools as the gate, the engines and the prompt see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from drawbar.contracts.codec import Request
from drawbar.contracts.events.base import Payload

if TYPE_CHECKING:
    from drawbar.contracts.boundary import CommandRunner, NetworkGate, PathUse, PinnedRoot, Verdict
    from drawbar.contracts.capability import CapabilitySet
    from drawbar.contracts.engine import Redactor
    from drawbar.contracts.question import Questioner

__all__ = [
    "Artifacts",
    "ExecutedCall",
    "FileChange",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolExecutor",
    "ToolResult",
    "ToolSource",
    "ToolSpec",
]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model made it: ``arguments`` unredacted (CON-38), ``entry_id`` of its assistant entry."""

    id: str
    name: str
    arguments: Any
    entry_id: str = ""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a tool is.

    Args:
        name: as the model calls it.
        description: for the model; the first sentence says what it does.
        input: the strict input struct; its JSON Schema is the tool's.
        kind: ``read`` and ``internal`` change nothing outside the harness, ``write`` changes files natively,
            ``execute`` runs programs, ``connector`` is somebody else's tool (PRO-3), of which nothing is known but
            what its server says; it counts as acting outside the workspace (BND-6).
        paths: the path arguments of a validated input; the gate confines each.
        command: the shell command of a validated input, for tools of kind ``execute``.
        hosts: the network hosts (``name`` or ``name:port``) that a validated input would reach; each that the
            policy doesn't list is put to a person (BND-6, BND-13).
        parallel: whether consecutive calls may run together (BND-3: read-only ones).
        limit_s, limit_max_s: default and greatest run time in seconds (BND-18).
        waits_for_person: the call waits for a person, which counts as nobody's time: no limit ends it (RUN-20,
            SES-18).
        plan_mode_safe: whether plan mode may use it; for kinds ``write`` and ``execute`` it says nothing (PLAN-2).
        guidance: lines for the prompt's tools section (PRM-2, c4).
        schema: the JSON Schema of a ``connector``'s arguments, which stands for that of ``input``.
        origin: of a ``connector``: a digest of its server's settings and of what the server says the tool is. A
            standing rule holds for this alone, so that another program of the same name isn't allowed by it.
    """

    name: str
    description: str
    input: type[Request]
    kind: Literal["read", "write", "execute", "internal", "connector"]
    paths: Callable[[Any], Sequence[PathUse]] = lambda _input: ()
    command: Callable[[Any], str | None] = lambda _input: None
    hosts: Callable[[Any], Sequence[str]] = lambda _input: ()
    parallel: bool = False
    limit_s: float = 60.0
    limit_max_s: float = 600.0
    waits_for_person: bool = False
    plan_mode_safe: bool = False
    guidance: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A native change of one file, path relative to the root, SHA-256 of the bytes before and after."""

    path: str
    change: Literal["created", "modified", "deleted"]
    before: str | None
    after: str | None


@dataclass(slots=True)
class ToolResult:
    """What a tool gives back: content blocks in the native history's form, bounded (ENG-6).

    ``details`` go into the history's ``details`` (a diff, say) and are not sent to the model. ``artifact`` is
    relative to the run folder.
    """

    content: list[dict[str, Any]]
    is_error: bool = False
    cause: Literal["ok", "error", "timeout", "aborted", "unknown"] = "ok"
    exit_code: int | None = None
    details: dict[str, Any] | None = None
    artifact: str | None = None
    changes: list[FileChange] = field(default_factory=list[FileChange])

    @classmethod
    def text(cls, text: str, **rest: Any) -> ToolResult:
        """A result of one text block."""
        return cls(content=[{"type": "text", "text": text}], **rest)

    @classmethod
    def error(cls, text: str, **rest: Any) -> ToolResult:
        """A failed call: ``text`` tells the model what to do next."""
        return cls(content=[{"type": "text", "text": text}], is_error=True, cause=rest.pop("cause", "error"), **rest)

    @property
    def joined(self) -> str:
        """All text blocks joined."""
        return "\n".join(b["text"] for b in self.content if b.get("type") == "text")


class Artifacts(Protocol):
    """The run's artifact folder; owned by the event log (CON-39)."""

    def path(self, name: str) -> Path:
        """An absolute path for a new artifact called ``name`` (made unique)."""
        ...

    def added(self, path: Path, *, call_id: str | None = None, media_type: str = ..., reason: str | None = None) -> str:
        """Record a finished artifact as ``artifact.added``; returns its path relative to the run folder."""
        ...


@dataclass(slots=True)
class ToolContext:
    """What a tool may use while it runs; built per run by the run, per call by the executor."""

    root: PinnedRoot
    commands: CommandRunner
    artifacts: Artifacts
    capabilities: CapabilitySet
    emit: Callable[[Payload], Any]
    call_id: str = ""
    on_output: Callable[[str], None] = lambda _text: None
    read_versions: dict[str, str] = field(default_factory=dict[str, str])
    """Canonical path → SHA-256 of what the model last read or wrote there (BND-7, QLT-10)."""
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    """What ``get_capabilities`` shows besides the set: approval mode, sandbox, root."""
    keep_output: Callable[[], str | None] = lambda: None
    """Keeps all that went through ``on_output`` as an artifact; its relative path, None where it can't be kept."""
    questions: Questioner | None = None
    """Asks a person on every surface (SES-19); None where nobody is ever asked."""
    network: NetworkGate | None = None
    """The run's way to the network, through the allow-list (BND-13)."""
    redactor: Redactor | None = None
    """The process's redactor, for what a tool writes to disk after its call has ended (QLT-20)."""


class Tool(Protocol):
    """One tool. It gets a call that the gate allowed, with the descriptors that the gate opened."""

    spec: ToolSpec

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        """Carry the call out; may raise: the executor turns that into an error result."""
        ...


class ToolSource(Protocol):
    """Whatever offers tools to a run (built-in, MCP, subagents, the embedding application)."""

    def tools(self) -> Sequence[Tool]: ...


@dataclass(slots=True)
class ExecutedCall:
    """One call and its result entry, as the engine continues from it."""

    call: ToolCall
    result: ToolResult
    refused: bool = False


class ToolExecutor(Protocol):
    """Judges and carries out the calls of one assistant message, and records them (BND-3, SES-21)."""

    def specs(self) -> Sequence[ToolSpec]: ...

    async def execute(
        self, calls: Sequence[ToolCall], admit: Callable[[ToolCall, ToolResult], str]
    ) -> list[ExecutedCall]:
        """Carry out ``calls`` in order; consecutive parallel ones together.

        Args:
            calls: of one assistant message, in order.
            admit: appends a result to the native history and returns its entry id; called once a call, also
                for refused and aborted ones, before ``tool.completed`` is written (SES-21).
        """
        ...
