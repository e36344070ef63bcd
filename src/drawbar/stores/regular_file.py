"""Opens what may have been put there by anybody: a file is read, a pipe, a device or a folder is refused by name."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from drawbar.contracts.errors import InvalidInput

__all__ = ["is_there", "kind_of", "open_regular", "read_regular"]

_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def open_regular(path: Path) -> int:
    """A descriptor to read ``path`` by, which never waits for a writer and never ends in a device (QLT-5).

    Raises:
        FileNotFoundError: it isn't there.
        InvalidInput: it is no file, or can't be read; the message names it.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(error.errno, error.strerror, str(path)) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise InvalidInput(f"{path} is {kind_of(mode)}, not a file, so it can't be read", path=str(path))
    return fd


def read_regular(path: Path) -> bytes:
    """All bytes of a file. Raises as :func:`open_regular`."""
    with open(open_regular(path), "rb", buffering=0) as file:
        try:
            return file.read()
        except OSError as error:
            raise _unreadable(path, error) from error


def is_there(path: Path) -> bool:
    """Whether ``path`` leads to anything. Raises :class:`InvalidInput` where that can't be told."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unreadable(path, error) from error
    return True


def kind_of(mode: int) -> str:
    """What a mode's file type is called in a sentence."""
    return next((name for fits, name in _KINDS if fits(mode)), "a file")


def _unreadable(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput(f"{path} can't be read: {error.strerror or error}", path=str(path), errno=error.errno)
