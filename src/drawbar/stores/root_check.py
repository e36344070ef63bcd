"""Says why a folder can't hold the data root, and what to do about it (CON-30, CON-36)."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from drawbar.contracts.errors import StorageFailed
from drawbar.stores.regular_file import kind_of

__all__ = ["explained", "refuse_what_is_in_the_way"]

_REFUSED: Final = frozenset({errno.EACCES, errno.EPERM})


def refuse_what_is_in_the_way(folder: Path) -> None:
    """Raise :class:`StorageFailed` when ``folder``, or what is there of its parents, is something else than a folder.

    What can't be looked at passes: using it fails in its own words, which :func:`explained` completes.
    """
    level = _there(folder)
    try:
        mode = level.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        found = f"a symbolic link to nothing ({os.readlink(level)})"
    except OSError as error:
        if error.errno != errno.ELOOP:
            return
        found = "a symbolic link that leads back to itself"
    else:
        if stat.S_ISDIR(mode):
            return
        found = kind_of(mode)
    raise StorageFailed(
        f"{level} is {found}, not a folder, so no data can be kept in {folder}. Move it away, or set DRAWBAR_HOME "
        "to another folder",
        path=str(level),
        errno=errno.ENOTDIR,
    )


def explained(error: StorageFailed, root: Path) -> StorageFailed:
    """``error``, met while ``root`` was opened; where permissions are the cause, with whose folder refuses whom."""
    cause = error.facts.get("errno")
    if cause not in _REFUSED:
        return error
    level = _there(Path(error.facts.get("path") or root))
    try:
        found = level.stat()
    except OSError:
        return error
    owner, here = _user(found.st_uid), _user(os.geteuid())
    return StorageFailed(
        f"{level} belongs to {owner} (mode {stat.S_IMODE(found.st_mode):04o}) and refuses {here}: "
        f"{os.strerror(cause)}. So no data can be kept in {root}: change its permissions, or set DRAWBAR_HOME to a "
        "folder of your own",
        path=str(level),
        errno=cause,
    )


def _there(path: Path) -> Path:
    """``path``, or the nearest of its parents that can be seen."""
    return next((level for level in (path, *path.parents) if os.path.lexists(level)), path)


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
