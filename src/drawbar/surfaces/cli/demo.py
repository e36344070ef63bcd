"""``drawbar demo``: a whole run to look at, with a scripted model and everything else real (CLI-3)."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drawbar.surfaces.cli.shell import Command

if TYPE_CHECKING:
    from drawbar.contracts.methods import Check

__all__ = ["demo"]


@click.command(cls=Command, epilog="Example: drawbar demo")
@click.option("--json", "as_json", is_flag=True, help="Print the events as JSON lines, exactly as recorded.")
def demo(as_json: bool) -> int:
    """See a whole run: no key, no network, a scripted model.

    A small repository with a failing test is made; the test is read, run in the sandbox, fixed and shown as a
    diff. Only the model is scripted: client, gate, sandbox and record are the ordinary ones, and the run is
    in `drawbar runs list` afterwards.
    """
    import asyncio

    return asyncio.run(_demo(as_json))


async def _demo(as_json: bool) -> int:
    from drawbar.surfaces.cli.request import build_request
    from drawbar.surfaces.cli.run import carry_out
    from drawbar.surfaces.demo import ACCOUNT, REQUEST, make_project, obstacles, scripted_account

    if found := await obstacles():
        return _refuse(found, as_json)
    folder = Path(tempfile.mkdtemp(prefix="drawbar-demo-"))
    project = make_project(folder)
    if not as_json:
        _say(f"A demo: the model is scripted, served on 127.0.0.1. Everything else is real, in {folder}")
        _say(f'Request: "{REQUEST}"\n')
    request = build_request(
        REQUEST, cwd=str(folder), account=ACCOUNT, approval="auto-workspace", title="Demo with a scripted model"
    )
    async with scripted_account(project) as account:
        ended = await carry_out(request, "json" if as_json else "people", accounts=[account])
    if not as_json and ended.run_id is not None:
        _say("\nLook for yourself:")
        _say(f"  git -C {folder} diff" if project.repository else f"  cat {folder}/till.py")
        for command in ("show", "events", "prompt", "verify"):
            _say(f"  {_program()} runs {command} {ended.run_id}")
        _say(f"{folder} stays until you remove it.")
    return ended.status


def _refuse(found: list[Check], as_json: bool) -> int:
    """What stands in the way, before anything was started."""
    from drawbar.contracts.errors import SandboxUnavailable

    if as_json:
        raise SandboxUnavailable("; ".join(f"{check.message} ({check.cure})" for check in found))
    from drawbar.surfaces.cli.harness import print_lines, standard_look
    from drawbar.surfaces.cli.upkeep import check_lines

    print_lines(["The demo can't run here:", *check_lines(found, standard_look())])
    return 1


def _program() -> str:
    """How this program is called: by name where the shell would find it, else by its path."""
    found = shutil.which("drawbar")
    here = Path(sys.executable).parent / "drawbar"
    if (found is not None and os.path.realpath(found) == os.path.realpath(here)) or not here.exists():
        return "drawbar"
    shown = os.path.relpath(here)
    return shlex.quote(shown if not shown.startswith("..") else str(here))


def _say(text: str) -> None:
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)
