"""Private temporary folders of sandboxes that belong to no run: one that is thrown away, or a named one (CLI-6)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from drawbar.contracts.errors import StorageFailed
from drawbar.stores.atomic import private_folder

if TYPE_CHECKING:
    from drawbar.stores.layout import Layout

__all__ = ["kept_scratch", "passing_scratch"]

_PREFIX: Final = "drawbar-sandbox-"
_JUST_MADE_S: Final = 60.0
"""Younger than this it may be another process's that has not locked it yet."""


@contextlib.contextmanager
def kept_scratch(layout: Layout, name: str) -> Generator[Path]:
    """The folder of a named sandbox, kept for the next call of that name.

    Raises:
        InvalidInput: the name is none.
        IncompatibleRoot, StorageFailed: the data root can't be used.
    """
    folder = layout.sandbox_tmp(name)
    layout.open()
    private_folder(folder.parent)
    yield folder


@contextlib.contextmanager
def passing_scratch() -> Generator[Path]:
    """A new folder, gone afterwards; one that a killed process left is removed by the next.

    Raises:
        StorageFailed: there is no place for temporary files.
    """
    place = tempfile.gettempdir()
    _sweep(Path(place))
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageFailed(f"no temporary folder can be made in {place}: {error.strerror}", path=place) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder / "session"
    finally:
        _remove(folder)
        os.close(lock)


def _sweep(place: Path) -> None:
    with contextlib.suppress(OSError):
        for entry in os.scandir(place):
            if entry.name.startswith(_PREFIX):
                with contextlib.suppress(OSError):
                    _sweep_one(entry)


def _sweep_one(entry: os.DirEntry[str]) -> None:
    fd = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if found.st_uid == os.geteuid() and time.time() - found.st_ctime > _JUST_MADE_S:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(Path(entry.path))
    finally:
        os.close(fd)


def _remove(folder: Path) -> None:
    """Remove what a command may have left, also folders that it closed to itself; what can't go stays."""
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        return
    with contextlib.suppress(OSError, RecursionError):
        for base, folders, _files in os.walk(folder):
            for name in folders:
                # Never through a link: only a folder can have kept its entries from us.
                if not os.path.islink(path := os.path.join(base, name)):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
