"""Full outputs kept beside the log: redacted like everything else that leaves memory, then recorded (QLT-20)."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import hashlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from drawbar.contracts.engine import Redactor
from drawbar.contracts.tool import Artifacts

__all__ = ["output_keeper", "redact_file"]

_CHUNK: Final = 1 << 18


def output_keeper(artifacts: Artifacts, redactor: Redactor, call_id: str) -> Callable[[Path], Awaitable[str]]:
    """What a tool hands a finished output file to; it gives back the path relative to the run folder."""

    async def keep(path: Path) -> str:
        await asyncio.to_thread(redact_file, path, redactor)
        return artifacts.added(path, call_id=call_id, media_type="text/plain", reason="full_output")

    return keep


def redact_file(path: Path, redactor: Redactor) -> None:
    """Replace the secrets in a text file, in bounded memory.

    A file without a secret stays as it is, to the byte; in one that is rewritten, bytes that are no UTF-8 become
    U+FFFD. One that can't be redacted is removed rather than kept as it is.

    Raises:
        OSError: the disk refused; the file is gone then.
    """
    aside = path.with_name(f".{path.name}.redacted")
    try:
        with path.open("rb") as source, aside.open("xb") as target:
            os.fchmod(target.fileno(), 0o600)
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            stream = redactor.stream()
            before, after = hashlib.sha256(), hashlib.sha256()
            while True:
                chunk = source.read(_CHUNK)
                text = decoder.decode(chunk, final=not chunk)
                before.update(text.encode())
                clean = (stream.feed(text) + ("" if chunk else stream.end())).encode()
                after.update(clean)
                target.write(clean)
                if not chunk:
                    break
        if before.digest() != after.digest():
            os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()
