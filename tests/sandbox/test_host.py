"""Sockets and pipes of the machine's programs, whatever their names and whenever they came (BND-10)."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sandbox.conftest import BoxMaker
from tests.sandbox.kit import Box
from tests.sandbox.test_escapes import PYTHON, attempt

from drawbar.boundary import host_specials, unix_sockets
from drawbar.boundary.enter import closes_sockets, entry_program
from drawbar.boundary.host_search import DEPTH, HostSearch, search_tops
from drawbar.boundary.host_specials import HostSpecials
from drawbar.boundary.unix_sockets import BoundSocket, bound_sockets

pytestmark = [
    pytest.mark.clause("BND-10"),
    pytest.mark.skipif(not os.access(PYTHON, os.X_OK), reason="the attacks need the system's own Python"),
]

BIND = """
import os, socket, sys
os.chdir(sys.argv[1])
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[2])
s.listen()
if len(sys.argv) > 3: os.rename(sys.argv[2], sys.argv[3])
if len(sys.argv) > 4: os.chdir("/")
print("bound", flush=True)
sys.stdin.read()
"""


@contextmanager
def server(folder: Path, name: str, *then: str, before: tuple[str, ...] = ()) -> Generator[None]:
    """A program of the machine that listens at ``name`` as seen from ``folder``; ``then`` it renames and leaves."""
    argv = [*before, sys.executable if not before else PYTHON, "-c", BIND, str(folder), name, *then]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"bound\n"
        try:
            yield
        finally:
            process.communicate()


WAYS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "by its path": ("{far}/a.sock", (), "{far}/a.sock"),
    "by a relative path": ("a.sock", (), "{far}/a.sock"),
    "by a relative path, from elsewhere since": ("a.sock", ("a.sock", "leave"), "{far}/a.sock"),
    "renamed": ("{far}/a.sock", ("{far}/b.sock",), "{far}/b.sock"),
    "moved to another folder": ("{far}/a.sock", ("{far}/deep/er/b.sock",), "{far}/deep/er/b.sock"),
    "relative and moved": ("a.sock", ("deep/b.sock", "leave"), "{far}/deep/b.sock"),
    "with a name of spaces": (" a  b ", (), "{far}/ a  b "),
    "by a detour": ("{far}/deep/../a.sock", (), "{far}/a.sock"),
    "through a link": ("{far}/link/a.sock", (), "{far}/deep/a.sock"),
}


@pytest.mark.parametrize("when", ["before the first call", "between two calls"])
@pytest.mark.parametrize("way", WAYS)
async def test_no_socket_of_the_machine_can_be_connected_to(box: Box, far: Path, way: str, when: str) -> None:
    (far / "deep" / "er").mkdir(parents=True)
    (far / "link").symlink_to("deep")
    name, then, place = WAYS[way]
    name, place = name.replace("{far}", str(far)), place.replace("{far}", str(far))
    if when == "between two calls":
        await box.text("true")
    with server(far, name, *(word.replace("{far}", str(far)) for word in then)):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(place)  # or the attempt below would show nothing
        assert (await attempt(box, "connect", "stream", place)).startswith("refused")


async def test_a_socket_moved_out_of_a_private_folder(box: Box, far: Path, tmp_path: Path) -> None:
    if os.stat(far).st_dev != os.stat(tmp_path).st_dev:
        pytest.skip("the folders are of two file systems")
    with server(far, str(tmp_path / "a.sock"), str(far / "b.sock")):
        assert (await attempt(box, "connect", "stream", str(far / "b.sock"))).startswith("refused")


async def test_a_socket_bound_in_the_workspace_by_a_relative_path(box: Box) -> None:
    (box.root / "run").mkdir()
    with server(box.root, "run/dev.sock", "run/moved.sock"):
        assert (await attempt(box, "connect", "stream", f"{box.root}/run/moved.sock")).startswith("refused")


async def test_a_socket_in_a_workspace_or_toolchain_below_a_home(make: BoxMaker, far: Path) -> None:
    """The home is hidden, and what shows of it must be looked at all the same."""
    (far / "project").mkdir()
    (far / ".local" / "bin").mkdir(parents=True)
    box = make(far / "project", environ={"HOME": str(far), "PATH": os.environ["PATH"]})
    for folder in (far / "project", far / ".local" / "bin"):
        with server(folder, "a.sock", "b.sock", "leave"):
            assert (await attempt(box, "connect", "stream", str(folder / "b.sock"))).startswith("refused"), folder


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a namespace of the network alone")
async def test_a_socket_of_a_container_in_a_shared_folder(box: Box, far: Path) -> None:
    """The kernel lists sockets of one network namespace: one of another is found by the search."""
    with server(far, str(far / "db.sock"), before=("unshare", "-n")):
        assert bytes(far / "db.sock") not in {bound.name for bound in bound_sockets()}
        assert (await attempt(box, "connect", "stream", str(far / "db.sock"))).startswith("refused")


async def test_a_pipe_that_was_there_gives_nothing_away(box: Box, far: Path) -> None:
    pipe = far / "events"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    fd = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(fd, b"for somebody else")
        assert (await attempt(box, "read_pipe", str(pipe))).startswith("refused")
        assert os.read(fd, 100) == b"for somebody else"
    finally:
        os.close(fd)


async def test_sockets_and_pipes_of_the_commands_work(box: Box) -> None:
    """Also from one call to the next in a kept sandbox, and with a program of the first still behind them."""
    program = (
        "import os, socket, threading\ns = socket.socket(socket.AF_UNIX); s.bind('own.sock'); s.listen()\n"
        "c = socket.socket(socket.AF_UNIX); c.connect('own.sock'); c.sendall(b'ping'); print(s.accept()[0].recv(9))\n"
        "os.mkfifo('own.pipe'); f = os.open('own.pipe', os.O_RDWR); os.write(f, b'x'); print(os.read(f, 1))\n"
    )
    result = await box.run((PYTHON, "-c", program))
    assert result.output == "b'ping'\nb'x'\n"
    assert (box.root / "own.sock").is_socket()


async def test_a_crowd_of_sockets_hides_its_folder(make: BoxMaker, git_repo: Callable[..., Path], far: Path) -> None:
    """Each mask costs a mount, and somebody's folder may hold thousands."""
    (far / "crowd").mkdir()
    (far / "few").mkdir()
    for number in range(70):
        folder = far / ("crowd" if number else "few")
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(folder / f"{number}"))
    (far / "beside").write_text("shown\n")
    specials = HostSpecials(git_repo(), [])
    paths = [path for path in specials.paths() if path.is_relative_to(far)]
    assert paths == [far / "crowd", far / "few"]
    assert await make(git_repo(name="other")).text(f"cat {far}/beside; ls {far}/crowd 2>/dev/null || true") == "shown\n"


