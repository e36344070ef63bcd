"""One approved command outside the sandbox: at most once, never shared, and nothing of it survives (BND-9, BND-18)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import Box, alive, tag

from drawbar.boundary.unconfined import Adopting
from drawbar.contracts.errors import DrawbarError, InvalidInput

SCOPES = ("read-only", "workspace", "outside")


@pytest.fixture(params=["namespaces", "none"])
def box(request: pytest.FixtureRequest, make: BoxMaker, git_repo: Callable[..., Path]) -> Box:
    unconfined = Adopting() if request.param == "none" else None
    return make(git_repo({"file.txt": "aaa\n"}), scopes=SCOPES, unconfined=unconfined)


@pytest.mark.clause("BND-9")
async def test_it_writes_where_the_sandbox_would_not(box: Box, far: Path) -> None:
    assert (await box.sh(f"echo x >{far}/made")).cause == "error"
    assert (await box.sh(f"echo x >{far}/made; pwd", scope="outside")).output == f"{box.root}\n"
    assert (far / "made").read_text() == "x\n"


@pytest.mark.clause("BND-9", "BND-10")
async def test_its_environment_is_scrubbed(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    environ = dict(os.environ) | {"MY_API_TOKEN": "s3cret", "SSH_AUTH_SOCK": "/x", "LANG": "C.UTF-8"}
    box = make(git_repo(), scopes=SCOPES, environ=environ)
    shown = await box.text("env", scope="outside")
    assert "s3cret" not in shown
    assert "SSH_AUTH_SOCK" not in shown
    assert "LANG=C.UTF-8" in shown
    assert "DRAWBAR_CALL=r_test" in shown


@pytest.mark.clause("BND-16")
async def test_the_harness_own_folders_are_out_of_reach(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    box = make(git_repo(), scopes=SCOPES)
    (box.hidden / "approvals.jsonl").write_text("secret\n")
    assert "approvals" not in (await box.sh(f"ls -A {box.hidden}", scope="outside")).output
    for attempt in ("cat {0}/approvals.jsonl", "echo x >{0}/planted", "rm -rf {0}"):
        assert (await box.sh(attempt.format(box.hidden), scope="outside")).exit_code != 0, attempt
    assert (box.hidden / "approvals.jsonl").read_text() == "secret\n"
    assert not (box.hidden / "planted").exists()


@pytest.mark.clause("BND-18")
async def test_a_session_of_its_own_without_the_terminal(box: Box) -> None:
    shown = await box.text("ps -o sid= -p $$; (: </dev/tty) 2>/dev/null && echo terminal || echo none", scope="outside")
    session, terminal = shown.split()
    assert int(session) != os.getsid(0)
    assert terminal == "none"


@pytest.mark.clause("BND-18", "QLT-12")
@pytest.mark.parametrize(
    "leave",
    [
        "sleep {0} &",
        "setsid sleep {0} >/dev/null 2>&1 </dev/null &",
        "( ( env -i setsid sleep {0} >/dev/null 2>&1 & ) & )",
        "env -i setsid sleep {0} >/dev/null 2>&1 & kill -9 $PPID; sleep 0.1",
    ],
)
async def test_nothing_it_left_survives(box: Box, leave: str) -> None:
    sleeper = tag()
    await box.sh(leave.format(sleeper), scope="outside", limit_s=10)
    assert alive(sleeper) == []


@pytest.mark.clause("BND-9")
async def test_it_neither_shares_nor_keeps_a_sandbox(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    box = make(git_repo(), scopes=SCOPES)
    where = "readlink /proc/self/ns/pid; rm $(mktemp /dev/shm/drawbar-test.XXXXXX)"
    await box.text("true")
    kept = box.runner._carrier.kept  # pyright: ignore[reportPrivateUsage]
    both = await asyncio.gather(*(box.text(f"sleep 0.3; {where}", scope="outside") for _ in range(2)))
    assert len(set(both)) == 2
    assert box.runner._carrier.kept is kept  # pyright: ignore[reportPrivateUsage]


@pytest.mark.clause("BND-9")
async def test_a_call_is_started_at_most_once(box: Box, far: Path) -> None:
    await box.sh(f"echo x >>{far}/log", scope="outside", call_id="c1")
    with pytest.raises(InvalidInput, match="at most once"):
        await box.sh(f"echo x >>{far}/log", scope="outside", call_id="c1")
    assert (far / "log").read_text() == "x\n"


@pytest.mark.clause("BND-9")
async def test_one_that_fails_to_start_is_not_tried_again(
    make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path
) -> None:
    log = tmp_path / "starts"
    broken = tmp_path / "bwrap"
    broken.write_text(f"#!/bin/sh\necho x >>{log}\nexit 1\n")
    broken.chmod(0o755)
    from drawbar.boundary.bubblewrap import Bubblewrap

    box = make(git_repo(), scopes=SCOPES, unconfined=Bubblewrap(broken))
    assert (await box.sh("true", scope="outside")).exit_code is None
    assert log.read_text() == "x\n"


@pytest.mark.clause("BND-9")
async def test_a_run_without_the_scope_has_none(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    box = make(git_repo())
    with pytest.raises(DrawbarError, match="no scope `outside`"):
        await box.sh("touch planted", scope="outside")
    assert not (box.root / "planted").exists()


@pytest.mark.clause("BND-12", "BND-9")
async def test_hard_links_that_it_makes_are_found_before_the_next_command(
    make: BoxMaker, git_repo: Callable[..., Path], far: Path
) -> None:
    box = make(git_repo({"a.txt": "a\n"}), scopes=SCOPES)
    if os.stat(far).st_dev != os.stat(box.root).st_dev:
        pytest.skip("the two folders are on different file systems, so no hard link can be made")
    (far / "outside.txt").write_text("mine\n")
    box.runner.begin_turn()
    await box.text("cat a.txt")
    await box.text(f"ln {far}/outside.txt alias.txt", scope="outside")
    result = await box.sh("echo changed >alias.txt")
    assert result.cause == "error"
    assert (far / "outside.txt").read_text() == "mine\n"


@pytest.mark.clause("BND-18")
async def test_the_kernel_is_told_of_no_program_to_run(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    """It would be run outside of every namespace, whenever something happens, and so long after the call."""
    if os.geteuid() != 0:
        pytest.skip("only root could")
    box = make(git_repo(), scopes=SCOPES)
    attempts = [
        f"(: >>{path}) 2>/dev/null && echo {path}"
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger")
    ]
    attempts.append("for f in /sys/fs/cgroup/*/release_agent; do [ -e $f ] && (: >>$f) 2>/dev/null && echo $f; done")
    attempts.append("umount /proc/sys/kernel/core_pattern 2>/dev/null && echo unmounted")
    attempts.append("mount -t proc proc /mnt 2>/dev/null && echo mounted")
    result = await box.sh("\n".join((*attempts, "true")), scope="outside")
    assert result.output == ""


@pytest.mark.clause("QLT-12", "BND-18")
@pytest.mark.parametrize("where", ["nested", "nested, by hand"])
def test_where_no_namespace_can_be_had(
    sandbox: None, git_repo: Callable[..., Path], tmp_path: Path, where: str
) -> None:
    """Inside a container-like place that makes no namespaces, for real: nothing survives, and the record is true."""
    sleeper = tag()
    root = git_repo()
    unconfined = "Adopting()" if where.endswith("hand") else "None"
    program = textwrap.dedent(
        f"""
        import asyncio
        from pathlib import Path
        from tests.sandbox.kit import alive, make_box
        from drawbar.boundary.unconfined import Adopting, pid_namespace_available

        async def main():
            assert not pid_namespace_available()
            box = make_box(Path({str(root)!r}), Path({str(tmp_path)!r}), sandbox="off", unconfined={unconfined})
            result = await box.sh("env -i setsid sleep {sleeper} & kill -9 $PPID; echo done; sleep 0.1", limit_s=10)
            print(result.cause, result.left_behind, alive("sleep\\0" + {sleeper!r}))
            await box.runner.close()

        asyncio.run(main())
        """
    )
    # The limit on user namespaces keeps an ordinary user from a PID namespace; the dropped capability keeps root.
    place = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-user", "--disable-userns"]
    place += ["--unshare-pid", "--cap-drop", "ALL", "--"]
    done = subprocess.run(
        [*place, sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if "disable-userns" in done.stderr:
        pytest.skip("this bubblewrap can't switch namespaces off")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("1 []"), done.stdout


@pytest.mark.clause("BND-18")
async def test_its_limit_ends_it_whole(box: Box) -> None:
    sleeper = tag()
    started = time.monotonic()
    result = await box.sh(f"trap '' TERM; setsid sleep {sleeper} & sleep {sleeper}", scope="outside", limit_s=0.5)
    assert result.cause == "timeout"
    assert time.monotonic() - started < 5.5
    assert alive(sleeper) == []
