"""The Linux back end: bubblewrap by absolute path, a system-call filter by descriptor, a shell as supervisor (BND-8).

bubblewrap before 0.12 follows symlinks when it makes a mount point, so none is ever made below a path that a
command could have written: mounts go over what exists, or below folders that are made anew for the call.
"""

from __future__ import annotations

import glob
import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from drawbar.boundary.denials import explain
from drawbar.boundary.enter import entered_argv, entry_program
from drawbar.boundary.mounts import Anchor, Mount, MountTable, table_of
from drawbar.boundary.seccomp import open_filter
from drawbar.boundary.supervisor import QUEUES, SHELL, kept_argv, supervised_argv
from drawbar.contracts.boundary import SandboxPlan, Trial, Wrapped

__all__ = ["CALLS", "Bubblewrap", "PrivateFolderTampered"]

_PLACES: Final = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""Never ``PATH``: a folder that a command can write may come first in it."""

_NAMESPACES: Final = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
    *("--cap-drop", "ALL"),
)
_LIFE: Final = ("--die-with-parent", "--new-session", "--as-pid-1")
_BASE: Final = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    # As uid 0 the mapped user still owns the kernel's settings, core_pattern above all.
    *("--ro-bind", "/proc/sys", "/proc/sys", "--ro-bind-try", "/proc/sysrq-trigger", "/proc/sysrq-trigger"),
)
_DEVICES: Final = ("kvm", "fuse", "dri", "net", "snd", "vhost-net", "kfd", "dxg")
"""Devices of the machine that an unconfined command keeps, besides graphics cards by name."""

_KERNEL_PROGRAMS: Final = (
    *("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug"),
    *("/proc/sys/kernel/poweroff_cmd", "/proc/sys/fs/binfmt_misc", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"),
)
"""Where root tells the kernel which program to run: one that is run so belongs to no namespace and ends with none."""
_MESSAGE_QUEUES: Final = "/proc/sys/fs/mqueue"

_DANGEROUS_CAPABILITIES: Final = (
    *("CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_BOOT", "CAP_MKNOD"),
    *("CAP_DAC_READ_SEARCH", "CAP_BPF", "CAP_PERFMON", "CAP_CHECKPOINT_RESTORE"),
)
"""What would undo a mask or reach another process's memory; an unconfined command of root goes without."""

CALLS: Final = "/dev/.drawbar/calls"
"""Where a kept sandbox shows the scripts of its calls: below a folder that is made anew in every scope."""
_SHELL: Final = "/dev/.drawbar/sh"
_ENTER: Final = "/dev/.drawbar/enter"
_WRITABLE_KINDS: Final = frozenset({"writable", "private", "fresh"})
_WRITABLE_ANYWAY: Final = ("/dev", "/proc", "/proc/self/fd/1", "/proc/self/fd/2")
"""The sandbox's own devices and processes, and a terminal that is the command's output."""

_OPTIONAL: Final = frozenset({"/tmp", "/var/tmp", "/dev/shm", "/run"})
"""Some machines lack one of these, or make it a symlink to another."""

_PERMISSIONS: Final = {Path("/run"): "0755"}
_SHARED_MODE: Final = "1777"


class PrivateFolderTampered(Exception):
    """Something else lies where a mount point of the session's private folder must be."""


