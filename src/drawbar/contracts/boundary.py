"""What the gate and the sandbox say to the rest: roots, verdicts, scopes, command results (chapter 07)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from drawbar.contracts.capability import Scope
from drawbar.contracts.run import ApprovalMode

if TYPE_CHECKING:
    import socket

    from drawbar.contracts.tool import ToolCall

__all__ = [
    "Access",
    "Approval",
    "ApprovalAsk",
    "Approver",
    "Attachment",
    "BackgroundJob",
    "CommandRequest",
    "CommandResult",
    "CommandRunner",
    "Gate",
    "Grant",
    "NetworkGate",
    "PathUse",
    "PinnedRoot",
    "Policy",
    "RunningCommand",
    "SandboxBackend",
    "SandboxPlan",
    "StandingRule",
    "Streams",
    "Target",
    "Trial",
    "Verdict",
    "Wrapped",
]

Access = Literal["read", "list", "write"]


@dataclass(frozen=True, slots=True)
class PinnedRoot:
    """A canonical workspace root and its identity at pin time (BND-1).

    ``git_dirs`` are a linked worktree's real git folders, verified at both ends when pinned (BND-11).
    """

    path: Path
    device: int
    inode: int
    working_directory: Path
    git_dirs: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything the gate and the sandbox decide from, frozen at the run's start; data, no behaviour.

    ``tools`` and ``scopes`` come from the frozen capability set. ``hidden`` are absolute folders that no
    scope and no native tool may reach (BND-16: data, state, config folders, sockets). ``readable`` are
    exceptions to it, read-only (pinned skill files). ``deny_read`` are gitignore-style patterns or absolute
    paths of account and project (BND-17). ``standing`` are the rules saved earlier, read once at the start
    (BND-16). ``sandbox`` is ``on`` or ``off``; ``explicit_off`` says that both ``--sandbox off`` and the
    approval mode were typed on the command line (BND-6).
    """

    root: PinnedRoot
    tools: frozenset[str]
    scopes: tuple[Scope, ...]
    approval: ApprovalMode = "never"
    network: tuple[str, ...] = ()
    plan: bool = False
    hidden: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    deny_read: tuple[str, ...] = ()
    standing: tuple[StandingRule, ...] = ()
    sandbox: Literal["on", "off"] = "on"
    explicit_off: bool = False
    asks: bool = True


@dataclass(frozen=True, slots=True)
class StandingRule:
    """A saved approval: the tool, the scope, and the exact pattern that it covers (SES-18, QLT-4).

    For Bash ``pattern`` is the words of one simple command, the last of which may be ``*`` for any further
    plain words, or a whole command line that covers exactly itself; for a file tool it is a path relative to
    the root or a folder ending in ``/``, or, in scope ``outside``, an absolute path. ``root`` is the workspace
    that it was given for: a yes in one project says nothing about another.
    """

    id: str
    tool: str
    scope: Scope
    pattern: str
    root: str = ""


@dataclass(frozen=True, slots=True)
class PathUse:
    """One path argument of a call: which argument, the path as the model gave it, and what for."""

    argument: str
    path: str
    access: Access


@dataclass(slots=True)
class Target:
    """A path that the gate resolved and opened; the tool works on these descriptors and never reopens (BND-3).

    ``path`` is the canonical path as resolved; ``relative`` is None outside the root. For ``read`` and
    ``list``, ``fd`` is the opened file or folder (None when it doesn't exist). For ``write``, ``parent_fd`` is
    the folder that holds ``name`` (None while parents are missing: ``missing`` names them from ``parent_fd``
    of the deepest existing one) and ``fd`` the existing file, opened for reading, or None.
    """

    use: PathUse
    path: Path
    relative: str | None
    fd: int | None = None
    parent_fd: int | None = None
    name: str = ""
    missing: tuple[str, ...] = ()

    def close(self) -> None:
        """Give the descriptors back; safe to call twice."""
        import os

        for fd in (self.fd, self.parent_fd):
            if fd is not None:
                os.close(fd)
        self.fd = self.parent_fd = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A person's yes to exactly these final bytes: tool, scope and arguments digest (BND-3)."""

    approval_id: str
    arguments_sha256: str
    scope: Scope
    by: str


@dataclass(slots=True)
class Verdict:
    """The gate's answer. Exactly one of allow, refuse, ask; a fault is a refusal with ``cause='fault'``.

    ``code`` and ``cause`` are None on allow. ``message`` is for the model on refuse, for the person on ask.
    ``rule`` names what decided (``mode:ask``, ``standing:a_…``, ``path:outside``, …). ``input`` is the typed,
    validated tool input. ``proposed`` is the exact rule that *always* would save, None if none may be offered.
    ``us`` is the time the gate took, in microseconds. ``close()`` gives the descriptors back. ``arguments`` are
    those that were judged, over which ``arguments_sha256`` goes: the call's own, unless a hook rewrote them.
    ``hosts`` are the network hosts that this one call may reach besides the policy's own (BND-13).
    """

    outcome: Literal["allow", "refuse", "ask"]
    code: str | None = None
    cause: Literal["policy", "person", "fault"] | None = None
    message: str = ""
    rule: str | None = None
    by: str = "policy"
    scope: Scope = "workspace"
    input: Any = None
    targets: list[Target] = field(default_factory=list[Target])
    proposed: StandingRule | None = None
    arguments_sha256: str = ""
    us: int = 0
    arguments: Any = None
    hosts: tuple[str, ...] = ()

    def close(self) -> None:
        for target in self.targets:
            target.close()


