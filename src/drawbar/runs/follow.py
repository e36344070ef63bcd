"""Following a run: persisted events from any ``seq``, live and settled alike, in this process or another (API-2).

The file is the truth. A follower holds only its own cursor, so a slow one costs the run nothing, and it can
never see an event that isn't on disk (CON-12). The owner's process wakes followers; elsewhere they poll.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from drawbar.contracts.codec import decoder
from drawbar.contracts.events.base import Event
from drawbar.stores.regular_file import open_regular

__all__ = ["Wake", "follow_lines"]

CHUNK = 256 * 1024
HOT_S = 0.010
COLD_S = 0.250
_EVENT = decoder(Event)


class Wake:
    """Tells followers of one run that its log grew; cheap when nobody listens."""

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None

    def notify(self) -> None:
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self, timeout_s: float) -> None:
        """Until the next notification, or at most ``timeout_s`` seconds."""
        if self._event is None:
            self._event = asyncio.Event()
        event = self._event
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except TimeoutError:
            return


async def follow_lines(
    path: Path, *, from_seq: int, ended: Callable[[], bool], wake: Wake | None
) -> AsyncIterator[tuple[Event, bytes]]:
    """Whole lines as they appear, each with its event; ends after a terminal line, or once ``ended`` says so.

    Args:
        path: the run's ``events.jsonl``.
        from_seq: the first ``seq`` wanted.
        ended: whether nobody will write any more (the run settled, or its owner is gone).
        wake: from the run's owner in this process; None polls.
    """
    held: list[bytes] = []
    idle = 0
    with os.fdopen(open_regular(path), "rb", buffering=0) as file:
        while True:
            final = ended()
            grew = False
            while chunk := os.read(file.fileno(), CHUNK):
                grew = True
                first, *others = chunk.split(b"\n")
                held.append(first)
                if not others:
                    continue
                lines = [b"".join(held), *others[:-1]]
                held = [others[-1]]
                for line in lines:
                    event = _parse(line)
                    if event is None:
                        continue
                    if event.seq >= from_seq:
                        yield event, line
                    if is_terminal(event):
                        return
            if grew:
                idle = 0
                continue
            if final:
                return
            idle += 1
            if wake is not None:
                await wake.wait(COLD_S)
            else:
                await asyncio.sleep(HOT_S if idle < 100 else COLD_S)


def _parse(line: bytes) -> Event | None:
    try:
        return _EVENT.decode(line)
    except (ValueError, UnicodeDecodeError):
        return None  # damage is kept and reported by inspect and verify; a follower goes on


def is_terminal(event: Event) -> bool:
    """Whether this line seals the log (CON-13)."""
    if event.type in ("completed", "failed"):
        return True
    return event.type == "status.changed" and b'"to":"interrupted"' in bytes(event.payload)
