"""Runs commands in the sandbox of one run's policy: the plan, the process tree, and one result for each call.

Upholds QLT-1 (nothing runs unsandboxed unless a person chose so), QLT-11 (never in another folder than the pinned
root) and QLT-12 (one result within the limit, nothing left alive).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drawbar.boundary.carrier import Carrier
from drawbar.boundary.denials import explain_closed, explain_links, explain_owner, explain_read_only
from drawbar.boundary.git_session import GitSession, in_words
from drawbar.boundary.git_table import GitMounts
from drawbar.boundary.jobs import Job, Jobs
from drawbar.boundary.planner import Planner, checker
from drawbar.boundary.process import Check
from drawbar.boundary.results import never_started, unstartable
from drawbar.boundary.root_scan import RootScan, Scanned
from drawbar.boundary.roots import check_root
from drawbar.boundary.unconfined import Adopting, pid_namespace_available
from drawbar.contracts.boundary import (
    BackgroundJob,
    CommandRequest,
    CommandResult,
    NetworkGate,
    Policy,
    SandboxBackend,
    SandboxPlan,
    Trial,
)
from drawbar.contracts.errors import InvalidInput, SandboxUnavailable, WorkspaceRefused

__all__ = ["SandboxRunner"]

_ARTIFACT_CAP: Final = 64 * 1024 * 1024
_ATTEMPTS: Final = 3


class SandboxRunner:
    """The one way in which a run's commands start.

    Args:
        policy: the run's own; ``sandbox="off"`` runs scope ``workspace`` without the file sandbox (BND-18).
        backend: what confines; one object may serve many runs.
        private_tmp: the session's private temporary folder, made when first needed and kept for later runs.
        environ: the harness's environment, of which a list is let through.
        marker: ``NAME=value`` that every process of a call carries (BND-16).
        artifacts_cap_bytes: how much of one command's output its artifact holds.
        unconfined: what runs commands without the file sandbox; None takes the best that this machine has.
        keep: whether one sandbox may serve one command after another (PRF-2).
        network: the run's proxy (BND-13); without one no command reaches any host, whatever the policy lists.
        notice: told, with a code, what a look at the workspace after a command found and undid (BND-11).
    """

    def __init__(
        self,
        policy: Policy,
        *,
        backend: SandboxBackend,
        private_tmp: Path,
        environ: Mapping[str, str],
        marker: str,
        artifacts_cap_bytes: int = _ARTIFACT_CAP,
        unconfined: SandboxBackend | None = None,
        keep: bool = True,
        network: NetworkGate | None = None,
        notice: Callable[[str, str], None] = lambda _code, _text: None,
    ) -> None:
        self._policy = policy
        self._backend = backend
        self._unconfined = unconfined
        self._scan = RootScan(policy.root.path, policy.deny_read)
        self._git = GitSession(policy.root, private_tmp, notice)
        self._planner = Planner(policy, private_tmp=private_tmp, environ=environ, marker=marker, network=network)
        self._carrier = Carrier(private_tmp=private_tmp, cap_bytes=artifacts_cap_bytes, keep=keep, network=network)
        self._network = network
        self._jobs = Jobs()
        self._outside: set[str] = set()
        self._closed = False

    async def trial(self) -> Trial:
        """Whether commands can run here as the policy wants them, shown by a real one; asked once (QLT-1)."""
        self.begin_turn()
        return await (self._open_backend() if self._policy.sandbox == "off" else self._backend).trial()

    def begin_turn(self) -> None:
        """Look at the workspace beside the model's request, so that the turn's commands need not wait (BND-12)."""
        if self._policy.sandbox == "on" and not self._closed:
            self._scan.begin()
            self._git.begin()

    async def run(self, request: CommandRequest) -> CommandResult:
        """Run one command to its end.

        Raises:
            WorkspaceRefused: when the root is gone, replaced, or holds what no command may reach (QLT-11, BND-12).
            SandboxUnavailable: when the sandbox or the network can't work here, naming cause and cure; nothing was
                run.
            InvalidInput: for a scope or hosts that this run doesn't have, and for a call in scope ``outside`` that
                was started before (BND-9).
            asyncio.CancelledError: after the whole process tree is gone.
        """
        if self._closed:
            return CommandResult(cause="aborted", exit_code=None)
        cwd, why_not = self._place(request)
        if why_not is not None:
            return never_started(why_not)
        if self._opens(request):
            return await self._run_open(request, cwd)
        return await self._run_confined(request, cwd)

    async def start(self, request: CommandRequest, on_end: Callable[[CommandResult], None]) -> BackgroundJob:
        """Start a background job, which goes on beside the calls until it ends or the run does (BND-14).

        Args:
            request: the command; an infinite ``limit_s`` leaves it its run's life.
            on_end: called once, when nothing of it is alive any more.

        Raises:
            InvalidInput: for the scope ``outside``, for one job more than a run may have, and for a command that
                the system can't start.
            WorkspaceRefused, SandboxUnavailable: as for :meth:`run`; nothing was started.
        """
        if request.scope == "outside":
            raise InvalidInput(
                "a command in the scope `outside` can't be a background job; run it without", field="scope"
            )
        if self._closed:
            raise InvalidInput("the run is ending; no background job can be started any more")
        self._jobs.admit()
        cwd, why_not = self._place(request)
        if why_not is not None:
            raise InvalidInput(why_not)
        way = self._open_way() if self._opens(request) else await self._confined_way(request)
        if way.writes:
            await self._git.before()
        self._scan.disturb()
        job = Job(self._carrier.start(request, cwd, way.backend, way.plan, way.check), way.plan, way.check, on_end)

        def after() -> None:
            if way.writes:
                self._git.after_job(way.git)
            self._scan.disturb()

        await self._jobs.add(job, after)
        return job

    async def settled(self) -> None:
        """Wait until what ended commands left has been looked at: before a native write or a question (BND-11)."""
        await self._git.settled()

    async def close(self) -> None:
        """End what still runs, jobs too; later calls are aborted at once."""
        self._closed = True
        await self._scan.close()
        await asyncio.gather(self._jobs.close(), self._carrier.close())
        await self._git.close()

    # -- the ways to run --------------------------------------------------------------------------------

    def _place(self, request: CommandRequest) -> tuple[Path, str | None]:
        """Where the command starts, and why it can't."""
        if request.scope == "outside" and self._policy.sandbox == "on" and "outside" not in self._policy.scopes:
            raise InvalidInput("this run has no scope `outside`", field="scope")
        if request.hosts and (self._network is None or request.scope != "workspace" or self._policy.sandbox == "off"):
            raise InvalidInput("hosts can be reached only from the scope `workspace`, in the sandbox", field="hosts")
        check_root(self._policy.root)
        cwd = self._policy.root.working_directory if request.cwd is None else request.cwd
        return cwd, unstartable(request, cwd)

    def _opens(self, request: CommandRequest) -> bool:
        """Whether nothing confines the command but the masks that always hold (BND-16, BND-18)."""
        return request.scope == "outside" or (self._policy.sandbox == "off" and request.scope != "read-only")

    async def _run_confined(self, request: CommandRequest, cwd: Path) -> CommandResult:
        result = None
        way = await self._confined_way(request)
        said = await self._git.before() if way.writes else []
        self._scan.disturb()
        try:
            for attempt in range(_ATTEMPTS):
                if attempt:
                    way = self._confined(request, way.scanned)
                result = await self._carrier.carry_out(
                    request, cwd, way.backend, way.plan, way.check, may_keep=way.writes
                )
                # What is mounted over may go between the look and the mount, a server's socket above all.
                if result.exit_code is not None or result.cause == "aborted":
                    break
        finally:
            # However it ended: the person's next git must neither run nor follow what it left.
            if way.writes:
                # Streams are passed through for one command alone: there is no next one to say it with.
                said += await self._git.after(way.git, wait=request.streams is not None)
            self._scan.disturb()
        assert result is not None
        if not result.denial:
            self._explain(result, way, cwd)
        if said:
            result.denial = " ".join((*([result.denial] if result.denial else ()), in_words(said)))
        return result

    async def _run_open(self, request: CommandRequest, cwd: Path) -> CommandResult:
        """Once, whatever becomes of it: what it did before it failed can't be told (BND-9)."""
        approved = request.scope == "outside"
        if approved and request.call_id:
            if request.call_id in self._outside:
                raise InvalidInput("this call was started before; a command outside the sandbox runs at most once")
            self._outside.add(request.call_id)
        way = self._open_way()
        try:
            return await self._carrier.carry_out(request, cwd, way.backend, way.plan, way.check, may_keep=not approved)
        finally:
            if self._policy.sandbox == "on" and not self._closed:
                # It may have made hard links to files outside: a walk under way is void, a finished one is too old.
                self._scan.disturb()
                self._scan.begin()

    async def _confined_way(self, request: CommandRequest) -> _Way:
        trial = await self._backend.trial()
        if not trial.ok:
            raise SandboxUnavailable(
                f"The sandbox can't work here: {trial.cause}. {trial.cure} Nothing was run.",
                cause=trial.cause,
                cure=trial.cure,
            )
        writes = request.scope == "workspace"
        scanned = await self._scan.result() if writes or self._policy.deny_read else Scanned()
        why_not = scanned.unknown or (scanned.refused if writes else None)
        if why_not is not None:
            raise WorkspaceRefused(why_not, path=str(self._policy.root.path))
        if writes:
            self._jobs.meet(scanned)
        return self._confined(request, scanned)

    def _confined(self, request: CommandRequest, scanned: Scanned) -> _Way:
        git = self._git.mounts(request.scope)
        plan = self._planner.plan(request.scope, git=git, scanned=scanned, hosts=request.hosts)
        return _Way(self._backend, plan, self._git.attached(checker(plan, scanned)), scanned, git)

    def _open_way(self) -> _Way:
        plan = self._planner.plan("outside")
        return _Way(self._open_backend(), plan, checker(plan, Scanned()), Scanned(), GitMounts())

    def _open_backend(self) -> SandboxBackend:
        """Without the file sandbox: namespaces where they can be had, else a supervisor that adopts orphans."""
        if self._unconfined is None:
            self._unconfined = self._backend if pid_namespace_available() else Adopting()
        return self._unconfined

    def _explain(self, result: CommandResult, way: _Way, cwd: Path) -> None:
        """Say what the sandbox denied."""
        if result.exit_code is None:
            from drawbar.boundary.trial import diagnose

            cause, cure = diagnose(result.stderr)
            result.denial = f"The sandbox could not be set up: {cause}. {cure}"
        elif result.cause == "error":
            text = result.stderr or result.tail or result.head
            root = self._policy.root
            result.denial = (
                explain_links(text, root, cwd)
                or explain_owner(text, root)
                or explain_read_only(text, root, cwd, way.scanned)
                or explain_closed(text, root, way.scanned)
                or self._backend.explain(text)
            )
            git = way.git
            if git.notes and "Read-only file system" in text and ".git" in text:
                result.denial = f"{git.notes[0]}."


@dataclass(frozen=True, slots=True)
class _Way:
    """What is decided of a command before it starts: what confines it, and what it may touch."""

    backend: SandboxBackend
    plan: SandboxPlan
    check: Check
    scanned: Scanned
    git: GitMounts

    @property
    def writes(self) -> bool:
        """Whether it is a confined command that may write in the root."""
        return self.plan.scope == "workspace"
