"""The command tree, each command loaded when it is called, and the one place where errors become exit codes."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from drawbar.surfaces.cli.refusals import refusal_of_command, refusal_of_option

if TYPE_CHECKING:
    from drawbar.contracts.errors import DrawbarError

__all__ = ["Command", "EndWith", "Group", "output_failed", "run_command"]

BROKEN_PIPE = 1
"""Nobody read what was written: nothing to say it to, and not a success either."""

# name → module of this package, attribute, the line in --help.
_COMMANDS: Final[dict[str, tuple[str, str, str]]] = {
    "run": ("run", "run", "Carry out a request in the current folder."),
    "runs": ("runs", "runs", "Look into runs, stop them, answer what they ask."),
    "approvals": ("approvals", "approvals", "See and take back what `always` saved."),
    "sessions": ("sessions", "sessions", "Look into the histories of conversations."),
    "demo": ("demo", "demo", "See a whole run: no key, no network, a scripted model."),
    "sandbox": ("sandbox", "sandbox", "Run a command in the very sandbox that a run's commands get."),
    "gate": ("gate", "gate", "Ask the gate what it would say to a call."),
    "redact": ("redact", "redact", "Copy standard input to standard output without the secrets in it."),
    "mcp": ("mcp", "mcp", "Look at the MCP servers whose tools runs get."),
    "doctor": ("upkeep", "doctor", "Check sandbox, git, accounts and data root, and say how to mend each."),
    "reindex": ("upkeep", "reindex", "Rebuild the run index from the runs."),
    "schema": ("schema", "schema", "Print the JSON Schema of records, events and methods."),
    "completion": ("upkeep", "completion", "Print the completion script of a shell."),
}

# API-1's codes that mean the request itself was wrong, and those that mean somebody has to allow it first.
_BAD_USAGE: Final = frozenset(
    {
        "invalid_request",
        "not_found",
        "unsupported_feature",
        "workspace_refused",
        "account_unavailable",
        "capabilities_frozen",
    }
)
_REFUSED: Final = frozenset({"not_permitted"})


class EndWith(Exception):
    """An error of a command whose exit codes are its own: said as any other, but ending with ``status``."""

    def __init__(self, status: int, error: DrawbarError) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error


class Command(click.Command):
    """A command that refuses by name what is promised and not built yet."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            refusal = refusal_of_option(_path(ctx), error.option_name)
            if refusal is None:
                raise
            raise click.UsageError(refusal, ctx) from error


class Group(click.Group):
    """A group of :class:`Command` that refuses by name as well."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of their use, not of their letters

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None:
            refusal = refusal_of_command(f"{_path(ctx)} {args[0]}".strip())
            if refusal is not None:
                raise click.UsageError(refusal, ctx)
            alike = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if alike:
                raise click.UsageError(f"no command {args[0]!r}; did you mean `{ctx.command_path} {alike[0]}`?", ctx)
        return super().resolve_command(ctx, args)


class _Root(Group):
    """The program itself: its commands are loaded by name, their help lines come from the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _help = _COMMANDS[cmd_name]
        return getattr(import_module(f"drawbar.surfaces.cli.{module}"), attribute)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_module, _attribute, line) in _COMMANDS.items()])


def _path(ctx: click.Context) -> str:
    """The command's words without the program's name."""
    return ctx.command_path.partition(" ")[2]


def _version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from drawbar import __version__

        click.echo(f"drawbar {__version__}")
        ctx.exit()


@click.group(
    cls=_Root,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog='Example: drawbar run "make the tests pass"',
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version and exit."
)
@click.pass_context
def root(ctx: click.Context) -> None:
    """Turn a coding agent's work into accountable work: pinned, gated, sandboxed, recorded."""
    if ctx.invoked_subcommand is None:
        raise click.UsageError(refusal_of_command("") or "name a command", ctx)


def run_command(argv: Sequence[str]) -> int:
    """Parse and carry out one command line; every error becomes a message and CLI-1's exit code."""
    _prepare_streams()
    try:
        try:
            answer: Any = root.main(args=list(argv), prog_name="drawbar", standalone_mode=False)
        except click.exceptions.Exit as ended:
            answer = ended.exit_code
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up_output()
        return BROKEN_PIPE
    except (KeyboardInterrupt, click.Abort):
        return 130
    except click.ClickException as error:
        return _complain(argv, "invalid_request", error.format_message(), error.exit_code, usage=error)
    except EndWith as ended:
        return _complain(argv, ended.error.code, ended.error.message, ended.status, facts=ended.error.facts)
    except Exception as error:
        return _failed(argv, error)
    return answer if isinstance(answer, int) else 0


def _prepare_streams() -> None:
    """A stream that was closed swallows what is written; one of a small encoding writes codes."""
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # lives as long as the process
        else:
            stream.reconfigure(errors="backslashreplace")


def output_failed(error: OSError) -> int:
    """Say that standard output can't be written, unless it is only that nobody reads it; the exit code."""
    _give_up_output()
    if not isinstance(error, BrokenPipeError):
        print(f"drawbar: standard output can't be written: {error}", file=sys.stderr)
    return BROKEN_PIPE


def _give_up_output() -> None:
    """What standard output didn't take is dropped; Python would complain once more while it flushes at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(argv: Sequence[str], error: Exception) -> int:
    from drawbar.contracts.errors import DrawbarError

    if isinstance(error, DrawbarError):
        status = 2 if error.code in _BAD_USAGE else 3 if error.code in _REFUSED else 1
        return _complain(argv, error.code, error.message, status, facts=error.facts)
    if os.environ.get("DRAWBAR_DEBUG"):
        raise error
    if isinstance(error, OSError):
        _give_up_output()
        return _complain(argv, "storage_failed", str(error), 1)
    where = f"{type(error).__name__}: {error}"
    return _complain(argv, "internal_error", f"{where}\nThis is a defect in drawbar; DRAWBAR_DEBUG=1 shows where.", 1)


def _complain(
    argv: Sequence[str],
    code: str,
    message: str,
    status: int,
    *,
    usage: click.ClickException | None = None,
    facts: Mapping[str, Any] | None = None,
) -> int:
    """Say on standard error what is wrong, without any secret that the process knows (QLT-20)."""
    from drawbar.stores.redaction import SecretRedactor, known_from_environment
    from drawbar.surfaces.cli.text import escaped_json, visible

    redactor = SecretRedactor(known_from_environment(os.environ))
    message = redactor.text(message)
    if "--json" in argv[: argv.index("--") if "--" in argv else None]:
        from drawbar.contracts.codec import encode

        told: dict[str, Any] = {**redactor.value(dict(facts or {})), "code": code, "message": message}
        try:
            line = encode({"error": told}).decode()
        except (TypeError, UnicodeEncodeError):
            line = encode({"error": {"code": code, "message": visible(message)}}).decode()
        print(escaped_json(line.encode()).decode() if sys.stderr.isatty() else line, file=sys.stderr)
        return status
    if isinstance(usage, click.UsageError) and usage.ctx is not None:
        print(f"{usage.ctx.get_usage()}\nTry '{usage.ctx.command_path} --help'.\n", file=sys.stderr)
    print(f"drawbar: {visible(message)}", file=sys.stderr)
    return status
