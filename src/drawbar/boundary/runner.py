"""Runs commands in the sandbox of one run's policy: the plan, the process tree, and one result for each call.

Upholds QLT-1 (nothing runs unsandboxed unless a person chose so), QLT-11 (never in another folder than the pinned
root) and QLT-12 (one result within the limit, nothing left alive).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Final

from drawbar.boundary.bubblewrap import CALLS, Bubblewrap, PrivateFolderTampered
from drawbar.boundary.denials import explain_links, explain_owner
from drawbar.boundary.git_mounts import GitMounts, git_mounts, prepare_git, remove_redirects
from drawbar.boundary.host import missing_mounts
from drawbar.boundary.kept import KeptSandbox
from drawbar.boundary.mounts import table_of
from drawbar.boundary.output import Output
from drawbar.boundary.plan import HostView, build_plan, host_view
from drawbar.boundary.process import Check, Outcome, ProcessTree
from drawbar.boundary.root_scan import RootScan, Scanned
from drawbar.boundary.roots import check_root
from drawbar.boundary.supervised import through_cancellation
from drawbar.boundary.unconfined import Adopting, end_carriers, pid_namespace_available
from drawbar.contracts.boundary import (
    CommandRequest,
    CommandResult,
    Policy,
    SandboxBackend,
    SandboxPlan,
    Trial,
)
from drawbar.contracts.capability import Scope
from drawbar.contracts.errors import SandboxUnavailable, UnsupportedFeature, WorkspaceRefused

__all__ = ["SandboxRunner"]

_ARTIFACT_CAP: Final = 64 * 1024 * 1024
_KEEP_FAILURES: Final = 2
"""After so many failures to keep a sandbox, each call gets one of its own and no further try costs time."""
_LONGEST_WORD: Final = 128 * 1024
"""The kernel's limit of one argument (MAX_ARG_STRLEN)."""
_STDERR_BYTES: Final = 32 * 1024
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
        self._private_tmp = private_tmp
        self._environ = environ
        self._marker = marker
        self._cap = artifacts_cap_bytes
        self._unconfined = unconfined
        self._keep_failures = 0 if keep else _KEEP_FAILURES
        self._scan = RootScan(policy.root.path, policy.deny_read)
        self._host: HostView | None = None
        self._git = GitMounts()
        self._running: set[ProcessTree | KeptSandbox] = set()
        self._kept: KeptSandbox | None = None
        self._idle = asyncio.Event()
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
        why_not = _unstartable(request, cwd)
        if why_not is not None:
            return _never_started(why_not)
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
        if self._kept is not None:
            await self._kept.close()
            self._kept = None

    # -- the ways to run --------------------------------------------------------------------------------

    async def _run_confined(self, request: CommandRequest, cwd: Path) -> CommandResult:
        writes = request.scope == "workspace"
        scanned = await self._scan.result() if writes or self._policy.deny_read else Scanned()
        why_not = scanned.unknown or (scanned.refused if writes else None)
        if why_not is not None:
            raise WorkspaceRefused(why_not, path=str(self._policy.root.path))
        result = None
        self._scan.disturb()
        try:
            for _attempt in range(_ATTEMPTS):
                self._git = self._git_now(request)
                plan = self._plan(request.scope, git=self._git, scanned=scanned)
                result = await self._carry_out(request, cwd, self._backend, plan, scanned)
                # What is mounted over may go between the look and the mount, a server's socket above all.
                if result.exit_code is not None or result.cause == "aborted":
                    break
        finally:
            # However it ended: the person's next git must not follow a redirect.
            redirects = remove_redirects(self._git) if writes else []
            self._scan.disturb()
        assert result is not None
        if not result.denial:
            self._explain(result, redirects, cwd)
        return result

    async def _run_open(self, request: CommandRequest, cwd: Path) -> CommandResult:
        plan = self._plan("outside", git=GitMounts(), scanned=Scanned())
        return await self._carry_out(request, cwd, self._open_backend(), plan, Scanned())

    def _open_backend(self) -> SandboxBackend:
        """Without the file sandbox: namespaces where they can be had, else a supervisor that adopts orphans."""
        if self._unconfined is None:
            self._unconfined = self._backend if pid_namespace_available() else Adopting()
        return self._unconfined

    async def _carry_out(
        self, request: CommandRequest, cwd: Path, backend: SandboxBackend, plan: SandboxPlan, scanned: Scanned
    ) -> CommandResult:
        """In the kept sandbox when it is free and nothing forbids it, else in one of the call's own (PRF-2)."""
        check = _checker(plan, scanned)
        keeps = request.scope != "read-only" and self._keep_failures < _KEEP_FAILURES
        try:
            if keeps and isinstance(backend, Bubblewrap):
                kept = await self._keep(backend, plan, check)
                if kept is not None:
                    return await self._enter(kept, request, cwd)
            own = dataclasses.replace(plan, cwd=cwd, env=tuple((dict(plan.env) | dict(request.env)).items()))
            return await self._spawn(request, backend, own, check)
        except (OSError, PrivateFolderTampered) as error:
            raise SandboxUnavailable(
                f"The session's temporary folder {self._private_tmp} can't be used: {error}. Free some space or "
                "remove that folder, then try again; nothing was run.",
                cause=str(error),
            ) from error

    async def _spawn(
        self, request: CommandRequest, backend: SandboxBackend, plan: SandboxPlan, check: Check
    ) -> CommandResult:
        out, err = self._outputs(request)
        wrapped = backend.wrap(plan, request.argv)
        env = wrapped.env
        try:
            tree = ProcessTree(wrapped, out, err, stdin=request.stdin, check=check)
        except OSError as error:
            return _never_started(f"The command could not be started: {error.strerror}.")
        with self._watched(tree):
            try:
                outcome = await tree.run(request.limit_s)
            finally:
                _finish(out, err)
                swept = end_carriers(env)
        if outcome.refused is not None:
            raise WorkspaceRefused(outcome.refused, path=str(self._policy.root.path))
        return _result(outcome, out, err, swept)

    async def _enter(self, kept: KeptSandbox, request: CommandRequest, cwd: Path) -> CommandResult:
        out, err = self._outputs(request)
        with self._watched(kept):
            try:
                outcome = await kept.run(
                    request.argv,
                    cwd=cwd,
                    env=request.env,
                    stdin=request.stdin,
                    out=out,
                    err=err,
                    limit_s=request.limit_s,
                )
            finally:
                _finish(out, err)
                if not kept.usable:
                    self._kept = None
                    await kept.close()
        return _result(outcome, out, err, 0)

    async def _keep(self, backend: Bubblewrap, plan: SandboxPlan, check: Check) -> KeptSandbox | None:
        """The session's own sandbox, claimed for one call; None when another call is inside or none can be had."""
        # Of two plans that make the same mounts, neither needs a sandbox of its own.
        view = (plan.scope, plan.root, plan.env, table_of(plan).mounts)
        kept = self._kept
        if kept is not None and kept.busy:
            return None
        if kept is not None and kept.usable and kept.view == view and kept.fault(check) is None:
            kept.busy = True
            return kept
        self._kept = None
        if kept is not None:
            await kept.close()
        self._private_tmp.mkdir(mode=0o700, parents=True, exist_ok=True)
        calls = Path(tempfile.mkdtemp(prefix="calls-", dir=self._private_tmp))
        kept = KeptSandbox(backend.wrap_kept(plan, calls), view, calls=calls, shown=CALLS)
        kept.busy = True
        try:
            if await kept.open() and kept.fault(check) is None and not self._closed and self._kept is None:
                self._kept = kept
                return kept
        except asyncio.CancelledError:
            await through_cancellation(kept.close())
            raise
        self._keep_failures += 1
        await kept.close()
        return None

    def _outputs(self, request: CommandRequest) -> tuple[Output, Output | None]:
        out = Output(
            head_bytes=request.head_bytes,
            tail_bytes=request.tail_bytes,
            artifact=request.artifact,
            cap_bytes=self._cap,
            on_text=request.on_output,
        )
        return out, Output(head_bytes=_STDERR_BYTES, tail_bytes=_STDERR_BYTES) if request.separate else None

    @contextlib.contextmanager
    def _watched(self, running: ProcessTree | KeptSandbox) -> Generator[None]:
        self._running.add(running)
        try:
            yield
        finally:
            self._running.discard(running)
            self._idle.set()

    # -- the plan ---------------------------------------------------------------------------------------

    def _plan(self, scope: Scope, *, git: GitMounts, scanned: Scanned) -> SandboxPlan:
        if self._host is None:
            self._host = host_view(self._policy, self._environ)
        return build_plan(
            self._policy,
            scope,
            cwd=self._policy.root.path,
            private_tmp=self._private_tmp,
            environ=self._environ,
            marker=self._marker,
            host=self._host,
            git=git,
            scanned=scanned,
        )

    def _git_now(self, request: CommandRequest) -> GitMounts:
        mounts = git_mounts(self._policy.root)
        if request.scope == "workspace" and mounts.missing:
            prepare_git(mounts)
            mounts = git_mounts(self._policy.root)
        return mounts

    def _explain(self, result: CommandResult, redirects: list[Path], cwd: Path) -> None:
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
            if self._git.notes and "Read-only file system" in text and ".git" in text:
                result.denial = f"{self._git.notes[0]}."


