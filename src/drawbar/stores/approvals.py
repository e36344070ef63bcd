"""Standing approvals: the rules that a person saved with *always*, each with its exact pattern (SES-18, BND-6).

One append-only file of JSON lines, shared by every process of a data root: a rule counts once its line is on
the disk itself, and until a later line revokes it. A torn or foreign line is passed over and never becomes a
rule.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from drawbar.contracts.boundary import StandingRule
from drawbar.contracts.clock import stamp
from drawbar.contracts.codec import Record, decoder, encode
from drawbar.contracts.errors import NotFound, NotPermitted, SessionBusy, StorageFailed
from drawbar.stores.atomic import private_folder, storage_failure, sync_folder
from drawbar.stores.locks import lock_within

__all__ = ["ApprovalStore"]

_LOCK_WAIT_S: Final = 10.0
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_TORN: Final = b" [torn]\n"
"""Ends a line that a crash left unfinished, so that it can never be read as a rule."""


class _Line(Record):
    """One line: a rule that was added, or the id of one that was revoked."""

    op: Literal["add", "revoke"]
    at: str = ""
    rule: StandingRule | None = None
    id: str = ""


class ApprovalStore:
    """The standing approvals of one data root.

    Args:
        path: the file; it and its folder are made when the first rule is saved.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def list(self) -> list[StandingRule]:
        """The rules that count now, oldest first.

        Raises:
            NotPermitted: when others than the owner could have written the file: then no rule is to be trusted.
            StorageFailed: when it is there and can't be read.
        """
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable(self._path, error) from error
        try:
            self._check_owner(fd)
            return list(_standing(_read(fd)))
        except OSError as error:
            raise _unreadable(self._path, error) from error
        finally:
            os.close(fd)

    def add(self, rule: StandingRule) -> None:
        """Save a rule; when this returns it is on the disk.

        Raises:
            StorageFailed: the disk refused; the rule doesn't count.
        """
        self._append(_Line(op="add", at=_now(), rule=rule))

    def revoke(self, rule_id: str) -> StandingRule:
        """Take a rule back for good; runs that are active keep what they read at their start (BND-16).

        Raises:
            NotFound: no rule of that id counts.
            StorageFailed: the disk refused; the rule still counts.
        """
        for rule in self.list():
            if rule.id == rule_id:
                self._append(_Line(op="revoke", at=_now(), id=rule_id))
                return rule
        raise NotFound(f"there is no standing approval {rule_id}", id=rule_id)

    def _append(self, line: _Line) -> None:
        data = encode(line) + b"\n"
        private_folder(self._path.parent)
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(self._path, flags, 0o600)
        except OSError as error:
            raise storage_failure(self._path, error) from error
        try:
            if not lock_within(fd, _LOCK_WAIT_S):
                raise SessionBusy(f"another process has held {self._path} for {_LOCK_WAIT_S:g} s")
            self._check_owner(fd)
            self._append_locked(fd, data)
        finally:
            os.close(fd)

    def _append_locked(self, fd: int, data: bytes) -> None:
        size = os.fstat(fd).st_size
        try:
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            whole = memoryview(_TORN + data if torn else data)
            while whole:
                whole = whole[os.write(fd, whole) :]
            os.fsync(fd)
            if size == 0:
                sync_folder(self._path.parent)
        except OSError as error:
            os.ftruncate(fd, size)
            raise storage_failure(self._path, error) from error

    def _check_owner(self, fd: int) -> None:
        found = os.fstat(fd)
        if found.st_uid not in (os.geteuid(), 0) or found.st_mode & _OTHERS_WRITE:
            raise NotPermitted(
                f"{self._path} can be written by others, so none of its approvals is trusted; "
                "make it yours alone (chmod 600) after looking through it",
                path=str(self._path),
            )


def _standing(data: bytes) -> Iterator[StandingRule]:
    read = decoder(_Line)
    rules: dict[str, StandingRule] = {}
    lines = data.split(b"\n")
    for raw in lines[:-1]:
        try:
            line = read.decode(raw)
        except ValueError:
            continue
        if line.op == "add" and line.rule is not None:
            rules[line.rule.id] = line.rule
        elif line.op == "revoke":
            rules.pop(line.id, None)
    return iter(rules.values())


def _read(fd: int) -> bytes:
    pieces: list[bytes] = []
    while piece := os.read(fd, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _unreadable(path: Path, error: OSError) -> StorageFailed:
    return StorageFailed(f"{path} can't be read: {error.strerror or error}", path=str(path), errno=error.errno)


def _now() -> str:
    return stamp(time.time_ns() // 1_000_000)
