"""Attempts to get out of the sandbox, each by a real program inside (BND-9, BND-10)."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import Box, litter

from drawbar.boundary.environment import command_environment
from drawbar.contracts.capability import Scope

ATTACKS = Path(__file__).with_name("attacks.py")
PYTHON = "/usr/bin/python3"
SCOPES: tuple[Scope, ...] = ("workspace", "read-only")
SCOPES_OF_AN_ENVIRONMENT: tuple[Scope, ...] = (*SCOPES, "outside")

pytestmark = pytest.mark.skipif(not os.access(PYTHON, os.X_OK), reason="the attacks need the system's own Python")


@pytest.fixture(params=SCOPES)
def scope(request: pytest.FixtureRequest) -> Scope:
    return request.param


async def attempt(box: Box, *attack: str, scope: Scope = "workspace") -> str:
    shutil.copy(ATTACKS, box.root / ".attacks.py")
    result = await box.run((PYTHON, ".attacks.py", *attack), scope=scope)
    (box.root / ".attacks.py").unlink()
    return result.output.strip()


@pytest.mark.clause("BND-10")
@pytest.mark.parametrize(
    "name",
    [
        "ptrace",
        "traceme",
        "process_memory",
        "io_uring",
        "bpf",
        "keyctl",
        "add_key",
        "perf",
        "userfaultfd",
        "unshare_user",
        "unshare_mount",
        "clone_user",
        "clone3_user",
        "setns",
        "mount_tmpfs",
        "remount_writable",
        "new_mount_api",
        "open_tree",
        "pivot_root",
        "chroot",
        "file_handle",
        "pidfd_getfd",
        "kernel_module",
        "foreign_call",
        "x32_call",
        "terminal_injection",
        "families",
        "lease_on_output",
        "signal_others",
        "lock_on_terminal",
    ],
)
async def test_refused_by_the_kernel(box: Box, name: str) -> None:
    assert (await attempt(box, name)).startswith("refused")


@pytest.mark.clause("BND-10")
def test_the_attacks_work_without_the_sandbox() -> None:
    """What is refused inside is possible here: else the attempts above would show nothing."""
    possible = {
        name
        for name in ("traceme", "process_memory", "pidfd_getfd", "x32_call", "lease_on_output", "clone_user", "keyctl")
        if "achieved" in subprocess.run([PYTHON, ATTACKS, name], capture_output=True, text=True, check=False).stdout
    }
    if os.access("/proc/self/uid_map", os.W_OK):
        assert {"traceme", "process_memory", "pidfd_getfd"} <= possible


@pytest.mark.clause("BND-10", "BND-9")
async def test_privileges_are_gone(box: Box, scope: Scope) -> None:
    status = await box.text("cat /proc/self/status", scope=scope)
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    for which in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(facts[which], 16) == 0
    assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
    spaces = await box.text("for n in user pid ipc uts net mnt cgroup; do readlink /proc/self/ns/$n; done", scope=scope)
    for line in spaces.split():
        kind = line.partition(":")[0]
        assert line != os.readlink(f"/proc/self/ns/{kind}"), f"the {kind} namespace is the machine's"


@pytest.mark.clause("BND-10")
async def test_kernel_settings_are_read_only(box: Box, scope: Scope) -> None:
    for path in (
        "kernel/core_pattern",
        "vm/overcommit_memory",
        "kernel/hostname",
        "fs/file-max",
        "net/ipv4/ip_forward",
    ):
        before = Path("/proc/sys", path).read_text()
        result = await box.sh(f"echo 1 >/proc/sys/{path}", scope=scope)
        assert result.exit_code != 0
        assert Path("/proc/sys", path).read_text() == before
    assert (await box.sh("echo b >/proc/sysrq-trigger", scope=scope)).exit_code != 0
    assert (await box.sh("echo x >/sys/kernel/uevent_helper", scope=scope)).exit_code != 0


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder beside the workspace, and one in the system's tree that the test's user may write."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious.txt").write_text("precious")
    yield folder
    assert (folder / "precious.txt").read_text() == "precious"
    assert sorted(path.name for path in folder.iterdir()) == ["precious.txt"]


@pytest.fixture
def shown(far: Path) -> Iterator[Path]:
    """A folder elsewhere that the sandbox shows, with something to lose."""
    (far / "precious.txt").write_text("precious")
    yield far
    assert (far / "precious.txt").read_text() == "precious"
    assert sorted(path.name for path in far.iterdir()) == ["precious.txt"]


WRITES = {
    "append": "echo x >>{t}/precious.txt",
    "create": "echo x >{t}/new.txt",
    "remove": "rm -f {t}/precious.txt",
    "rename over": "echo x >mine; mv mine {t}/precious.txt",
    "rename away": "mv {t}/precious.txt stolen",
    "hard link in": "ln {t}/precious.txt alias && echo x >>alias",
    "hard link out": "echo x >mine; ln mine {t}/link",
    "symlink to file": "ln -s {t}/precious.txt link; echo x >>link",
    "symlink to folder": "ln -s {t} link; echo x >link/new.txt",
    "dangling symlink": "ln -s {t}/new.txt link; echo x >link",
    "through proc root": "echo x >/proc/self/root{t}/new.txt",
    "through proc cwd": "cd {t}; echo x >/proc/self/cwd/new.txt",
    "through the supervisor": "echo x >/proc/1/root{t}/new.txt",
    "mode": "chmod 777 {t}/precious.txt",
    "owner": "chown 1:1 {t}/precious.txt",
    "time": "touch {t}/precious.txt",
    "attribute": "setfattr -n user.x -v y {t}/precious.txt",
    "truncate": "truncate -s 0 {t}/precious.txt",
    "pipe": "mkfifo {t}/pipe",
    "remount": "mount -o remount,rw,bind {t}",
    "new namespace": "unshare -Urm sh -c 'mount --bind . {t}; echo x >{t}/new.txt'",
    "nested sandbox": "bwrap --bind / / -- sh -c 'echo x >{t}/new.txt'",
    "by python": "python3 -c \"open('{t}/new.txt','w').write('x')\"",
    "by dd": "dd if=/dev/zero of={t}/precious.txt bs=1 count=1 conv=notrunc",
}


@pytest.mark.clause("BND-9", "BND-10")
@pytest.mark.parametrize("how", WRITES)
async def test_no_write_reaches_outside(box: Box, scope: Scope, shown: Path, outside: Path, how: str) -> None:
    for target in (shown, outside):
        await box.sh(WRITES[how].replace("{t}", str(target)), scope=scope)


@pytest.mark.clause("BND-9", "BND-10")
@pytest.mark.parametrize("how", ["append", "create", "remove", "mode", "truncate", "by python"])
async def test_a_refused_write_fails_visibly(box: Box, shown: Path, how: str) -> None:
    result = await box.sh("set -e; " + WRITES[how].replace("{t}", str(shown)))
    assert result.exit_code not in (0, None)
    assert result.denial is not None
    assert "workspace root" in result.denial


@pytest.mark.clause("BND-9")
async def test_system_folders_are_read_only(box: Box, scope: Scope) -> None:
    for folder in (
        "/",
        "/etc",
        "/usr",
        "/usr/bin",
        "/var",
        "/var/lib",
        "/opt",
        "/boot",
        "/sys",
        "/dev/pts/../..",
        "/root",
    ):
        if not os.path.isdir(folder):
            continue
        result = await box.sh(f"echo x >{folder}/drawbar-test-escape", scope=scope)
        assert result.exit_code != 0, folder
        assert not os.path.exists(f"{folder}/drawbar-test-escape")


@pytest.mark.bug("PLN-01")
@pytest.mark.clause("BND-9", "PLAN-2")
async def test_read_only_changes_nothing_in_the_workspace(box: Box) -> None:
    from tests.sandbox.kit import FIXTURES

    before = _state(box.root)
    for command in (FIXTURES / "PLN-01" / "commands.txt").read_text().splitlines():
        result = await box.sh(command, scope="read-only")
        assert result.exit_code != 0, command
    for command in (
        "rm -rf .git",
        "git commit -qm x --allow-empty",
        "mv src src2",
        "ln file.txt f2",
        "chmod 0 file.txt",
    ):
        assert (await box.sh(command, scope="read-only")).exit_code != 0, command
    assert _state(box.root) == before
    shown = await box.text(
        "cat file.txt; git log --oneline; git status --short; ls; grep -r print src", scope="read-only"
    )
    assert "aaa" in shown
    assert "Begin" in shown
    assert _state(box.root) == before, "reading leaves no trace either"


@pytest.mark.clause("BND-9")
async def test_read_only_has_a_discarded_temporary_folder(box: Box) -> None:
    assert "x" in await box.text("echo x >/tmp/note; cat /tmp/note; echo y >$TMPDIR/n2", scope="read-only")
    assert await box.text("ls -A /tmp | grep -c note || true", scope="read-only") == "0\n"
    assert await box.text("ls -A /tmp | grep -c note || true", scope="workspace") == "0\n"


@pytest.mark.clause("BND-9")
async def test_the_private_folder_is_kept_for_the_session(make: BoxMaker, box: Box) -> None:
    await box.text("echo one >/tmp/a; echo two >/var/tmp/b; echo three >~/.cache/c; echo four >/dev/shm/d")
    again = make(box.root)
    assert await again.text("cat /tmp/a /var/tmp/b ~/.cache/c") == "one\ntwo\nthree\n"
    assert (await again.sh("cat /dev/shm/d")).exit_code != 0, "memory is not kept"
    assert not Path("/tmp/a").exists()
    assert not Path("/var/tmp/b").exists()


@contextmanager
def listening(family: int, address: str | tuple[str, int]) -> Iterator[socket.socket]:
    server = socket.socket(family, socket.SOCK_STREAM)
    server.bind(address)
    server.listen()
    stop = threading.Event()

    def serve() -> None:
        server.settimeout(0.1)
        while not stop.is_set():
            try:
                server.accept()[0].close()
            except OSError:
                continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server
    finally:
        stop.set()
        thread.join()
        server.close()


@pytest.mark.clause("BND-9", "BND-10")
async def test_no_network(box: Box, scope: Scope) -> None:
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            pass
        assert (await attempt(box, "connect", "tcp", f"127.0.0.1:{port}", scope=scope)).startswith("refused")
    assert (await attempt(box, "connect", "tcp", "192.0.2.1:80", scope=scope)).startswith("refused")
    assert (await box.text("cat /proc/net/dev | grep -c :", scope=scope)).strip() == "1"
    lookup = await box.sh("getent hosts example.com; curl -sS http://example.com", scope=scope)
    assert lookup.exit_code != 0


@pytest.mark.clause("BND-10", "BND-16")
async def test_no_host_socket_is_reachable(box: Box, scope: Scope, far: Path, tmp_path: Path) -> None:
    name = f"@drawbar-test-{os.getpid()}"
    paths = [box.root / "in-root.sock", tmp_path / "beside.sock", box.hidden / "hidden.sock"]
    with listening(socket.AF_UNIX, "\0" + name[1:]):
        assert (await attempt(box, "connect", "stream", name, scope=scope)).startswith("refused")
    for path in paths:
        with listening(socket.AF_UNIX, str(path)):
            assert (await attempt(box, "connect", "stream", str(path), scope=scope)).startswith("refused"), path
        path.unlink()
    with_spaces = far / "a socket"
    with listening(socket.AF_UNIX, str(with_spaces)):
        assert (await attempt(box, "connect", "stream", str(with_spaces), scope=scope)).startswith("refused")
    with_spaces.unlink()
    datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    datagrams.bind(str(far / "log"))
    assert (await attempt(box, "connect", "datagram", str(far / "log"), scope=scope)).startswith("refused")
    datagrams.close()
    (far / "log").unlink()
    for known in ("/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/user"):
        assert (await box.sh(f"test -e {known}", scope=scope)).exit_code != 0


@pytest.mark.clause("BND-10")
async def test_devices_of_the_machine_are_out_of_reach(box: Box) -> None:
    shown = (await box.text("ls /dev")).split()
    assert not {"mem", "kmem", "port", "kmsg", "sda", "vda", "nvme0n1", "loop0", "kvm", "fuse"} & set(shown)
    assert (await attempt(box, "make_device", "disk")).startswith("refused")
    for disk in Path("/sys/block").iterdir():
        assert (await box.sh(f"head -c 1 /dev/{disk.name}")).exit_code != 0


@pytest.mark.clause("BND-10")
async def test_nothing_can_be_unmounted(box: Box) -> None:
    for path in (
        "/",
        "/tmp",
        f"/tmp/{box.root.parts[2]}",
        str(box.root),
        f"{box.root}/.git/hooks",
        "/proc/sys",
        "/home",
    ):
        assert (await attempt(box, "unmount", path)).startswith("refused"), path


@pytest.mark.clause("BND-10", "BND-11")
async def test_a_crash_leaves_no_core_and_calls_no_handler(box: Box, scope: Scope) -> None:
    """A limit of one byte keeps the kernel from starting the machine's crash handler as root."""
    limits = await box.text("cat /proc/self/limits; ulimit -c unlimited 2>/dev/null; ulimit -H -c", scope=scope)
    line = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
    assert line.split()[4:6] == ["1", "1"]
    await box.sh("kill -SEGV $$", scope=scope)
    assert not list(box.root.glob("core*"))


