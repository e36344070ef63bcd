"""``drawbar gate``: ask the gate what it would say to a call, without carrying it out (CLI-6)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from drawbar.contracts.errors import InvalidInput
from drawbar.surfaces.cli.shell import Group

if TYPE_CHECKING:
    from drawbar.contracts.decision import PolicyFile
    from drawbar.contracts.run import ApprovalMode

__all__ = ["decide", "gate"]

_APPROVALS: Final = ("ask", "auto-workspace", "read-only", "never")
_LARGEST: Final = 16 * 1024 * 1024


@click.group(
    cls=Group,
    epilog='Example: drawbar gate decide --root . --tool bash --input \'{"command": "make test"}\'',
)
def gate() -> None:
    """Try the gate by hand."""


@gate.command(
    epilog="Example: drawbar gate decide --root . --approval auto-workspace --tool write"
    ' --input \'{"path": "../x", "content": ""}\''
)
@click.option(
    "--policy",
    metavar="FILE",
    help="Decide from a policy: a JSON object {root, tools[], typed_tools[], scopes[], network, plan, deny_read[],"
    " approval}.",
)
@click.option("--root", metavar="DIR", help="Decide as for your own run in this folder.")
@click.option("--plan", is_flag=True, help="Judge as in plan mode.")
@click.option("--engine", metavar="NAME", default="native", help="Whose path rules hold; `native`, the built-in one.")
@click.option("--tool", metavar="NAME", required=True, help="The tool that would be called.")
@click.option(
    "--input", "given", metavar="JSON", required=True, help="Its arguments; `-` reads them from standard input."
)
@click.option("--approval", type=click.Choice(_APPROVALS), help="With --root: the approval mode, `ask` if left out.")
@click.option("--json", "as_json", is_flag=True, help="Print errors as JSON too; the decision always is.")
def decide(
    policy: str | None, root: str | None, plan: bool, engine: str, tool: str, given: str, approval: ApprovalMode | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Print the gate's decision on a call as one JSON object.

    It is {decision, code, cause, message, resolved_paths[], rule}. Nothing is carried out, remembered or written.
    Exit codes: 0 allow; 3 refuse, ask, or the gate failed; 2 bad usage.
    """
    import asyncio

    from drawbar import app
    from drawbar.contracts.tool import ToolCall
    from drawbar.surfaces.cli.output import print_json

    if (policy is None) == (root is None):
        raise click.UsageError("name either a policy (--policy FILE) or a folder (--root DIR)")
    if policy is not None and approval is not None:
        raise click.UsageError("--approval goes with --root; a policy brings its own approval mode")
    where = _policy(policy) if policy is not None else Path(root or ".")
    call = ToolCall(id="by-hand", name=tool, arguments=_arguments(given))
    decision = asyncio.run(app.decide(call, where, approval=approval or "ask", plan=plan, engine=engine))
    print_json(decision)
    return 0 if decision.decision == "allow" else 3


def _policy(name: str) -> PolicyFile:
    from drawbar.contracts.codec import decode, field_names
    from drawbar.contracts.decision import PolicyFile

    try:
        with Path(name).open("rb") as file:
            content = file.read(_LARGEST)
    except OSError as error:
        raise InvalidInput(f"--policy: {name} can't be read: {error.strerror}", field="policy") from error
    try:
        return decode(content, PolicyFile, what=f"--policy: {name}")
    except InvalidInput as error:
        known = ", ".join(field_names(PolicyFile))
        raise InvalidInput(f"{error.message}. A policy is one JSON object of {known}", field="policy") from error


def _arguments(given: str) -> Any:
    from drawbar.contracts.codec import loads

    text: str | bytes = given
    if given == "-":
        if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # closed by whoever started us
            raise InvalidInput("--input: standard input is closed", field="input")
        text = sys.stdin.buffer.read(_LARGEST)
    try:
        return loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"--input: this is no JSON: {error}", field="input") from error
