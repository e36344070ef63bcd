"""Which addresses the proxy never connects to, whatever name led there (BND-13)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

__all__ = ["Address", "is_metadata", "why_refused"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_METADATA: Final = frozenset(
    map(
        ipaddress.ip_address,
        (
            "169.254.169.254",  # AWS, Google, Azure, OpenStack, Oracle, DigitalOcean
            "169.254.169.253",  # AWS's resolver, which names its metadata
            "169.254.170.2",  # AWS, keys of a container's task
            "169.254.170.23",  # AWS, keys of a pod
            "169.254.0.23",  # Tencent
            "100.100.100.200",  # Alibaba
            "168.63.129.16",  # Azure, the host's own service
            "192.0.0.192",  # Oracle, older
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",  # Google
        ),
    )
)
"""Services that hand a machine's keys to whoever asks from it."""

_REFUSED: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("no address to connect to", ("0.0.0.0/8", "::/128", "255.255.255.255/32")),
    ("this machine", ("127.0.0.0/8", "::1/128")),
    ("a private network", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")),
    ("a link-local address", ("169.254.0.0/16", "fe80::/10")),
    ("a carrier's private network", ("100.64.0.0/10",)),
    ("a multicast address", ("224.0.0.0/4", "ff00::/8")),
    (
        "a reserved address",
        (
            *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
            *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4"),
            *("::/8", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16"),
        ),
    ),
)
_NETWORKS: Final = tuple((why, tuple(map(ipaddress.ip_network, networks))) for why, networks in _REFUSED)
_GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_TEREDO: Final = ipaddress.IPv6Network("2001::/32")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)


def is_metadata(address: Address) -> bool:
    """Whether ``address``, or one that it wraps, is a cloud's metadata service."""
    return any(inner in _METADATA for inner in _wrapped(address))


def why_refused(address: Address, *, listed: bool) -> str | None:
    """Why no connection goes to ``address``; None when it may.

    An address that wraps another (IPv4-mapped, 6to4, NAT64, Teredo, ISATAP) is judged by both.

    Args:
        address: one that a name resolved to, or the one that was asked for.
        listed: whether a person listed exactly this address; it is then only refused as a metadata service or as
            one that can't be connected to.
    """
    for inner in _wrapped(address):
        if inner in _METADATA:
            return "a cloud's metadata service"
        for why, networks in _NETWORKS:
            if any(inner.version == network.version and inner in network for network in networks) and (
                not listed or why in ("no address to connect to", "a multicast address")
            ):
                return why
    if not listed and address.version == 6 and not _is_translated(address) and address not in _GLOBAL_V6:
        return "a reserved address"
    return None


def _is_translated(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and any(address in network for network in _NAT64)


def _wrapped(address: Address) -> Iterator[Address]:
    """``address`` and what it stands for; a translated one only for its IPv4 address."""
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    number = int(address)
    if _is_translated(address):
        yield ipaddress.IPv4Address(number & 0xFFFFFFFF)
        return
    yield address
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif number >> 32 == 0 and number > 1:
        yield ipaddress.IPv4Address(number)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address in _TEREDO and address.teredo is not None:
        yield from address.teredo
    if (number >> 32) & 0xFFFFFFFF in _ISATAP:
        yield ipaddress.IPv4Address(number & 0xFFFFFFFF)
