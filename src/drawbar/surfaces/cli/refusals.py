"""What the specification names and this release doesn't have: absent from ``--help``, refused by name (CLI-1).

A flag that is silently ignored, or a command that half works, would be a promise broken; so each is listed
here with what to do meanwhile, and leaves the list when it is built.
"""

from __future__ import annotations

from typing import Final

__all__ = ["refusal_of_command", "refusal_of_option"]

_COMMANDS: Final[dict[str, str]] = {
    "": 'the terminal interface isn\'t built yet; `drawbar run "…"` works, and `drawbar --help` lists the rest',
    "chat": "use `drawbar run` with --session ID to go on with a conversation",
    "rewind": "go back with git; a run's files and commands are in `drawbar runs events RUN`",
    "replay": "read a run with `drawbar runs follow RUN` or `drawbar runs events RUN`",
    "agents": "this release runs one agent at a time",
    "variant": "behaviour comes from the built-in prompt only",
    "refine": "behaviour comes from the built-in prompt only",
    "worktree": "make worktrees with `git worktree` and name one with --cwd",
    "usage": "each run's tokens are in `drawbar runs show RUN`",
    "accounts": "accounts come from accounts.toml and the environment; `drawbar doctor` shows them",
    "staff": "this release runs one agent at a time",
    "serve": "look into runs with `drawbar runs`",
    "acp": "use the command line or the Python API",
    "rpc": "use `--json` or the Python API",
    "mcp serve": "use the command line or the Python API",
    "prune": "a settled run's folder may be removed by hand; run `drawbar reindex` afterwards",
    "broker": "this release runs on one machine",
    "host": "this release runs on one machine",
    "hosts": "this release runs on one machine",
    "explain": "`drawbar runs events RUN` lists every recorded change",
    "saw": "`drawbar runs prompt RUN` prints what the model was told",
    "ps": "use `drawbar runs list`",
    "top": "use `drawbar runs list`",
    "runs steer": "interrupt the run and start another with --session ID",
    "runs continue": "start another run with --session ID",
    "runs export": "a run's folder is plain files; `drawbar runs show RUN` names it",
    "runs family": "this release has no child runs",
    "sessions list": "`drawbar runs list` names each run's session",
    "sessions tree": "see `drawbar sessions inspect FILE --json`",
    "sessions fork": "see `drawbar sessions inspect FILE --json`",
    "sessions clone": "see `drawbar sessions inspect FILE --json`",
    "sessions rename": "name a run with --title",
    "sessions export": "a history is a plain JSON Lines file",
    "sessions navigate": "see `drawbar sessions inspect FILE --json`",
}

_OPTIONS: Final[dict[str, dict[str, str]]] = {
    "run": {
        "--engine": "the built-in engine is the only one",
        "--continue": "name the conversation with --session ID; `drawbar runs list` shows it",
        "--plan": "use --approval read-only to look without changing anything",
        "--goal": "say the whole goal in the request",
        "--image": "describe the picture in words",
        "--variant": "behaviour comes from the built-in prompt only",
        "--output-schema": "ask for JSON in the request and take the reply with --quiet",
        "--work-slice": "stop a run with Ctrl-C or `drawbar runs interrupt RUN`",
        "--worktree": "name the folder with --cwd",
    },
    "runs list": {"--variant": "this release has no variants"},
    "doctor": {"--prove": "the built-in engine is the only one, and its guarantees are in its tests"},
}


def refusal_of_command(path: str) -> str | None:
    """Why the command ``path`` (without the program's name) is not there, None if nobody promised it."""
    if path not in _COMMANDS:
        return None
    return _COMMANDS[path] if not path else f"`drawbar {path}` isn't built yet: {_COMMANDS[path]}"


def refusal_of_option(path: str, option: str) -> str | None:
    """Why the command ``path`` has no ``option``, None if nobody promised it."""
    instead = _OPTIONS.get(path, {}).get(option)
    return None if instead is None else f"{option} isn't built yet: {instead}"
