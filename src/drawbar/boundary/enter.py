"""The program that a confined command is entered through: it lays the kernel's write rules on itself, then becomes it.

Mounts decide what a command may change on a file system. They say nothing about what is no file: a named pipe of
this machine's programs may be written through a read-only mount, and a socket connected to. Landlock says it, but it
forbids every later mount, so the rules must be made inside the finished sandbox (BND-10). A Python inside costs more
than bubblewrap itself, and may be out of sight there; these few hundred bytes cost nothing that can be measured
(docs/decisions/0012-what-of-the-host-shows.md).

The program takes paths, a lone ``-``, and the command. Writing is allowed below the paths and nowhere else; renaming
and linking are left to the mounts. A path that isn't there gives no right; any other failure ends with code 125.
"""

from __future__ import annotations

import functools
import platform
import struct
from collections.abc import Iterable
from typing import Final

from drawbar.boundary.landlock import landlock_version

__all__ = ["closes_sockets", "entered_argv", "entry_program", "entry_rights"]

_ENOUGH: Final = 2
"""The first Landlock version that can leave renames between folders alone."""
_SOCKETS_SINCE: Final = 9
_WRITE_FILE: Final = 1 << 1
_REFER: Final = 1 << 13
_RESOLVE_UNIX: Final = 1 << 16

_LOADED_AT: Final = 0x400000
_HEADERS: Final = 64 + 56

# Both listings do the same: make the rule set (444); for each path up to "-" open it (openat, O_PATH) and add a rule
# (445), which for the first path is REFER and for the others WRITE_FILE; lay the rules on itself (446); execve.
_X86_64: Final = (
    ("4c8b2424", "mov r12, [rsp]            number of arguments"),
    ("4c8d6c2410", "lea r13, [rsp+16]         the first argument"),
    ("b8bc010000", "mov eax, 444"),
    ("488d3d93000000", "lea rdi, [rip+rights]"),
    ("be08000000", "mov esi, 8"),
    ("31d2", "xor edx, edx"),
    ("0f05", "syscall"),
    ("85c0", "test eax, eax"),
    ("7876", "js fail"),
    ("4189c6", "mov r14d, eax"),
    ("41bf00200000", "mov r15d, 0x2000          REFER"),
    ("498b7500", "next: mov rsi, [r13]"),
    ("4983c508", "add r13, 8"),
    ("4885f6", "test rsi, rsi"),
    ("7460", "jz fail"),
    ("66833e2d", "cmp word ptr [rsi], '-'"),
    ("7437", "je done"),
    ("b801010000", "mov eax, 257              openat"),
    ("bf9cffffff", "mov edi, -100"),
    ("ba00002800", "mov edx, 0x280000         O_PATH | O_CLOEXEC"),
    ("0f05", "syscall"),
    ("85c0", "test eax, eax"),
    ("78d8", "js next"),
    ("50", "push rax"),
    ("4157", "push r15"),
    ("b8bd010000", "mov eax, 445"),
    ("4489f7", "mov edi, r14d"),
    ("be01000000", "mov esi, 1"),
    ("4889e2", "mov rdx, rsp"),
    ("4531d2", "xor r10d, r10d"),
    ("0f05", "syscall"),
    ("59", "pop rcx"),
    ("59", "pop rcx"),
    ("41bf02000000", "mov r15d, 2               WRITE_FILE"),
    ("ebb6", "jmp next"),
    ("b8be010000", "done: mov eax, 446"),
    ("4489f7", "mov edi, r14d"),
    ("31f6", "xor esi, esi"),
    ("0f05", "syscall"),
    ("85c0", "test eax, eax"),
    ("7813", "js fail"),
    ("b83b000000", "mov eax, 59               execve"),
    ("498b7d00", "mov rdi, [r13]"),
    ("4c89ee", "mov rsi, r13"),
    ("4a8d54e410", "lea rdx, [rsp+r12*8+16]   the environment"),
    ("0f05", "syscall"),
    ("b8e7000000", "fail: mov eax, 231        exit_group"),
    ("bf7d000000", "mov edi, 125"),
    ("0f05", "syscall"),
    ("90909090", "nop, to a multiple of eight"),
)
_AARCH64: Final = (
    ("f30340f9", "ldr x19, [sp]             number of arguments"),
    ("f4430091", "add x20, sp, #16          the first argument"),
    ("40050010", "adr x0, rights"),
    ("010180d2", "mov x1, #8"),
    ("020080d2", "mov x2, #0"),
    ("883780d2", "mov x8, #444"),
    ("010000d4", "svc #0"),
    ("4004f837", "tbnz w0, #31, fail"),
    ("f503002a", "mov w21, w0"),
    ("160084d2", "mov x22, #0x2000          REFER"),
    ("818640f8", "next: ldr x1, [x20], #8"),
    ("c10300b4", "cbz x1, fail"),
    ("22004079", "ldrh w2, [x1]"),
    ("5fb40071", "cmp w2, '-'"),
    ("00020054", "b.eq done"),
    ("600c8092", "mov x0, #-100"),
    ("0205a052", "mov w2, #0x280000         O_PATH | O_CLOEXEC"),
    ("080780d2", "mov x8, #56               openat"),
    ("010000d4", "svc #0"),
    ("e0feff37", "tbnz w0, #31, next"),
    ("f603bfa9", "stp x22, x0, [sp, #-16]!"),
    ("e003152a", "mov w0, w21"),
    ("210080d2", "mov x1, #1"),
    ("e2030091", "mov x2, sp"),
    ("030080d2", "mov x3, #0"),
    ("a83780d2", "mov x8, #445"),
    ("010000d4", "svc #0"),
    ("ff430091", "add sp, sp, #16"),
    ("560080d2", "mov x22, #2               WRITE_FILE"),
    ("edffff17", "b next"),
    ("e003152a", "done: mov w0, w21"),
    ("010080d2", "mov x1, #0"),
    ("c83780d2", "mov x8, #446"),
    ("010000d4", "svc #0"),
    ("e000f837", "tbnz w0, #31, fail"),
    ("800240f9", "ldr x0, [x20]"),
    ("e10314aa", "mov x1, x20"),
    ("e2430091", "add x2, sp, #16"),
    ("420c138b", "add x2, x2, x19, lsl #3   the environment"),
    ("a81b80d2", "mov x8, #221              execve"),
    ("010000d4", "svc #0"),
    ("a00f80d2", "fail: mov x0, #125"),
    ("c80b80d2", "mov x8, #94               exit_group"),
    ("010000d4", "svc #0"),
)
_MACHINES: Final = {
    "x86_64": (62, _X86_64),
    "amd64": (62, _X86_64),
    "aarch64": (183, _AARCH64),
    "arm64": (183, _AARCH64),
}
"""The number by which a program says which processor it is for, and its code."""


