"""The input of a run, checked before anything is on disk (RUN-1)."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

from drawbar.contracts.codec import convert, values_of
from drawbar.contracts.errors import InvalidInput, WorkspaceRefused
from drawbar.contracts.ids import is_id
from drawbar.contracts.run import ASKED_TRIGGERS, NEVER_ASKED, RunInput
from drawbar.sessions.initial_bash import check_initial_bash

__all__ = ["MAX_TEXT", "refuse_unwritable_name", "validate"]

MAX_TEXT = 8 * 1024 * 1024
"""Characters of one request; more belongs into a file that the agent reads."""
_FIELD = re.compile(r"\$\.(\w+)")
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def validate(request: RunInput) -> None:
    """Refuse what can't be run.

    Raises:
        InvalidInput: with the field named; nothing was written.
    """
    _check_types(request)
    if not request.text.strip():
        raise InvalidInput("text: the request is empty; say what should be done", field="text")
    if len(request.text) > MAX_TEXT:
        raise InvalidInput(
            f"text: {len(request.text)} characters are more than {MAX_TEXT}; put them into a file and name it",
            field="text",
        )
    if "\0" in request.text:
        raise InvalidInput("text: a request can't hold NUL characters", field="text")
    if request.run_id is not None and not is_id(request.run_id, "run"):
        raise InvalidInput("run.id: must be `r_` and a lower-case ULID", field="run.id")
    if request.session_id is not None and not _SESSION_ID.fullmatch(request.session_id):
        raise InvalidInput(
            "session_id: letters, digits, dot, dash and underscore only, starting with a letter or digit",
            field="session_id",
        )
    if request.session_dir is not None and not Path(request.session_dir).is_absolute():
        raise InvalidInput("session_dir: must be an absolute path", field="session_dir")
    if request.resume and request.session_id is None and request.session_dir is None:
        raise InvalidInput("resume: needs a session_id or a session_dir", field="resume")
    if request.trigger not in ASKED_TRIGGERS | NEVER_ASKED:
        known = ", ".join(sorted(ASKED_TRIGGERS | NEVER_ASKED))
        raise InvalidInput(f"trigger: unknown value {request.trigger!r}; known are {known}", field="trigger")
    if request.cwd is not None and not Path(request.cwd).is_absolute():
        raise InvalidInput("cwd: must be an absolute path", field="cwd")
    check_initial_bash(request)


def refuse_unwritable_name(root: Path) -> None:
    """A record holds text, so a root whose name is none could not be named in it.

    Raises:
        WorkspaceRefused: naming the folder.
    """
    try:
        str(root).encode()
    except UnicodeEncodeError as error:
        raise WorkspaceRefused(
            f"{os.fsencode(root)!r} can't be a workspace root: its name isn't UTF-8. Rename the folder, or reach it "
            "by a parent folder with another name."
        ) from error


def _check_types(request: RunInput) -> None:
    """A struct made in Python holds whatever it was given; only reading it back checks the types (ARC-3)."""
    text = request.text
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput("text: must be a string", field="text")
    try:
        convert(values_of(request, leave_out={"text", "harness"}) | {"text": ""}, RunInput, what="run input")
    except InvalidInput as error:
        named = _FIELD.search(error.message)
        field = named[1] if named else "input"
        raise InvalidInput(f"{field}: {error.message.removeprefix('run input: ')}", field=field) from error
    if not math.isfinite(request.ask_timeout_s):
        raise InvalidInput("ask_timeout_s: must be a finite number of seconds", field="ask_timeout_s")
    for name in ("account", "model", "effort"):
        if getattr(request, name) == "":
            raise InvalidInput(f"{name}: is empty; leave it out or name one", field=name)
