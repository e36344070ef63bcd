"""What ordinary programs do is not refused (QLT-1, BND-11): the complaints that make people turn a sandbox off."""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import BASE_PYTHON, FIXTURES, Box, bring_pytest, litter

from drawbar.boundary.roots import pin_root

pytestmark = pytest.mark.clause("QLT-1", "BND-11")


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed here: {', '.join(missing)}")


async def python(box: Box, program: str) -> str:
    (box.root / "program.py").write_text(textwrap.dedent(program))
    result = await box.run((BASE_PYTHON, "program.py"))
    assert result.exit_code == 0, result.output
    return result.output


async def test_semaphores_and_shared_memory(box: Box) -> None:
    shown = await python(
        box,
        """
        import multiprocessing as mp
        from multiprocessing.shared_memory import SharedMemory

        def work(lock, name):
            with lock:
                memory = SharedMemory(name=name)
                memory.buf[0] += 1
                memory.close()

        if __name__ == "__main__":
            for method in ("fork", "spawn", "forkserver"):
                context = mp.get_context(method)
                memory = SharedMemory(create=True, size=10)
                lock = context.Lock()
                jobs = [context.Process(target=work, args=(lock, memory.name)) for _ in range(2)]
                [job.start() for job in jobs]
                [job.join() for job in jobs]
                print(method, memory.buf[0], [job.exitcode for job in jobs])
                memory.close()
                memory.unlink()
            with mp.Pool(2) as pool:
                print(sum(pool.map(abs, range(-5, 5))))
        """,
    )
    assert shown == "fork 2 [0, 0]\nspawn 2 [0, 0]\nforkserver 2 [0, 0]\n25\n"


async def test_sockets_inside(box: Box) -> None:
    shown = await python(
        box,
        """
        import asyncio, http.server, os, socket, threading, urllib.request
        server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
        server.RequestHandlerClass.log_message = lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/file.txt").read().decode(), end="")
        six = socket.create_server(("::1", 0), family=socket.AF_INET6)
        socket.create_connection(six.getsockname()[:2]).close()
        for path in ("inside.sock", "/tmp/inside.sock", "\\0abstract"):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            listener.listen()
            socket.socket(socket.AF_UNIX).connect(path)
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            a, b = socket.socketpair(socket.AF_UNIX, kind)
            a.send(b"x")
            assert b.recv(1) == b"x"
        a, b = socket.socketpair()
        socket.send_fds(a, [b"x"], [1])
        assert socket.recv_fds(b, 1, 1)[1]

        async def main():
            process = await asyncio.create_subprocess_shell("cat", stdin=-1, stdout=-1)
            print((await process.communicate(b"piped"))[0].decode())
        asyncio.run(main())
        os.unlink("inside.sock")
        """,
    )
    assert shown == "aaa\npiped\n"


@needs("script")
async def test_terminals_of_its_own(box: Box) -> None:
    shown = await box.text("script -qec 'tty; stty size; bash -ic \"sleep 0.1 & jobs; fg; echo done\"' /dev/null")
    assert "/dev/pts/" in shown
    assert "done" in shown
    assert "no job control" not in shown
    listed = await python(
        box,
        """
        import os, pty
        main, side = os.openpty()
        print(os.ttyname(side))
        pid, fd = pty.fork()
        if pid == 0:
            os.execlp("sh", "sh", "-c", "tty; echo $((6*7))")
        text = b""
        try:
            while data := os.read(fd, 1000):
                text += data
        except OSError:
            pass
        print(text.decode())
        """,
    )
    assert "42" in listed


async def test_job_control_and_signals(box: Box) -> None:
    shown = await box.text(
        "set -m; exec 2>/dev/null; sleep 5 & jobs -r | grep -c sleep; kill %1; wait %1; echo $?; "
        "trap 'echo interrupted' INT; (sleep 0.1; kill -INT $$) & wait; sleep 0.3; timeout 0.1 sleep 5; echo $?"
    )
    assert shown.split() == ["1", "143", "interrupted", "124"]


async def test_interrupt_is_not_ignored(box: Box) -> None:
    shown = await python(box, "import signal; print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))")
    assert "default_int_handler" in shown
    assert shown.split()[-1] in ("0", "Handlers.SIG_DFL")


NAMES = [
    b"plain",
    b"sp ace",
    b"new\nline",
    b"tab\t",
    b"back\\slash",
    b"'quote\"",
    b"caf\xc3\xa9",
    b"\xff\xfe",
    b"-dash",
    b"#hash",
    b"\xe2\x80\xae",
]


