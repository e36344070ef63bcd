"""The few lines of shell that stand between the sandbox and the command, and what they say to the harness.

As the first process of the command's own PID namespace the shell collects what the command leaves, and when the
command ends it says whether anything still lives, so that such processes get a short grace and are counted
instead of vanishing unseen. It speaks over its standard input, a socket that the command never gets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

__all__ = ["END", "GO", "Word", "Words", "first_process", "supervised_argv"]

GO: Final = b"-\n"
"""Start, with nothing on standard input; a decimal count instead announces that many bytes of it."""
END: Final = b"end\n"

_CHILD_PID: Final = re.compile(rb'"child-pid": ([1-9][0-9]{0,9})\b')
_LONGEST: Final = 64
_SHELL: Final = "/bin/sh"
_NAME: Final = "drawbar"

# The shell's own messages ("Killed") go nowhere; the command gets the real standard error. A subshell with exec
# runs a program and never a shell builtin of the same name. A core file would be litter in the workspace.
_SCRIPT: Final = """\
exec 3>&2 2>/dev/null
ulimit -c 0
echo ready >&0
read -r given || exit 125
case $given in
-) ( exec "$@" </dev/null 2>&3 3>&- ) ;;
*) head -c "$given" 3>&- | ( exec "$@" 2>&3 3>&- ) ;;
esac
status=$?
kill -s 0 -- -1 && { echo "left $status" >&0; read -r given; }
exit $status
"""


def supervised_argv(argv: Sequence[str]) -> list[str]:
    """The supervisor's own argv around a command's; for use as PID 1 of a namespace only, since it signals ``-1``."""
    return [_SHELL, "-c", _SCRIPT, _NAME, *argv]


def first_process(status: bytes) -> int | None:
    """The process id of the sandbox's first process, from what the back end wrote about it."""
    named = _CHILD_PID.search(status)
    return int(named[1]) if named is not None else None


@dataclass(frozen=True, slots=True)
class Word:
    """One thing said: the sandbox is set up, or its command ended with code ``number`` and left processes."""

    kind: Literal["ready", "left"]
    number: int = 0


@dataclass(slots=True)
class Words:
    """Reads the stream of one call's socket; a command that took its supervisor over gains nothing by it."""

    _rest: bytes = b""
    _said: set[bytes] = field(default_factory=set[bytes])

    def feed(self, data: bytes) -> list[Word]:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_LONGEST:]
        return [word for line in lines if (word := self._word(line)) is not None]

    def _word(self, line: bytes) -> Word | None:
        kind, _, rest = line.partition(b" ")
        if kind in self._said:
            return None
        self._said.add(kind)
        if kind == b"ready":
            return Word("ready")
        if kind == b"left" and rest.isdigit() and len(rest) < 4:
            return Word("left", int(rest))
        return None
