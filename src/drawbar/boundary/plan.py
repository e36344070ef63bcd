"""From a policy to what one command may touch: data that every back end reads the same way (BND-8 … BND-17)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from drawbar.boundary.environment import command_environment
from drawbar.boundary.git_folders import is_plain_folder
from drawbar.boundary.git_mounts import GitMounts, git_mounts
from drawbar.boundary.homes import HomeView, home_view
from drawbar.boundary.host import other_names, within_reach
from drawbar.boundary.host_specials import HostSpecials
from drawbar.boundary.machine import MachineView, machine_view
from drawbar.boundary.root_scan import Scanned
from drawbar.contracts.boundary import Policy, SandboxPlan
from drawbar.contracts.capability import Scope

__all__ = ["HostView", "build_plan", "host_view"]

SETTINGS_FOLDER: Final = ".drawbar"
_SYSTEM_IN_RUN: Final = tuple(
    Path("/run", name) for name in ("current-system", "booted-system", "opengl-driver", "wrappers")
)
"""Where NixOS keeps the system itself, in a folder that is otherwise private."""


@dataclass(frozen=True, slots=True)
class HostView:
    """What of the machine a run's plans share: looked up once, when the run first needs a command.

    ``hidden`` are the harness's own folders under every name they have, ``machine`` data of the machine's own
    programs, and ``specials`` finds the sockets and pipes that are left in sight.
    """

    homes: HomeView
    hidden: tuple[Path, ...]
    specials: HostSpecials
    machine: MachineView
    environ: Mapping[str, str] = field(default_factory=dict[str, str])


def host_view(policy: Policy, environ: Mapping[str, str]) -> HostView:
    """Look up homes, the machine's data and the harness's folders, as they are now, and begin to search the rest."""
    machine = machine_view()
    homes = home_view(environ, masked=machine.masked)
    hidden = [Path(os.path.realpath(path)) for path in policy.hidden]
    masked = (*homes.masked, *other_names(homes.masked))
    readable = (*policy.readable, *homes.readable, *machine.readable)
    specials = HostSpecials(policy.root.path, [*hidden, *masked, *machine.masked], readable)
    specials.begin()
    return HostView(
        homes=HomeView(home=homes.home, masked=masked, readable=homes.readable, credentials=homes.credentials),
        hidden=(*hidden, *other_names(hidden)),
        specials=specials,
        machine=machine,
        environ=environ,
    )


def build_plan(
    policy: Policy,
    scope: Scope,
    *,
    cwd: Path,
    private_tmp: Path | None,
    environ: Mapping[str, str],
    marker: str = "",
    host: HostView | None = None,
    git: GitMounts | None = None,
    scanned: Scanned | None = None,
) -> SandboxPlan:
    """What one command of ``scope`` may touch, from the file system as it is now.

    Args:
        policy: its root, ``hidden`` and ``readable`` are used.
        scope: ``outside`` keeps only the masks that hold without a sandbox (BND-16).
        cwd: where the command starts.
        private_tmp: the session's own temporary folder; used in scope ``workspace`` alone.
        environ: the harness's environment, of which a list is let through.
        marker: ``NAME=value`` for the command's environment.
        host: what was looked up earlier of the machine; None looks it up.
        git: the root's git folders; None looks them up.
        scanned: what a walk over the root found to keep read-only, to mask and to keep in place.
    """
    host = host_view(policy, environ) if host is None else host
    scanned = Scanned() if scanned is None else scanned
    confined = scope != "outside"
    hidden: list[Path] = list(host.hidden)
    readable: list[Path] = list(policy.readable)
    writable: list[Path] = []
    read_only: list[Path] = []
    if confined:
        git = git_mounts(policy.root) if git is None else git
        # A person who works in a credential store has opened that one, and it alone.
        stores = (path for path in host.homes.credentials if path != policy.root.path)
        hidden += [*host.homes.masked, *host.machine.masked, *stores, *scanned.denied, *host.specials.paths()]
        readable += [*host.homes.readable, *host.machine.readable, *git.readable, *_SYSTEM_IN_RUN]
        if scope == "workspace":
            writable += git.writable
            writable += scanned.pinned
            read_only += [*git.read_only, *_settings(policy), *scanned.read_only]
        else:
            # A linked worktree's folder must show even so, or git would find no repository.
            readable += [path for path in git.writable if not path.is_relative_to(policy.root.path)]
    folders, files = _by_kind(hidden, unconfined=not confined)
    return SandboxPlan(
        scope=scope,
        root=policy.root,
        cwd=cwd,
        private_tmp=private_tmp if scope == "workspace" else None,
        masked=folders,
        masked_files=files,
        readable=tuple(path for path in dict.fromkeys(readable) if os.path.exists(path)),
        read_only=tuple(dict.fromkeys(read_only)),
        writable=tuple(dict.fromkeys(writable)),
        env=command_environment(environ, scope, marker=marker, home=host.homes.home),
    )


def _settings(policy: Policy) -> Iterable[Path]:
    """The product's settings folder, where there is one; a missing one is never made (BND-11)."""
    for folder in dict.fromkeys((policy.root.path, policy.root.working_directory)):
        settings = folder / SETTINGS_FOLDER
        if is_plain_folder(settings):
            yield settings


def _by_kind(paths: Iterable[Path], *, unconfined: bool) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Existing folders and existing other files, canonical; what doesn't exist or can't be reached needs no mask."""
    folders: dict[Path, None] = {}
    files: dict[Path, None] = {}
    for path in paths:
        real = Path(os.path.realpath(path))
        kind = folders if os.path.isdir(real) else files
        if real not in kind and os.path.exists(real) and (unconfined or within_reach(str(real))):
            kind[real] = None
    return tuple(folders), tuple(files)
