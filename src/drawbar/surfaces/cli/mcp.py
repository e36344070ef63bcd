"""``drawbar mcp``: the MCP servers whose tools a run in this folder gets (PRO-3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drawbar.surfaces.cli.shell import Command, Group

if TYPE_CHECKING:
    from drawbar.surfaces.cli.output import Look
    from drawbar.tools.mcp.room import Checked

__all__ = ["check", "list_servers", "mcp"]


@click.group(cls=Group, epilog="Example: drawbar mcp check files")
def mcp() -> None:
    """Look at the MCP servers whose tools runs get; mcp.toml of the config folder names them."""


@mcp.command("list", cls=Command, epilog="Example: drawbar mcp list --json")
@click.option("--root", default=".", metavar="DIR", help="As for a run in this folder; by default the current one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_servers(root: str, as_json: bool) -> int:
    """List the servers and the tools that they listed last; nothing is started."""
    return _look(root, None, as_json)


@mcp.command(cls=Command, epilog="Example: drawbar mcp check files")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--root", default=".", metavar="DIR", help="As for a run in this folder; by default the current one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(names: tuple[str, ...], root: str, as_json: bool) -> int:
    """Start servers (all enabled ones, if none is named), ask for their tools, and end them.

    Exit code 0 when each answered, else 1.
    """
    return _look(root, names, as_json)


def _look(root: str, names: Sequence[str] | None, as_json: bool) -> int:
    import asyncio

    from drawbar.app import look_at_servers
    from drawbar.surfaces.cli.harness import print_lines, standard_look
    from drawbar.surfaces.cli.output import print_json

    found, notices = asyncio.run(look_at_servers(Path(root), names))
    if as_json:
        print_json({"servers": [_told(one) for one in found], "notices": list(notices), "cursor": None})
    else:
        print_lines(_lines(found, notices, standard_look()))
    return 1 if any(one.fault for one in found) else 0


def _told(one: Checked) -> dict[str, Any]:
    from drawbar.tools.mcp.names import tool_name

    server, listing = one.server, one.listing
    tools = None if listing is None else [
        {
            "name": tool_name(server.name, tool.name),
            "served_as": tool.name,
            "description": tool.description,
            "says_read_only": tool.read_only,
        }
        for tool in listing.tools
    ]  # fmt: skip
    return {
        "name": server.name,
        "source": server.source,
        "transport": server.transport,
        "where": one.where,
        "enabled": server.enabled,
        "timeout_s": server.timeout_s,
        "fault": one.fault or None,
        "tools": tools,
        "left_out": [] if listing is None else list(listing.left_out),
    }


def _lines(found: Sequence[Checked], notices: Sequence[str], look: Look) -> list[str]:
    from drawbar.surfaces.cli.text import clip, label
    from drawbar.tools.mcp.names import tool_name

    lines = [look.paint(f"{look.glyphs.warn} {label(notice)}", "yellow") for notice in notices]
    if not found and not notices:
        return ["no MCP server is set up; mcp.toml of the config folder names them"]
    for one in found:
        server, listing = one.server, one.listing
        sign = look.paint(look.glyphs.bad, "red") if one.fault else look.paint(look.glyphs.bullet, "cyan")
        state = "" if server.enabled else "  (disabled)"
        lines.append(f"{sign} {label(server.name)}  {label(server.transport)}  {label(one.where)}{state}")
        if one.fault:
            lines.append(f"  {look.paint(label(one.fault), 'red')}")
        elif listing is None:
            lines.append(f"  not asked yet; drawbar mcp check {label(server.name)} asks it")
        for tool in () if listing is None else listing.tools:
            text = f"  {tool_name(server.name, tool.name)}  {label(tool.description)}"
            lines.append(clip(text, look.width, look.glyphs.dots))
        lines += [f"  left out: {label(why)}" for why in (() if listing is None else listing.left_out)]
    return lines
