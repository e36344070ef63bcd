"""Opens a listening socket in a sandbox's network namespace and passes it back; a process of a moment.

Run as ``python -I -S listener.py SOCKET NETWORK [OWNER]`` with three descriptors: a Unix socket to answer on, the
network namespace, and the user namespace that owns it (left out when it is the process's own). A process of its own
it must be: only one without threads may change its user namespace. It needs the standard library alone.

It answers one byte with the listening socket, or the number of the system's error as text.
"""

from __future__ import annotations

import os
import socket
import sys

PORT = 3128
BACKLOG = 128
NEW_USER = 0x10000000
NEW_NET = 0x40000000


def main(answer_fd: int, network_fd: int, owner_fd: int | None) -> None:
    """Enter the namespaces and answer."""
    answer = socket.socket(fileno=answer_fd)
    try:
        if owner_fd is not None:
            _enter(owner_fd, NEW_USER)
        _enter(network_fd, NEW_NET)
        # Without SO_REUSEADDR nobody inside can listen beside it.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", PORT))
        listener.listen(BACKLOG)
    except OSError as error:
        answer.send(str(error.errno or 0).encode())
        return
    socket.send_fds(answer, [b"+"], [listener.fileno()])


def _enter(fd: int, kind: int) -> None:
    if sys.version_info >= (3, 12):
        os.setns(fd, kind)
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    main(numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else None)
