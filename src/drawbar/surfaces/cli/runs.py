"""``drawbar runs``: list, show and follow runs, verify their record, stop them, answer them (CLI-2, CLI-7)."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drawbar.surfaces.cli.answer import answer
from drawbar.surfaces.cli.approve import approve
from drawbar.surfaces.cli.shell import BROKEN_PIPE, Command, Group

if TYPE_CHECKING:
    from drawbar.app import Harness
    from drawbar.contracts.methods import Inspection, RunPrompt, Verification
    from drawbar.contracts.run import RunRecord
    from drawbar.surfaces.cli.output import Look

__all__ = ["runs"]

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_RUN = click.argument("run")


@click.group(cls=Group, epilog="Example: drawbar runs list --status failed")
def runs() -> None:
    """Look into runs, stop them, answer what they ask.

    RUN is a run's id or any beginning of it that fits one run alone.
    """


@runs.command("list", cls=Command, epilog="Example: drawbar runs list --since 2026-11-01 --limit 20")
@click.option("--session", metavar="ID", help="Runs of this conversation.")
@click.option("--status", metavar="STATUS", help="queued, running, completed, failed, interrupted, …")
@click.option("--trigger", metavar="NAME", help="What started them.")
@click.option("--project", metavar="DIR", help="Runs in this workspace.")
@click.option("--account", metavar="NAME", help="Runs on this account.")
@click.option("--since", metavar="TIME", help="Created at this time (ISO 8601) or later.")
@click.option("--until", metavar="TIME", help="Created before this time.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many.")
@click.option("--cursor", metavar="CURSOR", help="Where the page before ended.")
@_JSON
def list_runs(as_json: bool, **filters: Any) -> int:
    """List runs, newest first."""
    from drawbar.contracts.methods import ListRuns
    from drawbar.surfaces.cli.harness import call, print_lines, record_object, standard_look
    from drawbar.surfaces.cli.output import print_json
    from drawbar.surfaces.cli.pending import WAITING

    async def work(harness: Harness) -> int:
        page = harness.runs.list(ListRuns(**filters))
        if as_json:
            print_json({"runs": [record_object(record) for record in page.runs], "cursor": page.cursor})
        elif page.runs:
            look = standard_look()
            print_lines(_listed(page.runs, look))
            for record in page.runs if filters["status"] in WAITING else ():
                print_lines(["", *_questions(harness, record.id, look)])
            for status in dict.fromkeys(record.status for record in page.runs if filters["status"] not in WAITING):
                if status in WAITING:
                    print(f"waiting: drawbar runs list --status {status} shows what for", file=sys.stderr)
            if page.cursor is not None:
                print(f"more: {_next_page(filters, page.cursor)}", file=sys.stderr)
        elif any(value is not None for name, value in filters.items() if name != "limit"):
            print("no run fits; drawbar runs list shows all", file=sys.stderr)
        else:
            no_runs()
        return 0

    def no_runs() -> int:
        if as_json:
            print_json({"runs": [], "cursor": None})
        else:
            print('no runs; start one with: drawbar run "…"', file=sys.stderr)
        return 0

    return call(work, without_root=no_runs)


def _next_page(filters: Mapping[str, Any], cursor: str) -> str:
    """The command that lists what follows, with everything that was asked for this time."""
    given = {name: value for name, value in filters.items() if value is not None and (name, value) != ("limit", 50)}
    words = [f"--{name}={value}" for name, value in {**given, "cursor": cursor}.items()]
    return shlex.join(["drawbar", "runs", "list", *words])


def _questions(harness: Harness, run_id: str, look: Look) -> list[str]:
    """Everything that the run waits for, whole, each with how to answer it; nothing when it doesn't wait."""
    import os

    from drawbar.surfaces.cli.pending import read_asks, waiting_lines

    return waiting_lines(run_id, read_asks(harness.runs.events(run_id)), look, os.environ.get("HOME"))


def _listed(records: list[RunRecord], look: Look) -> list[str]:
    from drawbar.surfaces.cli.listing import age, table

    rows = [[r.id, _status(r), age(r.created_at), r.model or "", r.title or r.request_preview or ""] for r in records]
    return table(look, ["RUN", "STATUS", "AGE", "MODEL", "REQUEST"], rows, optional=[3, 2])


def _status(record: RunRecord) -> str:
    plain = record.terminal_code in (None, record.status, "user_abort")
    return record.status if plain else f"{record.status} ({record.terminal_code})"


