"""``drawbar demo``: a whole run to look at, with a scripted model and everything else real (CLI-3)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from drawbar.surfaces.cli.shell import Command

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
    from drawbar.surfaces.demo import ACCOUNT, REQUEST, make_project, scripted_account

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
            _say(f"  drawbar runs {command} {ended.run_id}")
    return ended.status


def _say(text: str) -> None:
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)
