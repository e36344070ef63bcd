"""Who is at the other end of the control socket, and may they answer for a person (BND-16)?

Nothing that the model starts can approve itself: a peer that descends from a run's owner, that lives in
another PID namespace than the owner's, or that carries a call's marker is refused. Each sign is looked for when the
peer connects and again when it answers, so that neither leaving its parents nor becoming another program in between
takes one away; and in its whole line of parents, so that no clean environment further down hides one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
from collections.abc import Collection
from dataclasses import dataclass

from drawbar.contracts.errors import NotPermitted

__all__ = ["MARKER", "Peer", "may_answer", "peer_of", "same_user"]

MARKER = "DRAWBAR_CALL"
"""The environment variable that every process started for a tool call carries."""
SO_PEERPIDFD = 77
_DEPTH = 1000


@dataclass(frozen=True, slots=True)
class Peer:
    """The process that connected, held so that its pid can't be recycled: by a pidfd where the kernel has one.

    ``folder`` is its opened ``/proc`` folder, which names that very process and no later one. ``line`` are the
    processes it descended from when it connected, itself first, and ``marked`` is whether one of them carried the
    marker then.
    """

    pid: int
    uid: int
    pidfd: int | None = None
    folder: int | None = None
    line: tuple[int, ...] = ()
    marked: bool = False
    gone: bool = False

    def alive(self) -> bool:
        """Whether the process that connected is still the one that ``pid`` names."""
        if self.gone:
            return False
        if self.pidfd is not None:
            poll = select.poll()
            poll.register(self.pidfd, select.POLLIN)
            return not poll.poll(0)
        try:
            return _stat(self.pid, self.folder)[0] not in ("Z", "X")
        except OSError:
            return False

    def close(self) -> None:
        """Let the process go."""
        for fd in (self.pidfd, self.folder):
            if fd is not None:
                os.close(fd)


def peer_of(connection: socket.socket) -> Peer:
    """The peer's credentials as the kernel recorded them when it connected, and the signs that it carries now."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _gid = struct.unpack("3i", raw)
    pidfd, gone = None, False
    try:
        pidfd = connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
        os.set_inheritable(pidfd, False)
    except OSError as error:
        # An older kernel doesn't know the option; one that does and has no pidfd says that the process is gone.
        gone = error.errno != errno.ENOPROTOOPT
    folder: int | None = None
    line: tuple[int, ...] = ()
    marked = False
    if pid > 0 and not gone:
        with contextlib.suppress(OSError):
            folder = os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            line = _line(pid)
            marked = any(map(_carries_marker, line))
    return Peer(pid=pid, uid=uid, pidfd=pidfd, folder=folder, line=line, marked=marked, gone=gone)


def same_user(peer: Peer) -> None:
    """Raises :class:`NotPermitted` for another user's process; root may reach a user's runs."""
    if peer.uid not in (os.geteuid(), 0):
        raise NotPermitted("this run belongs to another user")


def may_answer(peer: Peer, owners: Collection[int]) -> None:
    """Refuse a peer that could be the model's doing; anything that can't be read counts against it.

    Args:
        peer: who connected.
        owners: the process ids that own live runs of this root; ours is always among them.

    Raises:
        NotPermitted: saying which of the three signs it carries.
    """
    if peer.pid <= 0:
        raise NotPermitted("the peer lives in a PID namespace that can't be seen from here")
    if not peer.alive():
        raise NotPermitted("the peer is gone")
    try:
        line = {*peer.line, *_line(peer.pid)}
        tracer = _tracer(peer.pid, peer.folder)
        if tracer:  # whoever traces a process says what it does
            line.update(_line(tracer))
        namespaces = {_namespace(pid) for pid in (peer.pid, tracer) if pid}
        marked = _environ_marked(peer.pid, peer.folder) or any(map(_carries_marker, line))
    except OSError as error:
        raise NotPermitted("the peer can't be identified") from error
    if namespaces != {os.readlink("/proc/self/ns/pid")}:
        raise NotPermitted("the peer lives in another PID namespace than the run's owner")
    if peer.marked or marked:
        raise NotPermitted("the peer was started by a tool call")
    if not line.isdisjoint({os.getpid(), *owners}):
        raise NotPermitted("the peer was started by the process of a run")
    if not peer.alive():  # all of that was read of the process that connected, and of no later one
        raise NotPermitted("the peer is gone")


def _line(pid: int) -> tuple[int, ...]:
    """``pid`` and everything that it descends from, up to the first process. Raises :class:`OSError`."""
    found: list[int] = []
    while pid > 0:
        if len(found) > _DEPTH:
            raise OSError(errno.ELOOP, "too many parents")
        found.append(pid)
        pid = int(_stat(pid)[1])
    return tuple(found)


def _stat(pid: int, folder: int | None = None) -> list[str]:
    """The fields of a process from its state on."""
    # The command name may hold anything, so fields count from the last closing parenthesis.
    return _read(pid, "stat", folder).rpartition(b")")[2].decode("ascii", "replace").split()


def _read(pid: int, name: str, folder: int | None = None) -> bytes:
    fd = os.open(name if folder is not None else f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    with open(fd, "rb") as file:
        return file.read()


def _tracer(pid: int, folder: int | None) -> int:
    for line in _read(pid, "status", folder).splitlines():
        if line.startswith(b"TracerPid:"):
            return int(line.split()[1])
    return 0


def _namespace(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/pid")


def _environ_marked(pid: int, folder: int | None = None) -> bool:
    return any(item.startswith(MARKER.encode() + b"=") for item in _read(pid, "environ", folder).split(b"\0"))


def _carries_marker(pid: int) -> bool:
    """Whether a parent was given the marker; one of another user, such as a login's, was started by no run of ours."""
    try:
        return _environ_marked(pid)
    except OSError:
        return False  # another user's, or gone since; the peer itself is read strictly
