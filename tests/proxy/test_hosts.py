"""One spelling for each host, and what an entry of the allow-list covers."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drawbar.boundary.addresses import why_refused
from drawbar.boundary.hosts import AllowList, HostRefused, address_of, common_entries, join_host, split_host

LABEL = st.from_regex(r"[a-z][a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True).filter(lambda text: text[2:4] != "--")
NAME = st.lists(LABEL, min_size=2, max_size=4).map(".".join)
PORT = st.integers(1, 65535)
ENTRY = st.builds(
    lambda below, name, port: f"{'*.' if below else ''}{name}{f':{port}' if port else ''}",
    st.booleans(),
    st.sampled_from(["a.test", "b.a.test", "c.b.a.test", "xa.test", "a.test.test"]),
    st.sampled_from([None, 80, 443, 8080]),
)

pytestmark = pytest.mark.clause("BND-13")


def refused(text: str) -> str:
    with pytest.raises(HostRefused) as caught:
        split_host(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("Example.COM.", "example.com", None),
        ("EXAMPLE.com.:8443", "example.com", 8443),
        ("bücher.example", "xn--bcher-kva.example", None),
        ("BÜCHER.example", "xn--bcher-kva.example", None),
        ("xn--bcher-kva.example:80", "xn--bcher-kva.example", 80),
        ("example。com", "example.com", None),
        ("ｅｘａｍｐｌｅ.com", "example.com", None),
        ("１２７.0.0.1", "127.0.0.1", None),
        ("127.0.0.1.", "127.0.0.1", None),
        ("[2001:DB8:0:0::1]:443", "[2001:db8::1]", 443),
        ("localhost", "localhost", None),
        ("r3---sn-x.example", "r3---sn-x.example", None),
        ("my_service.example", "my_service.example", None),
    ],
)
def test_each_spelling_of_a_host_becomes_one(text: str, host: str, port: int | None) -> None:
    assert split_host(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "..", "a..b", ".example.com", "example.com..", ":80", "a:", "a:0", "a:65536", "a:+80", "a:８０"),
        *("a:80:80", "::1", "2001:db8::1", "[::1", "[::1]80", "[]", "[a]", "[::1]x:80", "[1.2.3.4]"),
        *("user@example.com", "user:pass@example.com", "a b", " a", "a ", "a\t", "a\n", "a\r\nb", "a\0"),
        *("a\0.example.com", "a\0b"),
        *("example%2ecom", "[fe80::1%25eth0]", "[fe80::1%eth0]", "a/b", "http://a", "a?b", "a#b", "a\\b", "*", "*.a.b"),
        *("127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.01", "1.2.3.4.5"),
        *("example.0x7f", "example.7", "example.0x", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]"),
        *("-a.com", "a-.com", "a" * 64 + ".com", ".".join(["a" * 60] * 5), "a" * 5000, "\u202ea.com"),
        *("a\u00a0b", "a,b", "a;b", "a=b", "a!b", "a\u200bb\u2044c", "\ud800.com"),
    ],
)  # fmt: skip
def test_what_programs_read_differently_is_no_host(text: str) -> None:
    assert refused(text)
    assert not AllowList(["example.com", "a", "b", "127.0.0.1", "[::1]"]).allows(text, 80)


@given(st.text(max_size=40))
@example("ẞ.example")
@example("a.１")
def test_whatever_is_accepted_is_plain_ascii_and_stays_itself(text: str) -> None:
    try:
        host, port = split_host(text)
    except HostRefused:
        return
    assert host.isascii()
    assert host == host.lower()
    assert not set(host) & set(" \t\r\n\0%@/\\?#*")
    assert split_host(host if port is None else join_host(host, port)) == (host, port)


@given(st.lists(st.sampled_from(["0", "1", "127", "0x7f", "0177", "255", "256", "08", "1e1"]), min_size=1, max_size=5))
def test_no_number_is_a_name_to_us_and_an_address_to_the_system(parts: list[str]) -> None:
    """What the C library would read as an address is exactly that address here, or no host at all."""
    text = ".".join(parts)
    try:
        meant = socket.inet_aton(text)
    except OSError:
        return
    try:
        host, _ = split_host(text)
    except HostRefused:
        return
    assert socket.inet_aton(host) == meant
    assert address_of(host) == ipaddress.ip_address(host)


@given(NAME, LABEL, LABEL)
def test_an_entry_covers_itself_and_below_on_label_borders_only(name: str, label: str, other: str) -> None:
    listed = AllowList([name])
    assert listed.allows(name, 443)
    assert listed.allows(f"{label}.{name}", 80)
    assert listed.allows(f"{other}.{label}.{name.upper()}.", 443)
    for near in (f"{label}{name}", f"{label}-{name}", f"{name}.{label}", f"{name}{label}", name.partition(".")[2]):
        assert near.endswith(f".{name}") or not listed.allows(near, 443)


@given(NAME, LABEL)
def test_a_starred_entry_covers_only_what_is_below(name: str, label: str) -> None:
    listed = AllowList([f"*.{name}"])
    assert listed.allows(f"{label}.{name}", 443)
    assert not listed.allows(name, 443)
    assert not listed.allows(f"{label}{name}", 443)


@given(NAME, PORT, PORT)
def test_a_port_that_is_named_is_the_only_one(name: str, port: int, other: int) -> None:
    assert AllowList([name]).allows(name, port) == (port in (80, 443))
    listed = AllowList([f"{name}:{port}"])
    assert listed.allows(name, port)
    assert listed.allows(name, other) == (port == other)
    assert listed.rule_for(name, port) == f"{name}:{port}"


@given(NAME, st.ip_addresses())
def test_addresses_and_single_labels_cover_exactly_themselves(name: str, address: ipaddress.IPv4Address) -> None:
    literal = f"[{address}]" if address.version == 6 else str(address)
    try:
        listed = AllowList([literal, "localhost"])
    except HostRefused:
        return  # IPv4 in IPv6 clothes, or a metadata service
    assert listed.allows(literal, 80)
    assert not AllowList([name]).allows(literal, 80)
    assert listed.allows("LOCALHOST.", 80)
    assert not listed.allows("a.localhost", 80)
    assert not listed.allows(f"a.{literal}", 80)


@pytest.mark.parametrize(
    "text", ["*", "*.com", "*.", "*.127.0.0.1", "*.*.example.com", "a.*.com", "https://example.com"]
)
def test_an_entry_for_everything_does_not_exist(text: str) -> None:
    with pytest.raises(HostRefused, match=r"URL|top-level|holds|empty|below"):
        AllowList([text])


@pytest.mark.parametrize("text", ["169.254.169.254", "169.254.169.254:8080", "[fd00:ec2::254]", "100.100.100.200"])
def test_a_metadata_service_cannot_be_listed(text: str) -> None:
    with pytest.raises(HostRefused, match="metadata"):
        AllowList([text])


def test_an_empty_list_allows_nothing() -> None:
    listed = AllowList([])
    assert not listed.allows("example.com", 443)
    assert not listed.allows("", 443)
    assert not listed.covers("localhost")


@given(st.lists(ENTRY, max_size=3), st.lists(ENTRY, max_size=3), ENTRY, st.sampled_from([80, 443, 8080]))
def test_what_two_lists_have_in_common_is_exactly_what_both_allow(
    first: list[str], second: list[str], asked: str, port: int
) -> None:
    host = asked.removeprefix("*.").partition(":")[0]
    common = AllowList(common_entries(first, second))
    for name in (host, f"z.{host}", f"z.y.{host}"):
        assert common.allows(name, port) == (
            AllowList(first).allows(name, port) and AllowList(second).allows(name, port)
        )


@given(st.lists(ENTRY, max_size=3), ENTRY, st.sampled_from([80, 443, 8080]))
def test_a_covered_entry_would_add_nothing(listed: list[str], entry: str, port: int) -> None:
    if not AllowList(listed).covers(entry):
        return
    host = entry.removeprefix("*.").partition(":")[0]
    for name in (host, f"z.{host}", f"z.y.{host}"):
        assert not AllowList([entry]).allows(name, port) or AllowList(listed).allows(name, port)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.1.1"),
        *("100.64.0.1", "100.127.255.255", "0.0.0.0", "0.1.2.3", "255.255.255.255", "224.0.0.1", "240.0.0.1"),
        *("198.18.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.0.0.192", "192.88.99.1", "168.63.129.16"),
        *("::", "::1", "fe80::1", "fc00::1", "fd00::1", "fec0::1", "ff02::1", "2001:db8::1", "100::1", "4000::1"),
        *("::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::10.0.0.1", "2002:7f00:1::", "2002:a00:1::1"),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2001:0:4136:e378:8000:63bf:80ff:fffe"),
        *("2606:4700::5efe:a00:1", "2606:4700::200:5efe:7f00:1", "5f00::1", "3fff::1"),
    ],
)  # fmt: skip
def test_addresses_that_no_name_may_lead_to(address: str) -> None:
    assert why_refused(ipaddress.ip_address(address), listed=False)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.32.0.1", "2606:4700::1111", "64:ff9b::808:808"],
)
def test_public_addresses_pass(address: str) -> None:
    assert why_refused(ipaddress.ip_address(address), listed=False) is None


@given(st.ip_addresses(v=4))
def test_no_wrapping_makes_a_refused_address_pass(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    if why_refused(address, listed=False) is None:
        return
    wrappings = (
        f"::ffff:{address}",
        f"::{address}",
        f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1",
        f"64:ff9b::{number >> 16:x}:{number & 0xFFFF:x}",
        f"2606:4700::5efe:{number >> 16:x}:{number & 0xFFFF:x}",
    )
    for text in wrappings:
        assert why_refused(ipaddress.ip_address(text), listed=False), text


@given(st.ip_addresses())
def test_nothing_that_the_library_calls_private_passes(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if not address.is_global or address.is_multicast:
        translated = address.version == 6 and str(address).startswith("64:ff9b:")
        assert translated or why_refused(address, listed=False)


def test_a_listed_private_address_passes_and_a_metadata_service_never() -> None:
    assert why_refused(ipaddress.ip_address("127.0.0.1"), listed=True) is None
    assert why_refused(ipaddress.ip_address("192.168.1.5"), listed=True) is None
    for text in (
        "169.254.169.254",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "2002:a9fe:a9fe::",
        "64:ff9b::a9fe:a9fe",
    ):
        assert why_refused(ipaddress.ip_address(text), listed=True) == "a cloud's metadata service"
    assert why_refused(ipaddress.ip_address("0.0.0.0"), listed=True)
    assert why_refused(ipaddress.ip_address("::"), listed=True)
