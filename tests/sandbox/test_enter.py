"""The program that confined commands are entered through, and the pipes that it closes to them (BND-9, BND-10)."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import Box
from tests.sandbox.test_escapes import PYTHON, SCOPES, attempt

from drawbar.boundary import bubblewrap, enter
from drawbar.boundary.enter import entered_argv, entry_program, entry_rights
from drawbar.boundary.landlock import landlock_version
from drawbar.contracts.capability import Scope

pytestmark = pytest.mark.clause("BND-10")
needs_rules = pytest.mark.skipif(entry_program() is None, reason="this kernel has no Landlock of version 2 or later")


@needs_rules
@pytest.mark.skipif(not os.access(PYTHON, os.X_OK), reason="the attacks need the system's own Python")
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("keep", [True, False])
async def test_a_named_pipe_of_the_machine_takes_no_writes(
    make: BoxMaker, box: Box, far: Path, scope: Scope, keep: bool
) -> None:
    """Made before the sandbox, or while a kept one lives: a mount could not close the second."""
    boxed = make(box.root, keep=keep)
    await boxed.text("true", scope=scope)
    pipe = far / "control"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert await attempt(boxed, "write_pipe", str(pipe), scope=scope) == "refused"
        assert os.read(reader, 10) == b""
    finally:
        os.close(reader)
        pipe.unlink()


@pytest.mark.skipif(not os.access(PYTHON, os.X_OK), reason="the attacks need the system's own Python")
async def test_the_attack_on_a_pipe_works_without_the_rules(
    make: BoxMaker, box: Box, far: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the refusals above would show nothing: the pipe comes after the look at the machine."""

    def none() -> None:
        return None

    monkeypatch.setattr(bubblewrap, "entry_program", none)
    boxed = make(box.root)
    await boxed.text("true")
    pipe = far / "control"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert (await attempt(boxed, "write_pipe", str(pipe))).startswith("achieved")
    finally:
        os.close(reader)


@needs_rules
@pytest.mark.clause("BND-9")
@pytest.mark.parametrize("scope", SCOPES)
async def test_what_a_command_may_write_it_still_may(box: Box, scope: Scope) -> None:
    """Pipes of its own, renames between folders, devices, its own output by name, its own settings in /proc."""
    work = "." if scope == "workspace" else "/tmp"
    await box.text(
        f"cd {work}; mkdir -p a/b c; echo one >a/b/f; mv a/b/f c/; ln c/f a/b/g; mv c a/b/; cat a/b/c/f a/b/g; "
        "mkfifo p; (echo through >p &); cat p; exec 3<>p; rm p; "
        "echo x >/dev/null; echo out >/dev/stdout; echo err >/dev/stderr; echo fd >/proc/self/fd/1; "
        "echo 500 >/proc/self/oom_score_adj; echo y >/dev/shm/s; rm /dev/shm/s; echo z >/run/r; rm /run/r; "
        "echo v >/var/tmp/v; mv /var/tmp/v /tmp/v; truncate -s 9 /tmp/v; rm -r /tmp/v a",
        scope=scope,
    )


@needs_rules
async def test_nothing_of_the_entry_stays(box: Box) -> None:
    """The command's own process has no descriptor of it, and the program takes no writes."""
    assert (await box.text("ls /proc/self/fd | wc -l")).strip() == "4"
    assert (await box.sh("echo x >/dev/.drawbar/enter; rm -f /dev/.drawbar/enter")).exit_code != 0


@needs_rules
@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["/", "/dev", "-", "/bin/sh", "-c", 'test "$HOME" = /h && test $# = 2', "sh", "a", "b"], 0),
        (["/", "-", "/bin/sh", "-c", "exit 7"], 7),
        (["/", "/nowhere", "/dev/null/no", "-", "/bin/sh", "-c", "exit 8"], 8),
        (["/", "-", "/nowhere"], 125),
        (["/", "-"], 125),
        (["/"], 125),
        ([], 125),
    ],
)
def test_the_program_becomes_the_command(tmp_path: Path, argv: list[str], code: int) -> None:
    program = tmp_path / "enter"
    program.write_bytes(entry_program() or b"")
    program.chmod(0o755)
    done = subprocess.run(["setpriv", "--no-new-privs", program, *argv], env={"HOME": "/h"}, check=False)
    assert done.returncode == code


