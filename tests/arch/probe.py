"""Imports modules under watch and prints what they did besides (run in a process of its own).

usage: python probe.py MODULE… | --all
"""

from __future__ import annotations

import builtins
import json
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NEVER = ("socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.putenv", "os.unsetenv",
         "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
         "shutil.", "tempfile.", "sqlite3.", "signal.", "urllib.", "_thread.start_new_thread")  # fmt: skip

done: list[str] = []
watching = False


def frames(frame: FrameType | None) -> Iterator[str]:
    """Files of the calling frames, up to the nearest import: what lies above that only asked for a module."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return
        yield name
        frame = frame.f_back


def ours(frame: FrameType | None) -> bool:
    return any(f"{os.sep}drawbar{os.sep}" in name for name in frames(frame))


def hook(event: str, args: tuple[Any, ...]) -> None:
    if not watching:
        return
    if event == "open":
        path, mode, flags = args
        if (flags or 0) & WRITES or ours(sys._getframe(1)):
            done.append(f"opened {path!r} ({mode})")
    elif event.startswith(NEVER):
        done.append(f"{event} {args!r}"[:200])


class Watched(type(os.environ)):  # type: ignore[misc]
    """The environment, telling of every read that a module of ours makes while it is imported."""

    def __getitem__(self, key: str) -> str:
        if watching and ours(sys._getframe(1)):
            done.append(f"read ${key}")
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[str]:
        if watching and ours(sys._getframe(1)):
            done.append("listed the environment")
        return super().__iter__()


def modules(names: list[str]) -> list[str]:
    if names != ["--all"]:
        return names
    import pathlib

    import drawbar

    root = pathlib.Path(drawbar.__path__[0])
    found = (path.relative_to(root.parent).with_suffix("") for path in sorted(root.rglob("*.py")))
    return [".".join(p.parts).removesuffix(".__init__") for p in found if p.name != "__main__"]


def main() -> None:
    global watching
    names = modules(sys.argv[1:])
    environment = os.environ
    os.environ = Watched(  # noqa: B003  # modules must meet the watching one
        environment._data, environment.encodekey, environment.decodekey, environment.encodevalue,
        environment.decodevalue,
    )  # fmt: skip
    import threading

    before = set(sys.modules)
    sys.addaudithook(hook)
    watching = True
    for name in names:
        builtins.__import__(name)
    watching = False
    report = {
        "modules": len(names),
        "did": done,
        "loaded": sorted(set(sys.modules) - before),
        "threads": threading.active_count(),
    }
    sys.__stderr__.write(json.dumps(report) + "\n")  # type: ignore[union-attr]


main()
