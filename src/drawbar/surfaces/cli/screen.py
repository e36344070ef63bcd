"""What is on the terminal: finished lines are never touched again; only one short status is drawn and taken back.

Scrollback, selection and copying work because nothing above the cursor is ever redrawn (CLI-5).
"""

from __future__ import annotations

from collections.abc import Callable

from drawbar.surfaces.cli.output import Look
from drawbar.surfaces.cli.text import cells, clip

__all__ = ["Screen"]


class Screen:
    """Lines, streamed text and cards, in the order they happen.

    A card is a line whose end is still to come: as long as nothing else was printed, the end is put behind it.
    Callers pass text that is safe for a terminal (see :mod:`drawbar.surfaces.cli.text`).

    Args:
        write: gets what to print; must not block.
        look: what the terminal can show.
    """

    def __init__(self, write: Callable[[str], None], look: Look) -> None:
        self.look = look
        self._write = write
        self._column = 0
        self._card: str | None = None
        self._drawn = 0
        self._status = ""
        self._turn = 0

    # -- what stays -------------------------------------------------------------------------------

    def stream(self, text: str) -> None:
        """Text as it comes, in the reply's own lines."""
        if not text:
            return
        self._break_card()
        self._print(text)

    def line(self, text: str = "") -> None:
        """One whole line (or several) of its own."""
        self._end_line()
        self._print(f"{text}\n")

    def gap(self) -> None:
        """Whatever is open ends with its line."""
        self._end_line()

    def card(self, owner: str, text: str) -> None:
        """Begin a card that :meth:`close_card` with the same ``owner`` may finish on its line."""
        self._end_line()
        self._print(text)
        self._card = owner

    def close_card(self, owner: str, text: str) -> bool:
        """Finish the open card of ``owner`` on its line; False when other lines came between."""
        if self._card != owner:
            return False
        self._card = None
        self._print(f"{text}\n")
        return True

    def typed(self) -> None:
        """A person ended the line by typing."""
        self._column = 0

    # -- what is taken back -----------------------------------------------------------------------

    def status(self, text: str) -> None:
        """What is going on, as a spinner's label; empty for nothing. Only a terminal that can take it back shows it."""
        if text != self._status:
            self._status = text
            if not text:
                self._erase()

    def tick(self) -> None:
        """Turn the spinner; called a few times a second."""
        if not self.look.draws or not self._status or (self._column and self._card is None):
            return
        self._erase()
        spin = self.look.glyphs.spin
        self._turn = (self._turn + 1) % len(spin)
        lead = " " if self._column else ""
        room = self.look.width - self._column - 1
        label = clip(f"{lead}{spin[self._turn]} {self._status}", room, "")
        if label.strip():
            self._drawn = cells(label)
            self._write(self.look.paint(label, "dim"))

    def _erase(self) -> None:
        if self._drawn:
            back = "\r" if not self._column else f"\x1b[{self._drawn}D"
            self._write(f"{back}\x1b[K")
            self._drawn = 0

    # -- printing ---------------------------------------------------------------------------------

    def _break_card(self) -> None:
        if self._card is not None:
            self._card = None
            self._print("\n")

    def _end_line(self) -> None:
        self._break_card()
        if self._column:
            self._print("\n")

    def _print(self, text: str) -> None:
        self._erase()
        self._write(text)
        last = text.rpartition("\n")[2]
        added = cells(_unpainted(last))
        self._column = added if "\n" in text else self._column + added


def _unpainted(text: str) -> str:
    if "\x1b" not in text:
        return text
    parts = text.split("\x1b[")
    return parts[0] + "".join(part.partition("m")[2] for part in parts[1:])