@needs_rules
def test_it_starts_nothing_that_it_can_not_confine() -> None:
    """Without the promise of no new privileges the kernel takes no rules from an ordinary user."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        program = Path(folder, "enter")
        program.write_bytes(entry_program() or b"")
        for path in (program, program.parent):
            path.chmod(0o755)
        argv = [str(program), "/", "-", "/bin/sh", "-c", "exit 7"]
        if os.geteuid() == 0:
            argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", *argv]
        assert subprocess.run(argv, check=False).returncode == 125


def test_rights_of_each_version() -> None:
    assert [entry_rights(version) for version in (0, 1)] == [0, 0]
    assert {entry_rights(version) for version in range(2, 9)} == {1 << 1 | 1 << 13}
    assert {entry_rights(version) for version in range(9, 20)} == {1 << 1 | 1 << 13 | 1 << 16}


def test_no_program_where_there_is_no_use_for_one() -> None:
    assert entry_program("riscv64", 7) is None
    assert entry_program("x86_64", 1) is None
    assert (entry_program() is None) == (landlock_version() < 2)


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 62), ("aarch64", 183), ("AMD64", 62), ("arm64", 183)])
def test_it_is_a_program_for_that_processor(machine: str, number: int) -> None:
    program = entry_program(machine, 9)
    assert program is not None
    assert program[:7] == b"\x7fELF\x02\x01\x01"
    kind, processor, _, entry = struct.unpack_from("<HHIQ", program, 16)
    assert (kind, processor, entry) == (2, number, 0x400000 + 120)
    size = struct.unpack_from("<Q", program, 64 + 32)[0]
    assert size == len(program)
    assert struct.unpack("<Q", program[-8:])[0] == entry_rights(9)


def _targets(machine: str) -> list[tuple[str, int, int]]:
    """Label, where the instruction leads, and where the label is: jumps are encoded by hand in neither listing."""
    listing = enter._X86_64 if machine == "x86_64" else enter._AARCH64  # pyright: ignore[reportPrivateUsage]
    places: dict[str, int] = {}
    jumps: list[tuple[str, int, int]] = []
    at = 0
    for code, text in listing:
        raw = bytes.fromhex(code)
        label, colon, rest = text.partition(": ")
        if colon:
            places[label] = at
        named = re.search(r"\b(next|done|fail|rights)\b", rest if colon else text)
        if named is not None and not (colon and named[1] == label):
            jumps.append((named[1], at, _leads(machine, raw, at)))
        at += len(raw)
    places["rights"] = at
    return [(label, leads, places[label]) for label, _, leads in jumps]


def _leads(machine: str, raw: bytes, at: int) -> int:
    if machine == "x86_64":
        width = "<i" if len(raw) == 7 else "<b"
        return at + len(raw) + struct.unpack_from(width, raw, len(raw) - struct.calcsize(width))[0]
    word = struct.unpack("<I", raw)[0]
    if word >> 26 == 0b000101:
        return at + 4 * _signed(word & 0x3FFFFFF, 26)
    if word >> 24 in (0x36, 0x37):
        return at + 4 * _signed(word >> 5 & 0x3FFF, 14)
    if word >> 24 == 0x10:
        return at + (_signed(word >> 5 & 0x7FFFF, 19) << 2 | word >> 29 & 3)
    return at + 4 * _signed(word >> 5 & 0x7FFFF, 19)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


@pytest.mark.parametrize(("machine", "count"), [("x86_64", 7), ("aarch64", 7)])
def test_each_jump_leads_where_the_listing_says(machine: str, count: int) -> None:
    targets = _targets(machine)
    assert len(targets) >= count
    for label, leads, place in targets:
        assert leads == place, label


def test_the_command_line() -> None:
    assert entered_argv("/e", ["/w", "/dev"], ["/bin/true", "-"]) == ["/e", "/", "/w", "/dev", "-", "/bin/true", "-"]