def _checker(plan: SandboxPlan, scanned: Scanned) -> Check:
    """Before a command starts: the sandbox shows the pinned root, and every hole in it is where it must be.

    Names below the root may have been exchanged between the look and the mount, by a command that still runs.
    """
    root = plan.root
    mounts = table_of(plan).mounts if plan.scope == "workspace" else ()
    holes = [mount.path for mount in mounts if mount.path.is_relative_to(root.path)]

    def check(init: int) -> str | None:
        status = os.stat(f"/proc/{init}/root{root.path}")
        if (status.st_dev, status.st_ino) != (root.device, root.inode):
            return f"The folder at {root.path} was replaced while the command was being started; nothing was run."
        moved = scanned.moved() or (missing_mounts(init, holes) if len(holes) > 1 else None)
        if moved is None:
            return None
        return f"{moved} was moved while the command was being started; nothing was run. Try again."

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


def _unstartable(request: CommandRequest, cwd: Path) -> str | None:
    if not os.path.isdir(cwd):
        return f"The folder {cwd} doesn't exist."
    for word in request.argv:
        if "\0" in word:
            return "The command holds a zero byte, which no program can be given."
        if len(os.fsencode(word)) >= _LONGEST_WORD:
            return "The command is too long for the system; write it to a file and run that."
    return None


def _finish(out: Output, err: Output | None) -> None:
    out.finish()
    if err is not None:
        err.finish()
