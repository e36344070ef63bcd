"""The request of a run as typed: text from an argument or standard input, flags, folders (CLI-1)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from drawbar.contracts.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from drawbar.contracts.run import ApprovalMode, RunInput

__all__ = ["build_request", "prompt_text", "session_named", "stdin_stream"]

MAX_BYTES = 32 * 1024 * 1024
"""What is read of standard input at most; the service refuses requests long before."""


def prompt_text(argument: str | None, stdin: BinaryIO | None, *, stdin_is_terminal: bool) -> str:
    """The request's text: the argument, or all of standard input when there is none (or it is ``-``).

    Args:
        argument: as typed, None when left out.
        stdin: where to read from, None when it is closed.
        stdin_is_terminal: a person would be left waiting, so it isn't read unless asked for with ``-``.

    Raises:
        InvalidInput: no text, text that isn't UTF-8, or far too much of it.
    """
    if argument is not None and argument != "-":
        try:
            text = os.fsencode(argument).decode()
        except UnicodeDecodeError as error:
            raise InvalidInput("the request is not valid UTF-8 text", field="text") from error
        source = "the request"
    else:
        if stdin is None or (stdin_is_terminal and argument is None):
            raise InvalidInput(
                'no request: write it as an argument, drawbar run "…", or pipe it in, drawbar run < request.txt',
                field="text",
            )
        text, source = _read(stdin), "standard input"
    if not text.strip():
        raise InvalidInput(f"{source} is empty: say what should be done", field="text")
    return text


def _read(stdin: BinaryIO) -> str:
    raw = stdin.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise InvalidInput(
            f"standard input is longer than {MAX_BYTES} bytes: put it into a file and name the file in the request",
            field="text",
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"standard input is not UTF-8 text (byte {error.start})", field="text") from error


def build_request(
    text: str,
    *,
    cwd: str | None = None,
    account: str | None = None,
    model: str | None = None,
    effort: str | None = None,
    session: str | None = None,
    approval: ApprovalMode | None = None,
    sandbox: Literal["on", "off"] | None = None,
    unattended: bool = False,
    ask_timeout: float = 0.0,
    title: str | None = None,
    typed: bool = False,
) -> RunInput:
    """The service's input from what was typed; only what was typed is set, so that settings keep their say.

    ``session`` is a whole id, whose conversation is gone on with: in the folder where it began, unless ``cwd``
    names another. Of a ``typed`` text a leading ``!`` command is run before the model's first request (RUN-7); a
    piped one comes from who knows where, so it is words alone.

    Raises:
        InvalidInput: ``cwd`` is no folder.
    """
    from drawbar.contracts.run import RunInput
    from drawbar.sessions.initial_bash import leading_command

    own = session is not None and cwd is None
    folder = Path(os.path.abspath(cwd)) if cwd is not None else Path.cwd()
    if not own and not folder.is_dir():
        raise InvalidInput(f"--cwd: {folder} is no folder", field="cwd")
    return RunInput(
        text=text,
        initial_bash=leading_command(text) if typed else None,
        session_id=session,
        resume=session is not None,
        cwd=None if own else str(folder),
        account=account,
        model=model,
        effort=effort,
        automatic=unattended,
        approval=approval,
        sandbox=sandbox,
        ask_timeout_s=ask_timeout,
        title=title,
    )


def session_named(beginning: str, environ: Mapping[str, str]) -> str:
    """The id of the one session that begins so (CON-2); nothing is made or opened.

    Raises:
        NotFound: no session begins so.
        InvalidInput: several do.
    """
    from drawbar.stores.layout import Layout

    try:
        found = sorted(entry.name for entry in os.scandir(Layout.resolve(environ).sessions))
    except FileNotFoundError:
        found = []
    matches = [name for name in found if name.startswith(beginning)]
    if beginning in matches:
        return beginning
    if not matches or not beginning:
        raise NotFound(
            f"no session begins with {beginning!r}: `drawbar runs show RUN` names a run's session", session=beginning
        )
    if len(matches) > 1:
        raise InvalidInput(
            f"{len(matches)} sessions begin with {beginning!r}: type more of the id, such as {matches[-1]}",
            field="session",
        )
    return matches[0]


def stdin_stream() -> tuple[BinaryIO | None, bool]:
    """Standard input as bytes, and whether it is a terminal; None when the process has none."""
    stream = sys.stdin
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison]
        return None, False
    try:
        return stream.buffer, stream.isatty()
    except ValueError:
        return None, False
