"""Carries commands out: in the session's kept sandbox when that is free, else in one of the command's own (PRF-2)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Final

from drawbar.boundary.bubblewrap import CALLS, Bubblewrap, PrivateFolderTampered
from drawbar.boundary.kept import KeptSandbox
from drawbar.boundary.mounts import table_of
from drawbar.boundary.own import OwnSandbox
from drawbar.boundary.process import Check
from drawbar.boundary.results import finish, never_started, outputs, result_of
from drawbar.boundary.supervised import through_cancellation
from drawbar.contracts.boundary import CommandRequest, CommandResult, NetworkGate, SandboxBackend, SandboxPlan
from drawbar.contracts.errors import SandboxUnavailable

__all__ = ["Carrier"]

_KEEP_FAILURES: Final = 2
"""After so many failures to keep a sandbox, each call gets one of its own and no further try costs time."""


class Carrier:
    """Starts the commands of one run and ends what still runs of them.

    Args:
        private_tmp: the session's private temporary folder.
        cap_bytes: how much of one command's output its artifact holds.
        keep: whether one sandbox may serve one command after another.
        network: the run's proxy; None where there is no way out.

    Attributes:
        kept: the sandbox that the next command would enter.
    """

    def __init__(self, *, private_tmp: Path, cap_bytes: int, keep: bool, network: NetworkGate | None = None) -> None:
        self._network = network
        self._private_tmp = private_tmp
        self._cap = cap_bytes
        self._keep_failures = 0 if keep else _KEEP_FAILURES
        self._running: set[OwnSandbox | KeptSandbox] = set()
        self._idle = asyncio.Event()
        self._closed = False
        self.kept: KeptSandbox | None = None

    async def carry_out(
        self,
        request: CommandRequest,
        cwd: Path,
        backend: SandboxBackend,
        plan: SandboxPlan,
        check: Check,
        *,
        may_keep: bool,
    ) -> CommandResult:
        """Run one command to its end.

        Args:
            cwd: where it starts.
            backend: what confines it.
            plan: what it may touch.
            check: looks at the sandbox before the command starts.
            may_keep: whether it may share a sandbox with the commands before and after it.

        Raises:
            WorkspaceRefused: when ``check`` holds the command back.
            SandboxUnavailable: when the private folder can't be used; nothing was run.
            asyncio.CancelledError: after the whole process tree is gone.
        """
        with self._usable():
            # A network of one call's own, or streams that are passed through, make a sandbox of its own too.
            shared = may_keep and not request.hosts and request.streams is None
            if shared and self._keep_failures < _KEEP_FAILURES and isinstance(backend, Bubblewrap):
                kept = await self._claim(backend, plan, check, request.call_id)
                if kept is not None:
                    return await self._enter(kept, request, cwd)
            try:
                own = self.start(request, cwd, backend, plan, check)
            except FileNotFoundError as error:
                return never_started(f"The command could not be started: {error.strerror}.")
        with self._watched(own):
            return await own.run()

    def start(
        self, request: CommandRequest, cwd: Path, backend: SandboxBackend, plan: SandboxPlan, check: Check
    ) -> OwnSandbox:
        """Start one command in a sandbox of its own; arguments as for :meth:`carry_out`.

        Raises:
            SandboxUnavailable: when the private folder can't be used; nothing was run.
        """
        plan = dataclasses.replace(plan, cwd=cwd, env=tuple((dict(plan.env) | dict(request.env)).items()))
        with self._usable():
            return OwnSandbox(request, backend, plan, check, cap_bytes=self._cap, network=self._network)

    @contextlib.contextmanager
    def _usable(self) -> Generator[None]:
        try:
            yield
        except (OSError, PrivateFolderTampered) as error:
            raise SandboxUnavailable(
                f"The session's temporary folder {self._private_tmp} can't be used: {error}. Free some space or "
                "remove that folder, then try again; nothing was run.",
                cause=str(error),
            ) from error

    async def close(self) -> None:
        """End what still runs; what is still being started ends at once."""
        self._closed = True
        for tree in self._running:
            tree.abort()
        while self._running:
            self._idle.clear()
            await self._idle.wait()
        if self.kept is not None:
            await self.kept.close()
            self.kept = None

    async def _enter(self, kept: KeptSandbox, request: CommandRequest, cwd: Path) -> CommandResult:
        out, err = outputs(request, self._cap)
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
                finish(out, err)
                if not kept.usable:
                    self.kept = None
                    await kept.close()
        return result_of(outcome, out, err)

    async def _claim(self, backend: Bubblewrap, plan: SandboxPlan, check: Check, call_id: str) -> KeptSandbox | None:
        """The session's own sandbox, claimed for one call; None when another call is inside or none can be had."""
        # Of two plans that make the same mounts, neither needs a sandbox of its own.
        view = (plan.scope, plan.root, plan.env, plan.hosts, table_of(plan).mounts)
        kept = self.kept
        if kept is not None and kept.busy:
            return None
        if kept is not None and kept.usable and kept.view == view and kept.fault(check) is None:
            kept.busy = True
            if kept.attachment is not None:
                kept.attachment.call_id = call_id
            return kept
        self.kept = None
        if kept is not None:
            await kept.close()
        self._private_tmp.mkdir(mode=0o700, parents=True, exist_ok=True)
        calls = Path(tempfile.mkdtemp(prefix="calls-", dir=self._private_tmp))
        kept = KeptSandbox(backend.wrap_kept(plan, calls), view, calls=calls, shown=CALLS)
        kept.busy = True
        try:
            if await kept.open() and kept.fault(check) is None and not self._closed and self.kept is None:
                if plan.hosts and self._network is not None:
                    kept.attachment = await self._network.attach(kept.init_pid, hosts=plan.hosts, call_id=call_id)
                self.kept = kept
                return kept
        except BaseException:
            await through_cancellation(kept.close())
            raise
        self._keep_failures += 1
        await kept.close()
        return None

    @contextlib.contextmanager
    def _watched(self, running: OwnSandbox | KeptSandbox) -> Generator[None]:
        self._running.add(running)
        try:
            yield
        finally:
            self._running.discard(running)
            self._idle.set()
