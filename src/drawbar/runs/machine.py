"""What ``drawbar doctor`` says of the machine: what the kernel gives the sandbox, and the engines there are (CLI-4)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from drawbar import __version__
from drawbar.contracts.methods import Check

__all__ = ["engines", "find_program", "is_of_the_repository", "kernel"]

_LIMIT_S: Final = 10.0
_LONGEST: Final = 80
_PROGRAMS: Final = (("pi", "pi"), ("claude-code", "claude"))
"""Engines that are programs of their own, and what they are called."""


async def kernel() -> AsyncIterator[Check]:
    """Namespaces, Landlock, the system-call filter; what is only second best says what would be better."""
    from drawbar.boundary.landlock import landlock_version
    from drawbar.boundary.seccomp import FilterUnavailable, filter_program
    from drawbar.boundary.unconfined import pid_namespace_available

    # Why there are none is the sandbox's own finding, said once.
    there = await asyncio.to_thread(pid_namespace_available)
    yield Check(name="userns", ok=there, message="user and PID namespaces" if there else "none: see the sandbox's cure")
    version = landlock_version()
    if version:
        yield Check(name="landlock", ok=True, message=f"version {version}")
    else:
        yield Check(
            name="landlock",
            ok=True,
            message="missing or switched off; a confined helper process carries out file writes instead",
            cure="use Linux 5.13 or newer with Landlock switched on (boot option lsm=landlock,…)",
        )
    machine = platform.machine()
    try:
        filter_program(machine)
    except FilterUnavailable as error:
        yield Check(name="seccomp", ok=False, message=f"{error}", cure="run on x86-64 or 64-bit ARM")
    else:
        yield Check(name="seccomp", ok=True, message=f"a system-call filter for {machine}")


async def engines() -> AsyncIterator[Check]:
    """The built-in engine, and the programs that could be one; a missing one is no fault."""
    yield Check(name="native", ok=True, message=f"the built-in engine, version {__version__}")
    for engine, program in _PROGRAMS:
        found = find_program(program)
        if found is None:
            yield Check(name=engine, ok=True, message=f"not found (no program {program} on PATH)")
        elif is_of_the_repository(found):
            # Nothing that a repository brings is run only to be looked at (QLT-3).
            yield Check(name=engine, ok=True, message=f"{found} lies in this repository, so it wasn't asked")
        else:
            said = await _version(found)
            version = "doesn't say its version" if said is None else said
            yield Check(name=engine, ok=True, message=f"{found}: {version}; this release can't use it yet")


def find_program(program: str) -> str | None:
    """The path of a program, by absolute search paths only: another would find whatever the current folder holds."""
    places = [place for place in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(place)]
    return shutil.which(program, path=os.pathsep.join(places)) if places else None


def is_of_the_repository(program: str) -> bool:
    """Whether a program lies in the repository or folder that somebody works in, who may not trust it (QLT-3)."""
    from drawbar.boundary.roots import nearest_repository

    try:
        here = Path.cwd()
        top = nearest_repository(here) or here
    except OSError:
        return False
    if top == Path("/"):
        return False
    return any(Path(path).is_relative_to(top) for path in (program, os.path.realpath(program)))


async def _version(program: str) -> str | None:
    """The first line that ``PROGRAM --version`` prints."""
    try:
        process = await asyncio.create_subprocess_exec(
            program, "--version", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, cwd="/", start_new_session=True,
        )  # fmt: skip
    except OSError:
        return None
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), _LIMIT_S)
    except (TimeoutError, ValueError):
        line = b""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()
    return line.decode(errors="replace").strip()[:_LONGEST] or None
