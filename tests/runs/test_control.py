"""The control socket, over real sockets and real processes: it commands, and it knows who may not answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from drawbar.contracts.errors import InvalidInput, NotFound, NotPermitted, OwnerUnreachable
from drawbar.runs.control import ControlServer, call_owner, socket_folder
from drawbar.runs.peers import MARKER, Peer, may_answer

CLIENT = textwrap.dedent(
    """
    import json, socket, sys
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    connection.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": sys.argv[2], "params": {}}).encode() + b"\\n")
    print(connection.makefile().readline())
    """
)


async def echo(params: Mapping[str, Any], peer: Peer) -> Any:
    return {"params": dict(params), "pid": peer.pid}


async def answer(params: Mapping[str, Any], peer: Peer) -> Any:
    may_answer(peer, ())
    return "allowed"


async def refuse(params: Mapping[str, Any], peer: Peer) -> Any:
    raise NotFound("no such run here")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ControlServer]:
    with tempfile.TemporaryDirectory(prefix="drawbar-") as runtime:
        folder = socket_folder(tmp_path / "data", {"XDG_RUNTIME_DIR": runtime})
        server = ControlServer(folder, {"echo": echo, "answer": answer, "refuse": refuse})
        await server.start()
        yield server
        await server.close()


async def ask_from(argv: list[str], server: ControlServer, method: str, env: dict[str, str] | None = None) -> Any:
    process = await asyncio.create_subprocess_exec(
        *argv, sys.executable, "-c", CLIENT, str(server.path), method,
        stdout=subprocess.PIPE, env={**os.environ, **(env or {})},
    )  # fmt: skip
    output, _ = await process.communicate()
    return json.loads(output)


@pytest.mark.clause("RUN-9")
async def test_a_method_is_called_and_its_errors_keep_their_codes(server: ControlServer) -> None:
    result = await call_owner(str(server.path), "echo", {"run": "r_1"})
    assert result == {"params": {"run": "r_1"}, "pid": os.getpid()}
    with pytest.raises(NotFound, match="no such run here"):
        await call_owner(str(server.path), "refuse", {})
    with pytest.raises(InvalidInput, match="no such method"):
        await call_owner(str(server.path), "nonsense", {})


@pytest.mark.clause("RUN-9")
async def test_the_socket_and_its_folders_are_the_owners_alone(server: ControlServer) -> None:
    assert stat.S_IMODE(server.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(server.path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.path.parent.parent.stat().st_mode) == 0o700
    assert server.path.name == f"{os.getpid()}.sock"


@pytest.mark.clause("RUN-9")
async def test_a_folder_that_others_can_open_is_refused(tmp_path: Path) -> None:
    (tmp_path / "drawbar").mkdir(mode=0o755)
    server = ControlServer(tmp_path / "drawbar" / "0", {})
    with pytest.raises(NotPermitted, match="nobody else can open"):
        await server.start()


@pytest.mark.clause("RUN-9")
def test_two_roots_never_share_a_folder_and_links_to_one_root_do(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": "/var/run"}
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert socket_folder(tmp_path / "a", environ) != socket_folder(tmp_path / "b", environ)
    assert socket_folder(tmp_path / "a", environ) == socket_folder(tmp_path / "link", environ)
    assert str(socket_folder(tmp_path / "a", {})).startswith(f"/tmp/drawbar-{os.geteuid()}/")
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()
    assert str(socket_folder(tmp_path / "a", {"XDG_RUNTIME_DIR": str(deep)})).startswith("/tmp/drawbar-")


@pytest.mark.clause("RUN-9")
async def test_garbage_on_the_socket_is_answered_and_hurts_nobody(server: ControlServer) -> None:
    reader, writer = await asyncio.open_unix_connection(str(server.path))
    for line in (b"not json\n", b"null\n", b"[]\n", b'{"id": 7}\n', b"\xff\xfe\n"):
        writer.write(line)
        assert "error" in json.loads(await reader.readline())
    writer.write(b"x" * 600_000 + b"\n")
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    writer.close()
    assert await call_owner(str(server.path), "echo", {})


@pytest.mark.clause("RUN-9")
async def test_a_dead_owner_is_named_and_does_not_hang(tmp_path: Path) -> None:
    with pytest.raises(OwnerUnreachable, match="doesn't answer"):
        await call_owner(str(tmp_path / "1.sock"), "echo", {})


@pytest.mark.clause("BND-16")
async def test_a_child_of_the_owner_can_call_but_never_answer(server: ControlServer) -> None:
    assert "result" in await ask_from([], server, "echo")
    reply = await ask_from([], server, "answer")
    assert reply["error"]["data"]["code"] == "not_permitted"
    assert "started by the process of a run" in reply["error"]["message"]


ORPHAN = """
import os, subprocess, sys, time
if os.fork():
    sys.exit()
