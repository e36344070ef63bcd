"""The supervisor where no PID namespace can be had: a program of its own that adopts whatever its command orphans.

Run as ``python -I -S subreaper.py FILTER ARGV…`` with the harness's socket as standard input, it speaks the same
words as the shell in a namespace (see :mod:`drawbar.boundary.supervisor`). ``FILTER`` is the descriptor of the filter
under which the command runs (see :mod:`drawbar.boundary.shield`), or ``-``. It imports nothing of the harness, so
that it starts fast.
"""

import ctypes
import os
import signal
import struct
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_FILTER_MODE = 2
_CONTROL = 0
_INPUT = 4
_PLACES = (0x7FABCDE1, 0x7FABCDE2)
# SYS_ADMIN, SYS_PTRACE, SYS_MODULE, SYS_RAWIO, SYS_BOOT, BPF, PERFMON, CHECKPOINT_RESTORE
_DANGEROUS = (21, 19, 16, 17, 22, 39, 38, 40)


def main(argv: list[str]) -> int:
    """Run ``argv`` to its end, report what it left, end that, and return its exit code (BND-18)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        return 125
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    # A limit of one byte of core, a stray signal of a descriptor: nothing else may end this process.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP, signal.SIGIO):
        signal.signal(number, signal.SIG_IGN)
    shield = _shield(argv[0])
    _say("ready")
    given = _hear()
    if not given:
        return 125
    # From here on nobody of this user can look into this process or write its memory.
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    status = _run(argv[1:], given, shield)
    if _children():
        _say(f"left {status}")
        _hear()
    _end_children()
    return status


def _shield(given: str) -> bytes:
    """The filter, about this process."""
    if given == "-":
        return b""
    fd = int(given)
    code = os.read(fd, 1 << 16)
    os.close(fd)
    own = os.getpid()
    for place, value in zip(_PLACES, (own, (1 << 32) - own), strict=True):
        code = code.replace(struct.pack("=I", place), struct.pack("=I", value))
    return code


def _run(argv: list[str], given: bytes, shield: bytes) -> int:
    feeder = terminal = None
    if given == b"-":
        source = os.open("/dev/null", os.O_RDONLY)
    elif given == b"pipe":
        source = _INPUT
    elif given.startswith(b"/dev/"):
        # As a session's first process this one gets the terminal that it opens as its controlling one.
        source = terminal = os.open(given, os.O_RDWR)
    else:
        source, feeder = _feeder(int(given))
    pid = os.fork()
    if pid == 0:
        _become(argv, source, terminal, shield)
    _to_foreground(pid, terminal)
    if terminal is None:
        os.close(source)
    ended = _wait_for(pid)
    if feeder is not None and feeder not in ended:
        _kill(feeder)
        _wait_for(feeder)
    return ended[pid]


def _to_foreground(pid: int, terminal: int | None) -> None:
    """A process group of the command's own: what is sent to that group must not meet this process."""
    try:
        os.setpgid(pid, pid)
        if terminal is not None:
            os.tcsetpgrp(terminal, pid)
    except OSError:
        return  # the other side was faster


def _become(argv: list[str], source: int, terminal: int | None, shield: bytes) -> None:
    try:
        os.setpgid(0, 0)
        if terminal is not None:
            os.tcsetpgrp(terminal, os.getpid())
            os.dup2(terminal, 1)
            os.dup2(terminal, 2)
        os.dup2(source, 0)
        if source > 2:
            os.close(source)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP, signal.SIGIO):
            signal.signal(number, signal.SIG_DFL)
        if shield:
            _raise(shield)
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"drawbar: {argv[0]}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _raise(shield: bytes) -> None:
    """Give up what could undo the filter or reach around it, then put it up.

    Raises:
        OSError: when the kernel takes no filter.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in _DANGEROUS:
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # as an ordinary user there is none to drop
    code = ctypes.create_string_buffer(shield, len(shield))
    program = struct.pack("HxxxxxxP", len(shield) // 8, ctypes.addressof(code))
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER_MODE, ctypes.c_char_p(program), 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"no filter can be set ({os.strerror(number)})")


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