@runs.command("show", cls=Command, epilog="Example: drawbar runs show r_01k")
@_RUN
@_JSON
def show(run: str, as_json: bool) -> int:
    """Show one run's record."""
    from drawbar.surfaces.cli.harness import call, print_lines, record_object, standard_look
    from drawbar.surfaces.cli.output import print_json
    from drawbar.surfaces.cli.pending import WAITING

    async def work(harness: Harness) -> int:
        record = harness.runs.get(run)
        if as_json:
            print_json(record_object(record))
        else:
            look = standard_look()
            print_lines(_shown(record, look))
            if record.status in WAITING:
                print_lines(["", *_questions(harness, record.id, look)])
        return 0

    return call(work)


def _shown(record: RunRecord, look: Look) -> list[str]:
    from drawbar.surfaces.cli.listing import pairs
    from drawbar.surfaces.cli.text import size

    use = record.usage
    tokens = None
    if use is not None:
        parts = [use.input_tokens, use.cache_read_tokens, use.cache_write_tokens]
        known = [part for part in parts if part is not None]
        given = size(sum(known)) if known else "unknown"
        tokens = f"{given} in, {'unknown' if use.output_tokens is None else size(use.output_tokens)} out"
    model = " ".join(filter(None, [record.model, f"(effort {record.effort})" if record.effort else None]))
    return pairs(
        look,
        [
            ("run", record.id),
            ("title", record.title),
            ("request", record.request_preview),
            ("status", _status(record)),
            ("reason", record.terminal_reason),
            ("outcome", record.outcome),
            ("created", record.created_at),
            ("started", record.started_at),
            ("ended", record.ended_at),
            ("account", record.account),
            ("model", model),
            ("tokens", tokens),
            ("workspace", record.workspace_root),
            ("folder", record.working_directory if record.working_directory != record.workspace_root else None),
            ("approval", record.approval),
            ("sandbox", record.sandbox),
            ("unattended", "yes" if record.automatic else None),
            ("session", record.session_id),
            ("history", record.native_history),
            ("parent", record.parent_run_id),
            ("resumed from", record.resumed_from_run_id),
            ("drawbar", record.harness_version),
        ],
    )


