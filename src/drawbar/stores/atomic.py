"""Files that are replaced as a whole: a reader sees the old bytes or the new ones, never a part (SES-24, CON-28)."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from drawbar.contracts.codec import as_object, encode, indent, loads
from drawbar.contracts.errors import StorageFailed
from drawbar.stores.locks import folder_lock

__all__ = ["private_folder", "read_object", "storage_failure", "sync_folder", "update_json", "write_atomic"]


def storage_failure(path: Path, error: OSError) -> StorageFailed:
    """The one wording for a disk that refuses (QLT-6): what, where, and that nothing was saved."""
    return StorageFailed(
        f"{path} could not be written: {error.strerror or error}. Nothing of it was saved; it can be tried again "
        "once the disk has room and may be written",
        path=str(path),
        errno=error.errno,
    )


def private_folder(folder: Path) -> None:
    """Make ``folder`` and its missing parents, each 0700 (CON-28); one that exists is left as it is.

    Raises:
        StorageFailed: it can't be made.
    """
    try:
        missing: list[Path] = []
        level = folder
        while not level.is_dir():
            missing.append(level)
            level = level.parent
        for level in reversed(missing):
            level.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise storage_failure(folder, error) from error


def sync_folder(folder: Path) -> None:
    """Bring a rename or a new name in ``folder`` to the disk itself."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomic(path: Path, data: bytes | Iterable[bytes], *, sync: bool = False, mode: int = 0o600) -> None:
    """Replace ``path`` by ``data``: written aside in the same folder, then renamed over it.

    Args:
        path: the file; its folder must exist. A symbolic link there is replaced, not followed.
        data: the whole content, or its pieces in order.
        sync: bring content and name to the disk before returning, so that a power cut can't undo it.
        mode: permission bits of the new file.

    Raises:
        StorageFailed: the disk refused; ``path`` is as it was.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        try:
            for piece in (data,) if isinstance(data, bytes) else data:
                view = memoryview(piece)
                while view:
                    view = view[os.write(fd, view) :]
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(aside, path)
        if sync:
            sync_folder(path.parent)
    except OSError as error:
        raise storage_failure(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()


def update_json(
    path: Path, change: Callable[[dict[str, Any]], dict[str, Any]], *, sync: bool = False
) -> dict[str, Any]:
    """Change a JSON object that several processes share, losing nobody's update (SES-24).

    The file is read again inside the lock, handed to ``change``, and replaced by what that returns. A file
    that is missing, empty or all zero bytes (a power cut) is an empty object; one that holds anything else
    but an object is never overwritten.

    Raises:
        SessionBusy: another process held the folder too long.
        StorageFailed: the disk refused, or the file holds something that is no JSON object.
    """
    private_folder(path.parent)
    with folder_lock(path.parent):
        before = read_object(path)
        after = change(dict(before))
        data = indent(encode(after)) + b"\n"
        if after != before or not path.exists():
            write_atomic(path, data, sync=sync)
        return after


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``, empty when there is none yet.

    Raises:
        StorageFailed: it can't be read, or holds something else.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StorageFailed(f"{path} can't be read: {error.strerror}", path=str(path), errno=error.errno) from error
    if not data.strip(b"\0 \t\r\n"):
        return {}
    try:
        found = as_object(loads(data))
    except ValueError:
        found = None
    if found is None:
        raise StorageFailed(f"{path} holds no JSON object; mend it or move it away", path=str(path))
    return found
