"""Host names and the allow-list: one spelling for each host, and what an entry covers (BND-13).

Whoever compares two spellings of a host in different ways lets one of them through, so every host that is listed,
asked for, named in a request or followed from a redirect passes :func:`split_host` first.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from drawbar.boundary.addresses import is_metadata

__all__ = ["WEB_PORTS", "AllowList", "HostRefused", "address_of", "common_entries", "join_host", "split_host"]

WEB_PORTS: Final = frozenset({80, 443})
"""The ports of an entry that names none."""

_LONGEST_TEXT: Final = 1024
_LONGEST_NAME: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f/\\?#@%*<>^|`{}\"'\u0080-\u00a0\u2028\u2029]")


class HostRefused(ValueError):
    """The text names no host, or names it in a way that programs read differently; the message says which."""


def split_host(text: str) -> tuple[str, int | None]:
    """The one spelling of a host, and the port if there is one.

    Lower case, no trailing dot, international names in their ASCII form. An IPv6 address keeps its brackets, so
    that the result can be split again and can take a port.

    Args:
        text: ``name``, ``name:port``, ``1.2.3.4``, ``[2001:db8::1]:port``; no scheme, path or user.

    Raises:
        HostRefused: for anything else: empty labels, user information, white space, control and percent characters,
            an IPv6 address without brackets or with IPv4 inside, and IPv4 written as one number, in octal or in hex.
    """
    if len(text) > _LONGEST_TEXT:
        raise HostRefused("the host is too long")
    shown = ascii(text)
    if not text:
        raise HostRefused("the host is empty")
    if "://" in text:
        raise HostRefused(f"{shown} is a URL; name its host alone")
    found = _FORBIDDEN.search(text)
    if found is not None:
        raise HostRefused(f"{shown} holds {found[0]!a}, which no host has")
    if text.startswith("["):
        return _split_address(text, shown)
    name, colon, port = text.partition(":")
    if ":" in port:
        raise HostRefused(f"{shown} has several colons; an IPv6 address goes in brackets")
    return _name(name, shown), _port(port, shown) if colon else None


def join_host(host: str, port: int) -> str:
    """``host:port`` for a host as :func:`split_host` gives it."""
    return f"{host}:{port}"


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a normalised host is itself; None for a name."""
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line of the list: ``tree`` is a name and all below it, ``below`` only what is below, ``exact`` itself."""

    host: str
    reach: Literal["tree", "below", "exact"]
    ports: frozenset[int]

    @property
    def text(self) -> str:
        name = f"*.{self.host}" if self.reach == "below" else self.host
        if self.ports == WEB_PORTS:
            return name
        return join_host(name, next(iter(self.ports)))

    def covers_name(self, host: str) -> bool:
        if self.reach != "below" and host == self.host:
            return True
        return self.reach != "exact" and host.endswith("." + self.host)

    def covers(self, other: _Entry) -> bool:
        """Whether every host of ``other`` is one of this entry's, the ports left aside."""
        if other.host == self.host:
            return self.reach == other.reach or (self.reach == "tree" and other.reach == "below")
        return self.reach != "exact" and other.host.endswith("." + self.host)


class AllowList:
    """The hosts that may be reached; an empty one allows nothing.

    ``example.com`` covers the name and everything below it, ``*.example.com`` only what is below. An address and a
    name of a single label (``localhost``) cover exactly themselves. Ports are 80 and 443 unless the entry names one.

    Args:
        entries: as people write them.

    Raises:
        HostRefused: for an entry that can't be one, naming it.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        self._entries = tuple(dict.fromkeys(_entry(text) for text in entries))

    @property
    def entries(self) -> tuple[str, ...]:
        """The entries in their one spelling, without doubles."""
        return tuple(entry.text for entry in self._entries)

    def allows(self, host: str, port: int) -> bool:
        """Whether a connection to ``host`` at ``port`` is listed; a host that can't be one is not."""
        return self.rule_for(host, port) is not None

    def rule_for(self, host: str, port: int) -> str | None:
        """The first entry that covers ``host`` at ``port``, in its one spelling; None when none does."""
        try:
            name, extra = split_host(host)
        except HostRefused:
            return None
        if extra is not None and extra != port:
            return None
        return next(
            (entry.text for entry in self._entries if port in entry.ports and entry.covers_name(name)),
            None,
        )

    def covers(self, text: str) -> bool:
        """Whether all that the entry ``text`` would allow is allowed already, each of its ports.

        Raises:
            HostRefused: when ``text`` can't be an entry.
        """
        wanted = _entry(text)
        held: set[int] = set()
        for entry in self._entries:
            if entry.covers(wanted):
                held |= entry.ports
        return wanted.ports <= held


def common_entries(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """Entries for exactly what both lists allow.

    Raises:
        HostRefused: as :class:`AllowList`.
    """
    found: list[_Entry] = []
    for one in map(_entry, first):
        for other in map(_entry, second):
            # Two entries are disjoint, or one lies within the other.
            narrower = other if one.covers(other) else one if other.covers(one) else None
            ports = one.ports & other.ports
            if narrower is not None and ports:
                found.append(_Entry(narrower.host, narrower.reach, ports))
    return tuple(dict.fromkeys(entry.text for entry in found))


def _entry(text: str) -> _Entry:
    below = text.startswith("*.")
    host, port = split_host(text[2:] if below else text)
    ports = WEB_PORTS if port is None else frozenset({port})
    address = address_of(host)
    if address is not None:
        if below:
            raise HostRefused(f"{text!a}: there is nothing below an address")
        if is_metadata(address):
            raise HostRefused(f"{text!a} is a cloud's metadata service, which hands out keys; it can't be listed")
        return _Entry(host, "exact", ports)
    if "." not in host:
        if below:
            raise HostRefused(f"{text!a} would cover a whole top-level domain")
        return _Entry(host, "exact", ports)
    return _Entry(host, "below" if below else "tree", ports)


def _split_address(text: str, shown: str) -> tuple[str, int | None]:
    inside, bracket, rest = text[1:].partition("]")
    if not bracket or (rest and not rest.startswith(":")):
        raise HostRefused(f"{shown} is no IPv6 address in brackets")
    try:
        address = ipaddress.IPv6Address(inside)
    except ValueError:
        raise HostRefused(f"{shown} is no IPv6 address in brackets") from None
    if "." in inside or address.ipv4_mapped is not None:
        raise HostRefused(f"{shown} is an IPv4 address in IPv6 clothes; write the IPv4 address")
    return f"[{address}]", _port(rest[1:], shown) if rest else None


def _name(name: str, shown: str) -> str:
    host = name if name.isascii() else _international(name, shown)
    host = host.lower().removesuffix(".")
    labels = host.split(".")
    if not host or not all(labels):
        raise HostRefused(f"{shown} has an empty label")
    if len(host) > _LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise HostRefused(f"{shown} is no host name")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise HostRefused(
                f"{shown} ends in a number and is no IPv4 address of four decimal parts; programs read it differently"
            ) from None
    return host


def _international(name: str, shown: str) -> str:
    import idna

    try:
        return idna.encode(name, uts46=True, std3_rules=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise HostRefused(f"{shown} is no host name") from None


def _port(text: str, shown: str) -> int:
    if not text.isascii() or _PORT.fullmatch(text) is None or not 0 < int(text) < 65536:
        raise HostRefused(f"{shown} has no port from 1 to 65535 after its colon")
    return int(text)