class Gate(Protocol):
    """The one decider of tool calls (BND-3). Never raises: a fault inside is a refusal."""

    async def judge(self, call: ToolCall, *, grant: Grant | None = None) -> Verdict:
        """Decide ``call`` now, at the moment of its execution; ``grant`` answers an earlier ask."""
        ...

    def remember(self, rule: StandingRule) -> None:
        """A person allowed this rule for the rest of the session (or for good)."""
        ...


@dataclass(frozen=True, slots=True)
class ApprovalAsk:
    """What a person is shown: the exact arguments, the scope, why, and the rule that *always* would save."""

    call_id: str
    tool: str
    arguments: Any
    scope: Scope
    reason: str
    rule: StandingRule | None


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's answer, or ``None`` for ``decision`` when nobody took it within the time-out (RUN-35)."""

    approval_id: str
    decision: Literal["once", "session", "always", "deny"] | None
    by: str = ""
    message: str | None = None


class Approver(Protocol):
    """Asks a person; implemented by the live run, which records both sides."""

    async def request_approval(self, ask: ApprovalAsk) -> Approval: ...


@dataclass(frozen=True, slots=True)
class SandboxPlan:
    """What one command may touch; data from which a back end makes its own flags (BND-8 … BND-10).

    ``private_tmp`` is the session's own temporary folder on disk (scope ``workspace``); None means a discarded
    one. ``masked`` are folders to hide, ``masked_files`` files to hide, ``read_only`` holes in the root that
    exist and were reached without a symlink, ``writable`` further folders (a worktree's verified git folders).
    ``readable`` are read-only exceptions below masked folders. ``hosts`` are those that the proxy lets it reach;
    with none there is no way out at all (BND-13).
    """

    scope: Scope
    root: PinnedRoot
    cwd: Path
    private_tmp: Path | None = None
    masked: tuple[Path, ...] = ()
    masked_files: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(slots=True)
class Wrapped:
    """An argv ready to spawn: descriptors to pass on, environment, and what to close afterwards.

    ``control_fd`` becomes the supervisor's standard input and ``talk_fd`` is the harness's end of that socket;
    ``info_fd`` is a file in which the process id of the sandbox's first process appears, None when that is the
    spawned process itself. ``talk_fd`` and ``info_fd`` go to whoever spawns.
    """

    argv: list[str]
    env: dict[str, str]
    pass_fds: tuple[int, ...] = ()
    cwd: str | None = None
    info_fd: int | None = None
    control_fd: int | None = None
    talk_fd: int | None = None

    def close(self) -> None:
        import os

        control = () if self.control_fd is None else (self.control_fd,)
        for fd in (*self.pass_fds, *control):
            os.close(fd)
        self.pass_fds = ()
        self.control_fd = None


@dataclass(frozen=True, slots=True)
class Trial:
    """Whether a sandbox works here, shown by a real command (QLT-1). ``cause`` and ``cure`` say why not."""

    ok: bool
    backend: str
    version: str | None = None
    cause: str | None = None
    cure: str | None = None
    facts: dict[str, Any] = field(default_factory=dict[str, Any])


class SandboxBackend(Protocol):
    """One interface for every operating system (BND-8)."""

    name: str

    async def trial(self) -> Trial: ...

    def wrap(self, plan: SandboxPlan, argv: Sequence[str]) -> Wrapped: ...

    def explain(self, stderr: str) -> str | None:
        """What the sandbox denied, in words for the model; None when the text is not its doing."""
        ...


class RunningCommand(Protocol):
    """A command whose streams are passed through, as its caller steers it meanwhile (CLI-6)."""

    def signal(self, number: int) -> None:
        """Send a signal to the command, as its terminal would; nothing happens once it has ended."""
        ...

    def resize(self, rows: int, columns: int) -> None:
        """Give its terminal another size; nothing happens where it has none."""
        ...


