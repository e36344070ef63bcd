"""What a server says its tools are: cleaned, bounded, and kept so that the next run need not ask (PRO-3).

All of it is somebody else's text that a model is going to read: what isn't plainly seen is spelled out, lengths are
bounded, and too many tools are too many.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from drawbar.boundary.shown import shown
from drawbar.contracts.codec import encode, loads
from drawbar.contracts.errors import InvalidInput
from drawbar.stores.atomic import private_folder, write_atomic
from drawbar.stores.regular_file import read_regular
from drawbar.tools.mcp.schemas import SchemaRefused, portable_schema
from drawbar.tools.mcp.settings import ServerSettings

__all__ = ["ListedTool", "Listing", "ListingCache", "listing_of"]

MOST_TOOLS: Final = 100
"""For one server; each costs tokens in every request."""
_LONGEST_DESCRIPTION: Final = 2_000
_LONGEST_NAME: Final = 256
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class ListedTool:
    """One tool as its server describes it. ``read_only`` is the server's word, which decides nothing."""

    name: str
    description: str
    schema: dict[str, Any]
    read_only: bool = False

    def digest(self, server: ServerSettings) -> str:
        """Hex over the server's settings and everything that the tool is said to be."""
        told = [server.digest(), self.name, self.description, self.schema]
        return hashlib.sha256(encode(told, canonical=True)).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools that can be offered, sorted by name, and what was left out and why."""

    tools: tuple[ListedTool, ...]
    left_out: tuple[str, ...] = field(default=())

    def get(self, name: str) -> ListedTool | None:
        return next((tool for tool in self.tools if tool.name == name), None)


def listing_of(server: ServerSettings, described: Iterable[tuple[str, str | None, Any, bool]]) -> Listing:
    """Clean what a server listed.

    Args:
        server: whose ``tools`` say which are taken.
        described: name, description, input schema and read-only hint of each tool.
    """
    kept: dict[str, ListedTool] = {}
    left_out: list[str] = []
    wanted = None if server.tools is None else set(server.tools)
    for name, description, schema, read_only in described:
        if wanted is not None and name not in wanted:
            continue
        told = shown(name[:80], one_line=True)
        if not name or len(name) > _LONGEST_NAME:
            left_out.append(f"{told or 'a tool without a name'}: its name can't be used")
        elif name in kept:
            left_out.append(f"{told}: listed twice; the first one counts")
        else:
            try:
                # Cut after it is spelled out, so that what is kept reads the same when it is cleaned again.
                plain = shown((description or "")[:_LONGEST_DESCRIPTION])[:_LONGEST_DESCRIPTION].strip()
                kept[name] = ListedTool(name, plain, portable_schema(schema), read_only)
            except SchemaRefused as error:
                left_out.append(f"{told}: {error}")
    tools = sorted(kept.values(), key=lambda tool: tool.name)
    if len(tools) > MOST_TOOLS:
        left_out.append(
            f"{len(tools) - MOST_TOOLS:,} of {len(tools):,} tools: a server may have {MOST_TOOLS}; choose with "
            '`tools = ["…"]` in its settings'
        )
    missing = sorted((wanted or set()) - set(kept))
    if missing:
        left_out.append(f"{', '.join(missing[:10])}: named in its settings, and no tool of this server")
    return Listing(tuple(tools[:MOST_TOOLS]), tuple(left_out))


class ListingCache:
    """The last listing of each server, by the digest of its settings.

    Args:
        folder: made when something is first kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, server: ServerSettings) -> Listing | None:
        """The listing, None where there is none that can be read; what it holds is cleaned anew."""
        try:
            value = loads(read_regular(self._path(server)))
        except (OSError, ValueError, RecursionError, InvalidInput):
            return None
        if not isinstance(value, dict) or cast("dict[str, Any]", value).get("format") != _FORMAT:
            return None
        tools: Any = cast("dict[str, Any]", value).get("tools")
        described = [_described(item) for item in cast("list[Any]", tools)] if isinstance(tools, list) else [None]
        return None if None in described else listing_of(server, [item for item in described if item is not None])

    def save(self, server: ServerSettings, listing: Listing) -> None:
        """Keep a listing; that it can't be kept only means that the server is asked again."""
        told = {"format": _FORMAT, "server": server.name, "tools": [_told(tool) for tool in listing.tools]}
        try:
            private_folder(self._folder)
            write_atomic(self._path(server), encode(told))
        except Exception:
            return

    def _path(self, server: ServerSettings) -> Path:
        chosen = encode([server.digest(), server.tools], canonical=True)
        return self._folder / f"{hashlib.sha256(chosen).hexdigest()[:32]}.json"


def _told(tool: ListedTool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "schema": tool.schema, "read_only": tool.read_only}


def _described(item: Any) -> tuple[str, str | None, Any, bool] | None:
    fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not isinstance(description, str):
        return None
    return name, description, fields.get("schema"), fields.get("read_only") is True