async def test_a_folder_that_is_needed_is_never_hidden_for_its_sockets(
    git_repo: Callable[..., Path], far: Path
) -> None:
    (far / "bin").mkdir()
    for number in range(20):
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(far / "bin" / f"{number}"))
    paths = HostSpecials(git_repo(), [], [far / "bin"]).paths()
    assert {path for path in paths if path.is_relative_to(far)} == {far / "bin" / f"{n}" for n in range(20)}


def test_nothing_is_searched_where_the_kernel_closes_sockets(
    git_repo: Callable[..., Path], far: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Landlock 9 on a socket without a known place needs no mask."""
    (far / "deep").mkdir()
    with server(far, "a.sock", "deep/b.sock", "leave"):
        specials = HostSpecials(git_repo(), [far])  # left out of the first search

        def yes() -> bool:
            return True

        monkeypatch.setattr(host_specials, "closes_sockets", yes)
        assert not [path for path in specials.paths() if path.is_relative_to(far)]
    assert not closes_sockets() or entry_program() is not None


def test_an_older_kernel_tells_names_alone(far: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Iterator[BoundSocket]:
        raise OSError

    with server(far, str(far / "a b")):
        assert bytes(far / "a b") in {bound.name for bound in bound_sockets() if bound.inode is not None}
        monkeypatch.setattr(unix_sockets, "_from_kernel", missing)
        assert BoundSocket(bytes(far / "a b")) in bound_sockets()


@given(st.binary(max_size=200))
def test_any_answer_of_the_kernel_is_read_without_a_fault(data: bytes) -> None:
    found = unix_sockets._socket(data, 0, len(data))  # pyright: ignore[reportPrivateUsage]
    assert found is None or isinstance(found.inode, int)


@given(name=st.binary(min_size=1, max_size=100).filter(lambda n: n.rstrip(b"\0") == n), inode=st.integers(0, 2**32 - 1))
def test_an_answer_is_read_as_it_was_written(name: bytes, inode: int) -> None:
    def part(kind: int, content: bytes) -> bytes:
        return struct.pack("=HH", 4 + len(content), kind) + content + b"\0" * (-len(content) % 4)

    data = part(0, name) + part(7, b"?") + part(1, struct.pack("=II", inode, 8 << 20 | 3))
    found = unix_sockets._socket(data, 0, len(data))  # pyright: ignore[reportPrivateUsage]
    assert found == BoundSocket(name, (8, 3), inode)


def test_a_search_finds_what_there_is_and_no_more(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"abcdefg")
    deep.mkdir(parents=True)
    (tmp_path / "left[*]out").mkdir()
    for place in (tmp_path / "pipe", deep / "pipe", tmp_path / "left[*]out" / "pipe", tmp_path / "a" / " odd\nname"):
        os.mkfifo(place)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("pipe")
    shallow = HostSearch([tmp_path], [tmp_path / "left[*]out"])
    assert {special.path for special in shallow.found()} == {tmp_path / "pipe", tmp_path / "a" / " odd\nname"}
    assert shallow.complete
    assert len(deep.relative_to(tmp_path).parts) > DEPTH
    assert {special.path for special in HostSearch([tmp_path], depth=None).found()} > {deep / "pipe"}
    (late,) = [special for special in shallow.found() if special.path.name == "pipe"]
    assert late.inode == os.lstat(tmp_path / "pipe").st_ino & 0xFFFFFFFF


def test_a_search_ends_in_time_and_says_so() -> None:
    search = HostSearch([Path("/usr")], depth=None, limit_s=0.001)
    assert search.found() == ()
    assert not search.complete


def test_where_it_is_looked() -> None:
    mounts = [("/", "ext4"), ("/data", "xfs"), ("/far", "nfs4"), ("/run/user/0", "tmpfs"), ("/srv/x", "fuse.sshfs")]
    tops = search_tops([*mounts, ("/srv/vol", "ext4"), ("/home/me/disk", "ext4")], [Path("/home"), Path("/root")])
    assert {Path("/data"), Path("/srv/vol")} <= set(tops)
    assert not {Path("/far"), Path("/srv/x"), Path("/run/user/0"), Path("/home"), Path("/root"), Path("/usr")} & set(
        tops
    )
    assert Path("/home/me/disk") not in tops
