"""Events by hand, and a screen that keeps what was printed."""

from __future__ import annotations

import re
from typing import Any

from drawbar.contracts.clock import stamp
from drawbar.contracts.codec import Raw, encode
from drawbar.contracts.events.base import Event, Payload
from drawbar.contracts.events.tool import Decision, ToolCompleted, ToolStarted
from drawbar.surfaces.cli.display import Display
from drawbar.surfaces.cli.output import GLYPHS, Look
from drawbar.surfaces.cli.screen import Screen

ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
PLAIN = Look(tty=False, colour=False, glyphs=GLYPHS, columns=80)
TERMINAL = Look(tty=True, colour=True, glyphs=GLYPHS, columns=80, draws=True)


def events(*payloads: Payload, start_ms: int = 1_796_000_000_000, step_ms: int = 100) -> list[Event]:
    """The payloads as the events of a log."""
    return [
        Event(seq=n, at=stamp(start_ms + n * step_ms), type=p.event, payload=Raw(encode(p)))
        for n, p in enumerate(payloads)
    ]


def call(call_id: str, tool: str, arguments: Any, **end: Any) -> tuple[ToolStarted, ToolCompleted]:
    """A call that ran: its start and its end."""
    started = ToolStarted(
        call_id=call_id, tool=tool, arguments=arguments, arguments_sha256="0" * 64, entry_id="e", scope="workspace",
        decision=Decision(outcome="allow"),
    )  # fmt: skip
    return started, ToolCompleted(call_id=call_id, **{"cause": "ok", "duration_ms": 1200, **end})


class Shown:
    """What a display printed for some events, ``pace_s`` seconds apart."""

    def __init__(
        self, *payloads: Payload, look: Look = PLAIN, pace_s: float = 0.0, finish: bool = True, **options: Any
    ) -> None:
        self.pieces: list[str] = []
        self.now = 0.0
        self.screen = Screen(self.pieces.append, look)
        self.display = Display(self.screen, clock=lambda: self.now, **options)
        for event in events(*payloads):
            self.display.show(event)
            self.now += pace_s
            self.display.tick()
        if finish:
            self.display.finish()

    @property
    def raw(self) -> str:
        return "".join(self.pieces)

    @property
    def text(self) -> str:
        """Without colours; only for looks that draw nothing that is taken back."""
        return ESCAPE.sub("", self.raw)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def replay(raw: str, width: int = 80) -> list[str]:
    """The lines of a terminal after ``raw`` was written to it: understands what a screen may send, nothing else."""
    lines = [""]
    column = 0
    place = 0
    while place < len(raw):
        char = raw[place]
        if match := re.compile(r"\x1b\[(\d*)([A-Za-z]|m)|\x1b\[[0-9;]*m").match(raw, place):
            place = match.end()
            if match[2] == "K":
                lines[-1] = lines[-1][:column]
            elif match[2] == "D":
                column = max(0, column - int(match[1] or 1))
            elif not match[0].endswith("m"):
                raise AssertionError(f"a screen sent {match[0]!r}")
            continue
        place += 1
        if char == "\n":
            lines.append("")
            column = 0
        elif char == "\r":
            column = 0
        else:
            assert char >= " ", f"a screen sent {char!r}"
            lines[-1] = lines[-1][:column].ljust(column) + char + lines[-1][column + 1 :]
            column += 1
            assert column <= width, "a drawn line is wider than the terminal"
    return lines
