"""The operating system's scope around native writes: what it holds, and that nothing is written without it (BND-7)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.gate.kit import open_descriptors, pinned, resolve, workspace

from drawbar.boundary.landlock import WriteRules, landlock_version
from drawbar.boundary.native_files import StaleFile, WriteOutcome, WriteRefused
from drawbar.boundary.write_scope import BUBBLEWRAP, Confinement, WriteJob, WriteScope
from drawbar.contracts.errors import DrawbarError, SandboxUnavailable

HERE = Path(__file__).resolve().parent.parent.parent

needs_landlock = pytest.mark.skipif(landlock_version() == 0, reason="this kernel has no Landlock")
needs_bubblewrap = pytest.mark.skipif(not os.access(BUBBLEWRAP, os.X_OK), reason="bubblewrap isn't installed")
WAYS = [
    pytest.param("landlock", marks=needs_landlock),
    pytest.param("helper", marks=needs_bubblewrap),
    pytest.param("none"),
]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def scope(root: Path, way: Confinement) -> WriteScope:
    return WriteScope(pinned(root), sandbox="off" if way == "none" else "on", confinement=way)


async def write(root: Path, way: Confinement, path: str, data: bytes, known: bytes | None = None) -> WriteOutcome:
    of, target = scope(root, way), resolve(root, path)
    try:
        return await of.write_one(WriteJob(target, data, None if known is None else sha(known)))
    finally:
        target.close()
        of.close()


@pytest.mark.clause("BND-7", "QLT-2")
@pytest.mark.parametrize("way", WAYS)
async def test_every_way_writes_alike(tmp_path: Path, way: Confinement) -> None:
    root = workspace(tmp_path)
    before = open_descriptors()
    assert await write(root, way, "d/e/new.txt", b"one") == WriteOutcome(None, sha(b"one"), "created")
    assert await write(root, way, "d/e/new.txt", b"two", b"one") == WriteOutcome(sha(b"one"), sha(b"two"), "modified")
    assert (await write(root, way, "d/e/new.txt", b"two", b"two")).change == "unchanged"
    with pytest.raises(StaleFile) as stale:
        await write(root, way, "d/e/new.txt", b"x", b"one")
    assert stale.value.current == b"two"
    odd = os.fsdecode(b'caf\xe9 "x".txt')
    await write(root, way, odd, b"\x00\xff" * 3_000_000)
    assert (root / odd).read_bytes() == b"\x00\xff" * 3_000_000
    assert open_descriptors() == before
    assert not [name for name in os.listdir(root / "d" / "e") if name.startswith(".drawbar")]


@pytest.mark.clause("BND-7", "QLT-11")
@pytest.mark.parametrize("way", WAYS)
async def test_every_way_refuses_what_moved(tmp_path: Path, way: Confinement) -> None:
    root = workspace(tmp_path)
    of, target = scope(root, way), resolve(root, "d/new.txt")
    (root / "d").rename(tmp_path / "outside" / "d")
    (root / "d").mkdir()
    with pytest.raises(WriteRefused):
        await of.write_one(WriteJob(target, b"x", None))
    root.rename(tmp_path / "elsewhere")
    root.mkdir()
    (root / "d").mkdir()
    with pytest.raises(WriteRefused):
        await of.write_one(WriteJob(target, b"x", None))
    target.close()
    of.close()
    assert os.listdir(tmp_path / "outside" / "d") == os.listdir(root / "d") == []


@pytest.mark.clause("BND-7")
@pytest.mark.parametrize("way", WAYS)
async def test_a_batch_stops_at_the_first_that_fails(tmp_path: Path, way: Confinement) -> None:
    root = workspace(tmp_path)
    of = scope(root, way)
    targets = [resolve(root, name) for name in ("one", "a.txt", "three")]
    ended: list[WriteOutcome | DrawbarError] = []
    with pytest.raises(StaleFile):
        await of.write([WriteJob(one, b"x", None) for one in targets], settled=lambda _job, end: ended.append(end))
    assert [type(end) for end in ended] == [WriteOutcome, StaleFile]
    assert (root / "one").exists()
    assert not (root / "three").exists()
    for target in targets:
        target.close()
    of.close()


@pytest.mark.clause("BND-7")
@pytest.mark.parametrize("way", WAYS)
async def test_a_write_that_has_begun_is_finished_and_told_before_the_stop_goes_on(
    tmp_path: Path, way: Confinement
) -> None:
    root = workspace(tmp_path)
    of, target = scope(root, way), resolve(root, "big")
    data = b"x" * 20_000_000
    ended: list[Any] = []
    task = asyncio.create_task(of.write_one(WriteJob(target, data, None), settled=lambda _job, end: ended.append(end)))
    await asyncio.sleep(0.002)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [end.change for end in ended] == ["created"]
    assert (root / "big").stat().st_size == len(data)
    target.close()
    of.close()


def in_thread(work: Callable[[], None]) -> BaseException | None:
    caught: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return caught[0] if caught else None


@needs_landlock
@pytest.mark.clause("BND-7", "QLT-2")
def test_the_kernel_keeps_a_confined_thread_in_the_root(tmp_path: Path) -> None:
    root, secret = workspace(tmp_path), tmp_path / "outside" / "secret.txt"
    root_fd = os.open(root, os.O_PATH | os.O_DIRECTORY)
    rules = WriteRules([root_fd])
    os.close(root_fd)
    (root / "link").symlink_to(secret)
    done: list[str] = []

    def denied(what: Callable[[], Any]) -> None:
        with pytest.raises(PermissionError):
            what()
        done.append("denied")

    def work() -> None:
        rules.confine_this_thread()
        (root / "a.txt").write_text("inside")
        (root / "d" / "new").mkdir()
        assert secret.read_text() == "original\n"
        denied(lambda: secret.write_text("x"))
        denied(lambda: (root / "link").write_text("x"))
        denied(lambda: os.truncate(secret, 0))
        denied(secret.unlink)
        denied(lambda: (tmp_path / "outside" / "new").mkdir())
        denied(lambda: (tmp_path / "outside" / "sym").symlink_to("x"))
        denied(lambda: os.mkfifo(tmp_path / "outside" / "pipe"))
        with pytest.raises(OSError, match=r"cross-device|denied"):
            (root / "a.txt").rename(tmp_path / "outside" / "a.txt")
        done.append("denied")

    assert in_thread(work) is None
    assert len(done) == 8
    rules.close()
    rules.close()
    secret.write_text("the main thread is as free as before")
    status = Path("/proc/self/status").read_text()
    assert "NoNewPrivs:\t0" in status


@needs_landlock
@pytest.mark.slow
@pytest.mark.clause("BND-7")
async def test_a_folder_that_leaves_the_root_takes_no_write_with_it(tmp_path: Path) -> None:
    """What stands outside never changes while it is outside, however the moves and the writes fall."""
    root = workspace(tmp_path)
    away = tmp_path / "outside" / "away"
    (root / "d" / "x").write_text("begin")
    stop = threading.Event()
    changed: list[tuple[str, str]] = []
    moves = 0

    def move() -> None:
        nonlocal moves
        while not stop.is_set():
            with contextlib.suppress(OSError):
                (root / "d").rename(away)
                before = (away / "x").read_text()
                time.sleep(0.0008)
                after = (away / "x").read_text()
                if before != after:
                    changed.append((before, after))
                away.rename(root / "d")
                moves += 1
            time.sleep(0.0008)

    of = scope(root, "landlock")
    mover = threading.Thread(target=move)
    mover.start()
    ended = {"written": 0, "refused": 0}
    try:
        for number in range(600):
            try:
                target = resolve(root, "d/x")
            except Exception:  # the folder is away, or turns up while it is looked for
                continue
            if target.missing:
                target.close()
                continue
            try:
                await of.write_one(WriteJob(target, b"%d" % number, None, overwrite=True, create=False))
                ended["written"] += 1
            except DrawbarError:
                ended["refused"] += 1
            finally:
                target.close()
    finally:
        stop.set()
        mover.join()
        of.close()
    assert not changed
    assert moves
    assert ended["written"]


NO_LANDLOCK = """
import asyncio, ctypes, struct, sys
from pathlib import Path

