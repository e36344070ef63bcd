"""Commands without the file sandbox: still a session of their own, still ended whole (BND-18).

Where namespaces can be had, the harness's folders stay masked and a PID namespace ends what is left. Elsewhere a
supervisor that adopts orphans does; a filter keeps the command from ending it, and a marker in the environment finds
what escaped even that.
"""

from __future__ import annotations

import functools
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from drawbar.boundary import subreaper
from drawbar.boundary.processes import carriers, signal_all
from drawbar.boundary.shield import open_shield
from drawbar.contracts.boundary import SandboxPlan, Trial, Wrapped

__all__ = ["Adopting", "end_carriers", "pid_namespace_available"]

CALL_MARK: Final = "DRAWBAR_TREE"
_SWEEPS: Final = 20


@functools.cache
def pid_namespace_available(path: Path = Path("/usr/bin/bwrap")) -> bool:
    """Whether this machine gives a command a PID namespace of its own, shown by starting one; asked once."""
    options = ["--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--die-with-parent"]
    if os.geteuid() != 0:
        options.append("--unshare-user")
    try:
        done = subprocess.run(
            [path, *options, "--", "/bin/sh", "-c", "exit 42"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 42


class Adopting:
    """The back end of last resort: no namespaces, so no mask either; a supervisor collects the process tree."""

    name = "none"

    async def trial(self) -> Trial:
        """It always works; what it can't do is in ``facts``."""
        return Trial(ok=True, backend=self.name, facts={"namespaces": False, "masks": False})

    def wrap(self, plan: SandboxPlan, argv: Sequence[str]) -> Wrapped:
        """Make the command line; only for scope ``outside``, since nothing is confined.

        Raises:
            ValueError: for a scope that promises confinement.
        """
        if plan.scope != "outside":
            raise ValueError(f"no namespaces, so nothing can be confined to scope {plan.scope}")
        shield = open_shield()
        ours, theirs = socket.socketpair()
        env = dict(plan.env) | {CALL_MARK: secrets.token_hex(8)}
        return Wrapped(
            argv=[sys.executable, "-I", "-S", subreaper.__file__, "-" if shield is None else str(shield), *argv],
            env=env,
            pass_fds=() if shield is None else (shield,),
            cwd=str(plan.cwd),
            control_fd=theirs.detach(),
            talk_fd=ours.detach(),
        )

    def explain(self, stderr: str) -> str | None:
        """Nothing is denied, so nothing is explained."""
        return None


def end_carriers(env: Mapping[str, str]) -> int:
    """Kill every process that carries the call's mark; how many there were.

    Where no filter kept it from that, a command may have killed its supervisor, and its orphans went elsewhere.
    """
    mark = env.get(CALL_MARK)
    if mark is None:
        return 0
    ended: set[int] = set()
    for _ in range(_SWEEPS):
        living = carriers(f"{CALL_MARK}={mark}")
        if not living:
            break
        ended.update(living)
        signal_all(living, signal.SIGKILL)
        time.sleep(0.005)
    return len(ended)
