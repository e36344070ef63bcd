"""``drawbar redact``: standard input to standard output without its secrets, as it comes (CLI-6, CON-32)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from drawbar.surfaces.cli.shell import Command

if TYPE_CHECKING:
    from drawbar.stores.redaction import SecretRedactor

__all__ = ["redact"]

_PIECE: Final = 64 * 1024
_LARGEST_FILE: Final = 16 * 1024 * 1024


@click.command(cls=Command, epilog="Example: drawbar redact --known secrets.txt < build.log > build.clean.log")
@click.option("--known", metavar="FILE", help="Secrets to look for besides the well-known kinds, one a line.")
def redact(known: str | None) -> int:
    """Copy standard input to standard output without the secrets in it.

    Looked for are the well-known kinds (API keys, tokens, key blocks, passwords in addresses …), the secret values
    of this process's environment, and the lines of FILE, each in its usual encodings too. The replacement names the
    kind: `[redacted:kind]`. Whatever isn't a secret passes byte for byte, at once: only what could still turn out
    to begin a secret is held back.
    """
    from drawbar.stores.redaction import ByteRedactor, SecretRedactor, known_from_environment

    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # closed by whoever started us
        raise click.UsageError("standard input is closed; there is nothing to redact")
    source, target = sys.stdin.fileno(), sys.stdout.fileno()
    redactor = SecretRedactor(known_from_environment(os.environ))
    if known is not None:
        _learn(redactor, known)
    stream = ByteRedactor(redactor)
    try:
        while piece := _read(source):
            _write(target, stream.feed(piece))
        _write(target, stream.end())
    except KeyboardInterrupt:
        return 130  # without the line end that is due to a terminal: this may be a file
    return 0


def _learn(redactor: SecretRedactor, name: str) -> None:
    """Learn the lines of a file, and say which of them can't be looked for; the lines themselves are never shown."""
    from drawbar.contracts.errors import InvalidInput
    from drawbar.stores.redaction import learn_bytes
    from drawbar.surfaces.cli.text import label

    try:
        with Path(name).open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise InvalidInput(f"--known: {name} can't be read: {error.strerror}", field="known") from error
    if len(content) > _LARGEST_FILE:
        raise InvalidInput(f"--known: {name} is larger than 16 MiB; that is no list of secrets", field="known")
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip() and not learn_bytes(redactor, line, "known"):
            print(
                f"drawbar: line {number} of {label(name)} is too short or too ordinary to be told from other text,"
                " so it is not looked for",
                file=sys.stderr,
            )


def _read(source: int) -> bytes:
    while True:
        try:
            return os.read(source, _PIECE)
        except BlockingIOError:  # whoever shares the stream made it so
            _wait(source, reading=True)


def _write(target: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(target, left) :]
        except BlockingIOError:
            _wait(target, reading=False)


def _wait(fd: int, *, reading: bool) -> None:
    import select

    poll = select.poll()
    poll.register(fd, select.POLLIN if reading else select.POLLOUT)
    poll.poll()
