"""The system-call filter, run by a small machine of our own for every call number (BND-10)."""

from __future__ import annotations

import errno
import os
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbar.boundary.seccomp import FilterUnavailable, filter_program, open_filter

pytestmark = pytest.mark.clause("BND-10")

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
EPERM, ENOSYS, EAFNOSUPPORT = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS, ERRNO | errno.EAFNOSUPPORT


def run(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """What the kernel would answer."""
    program = filter_program(machine)
    code = [struct.unpack_from("=HBBI", program, offset) for offset in range(0, len(program), 8)]
    audit = MACHINES[machine] if arch is None else arch
    given_arguments = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=IIQ6Q", number, audit, 0, *(value & (2**64 - 1) for value in given_arguments))
    accumulator = at = 0
    while True:
        instruction, yes, no, value = code[at]
        at += 1
        if instruction == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif instruction == 0x06:
            return value
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[
                instruction
            ]
            at += yes if holds else no


CALLS = {
    "x86_64": {"clone": 56, "clone3": 435, "unshare": 272, "socket": 41, "ioctl": 16, "ptrace": 101, "mount": 165},
    "aarch64": {"clone": 220, "clone3": 435, "unshare": 97, "socket": 198, "ioctl": 29, "ptrace": 117, "mount": 40},
}


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_has_an_answer(machine: str) -> None:
    answers = {number: run(machine, number) for number in range(600)}
    assert set(answers.values()) <= {ALLOW, EPERM, ENOSYS, EAFNOSUPPORT}
    refused = {number for number, answer in answers.items() if answer == EPERM}
    assert {
        CALLS[machine]["ptrace"],
        CALLS[machine]["mount"],
        425,
        426,
        427,
        428,
        429,
        430,
        431,
        432,
        433,
        442,
    } <= refused
    assert answers[CALLS[machine]["clone3"]] == ENOSYS


DENIED: set[str] = {
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open", "userfaultfd"),
    *("add_key", "request_key", "keyctl", "mount", "umount2", "pivot_root", "setns", "open_tree", "move_mount"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "open_tree_attr", "init_module", "finit_module"),
    *("delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "acct", "quotactl"),
    *("quotactl_fd", "open_by_handle_at", "lookup_dcookie", "nfsservctl", "syslog", "vhangup", "settimeofday"),
    *("clock_settime", "sethostname", "setdomainname"),
}
"""By name, whatever the number; a call that a machine's table lacks isn't on that machine."""
ONLY_X86: set[str] = {"iopl", "ioperm", "uselib", "_sysctl", "query_module", "create_module", "get_kernel_syms"}
NONE: set[str] = set()
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
NEWER: dict[str, int] = {"open_tree_attr": 467}
"""What the headers of an older system don't name yet."""


def numbers(machine: str) -> dict[str, int]:
    """Call numbers by name, from the kernel's own headers."""
    if not HEADERS[machine].exists():
        pytest.skip(f"{HEADERS[machine]} is missing (package linux-libc-dev)")
    text = HEADERS[machine].read_text()
    found = re.finditer(r"#define __NR(?:3264)?_(\w+)\s+(\d+)$", text, re.MULTILINE)
    return NEWER | {match[1]: int(match[2]) for match in found}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_tables_are_those_of_the_kernel(machine: str) -> None:
    named = numbers(machine)
    wanted = {named[name] for name in DENIED | (ONLY_X86 if machine == "x86_64" else NONE) if name in named}
    refused = {number for number in range(1024) if run(machine, number) == EPERM}
    assert refused == wanted, sorted(refused ^ wanted)
    assert set(named) >= DENIED
    for name in ("clone", "clone3", "unshare", "socket", "ioctl"):
        assert named[name] == CALLS[machine][name]
    for name in ("landlock_restrict_self", "seccomp", "prctl", "name_to_handle_at", "adjtimex", "personality"):
        assert run(machine, named[name]) == ALLOW, name


@pytest.mark.parametrize("machine", MACHINES)
@given(number=st.integers(0, 2**32 - 1), arch=st.integers(0, 2**32 - 1))
def test_a_foreign_architecture_is_killed(machine: str, number: int, arch: int) -> None:
    if arch != MACHINES[machine]:
        assert run(machine, number, arch=arch) == KILL


@given(number=st.integers(0x40000000, 2**32 - 1))
def test_calls_of_the_x32_kind_are_refused(number: int) -> None:
    assert run("x86_64", number) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
@given(flags=st.integers(0, 2**64 - 1))
def test_no_new_namespace(machine: str, flags: int) -> None:
    spaces = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
    assert run(machine, CALLS[machine]["clone"], flags) == (EPERM if flags & spaces else ALLOW)
    assert run(machine, CALLS[machine]["unshare"], flags) == (EPERM if flags & (spaces | 0x80) else ALLOW)


@pytest.mark.parametrize("machine", MACHINES)
@given(low=st.integers(0, 2**32 - 1), high=st.integers(0, 2**32 - 1))
def test_terminal_injection_with_any_high_half(machine: str, low: int, high: int) -> None:
    for request in (low, 0x5412, 0x541C):
        answer = run(machine, CALLS[machine]["ioctl"], 3, request | high << 32)
        assert answer == (EPERM if request in (0x5412, 0x541C) else ALLOW)


@pytest.mark.parametrize("machine", MACHINES)
@given(family=st.integers(0, 2**32 - 1), high=st.integers(0, 2**32 - 1))
def test_socket_families(machine: str, family: int, high: int) -> None:
    for tried in (family, family % 50):
        answer = run(machine, CALLS[machine]["socket"], tried | high << 32, 1, 0)
        assert answer == (ALLOW if tried in (1, 2, 10, 16) else EAFNOSUPPORT)


def test_ordinary_calls_pass() -> None:
    # read, write, openat, mmap, futex, execve, kill, sendto, recvfrom, prctl, seccomp, landlock, memfd, getdents
    for number in (0, 1, 257, 9, 202, 59, 62, 44, 45, 157, 317, 444, 445, 446, 319, 217, 234, 302, 334):
        assert run("x86_64", number) == ALLOW


def test_an_unknown_machine_gets_nothing() -> None:
    with pytest.raises(FilterUnavailable, match="riscv64"):
        filter_program("riscv64")


def test_the_descriptor_is_at_its_start_and_private() -> None:
    fd = open_filter()
    try:
        assert os.lseek(fd, 0, os.SEEK_CUR) == 0
        assert len(os.read(fd, 10_000)) % 8 == 0
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)
