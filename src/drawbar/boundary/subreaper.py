"""The supervisor where no PID namespace can be had: a program of its own that adopts whatever its command orphans.

Run as ``python -I -S subreaper.py ARGV…`` with the harness's socket as standard input, it speaks the same words
as the shell in a namespace (see :mod:`drawbar.boundary.supervisor`). It imports nothing of the harness, so that
it starts fast.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CONTROL = 0


def main(argv: list[str]) -> int:
    """Run ``argv`` to its end, report what it left, end that, and return its exit code (BND-18)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        return 125
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, _end)
    _say("ready")
    given = _hear()
    if not given:
        return 125
    status = _run(argv, given)
    if _children():
        _say(f"left {status}")
        _hear()
    _end_children()
    return status


def _run(argv: list[str], given: bytes) -> int:
    feeder = None
    source = os.open("/dev/null", os.O_RDONLY)
    if given != b"-":
        os.close(source)
        source, feeder = _feeder(int(given))
    pid = os.fork()
    if pid == 0:
        _become(argv, source)
    os.close(source)
    ended = _wait_for(pid)
    if feeder is not None and feeder not in ended:
        _kill(feeder)
        _wait_for(feeder)
    return ended[pid]


def _become(argv: list[str], source: int) -> None:
    try:
        os.dup2(source, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"drawbar: {argv[0]}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _feeder(count: int) -> tuple[int, int]:
    """A child that passes ``count`` bytes from the socket on through a pipe; its read end and process id."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            while count > 0 and (data := os.read(_CONTROL, min(count, 65536))):
                count -= len(data)
                while data:
                    data = data[os.write(write_end, data) :]
        finally:
            os._exit(0)
    os.close(write_end)
    return read_end, pid


def _wait_for(wanted: int) -> dict[int, int]:
    """Wait for one child; the exit codes of it and of all that ended meanwhile."""
    ended: dict[int, int] = {}
    while wanted not in ended:
        pid, status = os.wait()
        ended[pid] = os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    return ended


def _children() -> list[int]:
    """Living descendants. Zombies that are ours are collected first."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return []
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):
            parents.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = parents.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _end_children() -> None:
    # Each round also meets what was forked or orphaned in the round before; without a parent it comes to us.
    while living := _children():
        for pid in living:
            _kill(pid)
        os.sched_yield()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return


def _end(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _end_children()
    os._exit(128 + signal.SIGTERM)


def _say(line: str) -> None:
    os.write(_CONTROL, line.encode() + b"\n")


def _hear() -> bytes:
    """One line from the harness, byte by byte: what follows may be the command's own input."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(_CONTROL, 1)
        if not byte:
            return b""
        line += byte
    return line.rstrip(b"\n")


if __name__ == "__main__":
    code = 125
    try:
        code = main(sys.argv[1:])
    finally:
        os._exit(code)
