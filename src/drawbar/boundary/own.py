"""A sandbox of one command's own, from its start to the one result (QLT-12)."""

from __future__ import annotations

from drawbar.boundary.process import Check, ProcessTree
from drawbar.boundary.results import finish, outputs, result_of
from drawbar.boundary.streaming import Passage
from drawbar.boundary.supervised import through_cancellation
from drawbar.boundary.unconfined import end_carriers
from drawbar.contracts.boundary import (
    Attachment,
    CommandRequest,
    CommandResult,
    NetworkGate,
    SandboxBackend,
    SandboxPlan,
)
from drawbar.contracts.errors import WorkspaceRefused

__all__ = ["OwnSandbox"]


class OwnSandbox:
    """Starts one command.

    Args:
        request: the command.
        backend: what confines it.
        plan: what it may touch.
        check: looks at the sandbox before the command starts.
        cap_bytes: how much of its output a file holds.
        network: gives it its way to the plan's hosts.

    Attributes:
        tree: its processes.

    Raises:
        OSError: when the program can't be started at all.
        PrivateFolderTampered: when the session's private folder can't be mounted safely.
    """

    def __init__(
        self,
        request: CommandRequest,
        backend: SandboxBackend,
        plan: SandboxPlan,
        check: Check,
        *,
        cap_bytes: int,
        network: NetworkGate | None,
    ) -> None:
        self._request = request
        self._plan = plan
        self._network = network
        self._attachment: Attachment | None = None
        self._passage = (
            None if request.streams is None else Passage(request.streams, namespaced=backend.name == "bubblewrap")
        )
        self._out, self._err = outputs(request, cap_bytes)
        wrapped = backend.wrap(plan, request.argv)
        self._env = wrapped.env
        if self._passage is not None:
            self._passage.prepare(wrapped)
        try:
            self.tree = ProcessTree(
                wrapped,
                self._out if self._passage is None else self._passage.out,
                self._err if self._passage is None else self._passage.err,
                stdin=request.stdin,
                check=check,
                admit=self._attach if plan.hosts and network is not None else None,
                passage=self._passage,
            )
        except BaseException:
            if self._passage is not None:
                self._passage.close()
            raise

    async def run(self) -> CommandResult:
        """Wait for its end, or bring it about at its limit or on cancellation.

        Raises:
            WorkspaceRefused: when the check held the command back.
            SandboxUnavailable: when its way to the network could not be made; nothing was run.
            asyncio.CancelledError: after the whole process tree is gone.
        """
        try:
            outcome = await self.tree.run(self._request.limit_s)
        finally:
            finish(self._out, self._err)
            swept = end_carriers(self._env)
            if self._attachment is not None:
                await through_cancellation(self._attachment.close())
        if outcome.refused is not None:
            raise WorkspaceRefused(outcome.refused, path=str(self._plan.root.path))
        return result_of(outcome, self._out, self._err, swept)

    def abort(self) -> None:
        """End it from outside; ``run`` then returns with cause ``aborted``."""
        self.tree.abort()

    async def _attach(self, init: int) -> None:
        assert self._network is not None
        self._attachment = await self._network.attach(init, hosts=self._plan.hosts, call_id=self._request.call_id)
