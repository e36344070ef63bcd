"""The proxy as a sandbox has it: the one way out, for real programs, and no other (BND-10, BND-13)."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.proxy.kit import inside, no_leak, serving

from drawbar.boundary.bubblewrap import Bubblewrap
from drawbar.boundary.proxy import NetworkProxy
from drawbar.boundary.roots import pin_root
from drawbar.boundary.runner import SandboxRunner
from drawbar.contracts.boundary import CommandRequest, CommandResult, Policy
from drawbar.contracts.errors import SandboxUnavailable

pytestmark = pytest.mark.clause("BND-13", "BND-10")

PYTHON = getattr(sys, "_base_executable", sys.executable)


class Web:
    """A plain web server on the machine's loopback, with what it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        web = self

        class Handler(SimpleHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                web.asked.append(self.path)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.port = self._server.server_address[1]
        self.entry = f"127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    folder = tmp_path / "web"
    folder.mkdir()
    (folder / "hello.txt").write_text("hello from outside\n")
    served = Web(folder)
    yield served
    served.close()


class Run:
    """A runner with its proxy, as a run has them."""

    def __init__(self, tmp_path: Path, *listed: str) -> None:
        self.events: list[Any] = []
        root = tmp_path / "work"
        (root / ".git").mkdir(parents=True, exist_ok=True)
        hidden = tmp_path / "harness"
        hidden.mkdir(exist_ok=True)
        pinned = pin_root(root, hidden=[hidden])
        policy = Policy(
            root=pinned, tools=frozenset({"bash"}), scopes=("read-only", "workspace"), network=listed, hidden=(hidden,)
        )
        self.proxy = NetworkProxy(listed, self.events.append)
        self.runner = SandboxRunner(
            policy,
            backend=Bubblewrap(),
            private_tmp=hidden / "private",
            environ=os.environ,
            marker="DRAWBAR_CALL=r_test",
            network=self.proxy,
        )

    async def sh(
        self, command: str, *, hosts: tuple[str, ...] = (), call: str = "c_1", scope: Any = "workspace"
    ) -> CommandResult:
        return await self.runner.run(
            CommandRequest(argv=("/bin/bash", "-c", command), scope=scope, limit_s=60, hosts=hosts, call_id=call)
        )

    async def close(self) -> None:
        await self.runner.close()
        await self.proxy.close()


PROGRAMS = {
    "curl": ("curl", "curl -sSf http://{entry}/hello.txt"),
    "curl through a tunnel": ("curl", "curl -sSfp http://{entry}/hello.txt"),
    "wget": ("wget", "wget -qO- http://{entry}/hello.txt"),
    "python": (
        PYTHON,
        PYTHON + " -c 'import urllib.request as u; print(u.urlopen(\"http://{entry}/hello.txt\").read().decode())'",
    ),
    "node": ("node", "node -e 'fetch(\"http://{entry}/hello.txt\").then(r => r.text()).then(console.log)'"),
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_programs_reach_a_listed_host_without_being_told_how(tmp_path: Path, web: Web, name: str) -> None:
    program, command = PROGRAMS[name]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    if name == "node":
        major = subprocess.run(
            ["node", "-p", "process.versions.node.split('.')[0]"], capture_output=True, text=True, check=True
        )
        if int(major.stdout) < 24:
            pytest.skip("this node's fetch knows no proxy")
    run = Run(tmp_path, web.entry)
    try:
        result = await run.sh(command.replace("{entry}", web.entry))
        assert "hello from outside" in result.output, result
        assert [(event.call_id, event.host, event.port, event.allowed) for event in run.events] == [
            ("c_1", "127.0.0.1", web.port, True)
        ]
    finally:
        await run.close()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_git_clones_over_http(tmp_path: Path, web: Web) -> None:
    source = tmp_path / "source"
    for argv in (
        ["git", "init", "-q", str(source)],
        [
            "git",
            "-C",
            str(source),
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "one",
        ],
        ["git", "clone", "-q", "--bare", str(source), str(web.folder / "r.git")],
        ["git", "-C", str(web.folder / "r.git"), "update-server-info"],
    ):
        subprocess.run(argv, check=True, capture_output=True)
    run = Run(tmp_path, web.entry)
    try:
        result = await run.sh(f"git clone -q http://{web.entry}/r.git c && git -C c log --format=%s")
        assert result.output.strip() == "one", result
    finally:
        await run.close()


async def test_pip_downloads_from_an_index(tmp_path: Path, web: Web) -> None:
    import zipfile

    name = "tiny_thing-1.0-py3-none-any.whl"
    (web.folder / "simple" / "tiny-thing").mkdir(parents=True)
    with zipfile.ZipFile(web.folder / name, "w") as wheel:
        wheel.writestr("tiny_thing.py", "x = 1\n")
        wheel.writestr("tiny_thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n")
        wheel.writestr(
            "tiny_thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("tiny_thing-1.0.dist-info/RECORD", "")
    (web.folder / "simple" / "tiny-thing" / "index.html").write_text(f'<a href="/{name}">{name}</a>')
    if subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        pytest.skip("this interpreter has no pip")
    run = Run(tmp_path, web.entry)
    try:
        result = await run.sh(
            f"{PYTHON} -m pip download -q --disable-pip-version-check --trusted-host 127.0.0.1 "
            f"-i http://{web.entry}/simple tiny-thing -d got && ls got"
        )
        assert name in result.output, result
    finally:
        await run.close()


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
async def test_npm_asks_a_registry(tmp_path: Path, web: Web) -> None:
    (web.folder / "tiny").write_text(
        '{"name": "tiny", "dist-tags": {"latest": "1.2.3"}, '
        '"versions": {"1.2.3": {"name": "tiny", "version": "1.2.3"}}}'
    )
    run = Run(tmp_path, web.entry)
    try:
        result = await run.sh(f"npm view tiny version --registry http://{web.entry}/")
        assert "1.2.3" in result.output, result
        assert all(event.allowed for event in run.events)
    finally:
        await run.close()


ESCAPES = r"""
import ctypes, os, socket, struct, sys
port, abstract = int(sys.argv[1]), sys.argv[2]
def tried(name, way):
    try:
        print(name, "OUT", way())
    except OSError as error:
        print(name, "shut", error.errno)
def tcp(family, address):
    def go():
        with socket.socket(family, socket.SOCK_STREAM) as s:
            s.settimeout(2)
            s.connect(address)
            return s.getpeername()
    return go
def udp(address):
    def go():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(1)
            s.connect(address)
            s.send(b"x")
            return s.recv(9)
    return go
tried("loopback of the machine", tcp(socket.AF_INET, ("127.0.0.1", port)))
tried("an address", tcp(socket.AF_INET, ("93.184.215.14", 80)))
tried("an IPv6 address", tcp(socket.AF_INET6, ("2606:4700:4700::1111", 53)))
tried("a resolver by UDP", udp(("1.1.1.1", 53)))
tried("the machine by UDP", udp(("127.0.0.1", port)))
tried("an abstract socket", tcp(socket.AF_UNIX, "\0" + abstract))
tried("a name", lambda: socket.getaddrinfo("example.com", 80))
tried("raw packets", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
tried("frames", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tried("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
def listen_beside():
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind(("127.0.0.1", 3128))
        s.listen()
tried("the proxy's own port", listen_beside)
for fd in os.listdir("/proc/self/fd"):
    try:
        if os.readlink("/proc/self/fd/" + fd).startswith("socket:"):
            print("descriptor", fd, "OUT")
    except OSError:
        pass
print("tried all")
"""


@pytest.mark.bug("SBX-07")
async def test_nothing_else_gets_out(tmp_path: Path, web: Web) -> None:
    import socket

    name = f"drawbar-test-{os.getpid()}-{web.port}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        run = Run(tmp_path, web.entry)
        try:
            (tmp_path / "work" / "escapes.py").write_text(ESCAPES)
            result = await run.sh(f"{PYTHON} escapes.py {web.port} {name}")
        finally:
            await run.close()
    assert "tried all" in result.output, result
    assert "OUT" not in result.output, result.output
    assert web.asked == []


async def test_without_hosts_there_is_no_listener_and_no_variable(tmp_path: Path, web: Web) -> None:
    run = Run(tmp_path)
    try:
        command = f"env | grep -ic proxy; curl -sS -m 2 -x http://127.0.0.1:3128 http://{web.entry}/hello.txt"
        result = await run.sh(command)
        assert result.output.split()[0] == "0"
        assert "hello" not in result.output
        read_only = await run.sh(
            f"curl -sS -m 2 -x http://127.0.0.1:3128 http://{web.entry}/hello.txt", scope="read-only"
        )
        assert "hello" not in read_only.output
    finally:
        await run.close()


async def test_hosts_of_one_call_are_gone_with_it(tmp_path: Path, web: Web) -> None:
    run = Run(tmp_path)
    fetch = f"curl -sS -m 5 http://{web.entry}/hello.txt"
    try:
        first = await run.sh(fetch, hosts=(web.entry,), call="c_1")
        second = await run.sh(fetch, call="c_2")
    finally:
        await run.close()
    assert "hello from outside" in first.output, first
    assert "hello" not in second.output
    assert [event.call_id for event in run.events] == ["c_1"]


async def test_each_call_of_a_kept_sandbox_is_recorded_as_its_own(tmp_path: Path, web: Web) -> None:
    run = Run(tmp_path, web.entry)
    try:
        for call in ("c_1", "c_2", "c_3"):
            result = await run.sh(f"curl -sS http://{web.entry}/hello.txt", call=call)
            assert "hello" in result.output, result
    finally:
        await run.close()
    assert [event.call_id for event in run.events] == ["c_1", "c_2", "c_3"]


async def test_another_runs_sandbox_has_no_part_in_it(tmp_path: Path, web: Web) -> None:
    private = tmp_path / "private"
    root = tmp_path / "work"
    (root / ".git").mkdir(parents=True)
    events: list[Any] = []
    proxy = NetworkProxy([], events.append)
    probe = f"curl -sS -m 2 -x http://127.0.0.1:3128 http://{web.entry}/hello.txt"
    async with inside(proxy, root, private, probe, hosts=(web.entry,)) as mine:
        async with inside(None, root, private, probe) as other:
            assert "hello" not in await other.output()
        assert "hello" in await mine.output()
    await proxy.close()


@pytest.mark.clause("RUN-10")
async def test_closing_ends_every_connection_at_once(tmp_path: Path) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nbegun\n")
        await reader.read(-1)

    root = tmp_path / "work"
    (root / ".git").mkdir(parents=True)
    async with serving(endless) as server:
        proxy = NetworkProxy([], lambda _payload: None)
        entry = f"127.0.0.1:{server.port}"
        async with inside(
            proxy, root, tmp_path / "private", f"curl -sS -N http://{entry}/; echo code $?", hosts=(entry,)
        ) as box:
            ended = asyncio.create_task(box.output())
            while not server.connections:
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.2)
            began = asyncio.get_running_loop().time()
            await proxy.close()
            assert asyncio.get_running_loop().time() - began < 1
            output = await asyncio.wait_for(ended, 5)
        assert "code 0" not in output
        with pytest.raises(SandboxUnavailable, match="over"):
            await proxy.attach(os.getpid(), hosts=(entry,), call_id="c_1")


async def test_a_process_in_the_machines_own_network_is_not_attached_to() -> None:
    """Attaching by mistake to the harness's own network would open the proxy to the machine."""
    proxy = NetworkProxy([], lambda _payload: None)
    with pytest.raises(SandboxUnavailable, match="no network of its own"):
        await proxy.attach(os.getpid(), hosts=("example.com",), call_id="c_1")
    with pytest.raises(SandboxUnavailable, match="can't be entered"):
        await proxy.attach(2**22 + 1, hosts=("example.com",), call_id="c_1")
    await proxy.close()


async def test_attaching_and_closing_leaves_no_descriptor_and_no_process(tmp_path: Path, web: Web) -> None:
    root = tmp_path / "work"
    (root / ".git").mkdir(parents=True)
    proxy = NetworkProxy([], lambda _payload: None)
    for turn in range(3):
        if turn == 1:
            guard = no_leak()
            guard.__enter__()
        async with inside(
            proxy, root, tmp_path / "private", f"curl -sS http://{web.entry}/hello.txt", hosts=(web.entry,)
        ) as box:
            assert "hello" in await box.output()
        await asyncio.sleep(0.1)
    guard.__exit__(None, None, None)
    await proxy.close()


async def test_many_connections_at_once_all_get_through(tmp_path: Path, web: Web) -> None:
    run = Run(tmp_path, web.entry)
    try:
        result = await run.sh(
            f"seq 150 | xargs -P 50 -I{{}} curl -sS http://{web.entry}/hello.txt | grep -c 'hello from outside'"
        )
    finally:
        await run.close()
    assert result.output.strip() == "150", result
    assert sum(event.count for event in run.events) == 150
    assert len(run.events) < 10
