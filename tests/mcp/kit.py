"""Servers to talk to: the reported failures' own, and one that behaves as a test says."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from drawbar.boundary.bubblewrap import Bubblewrap
from drawbar.boundary.roots import pin_root
from drawbar.boundary.runner import SandboxRunner
from drawbar.contracts.boundary import Policy
from drawbar.tools.mcp.connection import Connection
from drawbar.tools.mcp.listing import Listing
from drawbar.tools.mcp.room import ServerRoom
from drawbar.tools.mcp.settings import ServerSettings

REPORTED = Path(__file__).resolve().parent.parent / "fixtures" / "bugs"

HEAD = """\
import json, os, subprocess, sys, time
def put(text):
    sys.stdout.write(text); sys.stdout.flush()
def send(value):
    put(json.dumps(value) + "\\n")
def answer(id, result):
    send({"jsonrpc": "2.0", "id": id, "result": result})
def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}
def tool(name, schema=None, **more):
    return {"name": name, "description": name, "inputSchema": schema or {"type": "object"}, **more}
TOOLS = [tool("one")]
def start(id, params):
    answer(id, {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "t", "version": "0"}})
def listed(id, params):
    answer(id, {"tools": TOOLS})
def called(id, params):
    answer(id, text("done " + json.dumps(params.get("arguments"))))
"""
TAIL = """
for line in sys.stdin:
    asked = json.loads(line)
    job = {"initialize": start, "tools/list": listed, "tools/call": called}.get(asked.get("method"))
    if job: job(asked["id"], asked.get("params") or {})
"""


def server(folder: Path, body: str = "", *, name: str = "t", **settings: Any) -> ServerSettings:
    """A server of a program that ``body`` changes."""
    program = folder / f"{name}-server.py"
    program.write_text(HEAD + body + TAIL)
    return ServerSettings(name, "a test", (sys.executable, str(program)), **{"timeout_s": 10.0, **settings})


def reported(bug: str, **settings: Any) -> ServerSettings:
    """The server of a reported failure."""
    return ServerSettings("demo", "a test", (sys.executable, str(REPORTED / bug / "server.py")), **settings)


def runner(folder: Path, **environ: str) -> SandboxRunner:
    """What starts servers for work in ``folder``."""
    import os

    policy = Policy(root=pin_root(folder, hidden=(), read_only=True), tools=frozenset(), scopes=("outside",))
    return SandboxRunner(
        policy, backend=Bubblewrap(), private_tmp=folder.parent / "tmp", environ={**os.environ, **environ}, marker=""
    )


@asynccontextmanager
async def connected(settings: ServerSettings, folder: Path, **environ: str) -> AsyncIterator[Connection]:
    """One server of its own."""
    commands = runner(folder, **environ)
    connection = Connection(settings, commands, lambda: settings.values(environ, lambda _value, _kind: None))
    try:
        yield connection
    finally:
        await connection.close()
        await commands.close()


def room(folder: Path, lists: Path, **environ: str) -> ServerRoom:
    """What a run's servers are started with."""
    import os

    root = pin_root(folder, hidden=(), read_only=True)
    return ServerRoom(
        folder=root,
        hidden=(),
        lists=lists,
        environ={**os.environ, **environ},
        learn=lambda _value, _kind: None,
        start=lambda policy: SandboxRunner(
            policy, backend=Bubblewrap(), private_tmp=lists / "tmp", environ={**os.environ, **environ}, marker=""
        ),
    )


def names(listing: Listing) -> list[str]:
    return [tool.name for tool in listing.tools]


def words(answer: Any) -> str:
    return "\n".join(block.text for block in answer.content)
