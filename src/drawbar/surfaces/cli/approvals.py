"""``drawbar approvals``: the rules that *always* saved, seen and taken back (BND-6)."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from drawbar.surfaces.cli.shell import Command, Group

if TYPE_CHECKING:
    from drawbar.app import Harness
    from drawbar.contracts.boundary import StandingRule

__all__ = ["approvals"]

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(cls=Group, epilog="Example: drawbar approvals list")
def approvals() -> None:
    """See and take back what `always` saved."""


@approvals.command("list", cls=Command, epilog="Example: drawbar approvals list")
@_JSON
def list_approvals(as_json: bool) -> int:
    """List the saved rules, oldest first: id, tool, scope, pattern, workspace."""
    from drawbar.surfaces.cli.asking import rule_text
    from drawbar.surfaces.cli.harness import call, print_lines
    from drawbar.surfaces.cli.output import print_json

    async def work(harness: Harness) -> int:
        return told(harness.approvals.list())

    def told(rules: list[StandingRule]) -> int:
        if as_json:
            print_json({"approvals": rules, "cursor": None})
        elif rules:
            print_lines([f"{rule.id}  {rule_text(rule, os.environ.get('HOME'))}" for rule in rules])
        else:
            print("no rule is saved", file=sys.stderr)
        return 0

    return call(work, without_root=lambda: told([]))


@approvals.command("revoke", cls=Command, epilog="Example: drawbar approvals revoke a_01k")
@click.argument("rule", metavar="ID")
@_JSON
def revoke(rule: str, as_json: bool) -> int:
    """Take a saved rule back, for every run that starts from now on. ID may be any unique beginning."""
    from drawbar.surfaces.cli.asking import rule_text
    from drawbar.surfaces.cli.harness import call
    from drawbar.surfaces.cli.output import print_json

    async def work(harness: Harness) -> int:
        gone = harness.approvals.revoke(_named(rule, harness.approvals.list()))
        if as_json:
            print_json(gone)
        else:
            print(f"revoked {gone.id}: {rule_text(gone, os.environ.get('HOME'))}")
        return 0

    return call(work)


def _named(beginning: str, rules: list[StandingRule]) -> str:
    from drawbar.contracts.errors import InvalidInput

    matches = [rule.id for rule in rules if rule.id.startswith(beginning)]
    if len(matches) > 1 and beginning not in matches:
        raise InvalidInput(f"{len(matches)} rules begin with {beginning!r}: type more of the id", field="id")
    return matches[0] if len(matches) == 1 else beginning
