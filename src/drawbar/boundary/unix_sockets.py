"""Which sockets this machine's programs have bound to a name, and the file that each of them is (BND-10).

The name is what the program once said: relative to its own folder, or before a rename. The file's inode is what a
connection looks for, and the kernel tells it on request (``sock_diag``); an older kernel tells the names alone.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["BoundSocket", "bound_sockets"]

_TABLE: Final = "/proc/net/unix"
_NETLINK_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_DUMP: Final = 0x301
"""NLM_F_REQUEST and NLM_F_DUMP."""
_DONE, _ERROR = 3, 2
_NAME, _FILE = 0, 1
_SHOW: Final = 1 << _NAME | 1 << _FILE
_HEADER: Final = struct.Struct("=IHHII")
_REQUEST: Final = struct.Struct("=BBHIIIII")
_MESSAGE: Final = 16
_ANY: Final = 0xFFFFFFFF
_PIECE: Final = 1 << 18
_WAIT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class BoundSocket:
    """A socket with a name in the file system; ``device`` and ``inode`` are None where the kernel doesn't say.

    ``device`` is the file system's as ``(major, minor)``, as ``mountinfo`` has it; ``inode`` is cut to 32 bits.
    """

    name: bytes
    device: tuple[int, int] | None = None
    inode: int | None = None


def bound_sockets() -> list[BoundSocket]:
    """Every socket of this network namespace that is bound to a file, listening or not.

    Those of a command in a sandbox, or of a container, are of another namespace and not listed.
    """
    try:
        return list(_from_kernel())
    except OSError:
        return list(_from_table())


def _from_kernel() -> Iterator[BoundSocket]:
    """Raises OSError where the kernel has no ``unix_diag``."""
    request = _REQUEST.pack(socket.AF_UNIX, 0, 0, _ANY, 0, _SHOW, _ANY, _ANY)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as link:
        link.settimeout(_WAIT_S)
        link.sendto(_HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _DUMP, 1, 0) + request, (0, 0))
        while True:
            data = link.recv(_PIECE)
            at = 0
            while at + _HEADER.size <= len(data):
                length, kind = _HEADER.unpack_from(data, at)[:2]
                if kind == _DONE or length < _HEADER.size:
                    return
                if kind == _ERROR:
                    code = -struct.unpack_from("=i", data, at + _HEADER.size)[0]
                    raise OSError(code, os.strerror(code))
                found = _socket(data, at + _HEADER.size + _MESSAGE, min(at + length, len(data)))
                if found is not None:
                    yield found
                at += length + 3 & ~3


def _socket(data: bytes, at: int, end: int) -> BoundSocket | None:
    """What the attributes of one socket say, None for one without a file."""
    name = b""
    file: tuple[int, int] | None = None
    while at + 4 <= end:
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            break
        if kind == _NAME:
            name = data[at + 4 : at + length].rstrip(b"\0")
        elif kind == _FILE:
            file = struct.unpack_from("=II", data, at + 4)
        at += length + 3 & ~3
    if file is None:
        return None
    inode, device = file
    return BoundSocket(name, (device >> 20, device & 0xFFFFF), inode)


def _from_table() -> Iterator[BoundSocket]:
    try:
        with open(_TABLE, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines[1:]:
        name = line[_path_column(line) :]
        if name and not name.startswith(b"@"):
            yield BoundSocket(name)


def _path_column(line: bytes) -> int:
    """Where the path begins: after seven columns and one space; a path may hold spaces itself."""
    position = 0
    for _ in range(7):
        while position < len(line) and line[position] == 0x20:
            position += 1
        end = line.find(b" ", position)
        if end < 0:
            return len(line)
        position = end
    return position + 1