def forbid(*numbers):
    # return ENOSYS for these calls, as a kernel without them does
    code = b"".join([struct.pack("HBBI", 0x20, 0, 0, 0)]
        + [struct.pack("HBBI", 0x15, 0, 1, number) + struct.pack("HBBI", 0x06, 0, 0, 0x00050000 | 38)
           for number in numbers]
        + [struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)])
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()

forbid(*map(int, sys.argv[3].split(",")))
from tests.gate.kit import pinned, resolve
from drawbar.boundary.landlock import landlock_version
from drawbar.boundary.openat2 import have_openat2
from drawbar.boundary.write_scope import WriteJob, WriteScope
from drawbar.contracts.errors import DrawbarError

async def main():
    root = Path(sys.argv[1])
    scope = WriteScope(pinned(root), bubblewrap=sys.argv[2])
    print(landlock_version(), have_openat2(), scope.confinement)
    target = resolve(root, "d/new.txt")
    try:
        print((await scope.write_one(WriteJob(target, b"new", None))).change)
    except DrawbarError as error:
        print(error.code)
asyncio.run(main())
"""


def without(calls: str, root: Path, bubblewrap: str = BUBBLEWRAP) -> list[str]:
    """The same in a process whose kernel doesn't know some calls."""
    done = subprocess.run(
        [sys.executable, "-c", NO_LANDLOCK, root, bubblewrap, calls],
        cwd=HERE, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@needs_bubblewrap
@pytest.mark.clause("BND-7", "QLT-2")
def test_without_landlock_the_helper_writes(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    assert without("444,445,446", root) == ["0", "True", "helper", "created"]
    assert (root / "d" / "new.txt").read_bytes() == b"new"


@pytest.mark.clause("BND-7", "QLT-2")
def test_without_landlock_and_bubblewrap_nothing_is_written(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    assert without("444,445,446", root, "/nonexistent/bwrap") == ["0", "True", "None", "sandbox_unavailable"]
    assert os.listdir(root / "d") == []


@needs_landlock
@pytest.mark.clause("BND-7")
def test_without_openat2_the_walk_resolves(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    version, openat2, way, change = without("437", root)
    assert (openat2, way, change) == ("False", "landlock", "created")
    assert int(version) > 0


@needs_landlock
@pytest.mark.clause("BND-7")
def test_without_renameat2_writes_hold_too(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    assert without("316,276", root)[-1] == "created"
    assert os.listdir(root / "d") == ["new.txt"]


@needs_landlock
@pytest.mark.clause("BND-7", "QLT-2")
def test_a_scope_that_cannot_be_set_up_writes_nothing(tmp_path: Path) -> None:
    """Landlock is there, but the kernel refuses to lay it on the thread."""
    root = workspace(tmp_path)
    assert without("446", root)[-1] == "sandbox_unavailable"
    assert os.listdir(root / "d") == []


@pytest.mark.clause("BND-7", "QLT-2")
async def test_no_scope_is_used_only_when_a_person_switched_the_sandbox_off(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    of = WriteScope(pinned(root), sandbox="on", confinement="none")
    target = resolve(root, "new.txt")
    assert of.confinement is None
    with pytest.raises(SandboxUnavailable, match="nothing was written"):
        await of.write_one(WriteJob(target, b"x", None))
    target.close()
    assert not (root / "new.txt").exists()
    assert WriteScope(pinned(root), sandbox="off").confinement == "none"


@needs_bubblewrap
@pytest.mark.clause("BND-7", "QLT-2")
async def test_a_helper_that_fails_is_said_to_have_failed(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    target = resolve(root, "new.txt")
    for program in ("/bin/false", "/bin/cat"):
        of = WriteScope(pinned(root), confinement="helper", bubblewrap=program)
        with pytest.raises(SandboxUnavailable, match=r"unknown|nothing"):
            await of.write_one(WriteJob(target, b"x", None))
    target.close()
    assert not (root / "new.txt").exists()


@needs_bubblewrap
@pytest.mark.clause("BND-7")
async def test_the_helper_process_itself_is_confined(tmp_path: Path) -> None:
    """The very command line of the helper, with another program in its place."""
    root, secret = workspace(tmp_path), tmp_path / "outside" / "secret.txt"
    argv = WriteScope(pinned(root), confinement="helper")._helper_argv()
    start = argv.index("--")
    script = f"echo in > '{root}/in'; echo x > '{secret}'; echo x > '{tmp_path}/outside/new'; exit 0"
    subprocess.run([*argv[: start + 1], "/bin/sh", "-c", script], stderr=subprocess.DEVNULL, timeout=60, check=True)
    assert (root / "in").read_text() == "in\n"
    assert secret.read_text() == "original\n"
    assert sorted(os.listdir(tmp_path / "outside")) == ["secret.txt"]