def entry_rights(version: int) -> int:
    """What the rules are about on a kernel with this Landlock ``version``; 0 where they can't be laid.

    From version 9 on no socket of a program outside can be connected to, whatever its name or folder.
    """
    if version < _ENOUGH:
        return 0
    return _WRITE_FILE | _REFER | (_RESOLVE_UNIX if version >= _SOCKETS_SINCE else 0)


def closes_sockets() -> bool:
    """Whether the rules keep a command here from every socket of a program outside."""
    return bool(entry_rights(landlock_version()) & _RESOLVE_UNIX) and entry_program() is not None


@functools.cache
def entry_program(machine: str | None = None, version: int | None = None) -> bytes | None:
    """The program as a file; None where the kernel or the processor has no use for one.

    Args:
        machine: as ``platform.machine()`` says it; None is this one.
        version: the kernel's Landlock version; None is this kernel's.
    """
    known = _MACHINES.get((platform.machine() if machine is None else machine).lower())
    rights = entry_rights(landlock_version() if version is None else version)
    if known is None or not rights:
        return None
    number, listing = known
    code = bytes.fromhex("".join(instruction for instruction, _ in listing)) + struct.pack("<Q", rights)
    size = _HEADERS + len(code)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        *(2, number, 1, _LOADED_AT + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0),
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _LOADED_AT, _LOADED_AT, size, size, 0x1000)
    return header + segment + code


def entered_argv(program: str, writable: Iterable[str], argv: Iterable[str]) -> list[str]:
    """The command line that enters ``argv`` through the program.

    Args:
        program: where it lies inside.
        writable: what may be opened for writing, as far as the mounts allow it.
    """
    return [program, "/", *writable, "-", *argv]
