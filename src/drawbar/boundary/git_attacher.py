"""The harness's side of :mod:`drawbar.boundary.git_attach`: one helper a run, started before it is needed (PRF-2).

A Python program costs more to start than a sandbox does, so it is started beside the model's request and then asked.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from drawbar.boundary import git_attach

__all__ = ["Attacher"]

_LIMIT_S: Final = 10.0


class Attacher:
    """Mounts a session's copies over the settings of repositories inside sandboxes."""

    def __init__(self) -> None:
        self._helper: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the helper, if it isn't there; whoever asks first would otherwise wait for it."""
        if self._helper is not None and self._helper.poll() is None:
            return
        self.close()
        with contextlib.suppress(OSError):
            self._helper = subprocess.Popen(
                [sys.executable, "-I", "-S", git_attach.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"LC_ALL": "C.UTF-8"},
                cwd="/",
                start_new_session=True,
            )

    def attach(self, init: int, pairs: Sequence[tuple[str, str]]) -> bool:
        """Mount each ``(source, place)`` in the sandbox whose first process is ``init``; whether all are there."""
        self.start()
        helper = self._helper
        if helper is None or helper.stdin is None or helper.stdout is None:
            return False
        line = json.dumps({"pid": init, "pairs": pairs}).encode() + b"\n"
        try:
            helper.stdin.write(line)
            helper.stdin.flush()
            ready, _, _ = select.select([helper.stdout], (), (), _LIMIT_S)
            answer = os.read(helper.stdout.fileno(), 16) if ready else b""
        except (OSError, ValueError):
            answer = b""
        if not answer.endswith(b"\n"):
            self.close()
        return answer == b"ok\n"

    def close(self) -> None:
        """End the helper; safe to call twice."""
        helper, self._helper = self._helper, None
        if helper is None:
            return
        for stream in (helper.stdin, helper.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        helper.kill()
        helper.wait()