class Bubblewrap:
    """Wraps commands in bubblewrap.

    Args:
        path: the program, absolute and outside every workspace; None takes the system's.
    """

    name = "bubblewrap"

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._trial: Trial | None = None

    @property
    def path(self) -> Path:
        """The program that is used, whether or not it exists."""
        if self._path is None:
            found = next((place for place in _PLACES if os.access(place, os.X_OK)), _PLACES[0])
            self._path = Path(found)
        return self._path

    async def trial(self) -> Trial:
        """Run a real command under the real profile in a folder of its own, once for this back end (QLT-1)."""
        if self._trial is None:
            from drawbar.boundary.trial import try_confined

            self._trial = await try_confined(self, self.path)
        return self._trial

    def wrap(self, plan: SandboxPlan, argv: Sequence[str]) -> Wrapped:
        """Make the command line for one command; the caller owns the result's descriptors.

        Raises:
            FilterUnavailable: on an architecture without a system-call filter.
            PrivateFolderTampered: when the session's private folder can't be mounted safely.
            OSError: when a private folder can't be made.
        """
        return self._wrap(plan, supervised_argv(argv), ())

    def wrap_kept(self, plan: SandboxPlan, calls: Path) -> Wrapped:
        """Make the command line of a sandbox that serves one command after another (PRF-2).

        Args:
            plan: what each of them may touch.
            calls: the folder in which the harness writes their scripts; they show in :data:`CALLS`.

        Raises:
            As :meth:`wrap`.
        """
        shell = _unreadable_shell()
        options = ["--ro-bind", str(calls), CALLS, "--perms", "0111", "--ro-bind-data", str(shell), _SHELL]
        if plan.scope != "outside" and os.path.isdir(_MESSAGE_QUEUES):
            # Queues outlive their processes, and only a mount shows whether there are any.
            options += ["--mqueue", QUEUES]
        try:
            return self._wrap(plan, kept_argv(_SHELL, confined=plan.scope != "outside"), options, shell)
        except BaseException:
            os.close(shell)
            raise

    def _wrap(self, plan: SandboxPlan, inner: list[str], more: Sequence[str], *passed: int) -> Wrapped:
        fds: list[int] = []
        ours, theirs = socket.socketpair()
        try:
            # A file takes the process id even when nobody is left to read it; on a socket bubblewrap would die
            # of that half-way and leave its child waiting for ever.
            fds.append(os.memfd_create("status", os.MFD_CLOEXEC))
            options = [*(self._confined(plan) if plan.scope != "outside" else self._unconfined(plan)), *more]
            program = entry_program() if plan.scope != "outside" else None
            if program is not None:
                fds.append(_in_memory("enter", program))
                options += ["--perms", "0555", "--file", str(fds[-1]), _ENTER]
                inner = entered_argv(_ENTER, _writable(plan), inner)
            options += ["--remount-ro", "/dev", *_LIFE, "--chdir", str(plan.cwd), "--json-status-fd", str(fds[0])]
            if plan.scope != "outside":
                fds.append(open_filter())
                options += ["--seccomp", str(fds[-1])]
            fds.append(_arguments(options))
            info_fd = os.dup(fds[0])
        except BaseException:
            ours.close()
            theirs.close()
            for fd in fds:
                os.close(fd)
            raise
        return Wrapped(
            argv=[str(self.path), "--args", str(fds[-1]), "--", *inner],
            env=dict(plan.env),
            pass_fds=(*fds, *passed),
            cwd="/",
            info_fd=info_fd,
            control_fd=theirs.detach(),
            talk_fd=ours.detach(),
        )

    def explain(self, stderr: str) -> str | None:
        """What the sandbox denied, in words for the model; None when the text is not its doing."""
        return explain(stderr)

    def _confined(self, plan: SandboxPlan) -> list[str]:
        table = table_of(plan)
        _make_private(table)
        return [*_BASE, *_mount_options(table.mounts), *_NAMESPACES]

    def _unconfined(self, plan: SandboxPlan) -> list[str]:
        # Binding without devices keeps root off the raw disks, whose bytes no mask could cover.
        options = ["--bind", "/", "/", "--dev", "/dev", *_devices(), "--proc", "/proc"]
        options += _mount_options(table_of(plan).mounts)
        if os.geteuid() == 0:
            for path in (*_KERNEL_PROGRAMS, *glob.glob("/sys/fs/cgroup/*/release_agent")):
                options += ["--ro-bind-try", path, path]
            for capability in _DANGEROUS_CAPABILITIES:
                options += ["--cap-drop", capability]
        else:
            options.append("--unshare-user")
        return [*options, "--unshare-pid"]


def _writable(plan: SandboxPlan) -> list[str]:
    """What a command may open for writing, as the mounts have it (BND-9)."""
    own = [str(mount.path) for mount in table_of(plan).mounts if mount.kind in _WRITABLE_KINDS]
    return [*own, *_WRITABLE_ANYWAY]


def _mount_options(mounts: Iterable[Mount]) -> list[str]:
    options: list[str] = []
    sealed: list[str] = []
    for mount in mounts:
        path = str(mount.path)
        if path in _OPTIONAL and (os.path.islink(path) or not os.path.isdir(path)):
            continue
        source = path if mount.source is None else str(mount.source)
        match mount.kind:
            case "read-only":
                options += ["--ro-bind-try", source, path]
            case "writable" | "private":
                options += ["--bind", source, path]
            case "hidden-file":
                options += ["--ro-bind", "/dev/null", path]
            case "hidden-folder":
                # Closed rather than empty, so that a command hears "denied" and not "missing".
                options += ["--perms", "0755" if mount.open else "0000", "--tmpfs", path]
                sealed += ["--remount-ro", path]
            case "fresh":
                options += ["--perms", _PERMISSIONS.get(mount.path, _SHARED_MODE), "--tmpfs", path]
    return options + sealed


def _make_private(table: MountTable) -> None:
    """Make the session's folders, and the entries in them that are mounted over."""
    for folder in table.private:
        if not os.path.isdir(folder):
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o1777)  # as programs expect of /tmp; the folder above is closed to everyone else
    for anchor in table.anchors:
        _make_anchor(anchor)


def _make_anchor(anchor: Anchor) -> None:
    entry = anchor.folder / anchor.name
    whole = not os.path.exists(anchor.path) or os.path.isdir(anchor.path)
    try:
        if whole:
            entry.mkdir(mode=0o755)
        else:
            entry.touch(mode=0o644, exist_ok=False)
    except FileExistsError:
        if os.path.islink(entry) or os.path.isdir(entry) != whole:
            raise PrivateFolderTampered(f"{entry} was replaced") from None


def _devices() -> list[str]:
    options: list[str] = []
    with os.scandir("/dev") as entries:
        names = [entry.name for entry in entries if entry.name in _DEVICES or entry.name.startswith("nvidia")]
    for name in sorted(names):
        options += ["--dev-bind-try", f"/dev/{name}", f"/dev/{name}"]
    return [*options, "--bind-try", "/dev/shm", "/dev/shm"]


def _unreadable_shell() -> int:
    with open(SHELL, "rb") as file:
        return _in_memory("shell", file.read())


def _arguments(options: Sequence[str]) -> int:
    """The options in a descriptor: out of the process list, and beyond the limit of a command line."""
    return _in_memory("arguments", b"".join(os.fsencode(option) + b"\0" for option in options))


def _in_memory(name: str, content: bytes) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd
