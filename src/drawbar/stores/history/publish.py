"""A new history appears in its folder whole: header and all, synced, private, locked, or not at all (SES-1, CON-28)."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from drawbar.contracts.clock import Clock, stamp
from drawbar.contracts.errors import InvalidInput
from drawbar.stores.atomic import private_folder, storage_failure, sync_folder
from drawbar.stores.history.lines import encode_line
from drawbar.stores.history.owner import claim

__all__ = ["new_header", "publish"]

_SESSION_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def new_header(*, cwd: str, session_id: str | None, parent_session: str | None, clock: Clock) -> dict[str, Any]:
    """The header line of a new history.

    Raises:
        InvalidInput: ``session_id`` isn't one that Pi takes.
    """
    now = clock.now_ms()
    if session_id is None:
        session_id = _uuid7(now)
    elif not _SESSION_ID.fullmatch(session_id):
        raise InvalidInput(
            f"{session_id!r} can't be a session id: letters, digits, '.', '_' and '-' only", what="session_id"
        )
    header: dict[str, Any] = {"type": "session", "version": 3, "id": session_id, "timestamp": stamp(now), "cwd": cwd}
    if parent_session is not None:
        header["parentSession"] = parent_session
    return header


def publish(folder: Path, header: dict[str, Any], lines: Iterable[bytes]) -> tuple[Path, int]:
    """Write a history aside and give it its name; returns the path and a locked descriptor for appending.

    Args:
        folder: made when missing.
        header: the first line.
        lines: the entries, each with its line end.

    Raises:
        InvalidInput: a history of that name exists.
        StorageFailed: the disk refused; nothing is left.
    """
    private_folder(folder)
    folder = Path(os.path.abspath(folder))
    name = f"{re.sub('[:.]', '-', header['timestamp'])}_{header['id']}.jsonl"
    path, aside = folder / name, folder / f".{name}.{secrets.token_hex(4)}.tmp"
    try:
        fd = os.open(aside, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            claim(fd, path)
            for line in (encode_line(header), *lines):
                view = memoryview(line)
                while view:
                    view = view[os.write(fd, view) :]
            os.fsync(fd)
            _name(aside, path)
            sync_folder(folder)
        except BaseException:
            os.close(fd)
            raise
    except FileExistsError as error:
        raise InvalidInput(f"there is a history {path} already", path=str(path)) from error
    except OSError as error:
        raise storage_failure(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()
    return path, fd


def _name(aside: Path, path: Path) -> None:
    """Link, which never replaces; where a file system has no links, rename after a look."""
    try:
        os.link(aside, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, "exists", str(path)) from error
        os.rename(aside, path)


def _uuid7(now_ms: int) -> str:
    """A UUID of version 7, as Pi names its sessions: they sort by time."""
    value = (now_ms & (2**48 - 1)) << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
