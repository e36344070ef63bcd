"""The few lines of shell that stand between the sandbox and the command, and what they say to the harness.

As the first process of the command's own PID namespace the shell collects what the command leaves, and when the
command ends it says whether anything still lives, so that such processes get a short grace and are counted
instead of vanishing unseen. It speaks over its standard input, a socket that the command never gets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

__all__ = [
    "END",
    "GO",
    "INPUT_FD",
    "PIPED",
    "SHELL",
    "Word",
    "Words",
    "call_script",
    "first_process",
    "kept_argv",
    "on_terminal",
    "supervised_argv",
]

GO: Final = b"-\n"
"""Start, with nothing on standard input; a decimal count instead announces that many bytes of it."""
PIPED: Final = b"pipe\n"
"""Start, with the pipe in :data:`INPUT_FD` on standard input."""
END: Final = b"end\n"
INPUT_FD: Final = 4

_CHILD_PID: Final = re.compile(rb'"child-pid": ([1-9][0-9]{0,9})\b')
_LONGEST: Final = 64
SHELL: Final = "/bin/sh"
QUEUES: Final = "/dev/.drawbar/queues"
"""Where a kept sandbox shows its POSIX message queues, which outlive the processes that made them."""
_NAME: Final = "drawbar"

# As a session's first process the shell gets the terminal that it opens as its controlling one, and the command in
# its process group is in the foreground of it.
# The shell's own messages ("Killed") go nowhere; the command gets the real standard error. A subshell with exec
# runs a program and never a shell builtin of the same name. A key that interrupts reaches the shell as well, and
# would become its own exit code instead of whatever the command makes of it; the command itself inherits no trap.
_SCRIPT: Final = """\
exec 3>&2 2>/dev/null
trap : INT
echo ready >&0
read -r given || exit 125
case $given in
-) ( exec "$@" </dev/null 2>&3 3>&- ) ;;
pipe) ( exec "$@" <&4 2>&3 3>&- 4>&- ) ;;
/dev/*) exec 4<>"$given" || exit 125; ( exec "$@" <&4 >&4 2>&4 3>&- 4>&- ) ;;
*) head -c "$given" 3>&- | ( exec "$@" 2>&3 3>&- ) ;;
esac
status=$?
kill -s 0 -- -1 && { echo "left $status" >&0; read -r given; }
exit $status
"""

# Each line names a script to carry out. What a command may leave besides processes (files in discarded folders,
# System V objects) would show to the next one, so a confining sandbox says when there is any.
_LOOP: Final = """\
exec 3>&2 2>/dev/null
known=" $(echo /run/*) "
echo ready >&0
while read -r given; do
  . "$given"
  said=done
  if [ "$1" = confined ]; then
    for left in /dev/shm/* /dev/shm/.[!.]* /dev/shm/..?* /run/* /run/.[!.]* /run/..?* /dev/.drawbar/queues/*; do
      case $known in *" $left "*) continue ;; esac
      if [ -e "$left" ] || [ -h "$left" ]; then said=soiled; fi
    done
    for left in shm sem msg; do
      { read -r head && read -r row && said=soiled; } </proc/sysvipc/$left
    done
  fi
  kill -s 0 -- -1 && said=left
  echo "$said $status" >&0
done
"""


def supervised_argv(argv: Sequence[str]) -> list[str]:
    """The supervisor's own argv around a command's; for use as PID 1 of a namespace only, since it signals ``-1``."""
    return [SHELL, "-c", _SCRIPT, _NAME, *argv]


def on_terminal(number: int) -> bytes:
    """Start, on the pseudo-terminal of that number in the command's own view."""
    return b"/dev/pts/%d\n" % number


def first_process(status: bytes) -> int | None:
    """The process id of the sandbox's first process, from what the back end wrote about it."""
    named = _CHILD_PID.search(status)
    return int(named[1]) if named is not None else None


def kept_argv(shell: str, *, confined: bool) -> list[str]:
    """The argv of a supervisor that serves one command after another.

    Args:
        shell: a copy of the shell that may be run but not read: the kernel then keeps other processes of the same
            user out of its memory, so that no command can go on living in it.
        confined: whether its temporary folders are the sandbox's own.
    """
    return [shell, "-c", _LOOP, _NAME, "confined" if confined else "open"]


def call_script(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Iterable[tuple[str, str]] = (),
    stdin: str | None = None,
    apart: bool = False,
) -> bytes:
    """The script of one call for a kept supervisor.

    Args:
        argv: the program, found by ``PATH`` as usual, and its arguments.
        cwd: where it starts.
        env: set besides what the sandbox has.
        stdin: a file that is piped into it; None is ``/dev/null``.
        apart: whether standard error goes its own way.

    Raises:
        ValueError: for a zero byte, which no argument can hold.
    """
    lines = [f"exec {'2>&3' if apart else '2>&1'} 3>&-", f"cd {_quoted(cwd)} || exit 126", "unset OLDPWD"]
    lines += [f"export {name}={_quoted(value)}" for name, value in env]
    words = " ".join(_quoted(word) for word in argv)
    if stdin is None:
        body = "\n".join((*lines, f"exec {words} </dev/null"))
        script = f"(\n{body}\n)\nstatus=$?\n"
    else:
        body = "\n".join((*lines, f"exec {words}"))
        script = f"cat {_quoted(stdin)} 3>&- | (\n{body}\n)\nstatus=$?\n"
    encoded = os.fsencode(script)
    if b"\0" in encoded:
        raise ValueError("a zero byte in a command")
    return encoded


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@dataclass(frozen=True, slots=True)
class Word:
    """One thing said: the sandbox is set up (``ready``), or a command ended with code ``number``.

    Then ``done`` says that nothing is left of it, ``left`` that processes are, ``soiled`` that something else is.
    """

    kind: Literal["ready", "left", "done", "soiled"]
    number: int = 0


_KINDS: Final[dict[bytes, Literal["left", "done", "soiled"]]] = {b"left": "left", b"done": "done", b"soiled": "soiled"}


@dataclass(slots=True)
class Words:
    """Reads the stream of a supervisor's socket; what is no word is ignored."""

    _rest: bytes = b""

    def feed(self, data: bytes) -> list[Word]:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_LONGEST:]
        return [word for line in lines if (word := _word(line)) is not None]


def _word(line: bytes) -> Word | None:
    if line == b"ready":
        return Word("ready")
    name, _, rest = line.partition(b" ")
    kind = _KINDS.get(name)
    if kind is None or not rest.isdigit() or len(rest) > 3:
        return None
    return Word(kind, int(rest))
