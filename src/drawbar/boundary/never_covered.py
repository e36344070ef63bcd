"""Which simple commands no rule may ever cover: those that run a string or another command (BND-6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from drawbar.boundary import command_facts as facts
from drawbar.boundary.plain_shell import PlainCommand

__all__ = ["never_covered", "writes_by_option"]

_ASKS_ITSELF: Final = frozenset({"--version", "-V", "--help", "-h"})
_MAKES: Final = frozenset({"make", "gmake", "just"})


def never_covered(command: PlainCommand) -> str | None:
    """Why no rule may speak for a command, in words for the person who is asked; None if one may."""
    head = command.words[0]
    if head.value is None or head.text != head.value or "=" in head.value:
        return "its command word isn't written plainly"
    for assignment in command.assignments:
        if facts.ASSIGNMENTS.fullmatch(assignment.name):
            return f"`{assignment.name}` chooses what a program runs or loads"
    name = head.value.rsplit("/", 1)[-1] if head.value != "." else "."
    base = name.rstrip("0123456789.-") or name
    if name in facts.RUNNERS or base in facts.RUNNERS:
        return f"`{name}` runs a string or another command"
    # A word that isn't known yet has a literal beginning that is no option, or the rule doesn't cover it anyway.
    arguments = [word.value if word.value is not None else "" for word in command.words[1:]]
    return (
        _shell(base, arguments)
        or _interpreter(base, arguments)
        or _option(name, arguments, facts.PROGRAM_OPTIONS)
        or _option(base, arguments, facts.PROGRAM_OPTIONS)
        or _subcommand(name, arguments)
        or _special(name, arguments)
    )


def writes_by_option(command: PlainCommand) -> bool:
    """Whether a known program is told by an option to write a file, which a rule must spell out."""
    name = (command.words[0].value or "").rsplit("/", 1)[-1]
    arguments = [word.value or "" for word in command.words[1:]]
    return _option(name, arguments, facts.WRITING_OPTIONS) is not None


def _shell(base: str, arguments: Sequence[str]) -> str | None:
    if base not in facts.SHELLS:
        return None
    if arguments and arguments[0] and arguments[0][0] not in "-+":
        return None
    return f"`{base}` without a script file runs a string or its input"


def _interpreter(base: str, arguments: Sequence[str]) -> str | None:
    options = facts.EVAL_OPTIONS.get(base)
    if options is None:
        return None
    if arguments and all(argument in _ASKS_ITSELF for argument in arguments):
        return None
    if any(_is_option(argument, *options) for argument in arguments):
        return f"`{base}` runs a string or loads code by an option"
    if base in ("python", "pypy") and (module := _module(arguments)) in facts.PYTHON_MODULES:
        return f"the module `{module}` runs a string or its input"
    if all(argument.startswith("-") for argument in arguments) and not _module(arguments):
        return f"`{base}` without a script runs its input"
    return None


def _module(arguments: Sequence[str]) -> str | None:
    for place, argument in enumerate(arguments):
        if argument.startswith("-m"):
            return argument[2:] or (arguments[place + 1] if place + 1 < len(arguments) else None)
        if not argument.startswith("-"):
            break
    return None


def _option(name: str, arguments: Iterable[str], table: dict[str, tuple[str, frozenset[str]]]) -> str | None:
    options = table.get(name)
    if options is None or not any(_is_option(argument, *options) for argument in arguments):
        return None
    return f"an option of `{name}` runs another program"


def _is_option(argument: str, letters: str, names: frozenset[str]) -> bool:
    """Whether an argument is one of these options, also in a cluster (``-nO``), shortened, or with ``=value``."""
    if not argument.startswith("-") or argument in ("-", "--"):
        return False
    name = argument.lstrip("-").split("=", 1)[0]
    if argument.startswith("--"):
        return any(known.startswith(name) for known in names)
    if any(letter in argument[1:] for letter in letters):
        return True
    # Programs with long options behind one dash: find, java, go, compilers.
    return any(name == known or (name.startswith(known) and not name[len(known)].isalnum()) for known in names)


def _subcommand(name: str, arguments: Sequence[str]) -> str | None:
    runners = facts.SUBCOMMAND_RUNNERS.get(name)
    if runners is None:
        return None
    plain = [argument for argument in arguments if not argument.startswith(("-", "+"))]
    # An option before the subcommand may take a value, so then any word may be the subcommand.
    first = arguments[:1] == plain[:1]
    for argument in plain[:1] if first else plain:
        if argument in runners:
            return f"`{name} {argument}` runs another command"
    return None


def _special(name: str, arguments: Sequence[str]) -> str | None:
    if name == "git":
        return _git(arguments)
    if name == "sed":
        return _sed(arguments)
    if name in _MAKES and any(facts.ASSIGNMENTS.fullmatch(word.split("=", 1)[0]) for word in arguments if "=" in word):
        return f"a variable of `{name}` chooses what it runs"
    if name == "tar" and arguments and not arguments[0].startswith("-") and set(arguments[0]) & set("IF"):
        return "an option of `tar` runs another program"
    return None


def _git(arguments: Sequence[str]) -> str | None:
    rest = list(arguments)
    while rest and rest[0] in facts.GIT_SAFE_GLOBALS:
        rest.pop(0)
    if not rest or rest == ["--version"] or rest == ["--help"]:
        return None
    subcommand, options = rest[0], rest[1:]
    if not subcommand or subcommand.startswith("-"):
        return "a global option of git can name a program, a pager or another repository"
    if subcommand in facts.GIT_RUNNERS or subcommand.startswith(("credential-", "remote-")):
        return f"`git {subcommand}` runs other programs"
    letters = facts.GIT_PROGRAM_SHORT.get(subcommand, "")
    for option in options:
        if option.removeprefix("--") in facts.GIT_PLAIN_OPTIONS:
            continue
        if _is_option(option, letters, facts.GIT_PROGRAM_OPTIONS) or option.startswith("ext::"):
            return "an option of git runs another program"
    return None


def _sed(arguments: Sequence[str]) -> str | None:
    scripts: list[str] = []
    spelled = False
    rest = iter(arguments)
    for argument in rest:
        if argument in ("-e", "--expression"):
            spelled = True
            scripts.append(next(rest, ""))
        elif argument.startswith("-"):
            if argument.lstrip("-")[:1] == "" or set(argument.lstrip("-")) - set("nErsuzi") or argument == "--":
                return "an option of sed can load a program"
        elif not spelled and not scripts:
            scripts.append(argument)
    if all(facts.SED_SCRIPT.fullmatch(script) for script in scripts):
        return None
    return "a program of sed can run commands and write files"
