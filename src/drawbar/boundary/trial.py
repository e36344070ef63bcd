"""Whether the sandbox works on this machine: a real command under the real profile decides, and says why not (QLT-1).

A version number proves nothing: user namespaces, AppArmor, containers and kernel settings each break the sandbox
in their own way, and each has its own cure.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from drawbar.boundary.landlock import landlock_version
from drawbar.boundary.output import Output
from drawbar.boundary.process import ProcessTree
from drawbar.boundary.seccomp import FilterUnavailable
from drawbar.contracts.boundary import PinnedRoot, SandboxBackend, SandboxPlan, Trial

__all__ = ["diagnose", "judge_facts", "try_confined"]

_LIMIT_S: Final = 10.0
_VERSION: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_OLDEST: Final = (0, 5, 0)

# Opening for append changes nothing, and shows what a permission bit doesn't: a read-only mount.
_PROBE: Final = """\
while read -r key value; do
  case $key in CapEff:|NoNewPrivs:|Seccomp:) echo "$key $value" ;; esac
done </proc/self/status
(: >>/proc/sys/kernel/core_pattern) 2>/dev/null && echo "kernel-settings: writable"
(: >>/etc/passwd) 2>/dev/null && echo "system: writable"
while read -r device rest; do case $device in *:*) echo "device: $device" ;; esac; done </proc/net/dev
(: >probe) 2>/dev/null && echo "root: writable"
exit 42
"""
_DONE: Final = 42


_EXHAUSTED: Final = (
    (
        ("resource temporarily unavailable", "eagain", "can't fork"),
        "no further process may be started: the limit of processes is reached",
        "Raise it (ulimit -u, or TasksMax of the service or container), or end some processes.",
    ),
    (
        ("no space left on device", "enospc", "disk quota exceeded"),
        "there is no space left on a disk that the sandbox needs",
        "Free some space in /tmp and in the data root.",
    ),
    (("cannot allocate memory", "out of memory"), "there is no memory left", "End some programs, or raise the limit."),
    (
        ("exec format error", "cannot execute", "error while loading shared libraries"),
        "the bubblewrap program itself can't be run here",
        "Reinstall the package bubblewrap for this machine's architecture.",
    ),
)
"""What bubblewrap says, the cause and the cure where something is used up or broken."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """What the kernel and the surroundings say, for a diagnosis."""

    container: str | None
    userns_clone: str | None
    max_userns: str | None
    apparmor: str | None
    wsl1: bool = False

    @classmethod
    def look(cls) -> _Machine:
        return cls(
            container=_container(),
            userns_clone=_read("/proc/sys/kernel/unprivileged_userns_clone"),
            max_userns=_read("/proc/sys/user/max_user_namespaces"),
            apparmor=_read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            wsl1=_is_wsl1(_read("/proc/sys/kernel/osrelease") or ""),
        )


async def try_confined(backend: SandboxBackend, path: Path) -> Trial:
    """Try ``backend`` in a temporary workspace.

    Args:
        backend: what is tried.
        path: its program, for the version and the first diagnosis.
    """
    with tempfile.TemporaryDirectory(prefix="drawbar-trial-") as folder:
        return await _try_plan(backend, _plan_in(Path(folder)), path)


def _plan_in(folder: Path) -> SandboxPlan:
    root = Path(os.path.realpath(folder)) / "root"
    root.mkdir()
    status = os.stat(root)
    pinned = PinnedRoot(path=root, device=status.st_dev, inode=status.st_ino, working_directory=root)
    return SandboxPlan(scope="workspace", root=pinned, cwd=root, private_tmp=root.parent / "private")


async def _try_plan(backend: SandboxBackend, plan: SandboxPlan, path: Path) -> Trial:
    version = _version(path)
    if version is None and not os.access(path, os.X_OK):
        return _failed(backend, None, *_not_installed(path))
    if version is not None and _as_numbers(version) < _OLDEST:
        return _failed(
            backend,
            version,
            f"bubblewrap {version} is too old",
            f"Install bubblewrap {'.'.join(map(str, _OLDEST))} or newer.",
        )
    out = Output(head_bytes=16 * 1024, tail_bytes=16 * 1024)
    try:
        tree = ProcessTree(backend.wrap(plan, ["/bin/sh", "-c", _PROBE]), out)
    except FilterUnavailable as error:
        return _failed(backend, version, str(error), "Run on x86-64 or 64-bit ARM, or turn the sandbox off.")
    except OSError as error:
        return _failed(backend, version, f"the sandbox could not be started: {error.strerror}", "Check the disk.")
    outcome = await tree.run(_LIMIT_S)
    text = "".join(out.ends()[:2])
    if not outcome.ready:
        cause, cure = diagnose(text, _Machine.look())
        return _failed(backend, version, cause, cure, {"output": text.strip()})
    facts = _facts(text)
    fault = judge_facts(facts) if outcome.exit_code == _DONE else "the trial command did not end as it should"
    if fault is not None:
        return _failed(backend, version, fault, "Report this with the output of `drawbar doctor`.", facts)
    facts |= {"trial_ms": outcome.duration_ms, "landlock": landlock_version()}
    return Trial(ok=True, backend=backend.name, version=version, facts=facts)


def judge_facts(facts: Mapping[str, Any]) -> str | None:
    """What a sandbox that starts still fails to close, None when it holds."""
    if int(str(facts.get("CapEff", "1")), 16) != 0:
        return "commands keep capabilities in it"
    if facts.get("NoNewPrivs") != "1" or facts.get("Seccomp") != "2":
        return "the system-call filter isn't in force"
    if facts.get("kernel-settings") == "writable":
        return "kernel settings under /proc/sys are writable in it"
    if facts.get("system") == "writable":
        return "the system's files are writable in it"
    if any(device != "lo:" for device in facts.get("devices", ())):
        return "commands reach the machine's network in it"
    if facts.get("root") != "writable":
        return "the workspace can't be written in it"
    return None


def diagnose(stderr: str, machine: _Machine | None = None) -> tuple[str, str]:
    """Cause and cure from what the back end said and how the machine is set.

    Args:
        stderr: the back end's own message.
        machine: None looks at this one.
    """
    machine = _Machine.look() if machine is None else machine
    lowered = stderr.lower()
    if machine.wsl1:
        return (
            "this is WSL 1, which has no Linux kernel and so no namespaces",
            "Convert the distribution in Windows: wsl --set-version NAME 2",
        )
    exhausted = next((found for signs, *found in _EXHAUSTED if any(sign in lowered for sign in signs)), None)
    if exhausted is not None and "namespace" not in lowered:
        return exhausted[0], exhausted[1]
    if "setuid" in lowered or "unexpected capabilities" in lowered:
        return (
            "this bubblewrap is installed with more rights than it takes (" + stderr.strip().splitlines()[-1] + ")",
            "Take the setuid bit and file capabilities off (sudo chmod u-s, sudo setcap -r), and allow unprivileged "
            "user namespaces instead.",
        )
    namespaces_refused = any(
        sign in lowered
        for sign in ("new namespace", "user namespace", "uid map", "gid map", "rtm_newaddr", "max_user_namespaces")
    )
    if namespaces_refused and machine.apparmor == "1":
        return (
            "AppArmor keeps programs from making user namespaces "
            "(kernel.apparmor_restrict_unprivileged_userns is 1, as on Ubuntu 23.10 and later)",
            "Install the profile that allows bubblewrap (package apparmor-profiles, profile bwrap-userns-restrict), "
            "or run: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        )
    if namespaces_refused and machine.userns_clone == "0":
        return (
            "this kernel has user namespaces switched off for ordinary users (kernel.unprivileged_userns_clone is 0)",
            "Run: sudo sysctl kernel.unprivileged_userns_clone=1",
        )
    if namespaces_refused and machine.max_userns == "0":
        return (
            "this machine allows no user namespaces (user.max_user_namespaces is 0)",
            "Run: sudo sysctl user.max_user_namespaces=15000",
        )
    not_allowed = namespaces_refused or "not permitted" in lowered or "permission denied" in lowered
    if machine.container is not None and not_allowed:
        return (
            f"this is a container ({machine.container}) that may make no namespaces or mounts of its own",
            "Start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined, or take the container as the boundary and turn the sandbox off.",
        )
    if namespaces_refused:
        return (
            "the system refuses to make a user namespace",
            "Allow unprivileged user namespaces; where this program itself runs in a sandbox, start it outside of "
            "that, or turn the sandbox off.",
        )
    if "proc" in lowered and "mount" in lowered:
        return (
            "a fresh /proc can't be mounted, because parts of this one are hidden",
            "In a container use --security-opt systempaths=unconfined, or turn the sandbox off.",
        )
    if "unknown option" in lowered:
        return "bubblewrap is too old: " + stderr.strip(), "Install a newer bubblewrap."
    if "seccomp" in lowered:
        return "the kernel takes no system-call filter", "Use a kernel built with CONFIG_SECCOMP_FILTER."
    said = stderr.strip().splitlines()
    return (
        "bubblewrap failed: " + said[-1] if said else "bubblewrap ended without a word",
        "See `drawbar doctor`; the sandbox can be turned off for an account or project.",
    )


def _not_installed(path: Path) -> tuple[str, str]:
    return (
        f"bubblewrap is not installed ({path} is missing)",
        "Install it: `apt install bubblewrap`, `dnf install bubblewrap`, `pacman -S bubblewrap` or "
        "`apk add bubblewrap`.",
    )


def _failed(
    backend: SandboxBackend, version: str | None, cause: str, cure: str, facts: dict[str, Any] | None = None
) -> Trial:
    return Trial(ok=False, backend=backend.name, version=version, cause=cause, cure=cure, facts=facts or {})


def _facts(text: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    devices: list[str] = []
    for line in text.splitlines():
        key, _, value = line.partition(": ")
        if key == "device":
            devices.append(value)
        elif value:
            facts[key.rstrip(":")] = value
    return facts | {"devices": devices}


def _version(path: Path) -> str | None:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(said.stdout)
    return found[0] if found is not None else None


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _is_wsl1(release: str) -> bool:
    """``4.4.0-19041-Microsoft``; WSL 2 has a kernel of its own and spells it ``microsoft-standard``."""
    return release.endswith("-Microsoft")


def _container() -> str | None:
    if os.path.exists("/.dockerenv"):
        return "Docker"
    if os.path.exists("/run/.containerenv"):
        return "Podman"
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "Kubernetes"
    named = _read("/run/systemd/container") or os.environ.get("container")  # noqa: SIM112 - as systemd spells it
    return named or None


def _read(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None
