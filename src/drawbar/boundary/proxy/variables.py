"""The variables by which programs inside find the proxy; those that look at none of them have no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drawbar.boundary.hosts import HostRefused, split_host
from drawbar.boundary.proxy.entry import PORT

__all__ = ["proxy_variables"]

_ADDRESS: Final = f"http://127.0.0.1:{PORT}"
_NAMES: Final = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
    *("npm_config_proxy", "npm_config_https_proxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY"),
    *("CARGO_HTTP_PROXY", "PIP_PROXY"),
)
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def proxy_variables(hosts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Names and values, sorted.

    Args:
        hosts: what the list allows. A loopback address on it is the machine's own, so programs take the proxy for it
            and reach servers inside as ``localhost``.
    """
    direct = ",".join(name for name in _LOOPBACK if name not in _listed(hosts))
    values = dict.fromkeys(_NAMES, _ADDRESS) | {"NO_PROXY": direct, "no_proxy": direct, "npm_config_noproxy": direct}
    # Node's own fetch and http look at the variables only when told to.
    return tuple(sorted((values | {"NODE_USE_ENV_PROXY": "1"}).items()))


def _listed(hosts: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for text in hosts:
        try:
            found.add(split_host(text)[0].strip("[]"))
        except HostRefused:
            continue  # an entry with a star
    return found
