"""A look through what the machine shows, for sockets and named pipes whatever their names (BND-10).

What the kernel lists is of one network namespace, and a pipe is listed nowhere. So the folders that stay in sight
are gone through once a run, as deep as services put such things; a system's own trees of programs are left out. A
look ends after a short time in any case: what it didn't reach is not known, and no command waits for more.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["DEEP_LIMIT_S", "DEPTH", "LIMIT_S", "HostSearch", "Special", "search_tops"]

LIMIT_S: Final = 1.0
DEEP_LIMIT_S: Final = 3.0
DEPTH: Final = 5
"""Levels below a top-level folder or a mount; a checkout with its dependencies is far deeper than any service."""
_FIND: Final = ("/usr/bin/find", "/bin/find")
_PROGRAMS: Final = frozenset(
    {
        *("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "boot", "proc", "sys", "dev", "run", "tmp"),
        *("nix", "gnu", "snap", "lost+found"),
    }
)
"""Top-level folders with nothing but programs, and those that no command sees as they are."""
_REMOTE: Final = ("nfs", "cifs", "smb", "9p", "ceph", "lustre", "gpfs", "afs", "autofs", "fuse", "glusterfs", "ocfs2")
"""File systems that may hang, and whose sockets belong to other machines."""
_GRACE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Special:
    """A socket or named pipe as it was found; ``inode`` is cut to 32 bits, as the kernel's list has it."""

    path: Path
    inode: int


class HostSearch:
    """Goes through folders of the machine, in a thread with a process of its own.

    Args:
        tops: where to look; file systems mounted below are looked at only if they are named too.
        left_out: what lies below and isn't in sight anyway, or is looked at by somebody else.
        depth: levels to go down; None goes to the bottom.
        limit_s: seconds that one look may take.
    """

    def __init__(
        self,
        tops: Sequence[Path],
        left_out: Sequence[Path] = (),
        *,
        depth: int | None = DEPTH,
        limit_s: float = LIMIT_S,
    ) -> None:
        self._tops = tuple(tops)
        self._left_out = tuple(left_out)
        self._options = () if depth is None else ("-maxdepth", str(depth))
        self._limit_s = limit_s
        self._found: tuple[Special, ...] = ()
        self._complete = True
        self._ended = False
        self._thread: threading.Thread | None = None

    @property
    def complete(self) -> bool:
        """Whether the newest look came to its end."""
        return self._complete

    def begin(self) -> None:
        """Start looking, unless a look is under way."""
        if self._thread is None and self._tops:
            self._thread = threading.Thread(target=self._look, name="host-search", daemon=True)
            self._thread.start()

    def found(self, *, fresh: bool = False) -> tuple[Special, ...]:
        """What the newest look found, once it has ended; the first call waits for it.

        Args:
            fresh: look again.
        """
        if self._thread is None and (fresh or not self._ended):
            self.begin()
        if self._thread is not None:
            # A file system that doesn't answer holds the thread, and must not hold the command.
            self._thread.join(self._limit_s + _GRACE_S)
            if self._thread.is_alive():
                self._complete, self._ended = False, True
            self._thread = None
        return self._found

    def _look(self) -> None:
        lines, self._complete = _find(self._tops, self._left_out, self._options, self._limit_s)
        specials: dict[Path, Special] = {}
        for line in lines:
            inode, _, name = line.partition(b" ")
            if inode.isdigit() and name:
                path = Path(os.fsdecode(name))
                specials[path] = Special(path, int(inode) & 0xFFFFFFFF)
        self._found = tuple(specials.values())
        self._ended = True


def _find(
    tops: Iterable[Path], left_out: Iterable[Path], options: Sequence[str], limit_s: float
) -> tuple[list[bytes], bool]:
    """Inode and path of each socket and pipe, and whether that is all of them."""
    program = next((place for place in _FIND if os.access(place, os.X_OK)), None)
    if program is None:
        return [], False
    argv = [program, *map(str, tops), *options, "-xdev"]
    for path in left_out:
        argv += ["-path", _literal(str(path)), "-prune", "-o"]
    # What kind a name is of is read with its folder, so that only what is printed needs to be looked at.
    argv += ["(", "-type", "s", "-o", "-type", "p", ")", "-printf", r"%i %p\0"]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=limit_s,
            env={"LC_ALL": "C"}, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").split(b"\0")[:-1], False
    except OSError:
        return [], False
    return done.stdout.split(b"\0")[:-1], True


def _literal(path: str) -> str:
    """A path as a pattern that matches it alone."""
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in path)


def search_tops(mounts: Iterable[tuple[str, str]], hidden: Sequence[Path]) -> list[Path]:
    """Where to look: the machine's top-level folders, and the local file systems mounted below them.

    Args:
        mounts: mount point and kind of each file system.
        hidden: what no command sees; below it nothing needs to be looked for.
    """
    tops: dict[str, None] = {}
    try:
        with os.scandir("/") as entries:
            for entry in entries:
                if entry.name not in _PROGRAMS and entry.is_dir(follow_symlinks=False):
                    tops[entry.path] = None
    except OSError:
        return []
    remote: set[str] = set()
    for path, kind in mounts:
        if path == "/":
            continue
        if kind.startswith(_REMOTE) or kind in ("proc", "sysfs", "cgroup", "cgroup2", "devtmpfs", "devpts", "squashfs"):
            remote.add(path)
        elif path.split("/")[1] not in _PROGRAMS:
            tops[path] = None
    out = [str(path) for path in hidden]
    return [
        Path(top)
        for top in tops
        if top not in remote and not any(top == path or top.startswith(path + "/") for path in out)
    ]
