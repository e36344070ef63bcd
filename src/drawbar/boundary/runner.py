"""Runs commands in the sandbox of one run's policy: the plan, the process tree, and one result for each call.

Upholds QLT-1 (nothing runs unsandboxed unless a person chose so), QLT-11 (never in another folder than the pinned
root) and QLT-12 (one result within the limit, nothing left alive).
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from drawbar.boundary.bubblewrap import PrivateFolderTampered
from drawbar.boundary.denials import explain_links
from drawbar.boundary.git_mounts import GitMounts, git_mounts, prepare_git, remove_redirects
from drawbar.boundary.host import missing_mounts
from drawbar.boundary.mounts import mount_table
from drawbar.boundary.output import Output
from drawbar.boundary.plan import HostView, build_plan, host_view
from drawbar.boundary.process import Check, Outcome, ProcessTree
from drawbar.boundary.root_scan import RootScan, Scanned
from drawbar.boundary.roots import check_root
from drawbar.boundary.unconfined import Adopting, end_carriers, pid_namespace_available
from drawbar.contracts.boundary import (
    CommandRequest,
    CommandResult,
    Policy,
    SandboxBackend,
    SandboxPlan,
    Trial,
)
from drawbar.contracts.errors import SandboxUnavailable, UnsupportedFeature, WorkspaceRefused

__all__ = ["SandboxRunner"]

_ARTIFACT_CAP: Final = 64 * 1024 * 1024
_STDERR_BYTES: Final = 32 * 1024
_VANISHED: Final = ("Can't find source path", "No such file or directory", "Can't mount tmpfs", "Can't create file")


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
    ) -> None:
        self._policy = policy
        self._backend = backend
        self._private_tmp = private_tmp
        self._environ = environ
        self._marker = marker
        self._cap = artifacts_cap_bytes
        self._unconfined = unconfined
        self._scan = RootScan(policy.root.path, policy.deny_read)
        self._host: HostView | None = None
        self._running: set[ProcessTree] = set()
        self._idle = asyncio.Event()
        self._closed = False

    async def trial(self) -> Trial:
        """Whether commands can run here as the policy wants them, shown by a real one; asked once (QLT-1)."""
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
        if not _is_folder(cwd):
            return _never_started(f"The folder {cwd} doesn't exist.")
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
        for tree in self._running:
            tree.abort()
        while self._running:
            self._idle.clear()
            await self._idle.wait()

    # -- the two ways -----------------------------------------------------------------------------------

    async def _run_confined(self, request: CommandRequest, cwd: Path) -> CommandResult:
        scanned = await self._scan.result() if request.scope == "workspace" or self._policy.deny_read else Scanned()
        if scanned.refused is not None and request.scope == "workspace":
            raise WorkspaceRefused(scanned.refused, path=str(self._policy.root.path))
        result = None
        git = GitMounts()
        for _attempt in range(2):
            git = self._git(request)
            plan = self._plan(request, cwd, git=git, scanned=scanned)
            result = await self._spawn(request, self._backend, plan)
            # A path may go between the look and the mount; then the plan is made anew, once.
            if result.denial or result.exit_code is not None or not any(sign in result.stderr for sign in _VANISHED):
                break
        assert result is not None
        if not result.denial:
            self._explain(result, request, git, cwd)
        return result

    async def _run_open(self, request: CommandRequest, cwd: Path) -> CommandResult:
        plan = self._plan(dataclasses.replace(request, scope="outside"), cwd, git=GitMounts(), scanned=Scanned())
        return await self._spawn(request, self._open_backend(), plan)

    def _open_backend(self) -> SandboxBackend:
        """Without the file sandbox: namespaces where they can be had, else a supervisor that adopts orphans."""
        if self._unconfined is None:
            self._unconfined = self._backend if pid_namespace_available() else Adopting()
        return self._unconfined

    async def _spawn(self, request: CommandRequest, backend: SandboxBackend, plan: SandboxPlan) -> CommandResult:
        out = Output(
            head_bytes=request.head_bytes,
            tail_bytes=request.tail_bytes,
            artifact=request.artifact,
            cap_bytes=self._cap,
            on_text=request.on_output,
        )
        err = Output(head_bytes=_STDERR_BYTES, tail_bytes=_STDERR_BYTES) if request.separate else None
        try:
            wrapped = backend.wrap(plan, request.argv)
        except (OSError, PrivateFolderTampered) as error:
            raise SandboxUnavailable(
                f"The session's temporary folder {self._private_tmp} can't be used: {error}. Free some space or "
                "remove that folder, then try again; nothing was run.",
                cause=str(error),
            ) from error
        env = wrapped.env
        try:
            tree = ProcessTree(wrapped, out, err, stdin=request.stdin, check=_checker(plan))
        except (OSError, ValueError) as error:
            return _never_started(_why_not_started(error))
        self._running.add(tree)
        try:
            outcome = await tree.run(request.limit_s)
        finally:
            out.finish()
            swept = end_carriers(env)
            self._running.discard(tree)
            self._idle.set()
        if outcome.refused is not None:
            raise WorkspaceRefused(outcome.refused, path=str(self._policy.root.path))
        return _result(outcome, out, err, swept)

    # -- the plan ---------------------------------------------------------------------------------------

    def _plan(self, request: CommandRequest, cwd: Path, *, git: GitMounts, scanned: Scanned) -> SandboxPlan:
        if self._host is None:
            self._host = host_view(self._policy, self._environ)
        plan = build_plan(
            self._policy,
            request.scope,
            cwd=cwd,
            private_tmp=self._private_tmp,
            environ=self._environ,
            marker=self._marker,
            host=self._host,
            git=git,
            denied=scanned.denied,
            kept=scanned.read_only,
        )
        if not request.env:
            return plan
        return dataclasses.replace(plan, env=tuple((dict(plan.env) | dict(request.env)).items()))

    def _git(self, request: CommandRequest) -> GitMounts:
        mounts = git_mounts(self._policy.root)
        if request.scope == "workspace" and mounts.missing:
            prepare_git(mounts)
            mounts = git_mounts(self._policy.root)
        return mounts

    def _explain(self, result: CommandResult, request: CommandRequest, git: GitMounts, cwd: Path) -> None:
        """Say what the sandbox denied, and take back what it could not deny."""
        if request.scope == "workspace" and (removed := remove_redirects(git)):
            result.denial = f"The command left {removed[0]}, which would send git to another folder; it was removed."
        elif result.exit_code is None:
            from drawbar.boundary.trial import diagnose

            cause, cure = diagnose(result.stderr)
            result.denial = f"The sandbox could not be set up: {cause}. {cure}"
        elif result.cause == "error":
            text = result.stderr or result.tail or result.head
            result.denial = explain_links(text, self._policy.root, cwd) or self._backend.explain(text)
            if git.notes and "Read-only file system" in text and ".git" in text:
                result.denial = f"{git.notes[0]}."


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)


def _checker(plan: SandboxPlan) -> Check:
    """Before the command starts: the sandbox shows the pinned root, and every hole in it is where it must be.

    Names below the root may have been exchanged between the look and the mount, by a command that still runs.
    """
    root = plan.root
    holes = (
        [mount.path for mount in mount_table(plan).mounts if mount.path.is_relative_to(root.path)]
        if plan.scope == "workspace"
        else []
    )

    def check(init: int) -> str | None:
        status = os.stat(f"/proc/{init}/root{root.path}")
        if (status.st_dev, status.st_ino) != (root.device, root.inode):
            return f"The folder at {root.path} was replaced while the command was being started; nothing was run."
        missing = missing_mounts(init, holes) if len(holes) > 1 else None
        if missing is None:
            return None
        return f"{missing} was moved while the command was being started; nothing was run. Try again."

    return check


def _result(outcome: Outcome, out: Output, err: Output | None, swept: int) -> CommandResult:
    head, tail, dropped = out.ends()
    if not outcome.ready and outcome.cause != "aborted":
        said = head + tail if err is None else "".join(err.ends()[:2])
        return CommandResult(cause="error", exit_code=None, stderr=said, duration_ms=outcome.duration_ms)
    errors = ""
    if err is not None:
        start, end, between = err.ends()
        errors = f"{start}\n[… {between} bytes dropped …]\n{end}" if between else start
    return CommandResult(
        cause=outcome.cause if outcome.gone else "unknown",
        exit_code=outcome.exit_code,
        head=head,
        tail=tail,
        stderr=errors,
        dropped=dropped,
        total=out.total,
        duration_ms=outcome.duration_ms,
        artifact=out.artifact,
        left_behind=outcome.left + swept,
    )


def _never_started(why: str) -> CommandResult:
    return CommandResult(cause="error", exit_code=None, head=why, stderr=why, total=len(why), denial=why)


def _why_not_started(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return "The command is too long for the system; write it to a file and run that."
    if isinstance(error, OSError):
        return f"The command could not be started: {error.strerror}."
    return "The command holds a zero byte, which no program can be given."