os.setsid()
while os.getppid() == int(sys.argv[1]):
    time.sleep(0.01)
subprocess.run(sys.argv[3:], stdout=open(sys.argv[2], "w"))
os.rename(sys.argv[2], sys.argv[2] + ".done")
"""


async def ask_as_stranger(tmp_path: Path, server: ControlServer, env: dict[str, str] | None = None) -> Any:
    """From a process that left the owner's family, as another terminal would be."""
    out = tmp_path / "reply"
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", f"import subprocess, sys, os\nsubprocess.Popen([sys.executable, '-c', {ORPHAN!r},"
        f" str(os.getpid()), {str(out)!r}, sys.executable, '-c', {CLIENT!r}, {str(server.path)!r}, 'answer'])",
        env={**os.environ, **(env or {})},
    )  # fmt: skip
    await parent.wait()
    for _ in range(500):
        if Path(f"{out}.done").exists():
            return json.loads(Path(f"{out}.done").read_text())
        await asyncio.sleep(0.02)
    raise AssertionError("no reply")


@pytest.mark.clause("BND-16", "RUN-9")
async def test_a_process_of_the_same_user_outside_the_family_may_answer(tmp_path: Path, server: ControlServer) -> None:
    assert (await ask_as_stranger(tmp_path, server)).get("result") == "allowed"


@pytest.mark.clause("BND-16")
async def test_a_marked_process_never_answers_even_when_it_left_the_family(
    tmp_path: Path, server: ControlServer
) -> None:
    reply = await ask_as_stranger(tmp_path, server, env={MARKER: "c_1"})
    assert reply["error"]["data"]["code"] == "not_permitted"
    assert "tool call" in reply["error"]["message"]


@pytest.mark.clause("BND-16")
async def test_a_process_of_another_pid_namespace_never_answers(server: ControlServer) -> None:
    if os.geteuid() != 0:
        pytest.skip("making a PID namespace without a user namespace needs root")
    reply = await ask_from(["unshare", "--pid", "--fork"], server, "answer")
    assert reply["error"]["data"]["code"] == "not_permitted"


@pytest.mark.clause("BND-16")
def test_what_cannot_be_identified_is_refused() -> None:
    with pytest.raises(NotPermitted):
        may_answer(Peer(pid=0, uid=os.geteuid(), pidfd=None), ())
    gone = subprocess.Popen(["true"])
    gone.wait()
    with pytest.raises(NotPermitted):
        may_answer(Peer(pid=gone.pid, uid=os.geteuid(), pidfd=None), ())


@pytest.mark.clause("BND-16")
def test_a_descendant_of_any_live_owner_is_refused() -> None:
    child = subprocess.Popen(["sleep", "30"], env={})
    try:
        with pytest.raises(NotPermitted, match="process of a run"):
            may_answer(Peer(pid=child.pid, uid=os.geteuid(), pidfd=None), {os.getppid()})
    finally:
        child.kill()
        child.wait()


@pytest.mark.clause("RUN-9", "ARC-5")
def test_a_caller_that_stays_connected_leaves_no_noise_when_the_owner_ends(tmp_path: Path) -> None:
    code = textwrap.dedent(
        """
        import asyncio, sys
        from pathlib import Path
        from drawbar.runs.control import ControlServer

        async def main():
            server = ControlServer(Path(sys.argv[1]) / "drawbar" / "0", {})
            await server.start()
            reader, writer = await asyncio.open_unix_connection(str(server.path))
            await asyncio.sleep(0.05)
            await server.close()
            assert await reader.read() == b""
            writer.close()

        asyncio.run(main())
        """
    )
    with tempfile.TemporaryDirectory(prefix="drawbar-") as runtime:
        done = subprocess.run([sys.executable, "-c", code, runtime], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