@pytest.mark.parametrize("name", NAMES, ids=repr)
async def test_roots_and_files_of_any_name(
    make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path, name: bytes
) -> None:
    root = Path(os.fsdecode(bytes(tmp_path) + b"/ws" + name))
    git_repo({"file.txt": "a\n", ".drawbar/config.toml": "\n"}, name=root.name)
    (root / os.fsdecode(name)).write_bytes(b"odd")
    box = make(root)
    result = await box.sh('cat ./*; cp -- file.txt "copy of"; pwd; git add -A; git commit -qm odd; git status --short')
    assert result.exit_code == 0, result
    assert "odd" in result.output
    assert (root / "copy of").read_text() == "a\n"
    config = (root / ".git" / "config").read_bytes()
    await box.sh("echo x >.git/config")
    assert (root / ".git" / "config").read_bytes() == config
    assert (await box.sh("ls -A", scope="read-only")).cause == "ok"


async def test_a_root_reached_through_a_symlink(make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path) -> None:
    root = git_repo()
    (tmp_path / "link").symlink_to(root)
    box = make(tmp_path / "link" / ".")
    assert box.root == root
    assert await box.text("pwd -P; echo x >made; cat made") == f"{root}\nx\n"


async def test_commands_start_in_the_working_directory(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    root = git_repo({"sub/deep/x": "1\n"})
    box = make(root / "sub" / "deep")
    assert box.root == root
    assert await box.text("pwd; cat x") == f"{root}/sub/deep\n1\n"
    assert await box.text("pwd", cwd=root / "sub") == f"{root}/sub\n"
    assert await box.text("pwd", cwd=root / "sub", scope="read-only") == f"{root}/sub\n"


@pytest.mark.bug("SBX-04")
async def test_a_link_out_of_the_workspace_is_explained(make: BoxMaker, far: Path) -> None:
    subprocess.run(["bash", FIXTURES / "SBX-04" / "make.sh", far], check=True, capture_output=True)
    box = make(far / "ws")
    assert await box.text("cat backend/a.txt") == "x\n"
    for command in ("echo y >backend/a.txt", "touch backend/new", "rm backend/a.txt", "mkdir backend/d"):
        result = await box.sh(command)
        assert result.exit_code != 0
        assert result.denial is not None
        assert f"{far}/repos/backend" in result.denial
        assert f"--cwd {far}/repos/backend" in result.denial


@needs("npm", "node")
async def test_npm_with_a_private_cache_offline(box: Box) -> None:
    (box.root / "dep").mkdir()
    (box.root / "dep" / "package.json").write_text('{"name": "dep", "version": "1.0.0", "main": "i.js"}')
    (box.root / "dep" / "i.js").write_text("module.exports = 42")
    (box.root / "package.json").write_text(
        '{"name": "top", "dependencies": {"dep": "file:./dep"}, "scripts": {"t": "node -p \\"require(\'dep\')\\""}}'
    )
    await box.text("npm install --offline --no-audit --no-fund", limit_s=90)
    assert "42" in await box.text("npm run -s t", limit_s=60)
    assert (await box.text("npm config get cache")).strip().endswith("/.cache/npm")
    assert await box.text("ls -A ~/.cache/npm | head -1")


@pytest.mark.slow
async def test_pip_and_virtual_environments_offline(box: Box) -> None:
    (box.root / "pkg").mkdir()
    (box.root / "pkg" / "one.py").write_text("VALUE = 41 + 1\n")
    await box.text(f"{BASE_PYTHON} -m venv .venv && .venv/bin/python -m pip --version", limit_s=90)
    await box.text(".venv/bin/python -m pip install --no-index --find-links . pip", limit_s=60)
    assert "42" in await box.text("PYTHONPATH=pkg .venv/bin/python -c 'import one; print(one.VALUE)'")
    assert "/.cache/" in await box.text(".venv/bin/python -m pip cache dir")


@pytest.mark.slow
async def test_pytest_with_workers(box: Box) -> None:
    pytest.importorskip("xdist")
    (box.root / "test_it.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_it(n, tmp_path): assert tmp_path.exists()\n"
    )
    (box.root / "lib").mkdir()
    bring_pytest(box.root / "lib")
    run = f"PYTHONPATH=lib {BASE_PYTHON} -m pytest -q -n2 -p no:cacheprovider test_it.py"
    shown = await box.text(run, limit_s=90)
    assert "6 passed" in shown


@needs("gcc", "make")
async def test_compilers_and_make(box: Box) -> None:
    (box.root / "a.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    (box.root / "Makefile").write_text("a: a.c\n\tgcc -o a a.c\nrun: a\n\t./a\n")
    assert "built" in await box.text("make -j4 run", limit_s=60)


async def test_files_as_programs_use_them(box: Box) -> None:
    shown = await python(
        box,
        """
        import fcntl, mmap, os, sqlite3, tempfile
        with tempfile.NamedTemporaryFile() as file:
            print(file.name.startswith("/tmp/"))
        with open("lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            fcntl.lockf(file, fcntl.LOCK_EX)
        db = sqlite3.connect("d.sqlite")
        db.execute("pragma journal_mode=wal")
        db.execute("create table t(x)")
        db.close()
        os.link("file.txt", "hard")
        os.symlink("file.txt", "soft")
        os.rename("hard", "harder")
        os.mkfifo("pipe")
        os.chmod("soft", 0o600)
        os.setxattr("file.txt", "user.note", b"x")
        fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
        with open("m", "w+b") as file:
            file.truncate(4096)
            mmap.mmap(file.fileno(), 4096)[0] = 1
        os.posix_fallocate(os.open("big", os.O_CREAT | os.O_RDWR), 0, 1 << 20)
        watch = os.eventfd(0)
        memfd = os.memfd_create("x")
        os.sched_setaffinity(0, os.sched_getaffinity(0))
        os.umask(0o022)
        print("done")
        """,
    )
    assert shown == "True\ndone\n"
    assert litter(box.root) >= {"harder", "soft", "pipe", "m", "big", "d.sqlite"}


async def test_temporary_folders_are_as_everywhere(box: Box) -> None:
    shown = await box.text(
        "stat -c '%a %n' /tmp /var/tmp /dev/shm; mktemp; mktemp -d -p /var/tmp; echo $TMPDIR; ls -d ~"
    )
    assert shown.startswith("1777 /tmp\n1777 /var/tmp\n1777 /dev/shm\n/tmp/tmp.")


async def test_settings_of_git_hold_and_programs_are_found(
    make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / ".cargo" / "bin").mkdir(parents=True)
    (home / ".cargo" / "bin" / "tool").write_text("#!/bin/sh\necho tool\n")
    (home / ".cargo" / "bin" / "tool").chmod(0o755)
    (home / "dotfiles").mkdir()
    (home / "dotfiles" / "gitconfig").write_text("[user]\nname = From Home\n[core]\nexcludesFile = ~/ignored-names\n")
    (home / ".gitconfig").symlink_to(home / "dotfiles" / "gitconfig")
    (home / "ignored-names").write_text("*.log\n")
    environ = {"HOME": str(home), "PATH": f"{home}/.cargo/bin:{os.environ['PATH']}", "LANG": "C.UTF-8"}
    root = git_repo()
    (root / "x.log").write_text("")
    box = make(root, environ=environ)
    assert await box.text("tool; git config user.name; git status --short; echo ~") == f"tool\nFrom Home\n{home}\n"


async def test_a_workspace_below_the_home(make: BoxMaker, git_repo: Callable[..., Path], tmp_path: Path) -> None:
    """The usual place of a project: the home around it is masked, the project is not."""
    home = tmp_path / "home"
    home.mkdir()
    root = git_repo(name="home/project")
    (home / "private.txt").write_text("private")
    (home / "other-project").mkdir()
    box = make(root, environ={"HOME": str(home), "PATH": os.environ["PATH"]})
    assert await box.text("ls -A ~") == ".cache\nproject\n"
    assert await box.text("echo x >y; cat y; git status --short; cd ..; ls") == "x\n?? y\nproject\n"
    assert (await box.sh("echo x >~/new")).exit_code != 0
    assert pin_root(root, hidden=[], home=home).path == root


async def test_a_machine_without_a_usable_home(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    for home in ("/", "/nonexistent", "relative", ""):
        box = make(git_repo(name=f"repo{len(home)}"), environ={"HOME": home, "PATH": os.environ["PATH"]})
        assert await box.text("cd ~; pwd; echo x >~/f; cat ~/f; echo $XDG_CACHE_HOME; mkdir -p $XDG_CACHE_HOME") == (
            "/tmp\nx\n/tmp/.cache\n"
        )
