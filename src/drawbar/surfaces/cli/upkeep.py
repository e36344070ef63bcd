"""``drawbar doctor``, ``reindex`` and ``completion``: keeping the installation well (CLI-2, CLI-4)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from drawbar.surfaces.cli.shell import Command, root

if TYPE_CHECKING:
    from drawbar.app import Harness
    from drawbar.contracts.methods import Check
    from drawbar.surfaces.cli.output import Look

__all__ = ["check_lines", "completion", "doctor", "reindex"]


@click.command(cls=Command, epilog="Example: drawbar doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> int:
    """Check sandbox, kernel, git, engines, accounts and data root, and say how to mend each.

    Exit code 0 when all is well, else 1.
    """
    import asyncio

    from drawbar.app import diagnose
    from drawbar.surfaces.cli.harness import print_lines, standard_look
    from drawbar.surfaces.cli.output import print_json

    checks = asyncio.run(diagnose())
    if as_json:
        print_json({"checks": checks, "cursor": None})
    else:
        print_lines(check_lines(checks, standard_look()))
    return 0 if all(check.ok for check in checks) else 1


def check_lines(checks: Sequence[Check], look: Look) -> list[str]:
    """Findings as lines, each cure below what it cures."""
    from drawbar.surfaces.cli.text import label

    width = max(len(check.name) for check in checks)
    lines: list[str] = []
    for check in checks:
        sign = look.paint(look.glyphs.ok, "green") if check.ok else look.paint(look.glyphs.bad, "red")
        lines.append(f"{sign} {label(check.name).ljust(width)}  {label(check.message)}")
        if check.cure:
            lines.append(f"  {' ' * width}  {look.paint(label(check.cure), 'yellow')}")
    return lines


@click.command(cls=Command, epilog="Example: drawbar reindex")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reindex(as_json: bool) -> int:
    """Rebuild the run index from the runs themselves; nothing else is touched."""
    from drawbar.surfaces.cli.harness import call
    from drawbar.surfaces.cli.output import print_json
    from drawbar.surfaces.cli.text import counted

    async def work(harness: Harness) -> int:
        done = harness.reindex()
        if as_json:
            print_json(done)
        else:
            skipped = f", {counted(done.skipped, 'folder')} passed over" if done.skipped else ""
            print(f"{counted(done.runs, 'run')} indexed{skipped}")
        return 0

    return call(work)


@click.command(cls=Command, epilog='Example: eval "$(drawbar completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the script that completes drawbar's commands and flags in SHELL."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    sys.stdout.write(kind(root, {}, "drawbar", "_DRAWBAR_COMPLETE").source() + "\n")
    return 0