@pytest.mark.clause("BND-10", "QLT-1")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has powers to lose")
async def test_roots_commands_have_no_power_over_other_users_files(make: BoxMaker, far: Path) -> None:
    root = far / "theirs"
    root.mkdir(mode=0o755)
    (root / "file.txt").write_text("a")
    for path in (root, root / "file.txt"):
        os.chown(path, 1234, 1234)
    result = await make(root).sh("echo x >>file.txt")
    assert result.exit_code != 0
    assert result.denial is not None
    assert "belongs to user 1234" in result.denial


@pytest.mark.clause("BND-10")
async def test_the_environment_is_a_list_without_secrets(make: BoxMaker, box: Box, scope: Scope) -> None:
    environ = {
        **dict.fromkeys(("ANTHROPIC_API_KEY", "GH_TOKEN", "AWS_SECRET_ACCESS_KEY", "MY_PASSWORD"), "secret"),
        **dict.fromkeys(("SSH_AUTH_SOCK", "DOCKER_HOST", "DBUS_SESSION_BUS_ADDRESS", "LD_PRELOAD", "BASH_ENV"), "/x"),
        **dict.fromkeys(("ENV", "PYTHONSTARTUP", "NODE_OPTIONS", "GIT_DIR", "GIT_SSH_COMMAND"), "/x"),
        "PYTHONPATH": "http://user:secret-url@host/",
        "PATH": f".::relative:{os.environ['PATH']}",
        "HOME": os.environ["HOME"],
        "LANG": "C.UTF-8",
        "LC_TIME": "C",
        "UNKNOWN": "unknown",
    }
    shown = await make(box.root, environ=environ).text("env", scope=scope)
    values = dict(line.split("=", 1) for line in shown.splitlines())
    assert "secret" not in shown
    for name in ("SSH_AUTH_SOCK", "DOCKER_HOST", "LD_PRELOAD", "BASH_ENV", "ENV", "GIT_DIR", "NODE_OPTIONS", "UNKNOWN"):
        assert name not in values
    assert values["LANG"] == "C.UTF-8"
    assert values["LC_TIME"] == "C"
    assert values["DRAWBAR_CALL"] == "r_test"
    assert all(entry.startswith("/") for entry in values["PATH"].split(":"))


