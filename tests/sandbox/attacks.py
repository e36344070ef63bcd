"""Escape attempts as programs that run inside the sandbox; each prints ``refused`` or what it achieved.

usage: python3 attacks.py NAME [ARGUMENT…]
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import socket
import struct
import sys
from collections.abc import Callable

libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
ATTACKS: dict[str, Callable[..., str]] = {}


def attack(run: Callable[..., str]) -> Callable[..., str]:
    ATTACKS[run.__name__] = run
    return run


def syscall(number: int, *args: object) -> str:
    ctypes.set_errno(0)
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    answer = libc.syscall(ctypes.c_long(number), *given)
    if answer == -1:
        return "refused " + errno.errorcode.get(ctypes.get_errno(), "?")
    return f"achieved {answer}"


@attack
def ptrace() -> str:
    pid = os.fork()
    if pid == 0:
        import time

        time.sleep(5)
        os._exit(0)
    try:
        return syscall(101 if X86 else 117, 16, pid, 0, 0)
    finally:
        os.kill(pid, 9)


@attack
def traceme() -> str:
    return syscall(101 if X86 else 117, 0, 0, 0, 0)


@attack
def process_memory() -> str:
    data = ctypes.create_string_buffer(8)
    vector = struct.pack("PN", ctypes.addressof(data), 8)
    return syscall(310 if X86 else 270, os.getpid(), vector, 1, vector, 1, 0)


@attack
def io_uring() -> str:
    return syscall(425, 4, ctypes.create_string_buffer(120))


@attack
def bpf() -> str:
    return syscall(321 if X86 else 280, 0, ctypes.create_string_buffer(72), 72)


@attack
def keyctl() -> str:
    return syscall(250 if X86 else 219, 0, -3, 1)


@attack
def add_key() -> str:
    return syscall(248 if X86 else 217, b"user", b"drawbar", b"x", 1, -3)


@attack
def perf() -> str:
    return syscall(298 if X86 else 241, ctypes.create_string_buffer(struct.pack("II", 1, 112), 112), 0, -1, -1, 0)


@attack
def userfaultfd() -> str:
    return syscall(323 if X86 else 282, 1)


@attack
def unshare_user() -> str:
    return syscall(272 if X86 else 97, 0x10000000)


@attack
def unshare_mount() -> str:
    return syscall(272 if X86 else 97, 0x00020000)


@attack
def clone_user() -> str:
    if X86:
        return syscall(56, 0x10000000 | 17, 0, 0, 0, 0)
    return syscall(220, 0x10000000 | 17, 0, 0, 0, 0)


@attack
def clone3_user() -> str:
    return syscall(435, ctypes.create_string_buffer(struct.pack("8Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0)), 64)


@attack
def setns() -> str:
    fd = os.open("/proc/self/ns/user", os.O_RDONLY)
    return syscall(308 if X86 else 268, fd, 0)


@attack
def mount_tmpfs() -> str:
    return syscall(165 if X86 else 40, b"none", b"/tmp", b"tmpfs", 0, 0)


@attack
def remount_writable() -> str:
    return syscall(165 if X86 else 40, b"none", b"/", b"none", 32 | 4096, 0)


@attack
def unmount(path: str) -> str:
    return syscall(166 if X86 else 39, os.fsencode(path), 2)


@attack
def new_mount_api() -> str:
    return syscall(430, b"tmpfs", 0)


@attack
def open_tree() -> str:
    return syscall(428, -100, b"/", 1)


@attack
def pivot_root() -> str:
    return syscall(155 if X86 else 41, b"/tmp", b"/tmp")


@attack
def chroot() -> str:
    return syscall(161 if X86 else 51, b"/tmp")


@attack
def file_handle() -> str:
    return syscall(304 if X86 else 265, os.open("/", os.O_RDONLY), ctypes.create_string_buffer(136), 0)


@attack
def pidfd_getfd() -> str:
    return syscall(438, os.pidfd_open(os.getpid()), 0, 0)


@attack
def kernel_module() -> str:
    return syscall(313 if X86 else 273, 0, b"", 0)


@attack
def make_device(path: str) -> str:
    try:
        os.mknod(path, 0o660 | 0o060000, os.makedev(254, 0))
    except OSError as error:
        return f"refused {error.errno}"
    return "achieved"


@attack
def foreign_call() -> str:
    """int 0x80 with the number of a 32-bit call: a filter for 64-bit numbers alone would misread it."""
    if not X86:
        return "refused (no such gate here)"
    import mmap

    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
    run = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    pid = os.fork()
    if pid == 0:
        os._exit(0 if run() > 0 else 1)
    _, status = os.waitpid(pid, 0)
    return "refused by a kill" if os.WIFSIGNALED(status) else f"achieved {status}"


@attack
def x32_call() -> str:
    return syscall(0x40000000 + 39) if X86 else "refused (no such gate here)"


@attack
def terminal_injection() -> str:
    main, side = os.openpty()
    found: list[str] = []
    for request in (0x5412, 0x541C, 0x5412 | 1 << 32):
        ctypes.set_errno(0)
        answer = libc.ioctl(side, ctypes.c_ulong(request), b"x")
        found.append("achieved" if answer == 0 else errno.errorcode[ctypes.get_errno()])
    os.close(main)
    return "refused" if set(found) == {"EPERM"} else f"achieved {found}"


@attack
def families() -> str:
    opened: list[int] = []
    for family in range(46):
        if family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
            continue
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            try:
                socket.socket(family, kind).close()
            except OSError as error:
                if error.errno != errno.EAFNOSUPPORT:
                    opened.append(family)
                continue
            opened.append(family)
    return f"achieved {opened}" if opened else "refused"


@attack
def connect(kind: str, target: str) -> str:
    try:
        if kind == "tcp":
            host, _, port = target.rpartition(":")
            with socket.create_connection((host, int(port)), timeout=2):
                return "achieved"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM if kind == "stream" else socket.SOCK_DGRAM) as client:
            client.settimeout(2)
            client.connect("\0" + target[1:] if target.startswith("@") else target)
            return "achieved"
    except OSError as error:
        return f"refused {error}"


@attack
def write(path: str) -> str:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    except OSError as error:
        return f"refused {error.strerror}"
    try:
        os.write(fd, b"planted")
    except OSError as error:
        return f"refused {error.strerror}"
    return "achieved"


@attack
def read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(100)
    except OSError as error:
        return f"refused {error.strerror}"
    return f"achieved {data!r}" if data else "refused (empty)"


@attack
def write_pipe(path: str) -> str:
    """Each way to open a named pipe for writing; a read-only mount refuses none of them."""
    for mode in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND):
        for way in (path, f"/proc/self/root{path}", f"/proc/1/root{path}"):
            try:
                fd = os.open(way, mode | os.O_NONBLOCK)
            except OSError:
                continue
            return f"achieved {os.write(fd, b'planted')}"
    return "refused"


@attack
def read_pipe(path: str) -> str:
    """Reading takes away what the program behind the pipe should get."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        return f"refused {error.strerror}"
    data = os.read(fd, 100)
    return f"achieved {data!r}" if data else "refused (empty)"


@attack
def lease_on_output() -> str:
    """The harness's pipe, opened anew by its name in /proc, must be no file of the machine."""
    return "refused" if os.readlink("/proc/self/fd/1").startswith("pipe:") else "achieved"


@attack
def signal_others() -> str:
    """Every process that can be seen or guessed is in this namespace."""
    reached = 0
    for pid in range(2, 100_000):
        if pid == os.getpid():
            continue
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        except PermissionError:
            pass
        reached += 1
    return f"achieved {reached}" if reached > 3 else "refused"


@attack
def lock_on_terminal() -> str:
    try:
        fd = os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        return f"refused {error.strerror}"
    fcntl.ioctl(fd, 0x5412, b"x")
    return "achieved"


if __name__ == "__main__":
    print(ATTACKS[sys.argv[1]](*sys.argv[2:]))
