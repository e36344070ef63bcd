"""``drawbar run``: a request carried out in the current folder, shown as it happens (CLI-1)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from drawbar.surfaces.cli.request import build_request, prompt_text, session_named, stdin_stream
from drawbar.surfaces.cli.shell import BROKEN_PIPE, Command

if TYPE_CHECKING:
    from drawbar.app import Harness
    from drawbar.contracts.model import Account
    from drawbar.contracts.run import RunInput
    from drawbar.surfaces.cli.stops import Stops
    from drawbar.surfaces.cli.watch import Form, Watch

__all__ = ["Outcome", "carry_out", "run"]

_APPROVALS = ("ask", "auto-workspace", "read-only", "never")


@click.command(cls=Command, epilog='Example: drawbar run "fix the failing test" --approval auto-workspace')
@click.argument("text", required=False)
@click.option("--cwd", metavar="DIR", help="Work there instead of in the current folder.")
@click.option("--account", metavar="NAME", help="The account to use; see `drawbar doctor`.")
@click.option("--model", metavar="NAME", help="The model to use; by default the account's.")
@click.option("--effort", metavar="LEVEL", help="How much the model should think, as its provider names it.")
@click.option("--session", metavar="ID", help="Go on with this conversation (an id or the beginning of one).")
@click.option("--title", metavar="TEXT", help="A name for the run in listings.")
@click.option(
    "--approval",
    type=click.Choice(_APPROVALS),
    help="What may happen unasked. ask (the default): reading in the folder; auto-workspace: also writing and"
    " commands in it; read-only: nothing but reading; never: as auto-workspace, and the rest is refused.",
)
@click.option(
    "--sandbox", type=click.Choice(["on", "off"]), help="Off runs commands unconfined, and the record says so."
)
@click.option("--unattended", is_flag=True, help="Nobody will be asked: what needs a person is refused.")
@click.option(
    "--ask-timeout",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="How long an approval or a question may wait for an answer from elsewhere (`drawbar runs approve`,"
    " `drawbar runs answer`).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the events as JSON lines, exactly as recorded.")
@click.option("--quiet", is_flag=True, help="Print the last reply alone.")
def run(text: str | None, session: str | None, as_json: bool, quiet: bool, **options: Any) -> int:
    """Carry out a request in the current folder.

    TEXT is the request; left out (or `-`), it is read from standard input. Exit codes: 0 completed, 1 failed,
    2 bad usage, 3 something needed a person who wasn't there, 130 interrupted.
    """
    import asyncio

    if as_json and quiet:
        raise click.UsageError("--json and --quiet are two answers to one question: choose one")
    stdin, is_terminal = stdin_stream()
    words = prompt_text(text, stdin, stdin_is_terminal=is_terminal)
    known = None if session is None else session_named(session, os.environ)
    request = build_request(words, typed=text not in (None, "-"), session=known, **options)
    return asyncio.run(carry_out(request, "json" if as_json else "quiet" if quiet else "people")).status


class Outcome(NamedTuple):
    """The exit code, and the run if it was shown to its end."""

    status: int
    run_id: str | None = None


async def carry_out(request: RunInput, form: Form, *, accounts: Iterable[Account] = ()) -> Outcome:
    """Start the run and show it to its end.

    Args:
        request: what to do.
        form: how it is shown.
        accounts: besides those of the environment.
    """
    import asyncio

    import drawbar
    from drawbar.surfaces.cli.stops import Stops
    from drawbar.surfaces.cli.watch import ReaderGone, Watch

    watch = Watch(form, os.environ)
    _say_where(watch)
    stops = Stops(watch.say, watch.force_end)
    try:
        with stops.listening():
            async with drawbar.open(accounts=accounts) as harness:
                watch.settled(harness.recovery)
                return await _carry(harness, request, watch, stops)
    except asyncio.CancelledError:
        return Outcome(stops.exit_code)
    except ReaderGone:
        return Outcome(BROKEN_PIPE)
    finally:
        watch.close()


def _say_where(watch: Watch) -> None:
    """A new root at a relative place is easily one too many, such as inside of a repository."""
    named = os.environ.get("DRAWBAR_HOME", "").strip()
    if not named or os.path.isabs(os.path.expanduser(named)):
        return
    from drawbar.app import root_exists
    from drawbar.stores.layout import Layout

    if not root_exists(os.environ):
        data = Layout.resolve(os.environ).data
        watch.remark(f"drawbar: DRAWBAR_HOME is relative, so the records are kept in {data}")


async def _carry(harness: Harness, request: RunInput, watch: Watch, stops: Stops) -> Outcome:
    from drawbar.contracts.errors import DrawbarError

    asker = watch.asker()
    started = await harness.sessions.run(
        request, ask_handler=asker, question_handler=asker.question if asker is not None else None
    )
    live = harness.runs.live.get(started.run_id)
    answerable = request.ask_timeout_s > 0 and (live is None or live.answers_over_socket)

    async def stop() -> None:
        try:
            await harness.runs.interrupt(started.run_id)
        except DrawbarError as error:
            watch.say(error.message)

    stops.arm(stop)
    account = await watch.follow(
        harness.runs,
        started.run_id,
        fault=lambda: live.fault if live is not None else None,
        answerable=asker is not None or answerable,
    )
    return Outcome(account.exit_code, started.run_id)
