"""``drawbar sessions``: looking into the history of a conversation, damage included (CLI-7)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drawbar.contracts.codec import encode
from drawbar.surfaces.cli.shell import Command, Group

if TYPE_CHECKING:
    from drawbar.contracts.model import RequestBuilder
    from drawbar.stores.history import HistoryView
    from drawbar.surfaces.cli.output import Look

__all__ = ["sessions"]


@click.group(cls=Group, epilog="Example: drawbar sessions inspect history.jsonl --json")
def sessions() -> None:
    """Look into the histories of conversations."""


@sessions.command("inspect", cls=Command, epilog="Example: drawbar sessions inspect history.jsonl --json")
@click.argument("file")
@click.option("--request", "protocol", metavar="PROTOCOL", help="Also build the request that would be sent next.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def inspect(file: str, protocol: str | None, as_json: bool) -> int:
    """Print what a history file holds: header, entries, the branch to its leaf, and every repair.

    PROTOCOL is a provider's, such as anthropic-messages; no account is needed and nothing is sent. The file is
    only read. Exit code 0 whenever it could be opened, whatever is in it.
    """
    from drawbar.stores.history import read_history

    if protocol is not None and not as_json:
        raise click.UsageError("--request prints JSON: add --json")
    builder = None if protocol is None else _builder(protocol)
    view = read_history(Path(file))
    if as_json:
        _print_json(view, None if builder is None else _request(view, builder))
        return 0
    from drawbar.surfaces.cli.harness import print_lines, standard_look

    print_lines(_lines(view, standard_look()))
    return 0


def _builder(protocol: str) -> RequestBuilder:
    """The request builder of a protocol, with nothing but the conversation to build from."""
    from drawbar.contracts.clock import SystemClock
    from drawbar.contracts.model import Account, RequestSettings
    from drawbar.models import provider_for

    account = Account(id="inspect", protocol=protocol, base_url="http://127.0.0.1", secret="")
    settings = RequestSettings(model="unknown", system="")
    return provider_for(account, clock=SystemClock()).builder(settings)


def _request(view: HistoryView, builder: RequestBuilder) -> bytes:
    builder.reset(view.messages())
    return b"".join(builder.build().body)


def _print_json(view: HistoryView, request: bytes | None) -> None:
    """``{header, entries, branch, leaf, repairs, request?}``, entry by entry: a history may be larger than memory."""
    out = sys.stdout.buffer
    out.write(b'{"header":' + _encoded(view.header or None) + b',"entries":[')
    for place, entry in enumerate(view.entries):
        out.write((b"," if place else b"") + _encoded(entry))
    rest = {"branch": view.branch, "leaf": view.leaf, "repairs": [repair._asdict() for repair in view.repairs]}
    out.write(b"]," + _encoded(rest)[1:-1])
    out.write(b"}\n" if request is None else b',"request":' + request + b"}\n")


def _encoded(value: Any) -> bytes:
    try:
        return encode(value)
    except (UnicodeEncodeError, ValueError):
        # A lone surrogate is in the file as an escape, and stays one: entries are printed as read.
        return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def _lines(view: HistoryView, look: Look) -> list[str]:
    from drawbar.surfaces.cli.listing import pairs

    header = view.header
    return pairs(
        look,
        [
            ("file", str(view.path)),
            ("session", str(header.get("id", "")) or "no header"),
            ("name", view.name),
            ("version", str(view.version) if view.version is not None else None),
            ("folder", str(header.get("cwd", "")) or None),
            ("entries", str(len(view.entries))),
            ("branch", f"{len(view.branch)} entries to {view.leaf}" if view.leaf else "empty"),
            *[("repair", f"{r.kind}: line {r.line}, {r.bytes} bytes at {r.offset}") for r in view.repairs],
        ],
    )