@runs.command(
    "follow",
    cls=Command,
    short_help="Show a run as it happens, to its end.",
    epilog="Example: drawbar runs follow r_01k --from 0",
)
@_RUN
@click.option("--from", "from_seq", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Begin with this event.")
@click.option("--json", "as_json", is_flag=True, help="Print the events as JSON lines, exactly as recorded.")
def follow(run: str, from_seq: int, as_json: bool) -> int:
    """Show a run as it happens, to its end; a settled one from its record."""
    import asyncio

    return asyncio.run(_follow(run, from_seq, as_json))


async def _follow(run: str, from_seq: int, as_json: bool) -> int:
    import asyncio
    import os

    import drawbar
    from drawbar.surfaces.cli.pending import read_asks
    from drawbar.surfaces.cli.stops import Stops
    from drawbar.surfaces.cli.watch import ReaderGone, Watch

    watch = Watch("json" if as_json else "people", os.environ)
    stops = Stops(watch.say, watch.force_end)
    try:
        with stops.listening():
            async with drawbar.open() as harness:
                watch.settled(harness.recovery)
                run_id = harness.runs.get(run).id
                asks = read_asks(harness.runs.events(run_id))
                await watch.follow(harness.runs, run_id, from_seq, answerable=not asks.settled, answered=asks.answered)
                return 0
    except asyncio.CancelledError:
        return stops.exit_code
    except ReaderGone:
        return BROKEN_PIPE
    finally:
        watch.close()


@runs.command("events", cls=Command, epilog="Example: drawbar runs events r_01k --from 10")
@_RUN
@click.option("--from", "from_seq", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Begin with this event.")
@click.option("--json", is_flag=True, expose_value=False, help="The same: events are JSON lines.")
def events(run: str, from_seq: int) -> int:
    """Print the events written so far, one JSON line each; on a terminal, controls in them as codes."""
    from drawbar.contracts.codec import encode
    from drawbar.surfaces.cli.harness import call
    from drawbar.surfaces.cli.text import escaped_json

    tty = sys.stdout.isatty()

    async def work(harness: Harness) -> int:
        for event in harness.runs.events(run, from_seq):
            line = encode(event)
            sys.stdout.buffer.write((escaped_json(line) if tty else line) + b"\n")
        return 0

    return call(work)


@runs.command("prompt", cls=Command, epilog="Example: drawbar runs prompt r_01k | less")
@_RUN
@_JSON
def prompt(run: str, as_json: bool) -> int:
    """Print what the model was told, section by section."""
    from drawbar.surfaces.cli.harness import call, print_lines, standard_look
    from drawbar.surfaces.cli.output import print_json

    async def work(harness: Harness) -> int:
        told = harness.runs.prompt(run)
        if as_json:
            print_json(told)
        else:
            print_lines(_sections(told, standard_look()))
        return 0

    return call(work)


def _sections(told: RunPrompt, look: Look) -> list[str]:
    from drawbar.surfaces.cli.text import label, visible

    lines: list[str] = []
    for section in told.sections:
        kind = ", may change between requests" if section.dynamic else ""
        head = f"{look.glyphs.rule * 2} {label(section.name)} ({section.bytes} bytes{kind})"
        lines += [look.paint(head, "bold"), *visible(section.text).rstrip("\n").split("\n"), ""]
    return lines[:-1]


@runs.command(
    "verify",
    cls=Command,
    short_help="Prove that a run's log is as it was written.",
    epilog="Example: drawbar runs verify r_01k",
)
@click.argument("run", metavar="RUN|DIR")
@_JSON
def verify(run: str, as_json: bool) -> int:
    """Recompute the chain of a run's log and name the first line that was altered, dropped, reordered or cut.

    RUN may be a run's folder, also one that was copied elsewhere. Exit code 0 when the log is sound, else 1.
    """
    from drawbar.surfaces.cli.harness import call, print_lines, standard_look
    from drawbar.surfaces.cli.output import print_json

    def told(found: Verification) -> int:
        if as_json:
            print_json(found)
        else:
            print_lines(_verified(found, standard_look()))
        return 0 if found.ok else 1

    folder = _folder(run)
    if folder is not None:
        from drawbar.stores.verify import verify_run

        return told(verify_run(folder))

    async def work(harness: Harness) -> int:
        return told(harness.runs.verify(run))

    return call(work)


def _verified(found: Verification, look: Look) -> list[str]:
    torn = "; its last line was cut off while it was written" if found.torn else ""
    if found.first_bad is not None:
        bad = found.first_bad
        event = f" (event {bad.seq})" if bad.seq is not None else ""
        return [look.paint(f"{look.glyphs.bad} line {bad.line}{event}: {bad.cause}{torn}", "red")]
    if not found.ok:
        return [look.paint(f"{look.glyphs.bad} {found.events} events, not sound{torn}", "red")]
    return [look.paint(f"{look.glyphs.ok} {found.events} events, all as they were written{torn}", "green")]


@runs.command("inspect", cls=Command, epilog="Example: drawbar runs inspect ./r_01k… --json")
@click.argument("run", metavar="RUN|DIR")
@_JSON
def inspect(run: str, as_json: bool) -> int:
    """Say what is in a run's folder, damage included."""
    from drawbar.surfaces.cli.harness import call, print_lines, standard_look
    from drawbar.surfaces.cli.output import print_json

    def told(found: Inspection) -> int:
        if as_json:
            print_json(found)
        else:
            print_lines(_inspected(found, standard_look()))
        return 0

    folder = _folder(run)
    if folder is not None:
        from drawbar.stores.event_reader import read_report

        return told(read_report(folder))

    async def work(harness: Harness) -> int:
        return told(harness.runs.inspect(run))

    return call(work)


def _inspected(found: Inspection, look: Look) -> list[str]:
    from drawbar.surfaces.cli.listing import pairs

    record = found.record or {}
    bad = found.first_bad
    return pairs(
        look,
        [
            ("run", str(record.get("id", "")) or "no record"),
            ("status", str(record.get("status", ""))),
            ("events", str(found.events)),
            ("first bad", f"line {bad.line}: {bad.cause}" if bad else "none"),
            *[("skipped", f"{s.kind}: line {s.line}, {s.bytes} bytes at {s.offset}") for s in found.skipped],
            *[("todo", f"{item.status}: {item.text}") for item in found.todo],
        ],
    )


def _folder(run: str) -> Path | None:
    """The folder that ``run`` names; a bare id is never taken for one in the current folder.

    Raises:
        NotFound: it reads like a path and there is no such folder.
    """
    if "/" not in run and not run.startswith("."):
        return None
    path = Path(run)
    if not path.is_dir():
        from drawbar.contracts.errors import NotFound

        raise NotFound(f"there is no folder {run}", path=run)
    return path


@runs.command("interrupt", cls=Command, epilog="Example: drawbar runs interrupt r_01k")
@_RUN
@_JSON
def interrupt(run: str, as_json: bool) -> int:
    """Stop a live run, in whichever process it runs."""
    from drawbar.surfaces.cli.harness import call
    from drawbar.surfaces.cli.output import print_json

    async def work(harness: Harness) -> int:
        done = await harness.runs.interrupt(run)
        if as_json:
            print_json(done)
        elif done.settled:
            print(f"{done.run_id} {done.status}")
        else:
            print(f"{done.run_id} is stopping; drawbar runs show {done.run_id} says when it has", file=sys.stderr)
        return 0

    return call(work)


runs.add_command(approve)
runs.add_command(answer)
