"""Runs commands in the sandbox of one run's policy: the plan, the process tree, and one result for each call.

Upholds QLT-1 (nothing runs unsandboxed unless a person chose so), QLT-11 (never in another folder than the pinned
root) and QLT-12 (one result within the limit, nothing left alive).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from drawbar.boundary.carrier import Carrier
from drawbar.boundary.denials import explain_links, explain_owner
from drawbar.boundary.git_mounts import GitMounts, remove_redirects
from drawbar.boundary.planner import Planner, checker
from drawbar.boundary.results import never_started, unstartable
from drawbar.boundary.root_scan import RootScan, Scanned
from drawbar.boundary.roots import check_root
from drawbar.boundary.unconfined import Adopting, pid_namespace_available
from drawbar.contracts.boundary import CommandRequest, CommandResult, Policy, SandboxBackend, Trial
from drawbar.contracts.errors import SandboxUnavailable, UnsupportedFeature, WorkspaceRefused

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
    ) -> None:
        self._policy = policy
        self._backend = backend
        self._unconfined = unconfined
        self._scan = RootScan(policy.root.path, policy.deny_read)
        self._planner = Planner(policy, private_tmp=private_tmp, environ=environ, marker=marker)
        self._carrier = Carrier(private_tmp=private_tmp, cap_bytes=artifacts_cap_bytes, keep=keep)
        self._closed = False

    async def trial(self) -> Trial:
        """Whether commands can run here as the policy wants them, shown by a real one; asked once (QLT-1)."""
        self.begin_turn()
        return await (self._open_backend() if self._policy.sandbox == "off" else self._backend).trial()

    def begin_turn(self) -> None:
        """Look at the workspace beside the model's request, so that the turn's commands need not wait (BND-12)."""
        if self._policy.sandbox == "on" and not self._closed:
            self._scan.begin()

    async def run(self, request: CommandRequest) -> CommandResult:
        """Run one command to its end.

        Raises:
            WorkspaceRefused: when the root is gone, replaced, or holds what no command may reach (QLT-11, BND-12).
            SandboxUnavailable: when the sandbox can't work here, naming cause and cure; nothing was run.
            UnsupportedFeature: for scope ``outside``, which isn't offered yet.
            asyncio.CancelledError: after the whole process tree is gone.
        """
        if request.scope == "outside" and self._policy.sandbox == "on":
            raise UnsupportedFeature("the scope `outside` isn't built yet", feature="outside")
        if self._closed:
            return CommandResult(cause="aborted", exit_code=None)
        check_root(self._policy.root)
        cwd = self._policy.root.working_directory if request.cwd is None else request.cwd
        why_not = unstartable(request, cwd)
        if why_not is not None:
            return never_started(why_not)
        if self._policy.sandbox == "off" and request.scope != "read-only":
            return await self._run_open(request, cwd)
        trial = await self._backend.trial()
        if not trial.ok:
            raise SandboxUnavailable(
                f"The sandbox can't work here: {trial.cause}. {trial.cure} Nothing was run.",
                cause=trial.cause,
                cure=trial.cure,
            )
        return await self._run_confined(request, cwd)

    async def close(self) -> None:
        """End what still runs; later calls are aborted at once."""
        self._closed = True
        await self._scan.close()
        await self._carrier.close()

    # -- the ways to run --------------------------------------------------------------------------------

    async def _run_confined(self, request: CommandRequest, cwd: Path) -> CommandResult:
        writes = request.scope == "workspace"
        scanned = await self._scan.result() if writes or self._policy.deny_read else Scanned()
        why_not = scanned.unknown or (scanned.refused if writes else None)
        if why_not is not None:
            raise WorkspaceRefused(why_not, path=str(self._policy.root.path))
        result = None
        git = GitMounts()
        self._scan.disturb()
        try:
            for _attempt in range(_ATTEMPTS):
                git = self._planner.git(request.scope)
                plan = self._planner.plan(request.scope, git=git, scanned=scanned)
                result = await self._carrier.carry_out(
                    request, cwd, self._backend, plan, checker(plan, scanned), may_keep=writes
                )
                # What is mounted over may go between the look and the mount, a server's socket above all.
                if result.exit_code is not None or result.cause == "aborted":
                    break
        finally:
            # However it ended: the person's next git must not follow a redirect.
            redirects = remove_redirects(git) if writes else []
            self._scan.disturb()
        assert result is not None
        if not result.denial:
            self._explain(result, git, redirects, cwd)
        return result

    async def _run_open(self, request: CommandRequest, cwd: Path) -> CommandResult:
        plan = self._planner.plan("outside")
        return await self._carrier.carry_out(
            request, cwd, self._open_backend(), plan, checker(plan, Scanned()), may_keep=True
        )

    def _open_backend(self) -> SandboxBackend:
        """Without the file sandbox: namespaces where they can be had, else a supervisor that adopts orphans."""
        if self._unconfined is None:
            self._unconfined = self._backend if pid_namespace_available() else Adopting()
        return self._unconfined

    def _explain(self, result: CommandResult, git: GitMounts, redirects: list[Path], cwd: Path) -> None:
        """Say what the sandbox denied, or what was taken back because it could not be denied."""
        if redirects:
            result.denial = f"The command left {redirects[0]}, which would send git to another folder; it was removed."
        elif result.exit_code is None:
            from drawbar.boundary.trial import diagnose

            cause, cure = diagnose(result.stderr)
            result.denial = f"The sandbox could not be set up: {cause}. {cure}"
        elif result.cause == "error":
            text = result.stderr or result.tail or result.head
            root = self._policy.root
            result.denial = explain_links(text, root, cwd) or explain_owner(text, root) or self._backend.explain(text)
            if git.notes and "Read-only file system" in text and ".git" in text:
                result.denial = f"{git.notes[0]}."
