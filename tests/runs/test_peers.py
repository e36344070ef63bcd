"""Nothing that the model starts can answer for a person, whatever it does to its parents and its name (BND-16)."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.runs.kit import bench, environment_for, of
from tests.sandbox.kit import BASE_PYTHON

from drawbar.contracts.boundary import Approval, ApprovalAsk
from drawbar.contracts.errors import NotPermitted
from drawbar.runs.control import ControlServer, socket_folder
from drawbar.runs.peers import MARKER, Peer, may_answer, peer_of
from drawbar.testing.scripted_model import say, use


async def answer(params: Mapping[str, Any], peer: Peer) -> Any:
    may_answer(peer, ())
    return "allowed"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ControlServer]:
    with tempfile.TemporaryDirectory(prefix="drawbar-") as runtime:
        server = ControlServer(socket_folder(tmp_path / "data", {"XDG_RUNTIME_DIR": runtime}), {"answer": answer})
        await server.start()
        yield server
        await server.close()


# What a process does between connecting and answering. Its first line leaves the family of whoever started it, as
# far as that is possible; REPLY is written last.
HEAD = """
import json, os, socket, subprocess, sys, time
path, reply, before = sys.argv[1:4]
def connect():
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection
def send(connection):
    connection.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "answer", "params": {}}).encode() + b"\\n")
    got = connection.makefile().readline()
    open(reply + ".part", "w").write(got)
    os.rename(reply + ".part", reply)
def leave():
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    os.setsid()
    while os.getppid() == parent:
        time.sleep(0.01)
"""
SEND = "import sys; exec(sys.argv[4]); send(socket.socket(fileno=int(sys.argv[5])))"


async def reply_of(tmp_path: Path, server: ControlServer, script: str, env: dict[str, str] | None = None) -> Any:
    """What the owner said to the process that ``script`` made."""
    reply = tmp_path / "reply"
    argv = [sys.executable, "-c", HEAD + textwrap.dedent(script), str(server.path), str(reply), HEAD]
    process = await asyncio.create_subprocess_exec(*argv, env={**os.environ, **(env or {})})
    await process.wait()
    for _ in range(1000):
        if reply.exists():
            return json.loads(reply.read_text() or "null")
        await asyncio.sleep(0.01)
    raise AssertionError("no reply")


def refused(reply: Any, why: str) -> bool:
    return reply["error"]["data"]["code"] == "not_permitted" and why in reply["error"]["message"]


@pytest.mark.clause("BND-16")
async def test_another_terminal_of_the_same_user_may_answer(tmp_path: Path, server: ControlServer) -> None:
    assert (await reply_of(tmp_path, server, "leave(); send(connect())")).get("result") == "allowed"


@pytest.mark.clause("BND-16")
async def test_a_process_that_connects_first_and_leaves_its_family_then_is_still_known(
    tmp_path: Path, server: ControlServer
) -> None:
    script = """
    parent = os.getpid()
    if os.fork():
        time.sleep(0.5)  # until the owner has accepted
        os._exit(0)
    connection = connect()
    os.setsid()
    while os.getppid() == parent:
        time.sleep(0.01)
    send(connection)
    """
    assert refused(await reply_of(tmp_path, server, script), "process of a run")


@pytest.mark.clause("BND-16")
async def test_a_connection_handed_to_a_child_is_its_first_owners(tmp_path: Path, server: ControlServer) -> None:
    script = """
    connection = connect()
    time.sleep(0.3)
    leave()
    send(connection)
    """
    assert refused(await reply_of(tmp_path, server, script), "gone")


@pytest.mark.clause("BND-16")
async def test_becoming_another_program_after_connecting_takes_no_marker_away(
    tmp_path: Path, server: ControlServer
) -> None:
    script = f"""
    leave()
    connection = connect()
    connection.set_inheritable(True)
    time.sleep(0.3)
    argv = [sys.executable, "-c", {SEND!r}, path, reply, before, before, str(connection.fileno())]
    os.execve(sys.executable, argv, {{}})
    """
    assert refused(await reply_of(tmp_path, server, script, {MARKER: "c_1"}), "tool call")


@pytest.mark.clause("BND-16")
async def test_a_clean_environment_below_a_marked_parent_hides_nothing(tmp_path: Path, server: ControlServer) -> None:
    script = """
    leave()
    child = "import sys; exec(sys.argv[3]); send(connect())"
    subprocess.run([sys.executable, "-c", child, path, reply, before], env={})
    """
    assert refused(await reply_of(tmp_path, server, script, {MARKER: "c_1"}), "tool call")


@pytest.mark.clause("BND-16")
@pytest.mark.skipif(os.geteuid() != 0, reason="making a PID namespace without a user namespace needs root")
async def test_another_pid_namespace_is_refused_outside_the_family_too(tmp_path: Path, server: ControlServer) -> None:
    script = """
    leave()
    child = "import sys; exec(sys.argv[3]); send(connect())"
    subprocess.run(["unshare", "--pid", "--fork", sys.executable, "-c", child, path, reply, before], env={})
    """
    assert refused(await reply_of(tmp_path, server, script), "another PID namespace")


@contextlib.contextmanager
def stranger() -> Iterator[int]:
    """A sleeping process outside of this one's family."""
    code = (
        "import subprocess as s; quiet = dict(stdout=s.DEVNULL, stderr=s.DEVNULL)\n"
        "print(s.Popen(['sleep', '60'], start_new_session=True, **quiet).pid)"
    )
    pid = int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)


