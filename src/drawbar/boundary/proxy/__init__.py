"""The allow-list proxy: the only way from a sandbox to the network, and from the harness's own fetches (BND-13)."""

from __future__ import annotations

from drawbar.boundary.proxy.gate import NetworkProxy

__all__ = ["NetworkProxy"]
