"""One walk over a folder tree: files with several names, and names that a pattern may close.

GNU ``find`` does it several times faster than Python could and doesn't hold up the event loop; where there is none,
a thread walks.
"""

from __future__ import annotations

import asyncio
import fnmatch
import functools
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from drawbar.boundary.aliases import LinkedFile
from drawbar.boundary.supervised import through_cancellation

__all__ = ["CLOSED", "Walked", "collect", "gnu_find", "walk"]


@dataclass(frozen=True, slots=True)
class Walked:
    """Files with several names, and paths with a name that was asked for; relative to the root.

    ``closed`` are folders that this user can't look into; a command could open them again. ``whole`` says that the
    walk came to its end; otherwise these are what it had found by then.
    """

    linked: list[LinkedFile] = field(default_factory=list[LinkedFile])
    candidates: list[str] = field(default_factory=list[str])
    whole: bool = True
    closed: list[str] = field(default_factory=list[str])


_PLACES: Final = ("/usr/bin/find", "/bin/find", "/run/current-system/sw/bin/find")
CLOSED: Final = ("-type", "d", "(", "!", "-readable", "-o", "!", "-executable", ")")
"""Folders that can't be looked into, as ``find`` tells them."""

_MAX_BYTES: Final = 64 * 1024 * 1024
_CHUNK: Final = 256 * 1024


async def walk(root: Path, names: Sequence[str], limit_s: float) -> Walked:
    """Walk ``root`` and what is mounted below it, never following a link.

    Args:
        root: canonical.
        names: globs of single names.
        limit_s: seconds that it may take.
    """
    program = gnu_find()
    if program is None:
        return await asyncio.to_thread(_in_python, root, tuple(names), time.monotonic() + limit_s)
    output, whole = await collect(_command(program, root, names), limit_s)
    return _parsed(output, whole=whole)


@functools.cache
def gnu_find() -> str | None:
    """GNU find, when it is there: no other can print what is needed; asked once."""
    program = next((place for place in _PLACES if os.access(place, os.X_OK)), None)
    if program is None:
        return None
    said = subprocess.run([program, "--version"], capture_output=True, check=False)
    return program if b"GNU findutils" in said.stdout else None


def _command(program: str, root: Path, names: Sequence[str]) -> list[str]:
    command = [program, str(root), "(", "-type", "f", "-links", "+1", "-printf", "a%D:%i %n %P\\0", ")"]
    command += [",", *CLOSED, "-printf", "c%P\\0"]
    if names:
        tests = [part for name in names for part in ("-o", "-name", name)][1:]
        command += [",", "(", *tests, ")", "-printf", "d%P\\0"]
    return command


def _parsed(output: bytes, *, whole: bool) -> Walked:
    linked: list[LinkedFile] = []
    candidates: list[str] = []
    closed: list[str] = []
    # What follows the last zero byte is nothing, or a record that was cut.
    for record in output.split(b"\0")[:-1]:
        if record[:1] == b"a":
            identity, links, path = record[1:].split(b" ", 2)
            linked.append(LinkedFile(os.fsdecode(path), identity.decode("ascii"), int(links)))
        elif record[:1] == b"d":
            candidates.append(os.fsdecode(record[1:]))
        elif record[:1] == b"c":
            closed.append(os.fsdecode(record[1:]))
    return Walked(linked, candidates, whole, closed)


def _in_python(root: Path, names: tuple[str, ...], deadline: float) -> Walked:
    linked: list[LinkedFile] = []
    candidates: list[str] = []
    closed: list[str] = []
    start = len(str(root)) + 1
    waiting = [str(root)]
    while waiting:
        if time.monotonic() > deadline:
            return Walked(linked, candidates, whole=False)
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if any(fnmatch.fnmatchcase(entry.name, name) for name in names):
                candidates.append(entry.path[start:])
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
                if not os.access(entry.path, os.R_OK | os.X_OK):
                    closed.append(entry.path[start:])
            elif entry.is_file(follow_symlinks=False) and status.st_nlink > 1:
                identity = f"{status.st_dev}:{status.st_ino}"
                linked.append(LinkedFile(entry.path[start:], identity, status.st_nlink))
    return Walked(linked, candidates, closed=closed)


async def collect(command: Sequence[str], limit_s: float) -> tuple[bytes, bool]:
    """What a program prints, and whether that is all: it may take too long or print too much."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(read_end, False)
    collected = bytearray()

    def on_readable() -> None:
        try:
            chunk = os.read(read_end, _CHUNK)
        except BlockingIOError:
            return
        collected.extend(chunk)
        if (not chunk or len(collected) > _MAX_BYTES) and not done.done():
            loop.remove_reader(read_end)
            done.set_result(None)

    try:
        process = _started(command, write_end)
    finally:
        os.close(write_end)
    loop.add_reader(read_end, on_readable)
    try:
        await asyncio.wait((done,), timeout=limit_s)
    finally:
        complete = done.done() and len(collected) <= _MAX_BYTES
        loop.remove_reader(read_end)
        os.close(read_end)
        if not complete:
            process.kill()
        await _collected(process)
    return bytes(collected), complete


async def _collected(process: subprocess.Popen[bytes]) -> None:
    """Wait for an end that is near: its output is closed, or it was killed."""
    try:
        process.wait(timeout=0.02)
    except subprocess.TimeoutExpired:
        await through_cancellation(asyncio.to_thread(process.wait))


def _started(command: Sequence[str], output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL, env={"LC_ALL": "C"}
    )
