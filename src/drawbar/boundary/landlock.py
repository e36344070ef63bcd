"""A write scope that the kernel holds: the calling thread can change files below the given folders only (BND-7).

Landlock only ever narrows and only the thread that asks, so the thread must be a short-lived one of its own.
Reading isn't restricted. The module uses the standard library alone.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from collections.abc import Iterable

__all__ = ["WriteRules", "landlock_version"]

_SYS_CREATE_RULESET = 444
_SYS_ADD_RULE = 445
_SYS_RESTRICT_SELF = 446
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

_WRITE_FILE = 1 << 1
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))  # remove folder, file; make device, folder, file, socket, …
_REFER = 1 << 13
_TRUNCATE = 1 << 14
_RIGHTS_SINCE = {1: _WRITE_FILE | _REMOVE_AND_MAKE, 2: _REFER, 3: _TRUNCATE}


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    done = _libc().syscall(number, *arguments)
    if done < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))
    return done


@functools.cache
def landlock_version() -> int:
    """The kernel's Landlock version; 0 where it is missing or switched off."""
    try:
        return _call(_SYS_CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


class WriteRules:
    """A set of folders below which writing is allowed, ready to be laid upon threads.

    Args:
        folders: descriptors of the folders; they may be closed afterwards.

    Raises:
        OSError: where Landlock is missing.
    """

    def __init__(self, folders: Iterable[int]) -> None:
        version = landlock_version()
        rights = sum(bits for since, bits in _RIGHTS_SINCE.items() if version >= since)
        self._fd = _call(_SYS_CREATE_RULESET, struct.pack("Q", rights), 8, 0)
        try:
            for folder in folders:
                _call(_SYS_ADD_RULE, self._fd, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, folder), 0)
        except BaseException:
            self.close()
            raise

    def confine_this_thread(self) -> None:
        """From here to its end the calling thread changes nothing outside the folders.

        Raises:
            OSError: when the kernel refuses; the thread must then write nothing.
        """
        one, zero = ctypes.c_ulong(1), ctypes.c_ulong(0)
        if _libc().prctl(_PR_SET_NO_NEW_PRIVS, one, zero, zero, zero) != 0:
            failed = ctypes.get_errno()
            raise OSError(failed, os.strerror(failed))
        _call(_SYS_RESTRICT_SELF, self._fd, 0)

    def close(self) -> None:
        """Give the descriptor back; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
