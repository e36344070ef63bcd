"""The input of a run, checked before anything is on disk (RUN-1)."""

from __future__ import annotations

import re
from pathlib import Path

from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.ids import is_id
from drawbar.contracts.run import ASKED_TRIGGERS, NEVER_ASKED, RunInput

__all__ = ["MAX_TEXT", "validate"]

MAX_TEXT = 8 * 1024 * 1024
"""Characters of one request; more belongs into a file that the agent reads."""
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def validate(request: RunInput) -> None:
    """Refuse what can't be run.

    Raises:
        InvalidInput: with the field named; nothing was written.
    """
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
