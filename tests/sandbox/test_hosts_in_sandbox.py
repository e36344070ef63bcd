"""How a sandbox gets its way to listed hosts: before the command, once a sandbox, or not at all (BND-13)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.sandbox.conftest import BoxMaker

from drawbar.contracts.errors import InvalidInput, SandboxUnavailable

pytestmark = pytest.mark.clause("BND-13")


@dataclass
class _Attachment:
    call_id: str
    closed: bool = False

    async def close(self) -> None:
        self.closed = True


@dataclass
class _Gate:
    """Stands where the proxy does, and writes down what it is asked."""

    fails: bool = False
    made: list[tuple[int, tuple[str, ...], _Attachment]] = field(default_factory=list)

    def environment(self, hosts: tuple[str, ...] = ()) -> tuple[tuple[str, str], ...]:
        return (("HTTPS_PROXY", "http://127.0.0.1:3128"),)

    async def attach(self, init: int, *, hosts: tuple[str, ...], call_id: str) -> _Attachment:
        if self.fails:
            raise SandboxUnavailable("The sandbox's network can't be entered. Nothing was run.")
        assert Path(f"/proc/{init}").exists()
        attachment = _Attachment(call_id)
        self.made.append((init, hosts, attachment))
        return attachment


async def test_one_way_for_a_kept_sandbox_and_one_for_a_call_of_its_own(
    make: BoxMaker, git_repo: Callable[..., Path]
) -> None:
    gate = _Gate()
    box = make(git_repo(), network=("example.org",), network_gate=gate)
    assert await box.text("echo $HTTPS_PROXY", call_id="c1") == "http://127.0.0.1:3128\n"
    await box.text("true", call_id="c2")
    assert [made[1] for made in gate.made] == [("example.org",)]
    assert gate.made[0][2].call_id == "c2", "the record says whose connections are decided now"
    await box.text("true", call_id="c3", hosts=("more.org:8443",))
    assert gate.made[1][1] == ("example.org", "more.org:8443")
    assert gate.made[1][2].call_id == "c3"
    assert gate.made[1][2].closed
    assert not gate.made[0][2].closed
    await box.runner.close()
    assert gate.made[0][2].closed


async def test_without_hosts_there_is_nothing(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    gate = _Gate()
    box = make(git_repo(), network_gate=gate)
    assert await box.text("echo [$HTTPS_PROXY]") == "[]\n"
    listed = make(git_repo(name="listed"), network=("example.org",), network_gate=gate)
    assert await listed.text("echo [$HTTPS_PROXY]", scope="read-only") == "[]\n"
    assert gate.made == []


@pytest.mark.parametrize("hosts", [(), ("more.org",)])
async def test_a_way_that_can_not_be_made_refuses_the_call(
    make: BoxMaker, git_repo: Callable[..., Path], hosts: tuple[str, ...]
) -> None:
    box = make(git_repo(), network=("example.org",), network_gate=_Gate(fails=True))
    with pytest.raises(SandboxUnavailable, match="can't be entered"):
        await box.sh("touch ran", hosts=hosts)
    assert not (box.root / "ran").exists()


async def test_hosts_where_there_is_no_network_are_refused(make: BoxMaker, git_repo: Callable[..., Path]) -> None:
    box = make(git_repo())
    with pytest.raises(InvalidInput, match="hosts"):
        await box.sh("touch ran", hosts=("example.org",))
    gated = make(git_repo(name="gated"), network_gate=_Gate())
    with pytest.raises(InvalidInput, match="hosts"):
        await gated.sh("touch ran", scope="read-only", hosts=("example.org",))
    assert not (box.root / "ran").exists()
