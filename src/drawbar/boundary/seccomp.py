"""The system-call filter of a confined command, assembled as classic BPF without any library (BND-10).

Refused: tracing and other processes' memory, io_uring, BPF, kernel keyrings, the mount API, new namespaces,
kernel modules, terminal injection, calls of a foreign architecture, and sockets of unusual families. Everything
else passes, so that ordinary programs don't notice.
"""

from __future__ import annotations

import errno
import functools
import os
import platform
import struct
from dataclasses import dataclass
from typing import Final

__all__ = ["FilterUnavailable", "filter_program", "open_filter"]

_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_X32_BIT: Final = 0x40000000

_NEW_NAMESPACES: Final = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_NEW_TIME: Final = 0x80
_TERMINAL_INJECTION: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX."""
_FAMILIES: Final = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: what a private network namespace has a use for."""


@dataclass(frozen=True, slots=True)
class _Architecture:
    audit: int
    x32: bool
    denied: tuple[int, ...]
    clone: int
    clone3: int
    unshare: int
    socket: int
    ioctl: int


# Numbers from 424 on are the same everywhere.
_SHARED: Final = (
    *(425, 426, 427),  # io_uring_setup, io_uring_enter, io_uring_register
    *(428, 429, 430, 431, 432, 433, 442, 467),  # open_tree, move_mount, fsopen … fspick, mount_setattr, open_tree_attr
    *(438, 440, 443),  # pidfd_getfd, process_madvise, quotactl_fd
)

_X86_64: Final = _Architecture(
    audit=0xC000003E,
    x32=True,
    denied=(
        *(101, 310, 311, 312),  # ptrace, process_vm_readv, process_vm_writev, kcmp
        *(165, 166, 155, 308),  # mount, umount2, pivot_root, setns
        *(248, 249, 250),  # add_key, request_key, keyctl
        *(321, 298, 323),  # bpf, perf_event_open, userfaultfd
        *(175, 313, 176, 246, 320),  # init_module, finit_module, delete_module, kexec_load, kexec_file_load
        *(304, 163, 167, 168, 169, 179),  # open_by_handle_at, acct, swapon, swapoff, reboot, quotactl
        *(103, 153, 164, 227, 170, 171),  # syslog, vhangup, settimeofday, clock_settime, sethostname, setdomainname
        *(174, 177),  # create_module, get_kernel_syms
        *(172, 173, 134, 156, 178, 180, 212),  # iopl, ioperm, uselib, _sysctl, query_module, nfsservctl, lookup_dcookie
        *_SHARED,
    ),
    clone=56,
    clone3=435,
    unshare=272,
    socket=41,
    ioctl=16,
)
_AARCH64: Final = _Architecture(
    audit=0xC00000B7,
    x32=False,
    denied=(
        *(117, 270, 271, 272),  # ptrace, process_vm_readv, process_vm_writev, kcmp
        *(40, 39, 41, 268),  # mount, umount2, pivot_root, setns
        *(217, 218, 219),  # add_key, request_key, keyctl
        *(280, 241, 282),  # bpf, perf_event_open, userfaultfd
        *(105, 273, 106, 104, 294),  # init_module, finit_module, delete_module, kexec_load, kexec_file_load
        *(265, 89, 224, 225, 142, 60),  # open_by_handle_at, acct, swapon, swapoff, reboot, quotactl
        *(116, 58, 170, 112, 161, 162),  # syslog, vhangup, settimeofday, clock_settime, sethostname, setdomainname
        *(42, 18),  # nfsservctl, lookup_dcookie
        *_SHARED,
    ),
    clone=220,
    clone3=435,
    unshare=97,
    socket=198,
    ioctl=29,
)
_ARCHITECTURES: Final = {"x86_64": _X86_64, "amd64": _X86_64, "aarch64": _AARCH64, "arm64": _AARCH64}


class FilterUnavailable(Exception):
    """There is no filter for this machine's architecture, so nothing may run confined on it."""


def open_filter() -> int:
    """A descriptor to the filter for this machine, at its start; the caller closes it.

    Raises:
        FilterUnavailable: on an architecture without a table.
    """
    program = filter_program(platform.machine())
    fd = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    os.write(fd, program)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


@functools.cache
def filter_program(machine: str) -> bytes:
    """The filter as the kernel reads it.

    Args:
        machine: as ``platform.machine()`` says it.

    Raises:
        FilterUnavailable: on an architecture without a table.
    """
    table = _ARCHITECTURES.get(machine.lower())
    if table is None:
        raise FilterUnavailable(f"no system-call filter is known for {machine}")
    program = _Program()
    program.load(_ARCH)
    program.unless_equal(table.audit, _KILL)
    program.load(_NUMBER)
    if table.x32:
        program.when(_JUMP_GE, _X32_BIT, _refuse(errno.EPERM))
    # Decisions by number alone come first: the kernel caches those and then skips the filter.
    for number in sorted(table.denied):
        program.when(_JUMP_EQ, number, _refuse(errno.EPERM))
    # The C library falls back to clone, whose flags can be looked at; clone3's lie behind a pointer.
    program.when(_JUMP_EQ, table.clone3, _refuse(errno.ENOSYS))
    program.argument(table.clone, 0, ((_JUMP_SET, _NEW_NAMESPACES, errno.EPERM),))
    program.argument(table.unshare, 0, ((_JUMP_SET, _NEW_NAMESPACES | _NEW_TIME, errno.EPERM),))
    program.argument(table.ioctl, 1, tuple((_JUMP_EQ, request, errno.EPERM) for request in _TERMINAL_INJECTION))
    program.only(table.socket, 0, _FAMILIES, errno.EAFNOSUPPORT)
    program.give(_ALLOW)
    return program.assembled()


def _refuse(number: int) -> int:
    return _ERRNO | number


class _Program:
    """Instructions in order; jumps are relative and short, so each test carries its own answer."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int]] = []

    def load(self, offset: int) -> None:
        self._code.append((_LOAD, 0, 0, offset))

    def give(self, answer: int) -> None:
        self._code.append((_RETURN, 0, 0, answer))

    def when(self, test: int, value: int, answer: int) -> None:
        """Answer at once when the test holds, else go on."""
        self._code.append((test, 0, 1, value))
        self.give(answer)

    def unless_equal(self, value: int, answer: int) -> None:
        self._code.append((_JUMP_EQ, 1, 0, value))
        self.give(answer)

    def argument(self, call: int, index: int, tests: tuple[tuple[int, int, int], ...]) -> None:
        """For one call, look at an argument's low half: the kernel ignores the high half of an ``int`` too."""
        self._code.append((_JUMP_EQ, 0, 1 + 2 * len(tests) + 1, call))
        self.load(_ARGUMENTS + 8 * index)
        for test, value, error in tests:
            self.when(test, value, _refuse(error))
        self.give(_ALLOW)

    def only(self, call: int, index: int, values: tuple[int, ...], error: int) -> None:
        """For one call, allow these values of an argument and nothing else."""
        self._code.append((_JUMP_EQ, 0, 1 + 2 * len(values) + 1, call))
        self.load(_ARGUMENTS + 8 * index)
        for value in values:
            self.when(_JUMP_EQ, value, _ALLOW)
        self.give(_refuse(error))

    def assembled(self) -> bytes:
        return b"".join(struct.pack("=HBBI", *instruction) for instruction in self._code)