@pytest.mark.clause("BND-10")
@pytest.mark.parametrize("which", SCOPES_OF_AN_ENVIRONMENT)
def test_no_secret_gets_in_under_an_innocent_name(which: Scope) -> None:
    token = "q8Zt3LmX0vB7nRw2Yk5c"
    environ = {
        "SERVICE_TOKEN": token,
        "CFLAGS": f"-O2 -DTOKEN={token}",
        "DEBUG": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
        "GOFLAGS": "-mod=mod",
        "LANG": "C.UTF-8",
        "BASH_FUNC_ls%%": "() { :; }",
        **dict.fromkeys(("PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "LD_LIBRARY_PATH", "GIT_CONFIG_GLOBAL"), "x"),
        **dict.fromkeys(("DBUS_SYSTEM_BUS_ADDRESS", "XAUTHORITY", "GPG_AGENT_INFO", "PROMPT_COMMAND", "PS4"), "x"),
    }
    shown = dict(command_environment(environ, which))
    assert shown["GOFLAGS"] == "-mod=mod"
    assert shown["LANG"] == "C.UTF-8"
    assert set(environ) & set(shown) == {"GOFLAGS", "LANG"}
    assert not any(token in value for value in shown.values())


@pytest.mark.clause("BND-10")
async def test_what_the_kernel_tells_root_is_hidden(box: Box, scope: Scope) -> None:
    """As root too: keys and addresses of the kernel, and no file of it takes a write."""
    for path in ("/proc/kallsyms", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/kcore"):
        if os.path.exists(path):
            assert await box.text(f"cat {path} 2>/dev/null | wc -c", scope=scope) == "0\n", path
    for folder in ("/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security"):
        shown = await box.sh(f"ls -A {folder} 2>/dev/null | wc -l", scope=scope)
        assert shown.output == "0\n", folder
    # Each process may set a few things about itself, and ask for word of the machine's load.
    writable = await box.sh(
        "find /proc /sys -maxdepth 3 -type f ! -path '/proc/*[0-9]/*' ! -path '/proc/*self/*' -writable 2>/dev/null",
        scope=scope,
    )
    masked = {f"/proc/{name}" for name in ("kallsyms", "keys", "key-users", "timer_list", "kcore")}
    open_to_all = {line for line in writable.output.split() if not line.startswith("/proc/pressure/")} - masked
    assert open_to_all <= {"/proc/mtrr"}, "which asks for a capability besides"
    for path in ("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/pids/tasks"):
        if os.path.exists(path):
            assert (await box.sh(f"echo $$ >{path}", scope=scope)).exit_code != 0, path


@pytest.mark.clause("BND-10")
async def test_nothing_of_other_processes_and_nothing_shared_shows(box: Box, scope: Scope) -> None:
    pids = {int(pid) for pid in (await box.text("ls /proc | grep '^[0-9]'; true", scope=scope)).split()}
    assert max(pids) < 50
    assert str(os.getpid()) not in map(str, pids) or os.getpid() < 50
    assert (await box.text("tail -n +2 /proc/sysvipc/shm | wc -l; ls -A /dev/shm | wc -l", scope=scope)) == "0\n0\n"
    names = set((await box.text("ls /dev", scope=scope)).split())
    assert names <= {"console", "core", "fd", "full", "null", "ptmx", "pts", "random", "shm"} | {
        "stderr", "stdin", "stdout", "tty", "urandom", "zero",
    }  # fmt: skip
    assert (await box.sh("su -c id nobody </dev/null; sudo -n true", scope=scope)).exit_code != 0


@pytest.mark.clause("BND-10")
async def test_state_of_services_is_hidden_and_records_of_packages_are_not(box: Box, scope: Scope) -> None:
    for folder in ("/var/lib/systemd", "/var/lib/private", "/var/lib/postgresql", "/var/spool/cron"):
        assert (await box.sh(f"ls {folder}", scope=scope)).exit_code != 0, folder
    if os.path.exists("/var/lib/dpkg/status"):
        assert await box.text("head -c 8 /var/lib/dpkg/status", scope=scope) == "Package:"


@pytest.mark.clause("BND-10")
async def test_a_planted_mount_point_in_the_private_folder_leads_nowhere(make: BoxMaker, box: Box, shown: Path) -> None:
    """bubblewrap before 0.12 would follow the link and make files on the machine (CVE-2026-87766)."""
    first = box.root.parts[2]
    await box.text("true")
    for victim in (shown, Path(f"/oldroot{shown}")):
        await box.sh(f"rm -rf /tmp/{first}; ln -s {victim} /tmp/{first}; mv /tmp/{first} /tmp/x; ln -s {victim} /tmp/y")
        again = make(box.root)
        assert (await again.sh("pwd; echo kept >kept")).output.strip() == str(box.root)
    assert (box.root / "kept").exists()


@pytest.mark.clause("BND-10", "BND-11")
async def test_a_symlink_in_the_place_of_a_mount_point_refuses_the_call(make: BoxMaker, box: Box, shown: Path) -> None:
    from drawbar.contracts.errors import SandboxUnavailable

    await box.text("true")
    private = next(path for path in box.private.iterdir() if path.name.startswith("tmp-"))
    anchor = private / "0" / box.root.parts[2]
    anchor.rmdir()
    anchor.symlink_to(shown)
    with pytest.raises(SandboxUnavailable, match="was replaced"):
        await make(box.root).sh("true")


@pytest.mark.clause("BND-11")
async def test_no_litter(box: Box) -> None:
    before = litter(box.root)
    for scope in SCOPES:
        await box.sh("true", scope=scope)
        await box.sh("cat ~/.bashrc; git status; exit 3", scope=scope)
        await box.sh("kill -SEGV $$", scope=scope)
    await box.sh("sleep 60", limit_s=0.2)
    assert litter(box.root) == before
    assert (
        subprocess.run(["git", "status", "--short", "--ignored"], cwd=box.root, capture_output=True, check=True).stdout
        == b""
    )


def _state(root: Path) -> dict[str, tuple[int, int, int, int]]:
    """Every file's mode, size, modification time and inode."""
    found: dict[str, tuple[int, int, int, int]] = {}
    for path in [root, *root.rglob("*")]:
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino)
    return found
