"""The sandbox is proved by a real command; where it can't work, cause and cure are named and nothing runs (QLT-1)."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import Box

from drawbar.boundary.bubblewrap import Bubblewrap
from drawbar.boundary.trial import diagnose, judge_facts
from drawbar.contracts.errors import InvalidInput, SandboxUnavailable

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.clause("QLT-1", "BND-8")
async def test_a_working_sandbox_shows_facts(box: Box) -> None:
    trial = await box.runner.trial()
    assert trial.ok, trial
    assert trial.backend == "bubblewrap"
    assert trial.version
    assert trial.cause is None
    assert trial.cure is None
    assert trial.facts["devices"] == ["lo:"]
    assert int(trial.facts["CapEff"], 16) == 0


@pytest.mark.clause("QLT-1")
async def test_the_trial_runs_once(box: Box) -> None:
    assert await box.runner.trial() is await box.runner.trial()


@pytest.mark.bug("SBX-07")
@pytest.mark.clause("QLT-1", "BND-8")
async def test_not_installed(make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path) -> None:
    box = make(git_repo(), backend=Bubblewrap(tmp_path / "bwrap"))
    trial = await box.runner.trial()
    assert not trial.ok
    assert "not installed" in (trial.cause or "")
    assert "apt install bubblewrap" in (trial.cure or "")
    with pytest.raises(SandboxUnavailable, match="not installed") as caught:
        await box.sh("touch ran")
    assert "Nothing was run" in caught.value.message
    assert not (box.root / "ran").exists()


def program(path: Path, text: str) -> Path:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.bug("SBX-07")
@pytest.mark.clause("QLT-1")
@pytest.mark.parametrize("version", ["bubblewrap 0.8.0", "bubblewrap 0.11.0"])
async def test_a_version_alone_proves_nothing(
    make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path, version: str
) -> None:
    """A program that states its version and then fails, as on a host without user namespaces."""
    fake = program(
        tmp_path / "bwrap",
        f'[ "$1" = --version ] && {{ echo "{version}"; exit 0; }}\n'
        'echo "bwrap: No permissions to create new namespace, likely because the kernel does not allow" >&2\nexit 1\n',
    )
    box = make(git_repo(), backend=Bubblewrap(fake))
    with pytest.raises(SandboxUnavailable, match=r"namespace|container"):
        await box.sh("touch ran")
    assert not (box.root / "ran").exists()


@pytest.mark.clause("QLT-1")
async def test_too_old(make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path) -> None:
    fake = program(tmp_path / "bwrap", 'echo "bubblewrap 0.4.1"\n')
    trial = await make(git_repo(), backend=Bubblewrap(fake)).runner.trial()
    assert "0.4.1 is too old" in (trial.cause or "")


@pytest.mark.clause("QLT-1")
async def test_a_sandbox_that_confines_nothing_is_not_believed(
    make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path
) -> None:
    """A program that simply runs the command: everything starts, nothing is closed."""
    fake = program(
        tmp_path / "bwrap",
        '[ "$1" = --version ] && { echo "bubblewrap 0.8.0"; exit 0; }\nwhile [ "$1" != -- ]; do shift; done\nshift\n'
        'exec setsid -w "$@"\n',
    )
    # As PID 1 the supervisor signals everyone; here that must not be this machine's everyone.
    fake.write_text(
        fake.read_text().replace(
            "exec setsid", f"exec {Bubblewrap().path} --bind / / --unshare-pid --proc /proc --as-pid-1 setsid"
        )
    )
    trial = await make(git_repo(), backend=Bubblewrap(fake)).runner.trial()
    assert not trial.ok
    assert trial.cause is not None


NESTED = textwrap.dedent(
    """
    import asyncio, json, sys
    from pathlib import Path
    from tests.sandbox.kit import make_box

    async def main():
        root = Path("/tmp/nested/root")
        root.mkdir(parents=True)
        box = make_box(root, root.parent)
        trial = await box.runner.trial()
        try:
            await box.sh("touch ran")
            refused = None
        except Exception as error:
            refused = str(error)
        off = make_box(root, root.parent, sandbox="off")
        result = await off.sh("echo open; setsid sleep 4242 & echo $$")
        print(json.dumps({
            "ok": trial.ok, "cause": trial.cause, "cure": trial.cure, "refused": refused,
            "ran": (root / "ran").exists(), "off": result.output.split(), "cause_off": result.cause,
            "left": result.left_behind, "backend_off": (await off.runner.trial()).backend,
        }))
        await off.runner.close()

    asyncio.run(main())
    """
)


@pytest.mark.bug("SBX-07")
@pytest.mark.clause("QLT-1", "BND-18")
async def test_where_no_namespace_can_be_had(box: Box) -> None:
    """Inside a sandbox, as in a plain container, the kernel gives no further namespaces."""
    if "seen" not in await box.text(f"test -x {sys.executable} && test -d {CHECKOUT} && echo seen; true"):
        pytest.skip("this checkout lies where the sandbox shows nothing")
    result = await box.run(
        (sys.executable, "-c", NESTED),
        env=(("PYTHONPATH", ":".join((str(CHECKOUT), *filter(None, sys.path)))), ("PYTHONDONTWRITEBYTECODE", "1")),
    )
    facts = json.loads(result.output.splitlines()[-1])
    assert facts["ok"] is False
    assert "namespace" in facts["cause"]
    assert facts["cure"]
    assert facts["cause"] in facts["refused"]
    assert facts["ran"] is False
    assert facts["off"][0] == "open", "off is the person's choice and works"
    assert (facts["cause_off"], facts["left"], facts["backend_off"]) == ("ok", 1, "none")


@pytest.mark.bug("SBX-07")
@pytest.mark.clause("QLT-1")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare to limit namespaces")
def test_user_namespaces_switched_off(sandbox: None, git_repo: Callable[..., Path], tmp_path: Path) -> None:
    """A machine whose limit of user namespaces is zero, as an administrator sets it."""
    root = git_repo()
    inner = (
        "import asyncio\nfrom pathlib import Path\nfrom tests.sandbox.kit import make_box\n"
        f"box = make_box(Path({str(root)!r}), Path({str(tmp_path)!r}))\n"
        "print(asyncio.run(box.runner.trial()))\n"
    )
    script = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", script, "sh", sys.executable, "-c", inner],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 and "ermission denied" in done.stderr:
        pytest.skip(f"the limit can't be set here: {done.stderr.strip()}")
    assert "ok=False" in done.stdout, done
    assert "user.max_user_namespaces is 0" in done.stdout
    assert "sudo sysctl user.max_user_namespaces" in done.stdout


MESSAGES = {
    "bwrap: setting up uid map: Permission denied": {"apparmor": "1"},
    "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted": {"apparmor": "1"},
    "bwrap: No permissions to create new namespace, likely because": {"userns_clone": "0"},
    "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)": {
        "max_userns": "0"
    },
    "bwrap: Creating new namespace failed: Operation not permitted": {"container": "Docker"},
    "bwrap: Can't mount proc on /newroot/proc: Operation not permitted": {},
    "bwrap: Unknown option --as-pid-1": {},
    "bwrap: prctl(PR_SET_SECCOMP) reported EFAULT: Invalid argument": {},
    "": {"container": "Docker"},
    "bwrap: something new": {"container": "Docker"},
}
WORDS = [
    "AppArmor",
    "AppArmor",
    "unprivileged_userns_clone",
    "max_user_namespaces",
    "Docker",
    "/proc",
    "too old",
    "filter",
]


@pytest.mark.clause("QLT-1")
@pytest.mark.parametrize("number", range(len(MESSAGES)))
def test_each_cause_has_a_name_and_a_cure(number: int) -> None:
    from drawbar.boundary import trial

    said, machine = list(MESSAGES.items())[number]
    known = dict.fromkeys(("container", "userns_clone", "max_userns", "apparmor")) | machine
    cause, cure = diagnose(said, trial._Machine(**known))  # pyright: ignore[reportPrivateUsage, reportArgumentType]
    assert len(cure) > 20
    if number < len(WORDS):
        assert WORDS[number] in cause
    else:
        assert "container" not in cause, "not everything that fails in a container is the container's doing"
    assert "\n" not in cause + cure


USED_UP = {
    "bwrap: Can't fork for --unshare-pid: Resource temporarily unavailable": "limit of processes",
    "bwrap: Can't create file at /tmp/x: No space left on device": "no space left",
    "bwrap: Out of memory": "no memory",
    "bwrap: Unexpected capabilities but not setuid, old file caps config?": "more rights",
    "bwrap: error while loading shared libraries: libcap.so.2": "can't be run",
}


@pytest.mark.bug("SBX-07")
@pytest.mark.clause("QLT-1")
@pytest.mark.parametrize("said", USED_UP)
async def test_what_is_used_up_or_broken_is_named(
    make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path, said: str
) -> None:
    fake = program(
        tmp_path / "bwrap",
        f'[ "$1" = --version ] && {{ echo "bubblewrap 0.8.0"; exit 0; }}\necho "{said}" >&2\nexit 1\n',
    )
    trial = await make(git_repo(), backend=Bubblewrap(fake)).runner.trial()
    assert not trial.ok
    assert USED_UP[said] in (trial.cause or "")
    assert len(trial.cure or "") > 20


@pytest.mark.clause("QLT-1")
def test_wsl_1_is_told_from_wsl_2() -> None:
    from drawbar.boundary import trial

    known = dict.fromkeys(("container", "userns_clone", "max_userns", "apparmor"))
    machine = trial._Machine(**known, wsl1=True)  # pyright: ignore[reportPrivateUsage, reportArgumentType]
    assert "WSL 1" in diagnose("bwrap: Creating new namespace failed: Invalid argument", machine)[0]
    assert trial._is_wsl1("4.4.0-19041-Microsoft")  # pyright: ignore[reportPrivateUsage]
    assert not trial._is_wsl1("5.15.167.4-microsoft-standard-WSL2")  # pyright: ignore[reportPrivateUsage]


@pytest.mark.bug("SBX-07")
@pytest.mark.clause("QLT-1")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can't mount a /proc of its own in a container")
def test_in_a_container_whose_proc_is_masked(sandbox: None, git_repo: Callable[..., Path], tmp_path: Path) -> None:
    """As in Docker: parts of /proc are covered, so the kernel gives no fresh one; the container's own is not taken."""
    inner = (
        "import asyncio\nfrom pathlib import Path\nfrom tests.sandbox.kit import make_box\n"
        f"box = make_box(Path({str(git_repo())!r}), Path({str(tmp_path)!r}))\n"
        "print(asyncio.run(box.runner.trial()))\n"
    )
    script = 'mount -t tmpfs none /proc/acpi 2>/dev/null || mount --bind /dev/null /proc/keys; exec "$@"'
    done = subprocess.run(
        ["unshare", "-Urmpf", "--mount-proc", "sh", "-c", script, "sh", sys.executable, "-c", inner],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ok=False" in done.stdout, done
    assert "/proc" in done.stdout
    assert "systempaths=unconfined" in done.stdout


@pytest.mark.clause("QLT-1")
async def test_what_goes_between_the_look_and_the_mount_is_no_failure(
    make: BoxMaker, git_repo: Callable[..., Path], far: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of the machine ends, and its socket with it, just when it is to be masked."""
    from drawbar.boundary import plan
    from drawbar.boundary.host_specials import HostSpecials

    seen: list[int] = []

    def gone_at_once(self: HostSpecials) -> tuple[Path, ...]:
        seen.append(1)
        return (far / "folder" / "gone.sock",) if len(seen) == 1 else ()

    def still_there(path: str) -> bool:
        return True

    def there_as_it_seems(path: Path | str) -> bool:
        return str(path).endswith("gone.sock") or os.path.lexists(path)

    monkeypatch.setattr(HostSpecials, "paths", gone_at_once)
    monkeypatch.setattr(plan, "within_reach", still_there)
    monkeypatch.setattr(plan.os.path, "exists", there_as_it_seems)
    box = make(git_repo())
    assert await box.text("echo fine") == "fine\n"
    assert len(seen) == 2


@pytest.mark.clause("QLT-1", "BND-10")
def test_every_hole_in_a_starting_sandbox_is_a_failure() -> None:
    good = {"CapEff": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2", "devices": ["lo:"], "root": "writable"}
    assert judge_facts(good) is None
    for hole in (
        {"CapEff": "000001ffffffffff"},
        {"NoNewPrivs": "0"},
        {"Seccomp": "0"},
        {"kernel-settings": "writable"},
        {"system": "writable"},
        {"devices": ["lo:", "eth0:"]},
        {"root": ""},
    ):
        assert judge_facts(good | hole) is not None, hole


@pytest.mark.clause("BND-9")
async def test_outside_is_refused_where_the_run_has_no_such_scope(box: Box) -> None:
    with pytest.raises(InvalidInput, match="outside"):
        await box.sh("touch ran", scope="outside")
    assert not (box.root / "ran").exists()


@pytest.mark.clause("QLT-1")
async def test_read_only_is_confined_even_with_the_sandbox_off(
    make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path
) -> None:
    root = git_repo()
    assert (await make(root, sandbox="off").sh("touch ran", scope="read-only")).exit_code != 0
    broken = make(root, sandbox="off", backend=Bubblewrap(tmp_path / "none"))
    with pytest.raises(SandboxUnavailable):
        await broken.sh("touch ran", scope="read-only")
    assert not (root / "ran").exists()


@pytest.mark.clause("QLT-1")
@pytest.mark.parametrize("keep", [True, False])
async def test_a_failure_of_one_set_up_is_a_result_with_its_reason(
    make: BoxMaker, git_repo: Callable[..., Path], keep: bool
) -> None:
    """The trial passed, but this call's own mounts can't be made."""
    box = make(git_repo(), keep=keep)
    assert (await box.runner.trial()).ok
    box.private.mkdir()
    if os.geteuid() != 0:
        box.private.chmod(0o500)
        with pytest.raises(SandboxUnavailable, match="temporary folder"):
            await box.sh("touch ran")
        box.private.chmod(0o700)
    else:
        subprocess.run(["mount", "--bind", "-o", "ro", box.private, box.private], check=True)
        try:
            with pytest.raises(SandboxUnavailable, match="temporary folder"):
                await box.sh("touch ran")
        finally:
            subprocess.run(["umount", box.private], check=True)
    assert not (box.root / "ran").exists()