@dataclass(frozen=True, slots=True)
class Streams:
    """Raw streams for a caller that passes them through instead of keeping an output (CLI-6).

    Args:
        stdout, stderr: get the bytes as they come; with a terminal everything goes to ``stdout``.
        stdin_fd: a descriptor of the harness from which input is pumped until its end; it is never handed to the
            command (BND-10). None is ``/dev/null``.
        terminal: rows and columns of a pseudo-terminal of the harness's own; None gives pipes.
        started: gets the command as soon as there is one to be signalled or resized.
    """

    stdout: Callable[[bytes], None]
    stderr: Callable[[bytes], None]
    stdin_fd: int | None = None
    terminal: tuple[int, int] | None = None
    started: Callable[[RunningCommand], None] | None = None


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """One command to run.

    Args:
        argv: the program and its arguments; for Bash ``["/bin/bash", "-c", command]``.
        scope: already decided by the gate.
        limit_s: seconds until the whole process tree is ended.
        on_output: gets decoded output as it comes (never raises, never blocks).
        artifact: where the full output is kept once it outgrows the head and tail; None keeps none.
        head_bytes, tail_bytes: how much of each end is kept in memory.
        stdin: bytes given on standard input, else ``/dev/null``.
        separate: keep standard error apart from standard output.
        hosts: network hosts that this one command may reach besides the policy's own (BND-13).
        call_id: the tool call that it is part of, for the record of what it reached.
        streams: pass the streams through raw; ``stdin`` and ``separate`` are then not looked at.
    """

    argv: tuple[str, ...]
    scope: Scope
    limit_s: float
    cwd: Path | None = None
    on_output: Callable[[str], None] | None = None
    artifact: Path | None = None
    head_bytes: int = 32 * 1024
    tail_bytes: int = 64 * 1024
    stdin: bytes | None = None
    separate: bool = False
    env: tuple[tuple[str, str], ...] = ()
    hosts: tuple[str, ...] = ()
    call_id: str = ""
    streams: Streams | None = None


@dataclass(slots=True)
class CommandResult:
    """How a command ended: exactly one of these a call (QLT-12).

    ``exit_code`` is None only when it never started; 128+n for a signal. ``head`` and ``tail`` are decoded with
    replacement characters; ``dropped`` counts the bytes between them, ``total`` all of them. ``artifact`` is set
    when the full output (up to its cap) is on disk. ``denial`` is the sandbox's explanation, if it denied.
    """

    cause: Literal["ok", "error", "timeout", "aborted", "unknown"]
    exit_code: int | None
    head: str = ""
    tail: str = ""
    stderr: str = ""
    dropped: int = 0
    total: int = 0
    duration_ms: int = 0
    artifact: Path | None = None
    left_behind: int = 0
    denial: str | None = None

    @property
    def output(self) -> str:
        """Head and tail joined, with a line that says what was dropped between them."""
        if not self.dropped:
            return self.head + self.tail
        return f"{self.head}\n[… {self.dropped} bytes dropped …]\n{self.tail}"


class BackgroundJob(Protocol):
    """A command that goes on beside the run's calls, at most until the run ends (BND-14).

    ``result`` is None while it runs.
    """

    result: CommandResult | None

    async def stop(self) -> None:
        """End it and everything it started: SIGTERM, then SIGKILL; safe to call twice."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Wait at most so long for its end; whether it has ended."""
        ...


class CommandRunner(Protocol):
    """Runs commands in the sandbox of the run's policy."""

    async def run(self, request: CommandRequest) -> CommandResult:
        """Run to the end; on cancellation the whole tree is ended before the cancellation goes on."""
        ...

    async def settled(self) -> None:
        """Wait until what ended commands left has been looked at: before a native write or a question (BND-11)."""
        ...

    async def start(self, request: CommandRequest, on_end: Callable[[CommandResult], None]) -> BackgroundJob:
        """Start a background job; its ``limit_s`` may be infinite, for the life of the run (BND-14).

        Args:
            request: the command, in scope ``read-only`` or ``workspace``.
            on_end: called once, when nothing of it is alive any more; never raises.

        Raises:
            InvalidInput: for the scope ``outside``, and for one job more than a run may have.
            WorkspaceRefused, SandboxUnavailable: as for :meth:`run`; nothing was started.
        """
        ...


class Attachment(Protocol):
    """The proxy as one sandbox has it; ``call_id`` says whose connections are being decided now."""

    @property
    def call_id(self) -> str: ...

    @call_id.setter
    def call_id(self, value: str) -> None: ...

    async def close(self) -> None:
        """Take the sandbox's way out away; safe to call twice."""
        ...


class NetworkGate(Protocol):
    """The allow-list proxy of one run: default deny, each decision an event (BND-13)."""

    def environment(self, hosts: tuple[str, ...] = ()) -> tuple[tuple[str, str], ...]:
        """The variables that tell programs inside of the proxy; ``hosts`` are those of the one command."""
        ...

    async def attach(self, init: int, *, hosts: tuple[str, ...], call_id: str) -> Attachment:
        """Give the sandbox whose first process is ``init`` a way to ``hosts``, and to nothing else.

        Raises:
            SandboxUnavailable: the sandbox's network can't be entered; nothing was opened.
        """
        ...

    async def connect(self, host: str, port: int, *, hosts: tuple[str, ...], call_id: str) -> socket.socket:
        """A connection of the harness's own, by the same decision and the same checked addresses.

        Args:
            hosts: that this one call may reach besides the policy's own.

        Raises:
            NotPermitted: the host isn't listed or leads to an address that is refused; the message says which.
            OSError: it has no address, or none of them answers.
        """
        ...


OnOutput = Callable[[str], None]
Sync = Callable[[], Awaitable[None]]
