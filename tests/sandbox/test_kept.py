"""A sandbox that is entered again and again gives each call what a sandbox of its own would (PRF-2)."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import Box, alive, children, git, tag

from drawbar.boundary import kept
from drawbar.contracts.errors import WorkspaceRefused

pytestmark = pytest.mark.clause("PRF-2")

WHERE = "readlink /proc/self/ns/pid"
CHANGES = ("config replaced", "hooks replaced", "settings added", "secret added", "alias added")


def inside(box: Box) -> object:
    """The sandbox that the next call would enter; numbers of namespaces are used again too soon to tell by."""
    return box.runner._carrier.kept  # pyright: ignore[reportPrivateUsage]


@pytest.fixture(params=["on", "off"])
def either(request: pytest.FixtureRequest, make: BoxMaker, git_repo: Callable[..., Path]) -> Box:
    return make(git_repo({"file.txt": "aaa\n"}), sandbox=request.param)


async def kept_through(box: Box, calls: Callable[[], Awaitable[None]]) -> bool:
    """Whether the sandbox outlives ``calls``; tried a few times, because a socket that some other program of the
    machine opens meanwhile changes the plan, and rightly makes a new one."""
    for _ in range(4):
        await box.text("true")
        before = inside(box)
        await calls()
        await box.text("true")
        if inside(box) is before:
            return True
    return False


async def test_one_sandbox_serves_many_calls(either: Box) -> None:
    async def five() -> None:
        for _ in range(5):
            await either.text("true")

    assert await kept_through(either, five)


async def test_read_only_is_always_fresh(box: Box) -> None:
    async def fresh_ones() -> None:
        here = await box.text(WHERE)
        for _ in range(3):
            assert await box.text(WHERE, scope="read-only") != here
        await asyncio.gather(*(box.text("sleep 0.1", scope="read-only") for _ in range(2)))

    assert await kept_through(box, fresh_ones)


@pytest.mark.clause("BND-15", "PRF-2")
async def test_entering_is_cheap(box: Box) -> None:
    async def best(command: str) -> float:
        times: list[float] = []
        for _ in range(15):
            started = time.perf_counter()
            await box.text(command)
            times.append(time.perf_counter() - started)
        return min(times)

    await box.text("true")
    for _ in range(3):  # a busy machine gets another chance
        entered, fresh = await best("true"), await best("touch /dev/shm/x")
        if entered < fresh * 0.7:
            return
    pytest.fail(f"entering took {entered:.4f} s, a fresh sandbox {fresh:.4f} s")


async def test_nothing_of_a_shell_is_left_for_the_next(either: Box) -> None:
    await either.text("cd /; export LEFT=1; umask 0; alias ls=false; ulimit -n 64; set -e; f() { :; }")
    shown = await either.text('pwd; echo "[$LEFT]"; umask; ulimit -n; ls file.txt; type f 2>&1 | grep -c "not found"')
    assert shown.splitlines()[0] == str(either.root)
    assert shown.splitlines()[1] == "[]"
    assert shown.splitlines()[3] != "64"
    assert shown.splitlines()[-2:] == ["file.txt", "1"]


async def test_environment_and_folder_are_each_calls_own(either: Box) -> None:
    (either.root / "sub").mkdir()
    first = await either.text("pwd; echo $ONE", cwd=either.root / "sub", env=(("ONE", "it's 1"),))
    assert first == f"{either.root}/sub\nit's 1\n"
    assert await either.text("pwd; echo $ONE$OLDPWD") == f"{either.root}\n\n"


@pytest.mark.parametrize(
    "leave",
    ["echo x >/dev/shm/left", "mkdir /run/.hidden", "ln -s x /run/link", "ipcmk -M 1000", "ipcmk -Q", "ipcmk -S 1"],
)
@pytest.mark.clause("BND-9", "BND-10", "PRF-2")
async def test_what_is_discarded_does_not_show_to_the_next(box: Box, leave: str) -> None:
    if leave.startswith("ipcmk") and shutil.which("ipcmk") is None:
        pytest.skip("ipcmk is not installed")
    await box.text("true")
    before = inside(box)
    await box.text(leave)
    shown = await box.text("ls -A /dev/shm; ls -A /run; cat /proc/sysvipc/* | wc -l")
    assert shown == "3\n"
    assert inside(box) is not before


@pytest.mark.clause("BND-10", "PRF-2", "QLT-12")
async def test_no_command_can_live_on_in_the_supervisor(box: Box) -> None:
    """It would see later commands and could answer for them."""
    for attempt in (
        "exec 4<>/proc/1/mem",
        "cat /proc/1/mem",
        "cat /proc/1/environ",
        "readlink /proc/1/fd/0",
        "exec 4>/proc/1/fd/1",
        "cat /proc/1/maps",
        "ls -l /proc/1/exe | grep -- '->' | grep drawbar",
        "cat /dev/.drawbar/sh",
        "echo x >/dev/.drawbar/calls/9",
        "echo x >/dev/planted",
        "mv /dev/.drawbar /dev/x",
        "python3 -c \"import os; os.pidfd_open(1); os.open('/proc/1/mem', os.O_RDWR)\"",
        "echo done 0 >/proc/1/fd/0",
    ):
        assert (await box.sh(attempt)).exit_code != 0, attempt
    for signal in ("9", "STOP", "TERM", "INT", "HUP", "SEGV", "USR1"):
        await box.sh(f"kill -{signal} 1; kill -{signal} -1")
        assert await box.text("echo alive") == "alive\n"


@pytest.mark.clause("QLT-12", "PRF-2")
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.binary(max_size=5000), st.integers(0, 255), st.booleans()), min_size=2, max_size=6))
async def test_each_call_gets_its_own_output_and_code(either: Box, calls: list[tuple[bytes, int, bool]]) -> None:
    for data, code, apart in calls:
        (either.root / "bytes").write_bytes(data)
        result = await either.sh(f"cat bytes; cat bytes >&2; exit {code}", separate=apart)
        text = data.decode("utf-8", "replace")
        if apart:
            assert (result.output, result.stderr) == (text, text)
        else:
            assert result.output == (data + data).decode("utf-8", "replace")
        assert result.exit_code == code


@pytest.mark.clause("QLT-12", "PRF-2")
async def test_a_full_pipe_at_the_end_is_read_to_its_end(either: Box) -> None:
    for size in (0, 1, 65_535, 65_536, 65_537, 300_000):
        result = await either.sh(f"head -c {size} /dev/zero", head_bytes=10, tail_bytes=10)
        assert result.total == size


async def test_calls_at_once_do_not_share(either: Box) -> None:
    await either.text("true")
    places = await asyncio.gather(*(either.text(f"sleep 0.2; {WHERE}") for _ in range(4)))
    assert len(set(places)) == 4


@pytest.mark.clause("QLT-12", "PRF-2")
@pytest.mark.parametrize("leave", ["sleep 3600 &", "setsid sleep 3600 >/dev/null 2>&1 &", "sleep 3600 & kill -STOP $!"])
async def test_a_call_that_leaves_processes_ends_the_sandbox(either: Box, leave: str) -> None:
    await either.text("true")
    before = inside(either)
    result = await either.sh(leave)
    assert result.left_behind == 1
    await either.text("true")
    assert inside(either) is not before


@pytest.mark.slow
async def test_quick_orphans_and_zombies_do_not(either: Box) -> None:
    async def leave_some() -> None:
        result = await either.sh("(sleep 0.03 &) ; for n in 1 2 3; do (true &) ; done")
        assert result.left_behind == 0

    assert await kept_through(either, leave_some)


@pytest.mark.clause("RUN-10", "QLT-12", "PRF-2")
async def test_after_a_limit_or_a_stop_the_next_call_works(either: Box) -> None:
    own = f"36{os.getpid()}"  # nobody else's sleep
    await either.text("true")
    assert (await either.sh(f"sleep {own}", limit_s=0.2)).cause == "timeout"
    assert await either.text("echo next") == "next\n"
    call = asyncio.create_task(either.sh(f"sleep {own}"))
    await asyncio.sleep(0.1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await either.text("echo next") == "next\n"
    assert alive(f"sleep\x00{own}") == []


@pytest.mark.clause("BND-11", "PRF-2")
@pytest.mark.parametrize(
    "change", ["config replaced", "hooks replaced", "settings added", "secret added", "alias added"]
)
async def test_a_change_under_the_sandbox_makes_a_new_one(
    make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path, change: str
) -> None:
    root = git_repo()
    box = make(root, deny_read=(".env",))
    await box.text("true")
    before = inside(box)
    kept = b""
    attack = "printf '[core]\\nfsmonitor = evil\\n' >>.git/config"
    if change == "config replaced":
        git(root, "config", "user.name", "By the person")  # git renames a new file over the old one
        kept = (root / ".git/config").read_bytes()
    elif change == "hooks replaced":
        (root / ".git" / "hooks").rename(root / ".git" / "old-hooks")
        (root / ".git" / "hooks").mkdir()
        attack = "echo x >.git/hooks/pre-commit"
    elif change == "settings added":
        (root / ".drawbar").mkdir()
        attack = "echo x >.drawbar/config.toml"
    elif change == "secret added":
        (root / ".env").write_text("PRIVATE")
        box.runner.begin_turn()
        attack = "cat .env"
    else:
        (tmp_path / "outside").write_text("original")
        os.link(tmp_path / "outside", root / "alias")
        box.runner.begin_turn()
        attack = "echo x >>alias"
    result = await box.sh(attack)
    if change == "config replaced":
        # The command writes the session's copy; the file that the person's git reads is what the person made it.
        assert (root / ".git/config").read_bytes() == kept
        assert "core.fsmonitor: set for this session's commands only" in (result.denial or "")
    else:
        assert result.exit_code != 0
    assert "PRIVATE" not in result.output
    assert inside(box) is not before
    if change == "alias added":
        assert (tmp_path / "outside").read_text() == "original"


@pytest.mark.clause("BND-10", "PRF-2")
async def test_a_socket_that_appears_later_is_masked_too(box: Box, far: Path) -> None:
    await box.text("true")
    before = inside(box)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(far / "late.sock"))
    server.listen()
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect('{far}/late.sock')"
    assert (await box.run(("/usr/bin/python3", "-c", connect))).exit_code != 0
    assert inside(box) is not before
    server.close()


async def test_what_changes_out_of_sight_changes_nothing(box: Box, tmp_path: Path) -> None:
    """A socket of the machine in a folder that no command sees needs no new sandbox."""
    await box.text("true")
    before = inside(box)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "unseen.sock"))
    server.listen()
    await box.text("true")
    assert inside(box) is before
    server.close()


@pytest.mark.clause("QLT-11", "PRF-2")
async def test_a_replaced_root_is_not_entered(either: Box, tmp_path: Path) -> None:
    await either.text("true")
    either.root.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", either.root)
    with pytest.raises(WorkspaceRefused):
        await either.sh("touch ran")
    assert not (either.root / "ran").exists()
    assert not (tmp_path / "moved" / "ran").exists()


async def test_an_idle_sandbox_ends_by_itself(
    make: BoxMaker, git_repo: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_IDLE_S", 0.1)
    root = git_repo()
    box = make(root)
    await box.text("true")
    before = inside(box)
    await asyncio.sleep(0.6)
    assert not [pid for pid in children() if "bwrap" in Path(f"/proc/{pid}/comm").read_text()]
    await box.text("true")
    assert inside(box) is not before


async def test_closing_ends_it_and_removes_its_scripts(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    box = make(git_repo())
    await box.text("true")
    assert len(list(box.private.glob("calls-*"))) == 1
    assert list(next(box.private.glob("calls-*")).iterdir()) == [], "a script lives as long as its call"
    await box.runner.close()
    assert list(box.private.glob("calls-*")) == []
    await box.runner.close()


@pytest.mark.slow
async def test_descriptors_are_given_back(either: Box) -> None:
    await either.text("true")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        await either.sh("true" if number % 2 else "sleep 100 & exit 3", separate=bool(number % 3))
    await either.text("true")
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.clause("QLT-12", "BND-18", "PRF-2")
@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
@pytest.mark.parametrize("keep", [True, False])
async def test_any_shell_of_the_system_will_do(
    make: BoxMaker,
    git_repo: Callable[..., Path],
    far: Path,
    monkeypatch: pytest.MonkeyPatch,
    shell: str,
    keep: bool,
) -> None:
    """``/bin/sh`` is another program on each system."""
    from drawbar.boundary import bubblewrap, supervisor

    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    shutil.copy(program, far / "sh")
    for module in (bubblewrap, supervisor):
        monkeypatch.setattr(module, "SHELL", str(far / "sh"))
    box = make(git_repo(), keep=keep)
    sleeper = tag()
    for _ in range(2):
        assert await box.text("echo out; cat", stdin=b"given") == "out\ngiven"
        assert (await box.sh("kill -9 $$")).exit_code == 137
        assert (await box.run(("no-such-program",))).exit_code == 127
        assert (await box.sh(f"sleep {sleeper} & echo done")).output == "done\n"
        assert (await box.sh(f"sleep {sleeper}", limit_s=0.2)).cause == "timeout"
        assert "PRIVATE" not in await box.text("env; pwd")
    assert alive(sleeper) == []


@pytest.mark.parametrize(
    "change",
    [
        "prlimit --pid 1 --nofile=64:64",
        "renice -n 5 -p 1",
        "ionice -c 3 -p 1",
        "chrt -b -p 0 1",
        "chmod 0700 /dev/shm",
        "chmod 0700 /run",
        "python3 -c 'import ctypes, os; "
        'ctypes.CDLL("librt.so.1").mq_open(b"/left", os.O_CREAT | os.O_RDWR, 0o600, None)\'',
    ],
)
@pytest.mark.clause("PRF-2", "BND-10")
async def test_what_a_call_changes_around_it_does_not_reach_the_next(box: Box, change: str) -> None:
    """Any process may set another's limits and priority, and the next call inherits them from its supervisor."""
    if shutil.which(change.split()[0]) is None:
        pytest.skip(f"{change.split()[0]} is not installed")
    look = "ulimit -n; nice; ionice; chrt -p $$ | tail -2; stat -c %a /dev/shm /run"
    fresh = await box.sh(look)
    before = inside(box)
    if (await box.sh(change)).exit_code != 0:
        pytest.skip("the kernel doesn't allow it")
    shown = await box.sh(look)
    assert [line for line in shown.output.splitlines() if "pid" not in line] == [
        line for line in fresh.output.splitlines() if "pid" not in line
    ]
    assert inside(box) is not before
