"""The plan of each command of one run, from the file system as it is at that moment, and the check before its start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from drawbar.boundary.git_table import GitMounts
from drawbar.boundary.host import missing_mounts
from drawbar.boundary.mounts import table_of
from drawbar.boundary.plan import HostView, build_plan, host_view
from drawbar.boundary.process import Check
from drawbar.boundary.root_scan import Scanned
from drawbar.contracts.boundary import NetworkGate, Policy, SandboxPlan
from drawbar.contracts.capability import Scope

__all__ = ["Planner", "checker"]


class Planner:
    """Makes plans for one run.

    Args:
        policy: the run's own.
        private_tmp: the session's private temporary folder.
        environ: the harness's environment, of which a list is let through.
        marker: ``NAME=value`` that every process of a call carries (BND-16).
        network: the run's proxy; None where there is no way out.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        private_tmp: Path,
        environ: Mapping[str, str],
        marker: str,
        network: NetworkGate | None = None,
    ) -> None:
        self._policy = policy
        self._private_tmp = private_tmp
        self._environ = environ
        self._marker = marker
        self._network = network
        self._host: HostView | None = None

    def plan(
        self, scope: Scope, *, git: GitMounts | None = None, scanned: Scanned | None = None, hosts: tuple[str, ...] = ()
    ) -> SandboxPlan:
        """What a command of ``scope`` may touch now.

        Args:
            git: the root's git folders; none for a command that nothing confines.
            scanned: what the walk over the root found.
            hosts: what this one command may reach besides the policy's own (BND-13).
        """
        if self._host is None:
            self._host = host_view(self._policy, self._environ)
        plan = build_plan(
            self._policy,
            scope,
            cwd=self._policy.root.path,
            private_tmp=self._private_tmp,
            environ=self._environ,
            marker=self._marker,
            host=self._host,
            git=GitMounts() if git is None else git,
            scanned=Scanned() if scanned is None else scanned,
        )
        allowed = tuple(dict.fromkeys((*self._policy.network, *hosts)))
        if scope != "workspace" or not allowed or self._network is None:
            return plan
        env = dict(plan.env) | dict(self._network.environment(allowed))
        return replace(plan, hosts=allowed, env=tuple(sorted(env.items())))


def checker(plan: SandboxPlan, scanned: Scanned) -> Check:
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
