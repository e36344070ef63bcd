"""Where a name may lead, and how each decision gets into the record (BND-13, CON-9)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.proxy.kit import Names, proxied, public, reply, serving

from drawbar.boundary.hosts import AllowList
from drawbar.boundary.proxy import NetworkProxy, ledger
from drawbar.boundary.proxy.connecting import connect_to
from drawbar.boundary.proxy.decisions import Decider, Decision
from drawbar.contracts.errors import NotPermitted, StorageFailed
from drawbar.contracts.events.lifecycle import NetworkDecided

pytestmark = pytest.mark.clause("BND-13")

HEAD = b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"


async def decided(listed: list[str], host: str, port: int, *found: str) -> Decision:
    decider = Decider(Names({host: list(found)}), lambda _call, _decision: None)
    return await decider.decide(AllowList(listed), host, port, "c_1")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "100.64.0.1",
        "0.0.0.0",
        "fe80::1%eth0",
    ],
)
async def test_a_listed_name_cannot_lead_close_to_the_machine(address: str) -> None:
    async with proxied("example.com", names=Names({"example.com": [address]})) as proxy:
        answer = await proxy.ask(HEAD)
        assert answer.startswith(b"HTTP/1.1 403 ")
        [event] = proxy.events
    assert not event.allowed
    assert event.rule == "example.com"
    assert address in (event.reason or "")


async def test_only_the_addresses_that_passed_are_left_to_connect_to() -> None:
    decision = await decided(["example.com"], "example.com", 443, "10.0.0.1", public(1), "::1", public(2))
    assert decision.allowed
    assert decision.addresses == (public(1), public(2))


async def test_names_that_resolve_to_nothing_or_nonsense_are_not_connected() -> None:
    assert (await decided(["a.test"], "a.test", 80)).outcome == "no_address"
    assert (await decided(["a.test"], "a.test", 80, "nonsense")).outcome == "refused_address"
    decider = Decider(Names(), lambda _call, _decision: None)
    assert (await decider.decide(AllowList(["a.test"]), "a.test", 80, "")).outcome == "no_address"


async def test_a_literal_is_reached_only_when_listed_exactly_and_never_looked_up() -> None:
    assert (await decided(["127.0.0.1:8000"], "127.0.0.1", 8000)).addresses == ("127.0.0.1",)
    assert not (await decided(["127.0.0.1:8000"], "127.0.0.1", 8001)).allowed
    assert not (await decided(["127.0.0.1:8000"], "127.0.0.2", 8000)).allowed
    assert not (await decided(["localhost:8000"], "localhost", 8000, "127.0.0.1")).allowed


async def test_the_name_is_looked_up_once_so_it_cannot_be_bound_anew() -> None:
    """A resolver that answers otherwise the second time changes nothing: there is no second time."""
    asked: list[str] = []

    async def rebinding(host: str) -> list[str]:
        asked.append(host)
        return [public()] if len(asked) == 1 else ["127.0.0.1"]

    decider = Decider(rebinding, lambda _call, _decision: None)
    decision = await decider.decide(AllowList(["example.com"]), "example.com", 443, "c_1")
    assert decision.addresses == (public(),)
    assert asked == ["example.com"]


async def test_the_next_checked_address_is_tried_when_one_does_not_answer() -> None:
    async with serving(reply()) as server:
        connected = await connect_to(["::1", "127.0.0.1"], server.port)
        assert connected.getpeername() == ("127.0.0.1", server.port)
        connected.close()
    with pytest.raises(ConnectionRefusedError):
        await connect_to(["127.0.0.1"], 1)


async def test_what_cannot_be_recorded_is_not_connected() -> None:
    def full(_payload: object) -> None:
        raise StorageFailed("the disk is full")

    async with serving(reply()) as server, proxied(f"127.0.0.1:{server.port}", emit=full) as proxy:
        raw = f"GET http://127.0.0.1:{server.port}/ HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n"
        answer = await proxy.ask(raw.encode())
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert server.connections == 0


@pytest.mark.clause("CON-9")
class TestRecord:
    def decision(self, host: str = "a.test", port: int = 443, *, allowed: bool = False) -> Decision:
        return Decision(host, port, "allowed" if allowed else "not_listed", reason=None if allowed else "not listed")

    async def test_a_flood_of_one_refusal_is_two_events_with_its_count(self) -> None:
        events: list[Any] = []
        book = ledger.Ledger(events.append)
        for _ in range(10_000):
            book.record("c_1", self.decision())
        book.end_call("c_1")
        assert [event.count for event in events] == [1, 9_999]
        assert {(event.call_id, event.host, event.port, event.allowed) for event in events} == {
            ("c_1", "a.test", 443, False)
        }

    async def test_a_flood_of_different_hosts_is_bounded_and_none_is_uncounted(self) -> None:
        events: list[NetworkDecided] = []
        book = ledger.Ledger(events.append)  # pyright: ignore[reportArgumentType]
        for number in range(10_000):
            book.record("c_1", self.decision(f"h{number}.test"))
        book.record("c_1", self.decision("good.test", allowed=True))
        book.close()
        assert len(events) < 300
        assert sum(event.count for event in events) == 10_001
        assert any(event.host == "good.test" and event.allowed for event in events)

    async def test_repeats_are_written_at_intervals_while_the_call_goes_on(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ledger, "_FIRST_WAIT_S", 0.05)
        events: list[NetworkDecided] = []
        book = ledger.Ledger(events.append)  # pyright: ignore[reportArgumentType]
        call = book._calls.setdefault("c_1", ledger._Call(wait_s=0.05))
        assert call.wait_s == 0.05
        for _ in range(5):
            book.record("c_1", self.decision())
        await asyncio.sleep(0.3)
        assert [event.count for event in events] == [1, 4]
        book.close()

    @given(st.lists(st.tuples(st.sampled_from(["c_1", "c_2"]), st.sampled_from("ab"), st.booleans()), max_size=30))
    def test_the_counts_add_up_to_the_decisions(self, made: list[tuple[str, str, bool]]) -> None:
        events: list[NetworkDecided] = []

        async def go() -> None:
            book = ledger.Ledger(events.append)  # pyright: ignore[reportArgumentType]
            for call, host, allowed in made:
                book.record(call, self.decision(f"{host}.test", allowed=allowed))
            book.close()

        asyncio.run(go())
        for call, host, allowed in set(made):
            counted = sum(e.count for e in events if (e.call_id, e.host, e.allowed) == (call, f"{host}.test", allowed))
            assert counted == made.count((call, host, allowed))


async def test_the_harness_connects_by_the_same_decision() -> None:
    events: list[Any] = []
    async with serving(reply()) as server:
        proxy = NetworkProxy([f"127.0.0.1:{server.port}"], events.append, resolver=Names({"in.test": ["10.0.0.1"]}))
        connected = await proxy.connect("127.0.0.1", server.port, hosts=(), call_id="c_1")
        connected.close()
        with pytest.raises(NotPermitted, match="not on the list"):
            await proxy.connect("other.test", 443, hosts=(), call_id="c_1")
        with pytest.raises(NotPermitted, match="private network"):
            await proxy.connect("in.test", 443, hosts=("in.test",), call_id="c_1")
        with pytest.raises(OSError, match="no address"):
            await proxy.connect("gone.test", 443, hosts=("gone.test",), call_id="c_1")
        await proxy.close()
    assert [(event.host, event.allowed) for event in events] == [
        *(("127.0.0.1", True), ("other.test", False), ("in.test", False), ("gone.test", False)),
    ]
