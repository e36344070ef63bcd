"""A walk over the workspace beside the model's turn: hard-link aliases, and what ``deny_read`` closes (BND-12).

A command inside can make no alias of a file outside, but it can move one, and what ``deny_read`` closes, to another
name. So a walk holds until a command that may write has run; the next one needs a look of its own.
"""

from __future__ import annotations

import asyncio
import glob
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drawbar.boundary.aliases import LinkedFile, aliases, cover
from drawbar.boundary.reach import deny_matcher
from drawbar.boundary.supervised import through_cancellation

__all__ = ["LIMIT_S", "RootScan", "Scanned"]

LIMIT_S: Final = 3.0
FRESH_S: Final = 10.0
"""How old a walk may be that a call relies on, unless the turn itself began with one."""

_FIND: Final = "/usr/bin/find"
_MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_DENIED: Final = 200
_NO_SUCH_NAME: Final = "drawbar-any-name-at-all"
_CHUNK: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a call's plan needs: aliases to keep read-only and paths to mask.

    ``refused`` says why no command may write in the root, ``unknown`` why none may even read: what ``deny_read``
    closes could not be found or is too much to mask.
    """

    read_only: tuple[Path, ...] = ()
    denied: tuple[Path, ...] = ()
    refused: str | None = None
    unknown: str | None = None


class RootScan:
    """Walks one root, at most one walk at a time.

    Args:
        root: canonical.
        deny_read: patterns of account and project.
        limit_s: seconds that a walk may take.
    """

    def __init__(self, root: Path, deny_read: Sequence[str], *, limit_s: float = LIMIT_S) -> None:
        self._root = root
        self._patterns = tuple(deny_read)
        self._limit_s = limit_s
        self._walk: asyncio.Task[Scanned] | None = None
        self._began = float("-inf")
        self._spoilt = False

    def spoil(self) -> None:
        """A command that may write has run: nothing that was seen before counts any more."""
        self._spoilt = True

    def begin(self) -> None:
        """Start a walk now, if none is under way that still counts: the turn's next call then relies on it."""
        if self._walk is not None and self._spoilt and not self._walk.done():
            self._walk.cancel()
        if self._walk is None or self._spoilt or self._walk.done():
            self._spoilt = False
            self._began = time.monotonic()
            self._walk = asyncio.ensure_future(self._scan())

    async def result(self) -> Scanned:
        """The newest walk, started anew when it is too old; a failed one is never relied on."""
        if self._walk is None or self._spoilt or (self._walk.done() and time.monotonic() - self._began > FRESH_S):
            self.begin()
        assert self._walk is not None
        scanned = await asyncio.shield(self._walk)
        if scanned.refused is not None or scanned.unknown is not None:
            self._began = float("-inf")
        return scanned

    async def close(self) -> None:
        """End a walk that is under way."""
        if self._walk is not None and not self._walk.done():
            self._walk.cancel()
            await asyncio.wait((self._walk,))

    async def _scan(self) -> Scanned:
        absolute = tuple(_absolute_matches(self._patterns))
        names = tuple(dict.fromkeys(name for pattern in self._patterns if (name := _last_name(pattern))))
        output = await _collect(_command(self._root, names), self._limit_s)
        if output is None:
            slow = (
                f"Looking through {self._root} took over {self._limit_s:g} s, so it isn't known which files there are "
                "hard links to files outside it{0}. Try again when the machine is less busy, or work in a smaller "
                "folder."
            )
            unknown = slow.format(" and which are closed by deny_read") if names else None
            return Scanned(denied=absolute, refused=slow.format(""), unknown=unknown)
        linked, candidates = _parsed(output)
        covered = cover(aliases(linked))
        denied = (*absolute, *self._denied(candidates))
        unknown = None
        if len(denied) > _MAX_DENIED:
            unknown = (
                f"deny_read closes {len(denied)} paths in {self._root}, more than can be masked for a command. "
                "Name the folders that hold them instead."
            )
        return Scanned(
            read_only=tuple(self._root / path for path in covered.read_only),
            denied=denied,
            refused=covered.refused,
            unknown=unknown,
        )

    def _denied(self, candidates: Iterable[str]) -> tuple[Path, ...]:
        paths = sorted({self._root / candidate for candidate in candidates if candidate})
        if not paths:
            return ()
        closed = deny_matcher(self._patterns, self._root)
        return tuple(_topmost(path for path in paths if _closes(closed, path)))


def _closes(closed: Callable[[Path], bool], path: Path) -> bool:
    """Whether a path is closed, or is a folder of which everything inside is (``secrets/**``)."""
    return closed(path) or (os.path.isdir(path) and not os.path.islink(path) and closed(path / _NO_SUCH_NAME))


def _topmost(paths: Iterable[Path]) -> Iterator[Path]:
    last: Path | None = None
    for path in paths:
        if last is None or not path.is_relative_to(last):
            last = path
            yield path


def _command(root: Path, names: Sequence[str]) -> list[str]:
    command = [_FIND, str(root), "-xdev", "(", "-type", "f", "-links", "+1", "-printf", "a%D:%i %n %P\\0", ")"]
    if names:
        tests = [part for name in names for part in ("-o", "-name", name)][1:]
        command += [",", "(", *tests, ")", "-printf", "d%P\\0"]
    return command


def _last_name(pattern: str) -> str | None:
    """What the last folder or file name of a match must look like, as ``find -name`` takes it; None for none.

    Of a pattern for everything in a folder it is the folder's name. The full rule decides about each candidate.
    """
    if pattern.startswith(("!", "#", "~/")):
        return None
    names = [name for name in pattern.strip().split("/") if name not in ("", "**")]
    if len(names) > 1 and names[-1] == "*":
        names.pop()
    return names[-1] if names else None


def _absolute_matches(patterns: Iterable[str]) -> Iterator[Path]:
    """Existing paths that patterns name absolutely, globs expanded."""
    for pattern in patterns:
        path = os.path.expanduser(pattern) if pattern.startswith("~/") else pattern
        if not path.startswith("/") or path.strip("/") == "":
            continue
        for match in glob.iglob(path.rstrip("/"), recursive=True, include_hidden=True):
            yield Path(os.path.realpath(match))


def _parsed(output: bytes) -> tuple[list[LinkedFile], list[str]]:
    linked: list[LinkedFile] = []
    candidates: list[str] = []
    for record in output.split(b"\0"):
        if record[:1] == b"a":
            identity, links, path = record[1:].split(b" ", 2)
            linked.append(LinkedFile(os.fsdecode(path), identity.decode("ascii"), int(links)))
        elif record[:1] == b"d":
            candidates.append(os.fsdecode(record[1:]))
    return linked, candidates


async def _collect(command: Sequence[str], limit_s: float) -> bytes | None:
    """What a program prints, or None when it takes too long or prints too much."""
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
        await through_cancellation(asyncio.to_thread(process.wait))
    return bytes(collected) if complete else None


def _started(command: Sequence[str], output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL, env={"LC_ALL": "C"}
    )
