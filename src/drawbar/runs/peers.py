"""Who is at the other end of the control socket, and may they answer for a person (BND-16)?

Nothing that the model starts can approve itself: a peer that descends from a run's owner, that lives in
another PID namespace than the owner's, or that carries a call's marker is refused.
"""

from __future__ import annotations

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
    """The process that connected, held by a pidfd where the kernel has one, so that its pid can't be recycled."""

    pid: int
    uid: int
    pidfd: int | None

    def alive(self) -> bool:
        """Whether the process that connected is still the one that ``pid`` names."""
        if self.pidfd is None:
            return os.path.exists(f"/proc/{self.pid}")
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        if self.pidfd is not None:
            os.close(self.pidfd)


def peer_of(connection: socket.socket) -> Peer:
    """The peer's credentials as the kernel recorded them when it connected."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _gid = struct.unpack("3i", raw)
    try:
        pidfd = connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        pidfd = None
    return Peer(pid=pid, uid=uid, pidfd=pidfd)


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
    ancestors = {os.getpid(), *owners}
    if peer.pid <= 0:
        raise NotPermitted("the peer lives in a PID namespace that can't be seen from here")
    try:
        if os.readlink(f"/proc/{peer.pid}/ns/pid") != os.readlink("/proc/self/ns/pid"):
            raise NotPermitted("the peer lives in another PID namespace than the run's owner")
        with open(f"/proc/{peer.pid}/environ", "rb") as file:
            environment = file.read()
        if any(item.startswith(MARKER.encode() + b"=") for item in environment.split(b"\0")):
            raise NotPermitted("the peer was started by a tool call")
        if _descends(peer.pid, ancestors):
            raise NotPermitted("the peer was started by the process of a run")
    except OSError as error:
        raise NotPermitted("the peer can't be identified") from error
    if not peer.alive():
        raise NotPermitted("the peer is gone")


def _descends(pid: int, ancestors: Collection[int]) -> bool:
    for _ in range(_DEPTH):
        if pid in ancestors:
            return True
        if pid <= 1:
            return False
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command name may hold anything, so fields count from the last closing parenthesis.
            pid = int(file.read().rpartition(b")")[2].split()[1])
    return True