TRACER = """
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
failed = libc.ptrace(0x4206, int(sys.argv[1]), 0, 0)
print(ctypes.get_errno() if failed else 0, flush=True)
time.sleep(60)
"""


@pytest.mark.clause("BND-16")
def test_a_stranger_that_a_command_traces_speaks_for_the_command() -> None:
    with stranger() as pid:
        may_answer(Peer(pid=pid, uid=os.geteuid()), ())
        tracer = subprocess.Popen([sys.executable, "-c", TRACER, str(pid)], stdout=subprocess.PIPE)
        try:
            assert tracer.stdout is not None
            if tracer.stdout.readline().strip() != b"0":
                pytest.skip("this machine lets nobody trace")
            with pytest.raises(NotPermitted, match="process of a run"):
                may_answer(Peer(pid=pid, uid=os.geteuid()), ())
        finally:
            tracer.kill()
            tracer.communicate()
        may_answer(Peer(pid=pid, uid=os.geteuid()), ())


@pytest.mark.clause("BND-16")
def test_a_peer_that_died_before_it_was_looked_at_never_answers(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        subprocess.run([sys.executable, "-c", code, str(path)], check=True)
        connection, _ = listener.accept()
    with connection:
        peer = peer_of(connection)
        try:
            assert not peer.alive()
            with pytest.raises(NotPermitted, match="gone"):
                may_answer(peer, ())
        finally:
            peer.close()


@pytest.mark.clause("BND-16")
def test_a_corpse_is_no_peer_where_there_is_no_pidfd() -> None:
    """Its environment reads as empty, so it would look clean."""
    process = subprocess.Popen(["true"], env={MARKER: "c_1"})
    deadline = time.monotonic() + 5
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
    with pytest.raises(NotPermitted, match="gone"):
        may_answer(Peer(pid=process.pid, uid=os.geteuid()), ())
    process.wait()


@pytest.mark.clause("BND-16")
def test_an_opened_proc_folder_names_one_process_and_never_the_next_of_its_pid() -> None:
    process = subprocess.Popen(["sleep", "60"])
    folder = os.open(f"/proc/{process.pid}", os.O_PATH | os.O_DIRECTORY)
    peer = Peer(pid=process.pid, uid=os.geteuid(), folder=folder)
    assert peer.alive()
    process.kill()
    process.wait()
    try:
        assert not peer.alive()
    finally:
        peer.close()


def test_the_peers_descriptors_are_not_inherited_and_given_back() -> None:
    libc = ctypes.CDLL(None)
    assert libc
    before = len(os.listdir("/proc/self/fd"))
    with contextlib.ExitStack() as stack:
        ours, theirs = (stack.enter_context(s) for s in socket.socketpair())
        peer = peer_of(ours)
        assert (peer.pid, peer.line[0]) == (os.getpid(), os.getpid())
        for fd in (peer.pidfd, peer.folder):
            assert fd is None or not os.get_inheritable(fd)
        peer.close()
        assert theirs
    assert len(os.listdir("/proc/self/fd")) == before


# -- from inside of real commands -----------------------------------------------------------------

CLIENT = """
import json, os, socket, sys, glob
sys.stdout.write("began ")
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
params = {"run": sys.argv[2], "answers": ["x"]}
connection.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "runs.answer", "params": params}).encode() + b"\\n")
print(connection.makefile().readline())
"""
OWNER = """
import asyncio, sys
import drawbar

async def main():
    async with drawbar.open() as harness:
        started = await harness.sessions.run(drawbar.RunInput(text="ASK", cwd=sys.argv[1], ask_timeout_s=60))
        async for event in harness.runs.follow(started.run_id):
            print(started.run_id, event.type, flush=True)

asyncio.run(main())
"""


@pytest.mark.clause("BND-16", "SES-19")
@pytest.mark.parametrize("how", ["sandbox", "sandbox off", "outside"])
@pytest.mark.parametrize("shape", ["{}", "env -i {}", "setsid -f {}; sleep 1"])
async def test_no_command_of_any_scope_answers_a_run_of_its_own_or_of_another_process(
    tmp_path: Path, how: str, shape: str
) -> None:
    """A second owner waits for an answer; the command of the first tries to give it."""
    other = tmp_path / "other"
    other.mkdir()
    client = tmp_path / "project" / "client.py"
    ask = use("ask_user", {"questions": [{"text": "Go?", "free_text": True}]})
    target: dict[str, str] = {}

    def turn(received: Any) -> Any:
        text = str(received.parsed["messages"])
        if "tool_result" in text:
            return say("Done.")
        if "ASK" in text:
            return ask
        command = shape.format(f"{BASE_PYTHON} {client} {target['socket']} {target['run']} >> out 2>&1")
        return use("bash", {"command": command, **({"scope": "outside"} if how == "outside" else {})})

    async def yes(asked: ApprovalAsk, approval_id: str) -> Approval:
        return Approval(approval_id=approval_id, decision="once", by="test")

    async with bench(tmp_path, turn) as b:
        client.write_text(CLIENT)
        environ = environment_for(b.server, b.data, tmp_path)
        owner = await asyncio.create_subprocess_exec(
            sys.executable, "-c", OWNER, str(other), env={**os.environ, **environ}, stdout=subprocess.PIPE
        )
        try:
            assert owner.stdout is not None
            line = b""
            while b"question.requested" not in line:
                line = await owner.stdout.readline()
                assert line
            target["run"] = line.split()[0].decode()
            target["socket"] = str(socket_folder(b.data, environ) / f"{owner.pid}.sock")
            assert Path(target["socket"]).exists()
            options: dict[str, Any] = {"approval": "ask", "ask_handler": yes}
            _, events = await b.run("COMMAND", sandbox="off" if how == "sandbox off" else "on", **options)
            if not of(events, "tool.started"):
                pytest.skip(f"no command runs here: {of(events, 'tool.refused')}")
            out = (b.project / "out").read_text()
            assert "began" in out or "Error" in out, of(events, "tool.completed")
            assert '"result"' not in out, out
            assert "question.answered" not in str([e.type for e in b.harness.runs.events(target["run"])])
        finally:
            owner.kill()
            await owner.wait()
