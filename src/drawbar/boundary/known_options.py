"""Whether every option of a command is one that a rule ending in ``*`` may take in (QLT-4).

An allow-list, since a list of what is dangerous is never whole: an option that isn't known is asked about. Shortened
long options aren't known either, and what follows ``--`` is looked at like the rest, because ``--`` may itself be the
value of an option.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from drawbar.boundary import command_facts as facts
from drawbar.boundary.option_table import Options, options_of

__all__ = ["options_known"]

_NUMBER: Final = re.compile(r"-[0-9]+")
_FIND_OPERAND: Final = re.compile(r"-[0-9]+[bckwMG]?|-[0-7]{3,4}|-?[ugoa]+[+=-][rwxst]+")
_FORMAT_OPTIONS: Final = frozenset({"--format", "--pretty"})
_FORMAT_NAMES: Final = frozenset(
    ("oneline", "short", "medium", "full", "fuller", "reference", "email", "raw", "mboxrd")
)
_PROGRAM_WORDS: Final = frozenset(
    (
        *("exec", "execute", "command", "cmd", "program", "pager", "editor", "shell", "script", "scripts", "rsh"),
        *("plugin", "plugins", "hook", "hooks", "wrapper", "filter", "filters", "textconv", "eval", "load", "loader"),
        *("config", "preprocessor", "pre", "driver", "engine", "agent", "browser", "viewer", "launcher", "runner"),
        *("compiler", "linker", "interpreter", "handler", "action", "callback", "askpass", "sendmail", "extension"),
        *("extensions", "module", "require", "import"),
    )
)
"""In the name of an option: it chooses what a program runs or loads, whichever program that is."""
_SIGNATURE: Final = re.compile(r"%[-+ ]?G")


def options_known(words: Iterable[str | None]) -> bool:
    """Whether every option of a command is known to be harmless; true for programs that the table isn't about.

    Args:
        words: the command's words as the program gets them; None for one that isn't known, whose beginning is
            known to be no dash.
    """
    program, *rest = words
    if program is None:
        return False
    name = program.rpartition("/")[2]
    if name.startswith("python") and rest[:1] == ["-m"] and len(rest) > 1:
        name, rest = rest[1] or "", rest[2:]
    subcommand = None
    if name == "git":
        while rest and rest[0] in facts.GIT_SAFE_GLOBALS:
            rest.pop(0)
        if not rest:
            return True
        subcommand = rest.pop(0)
        if subcommand is None:
            return False
    options = options_of(name, subcommand)
    if options is None:
        return not any(word is not None and _names_a_program(word) for word in rest)
    if options.anything:
        return True
    if options.strict:
        return _all_exact(rest, name, options)
    return all(word is None or _known(word, name, options) for word in rest)


def _names_a_program(word: str) -> bool:
    """Whether an option of a program that nothing is known of speaks of a program to run or to load."""
    if not word.startswith("-"):
        return False
    name = word.lstrip("-").partition("=")[0].lower()
    return not _PROGRAM_WORDS.isdisjoint(re.split("[-_.]", name))


def _known(word: str, name: str, options: Options) -> bool:
    if name == "strings" and word.startswith("@"):
        return False  # a file of options
    if not word.startswith("-") or word in ("-", "--"):
        return True
    head, _, value = word.partition("=")
    if options.formats and head in _FORMAT_OPTIONS:
        return head in options.words and (not value or _harmless_format(value))
    if head in options.words:
        return True
    if word.startswith("--"):
        return False
    if name == "find":
        return _FIND_OPERAND.fullmatch(word) is not None
    if options.numbers and _NUMBER.fullmatch(word):
        return True
    return _cluster(word[1:], options)


def _cluster(letters: str, options: Options) -> bool:
    for letter in letters:
        if letter in options.values:
            return True
        if letter not in options.flags:
            return False
    return True


def _harmless_format(value: str) -> bool:
    """Whether a format of git checks no signature: a name of git's own, or a format without that placeholder.

    Any other name is an alias, and only a configuration knows what stands behind it.
    """
    if value in _FORMAT_NAMES:
        return True
    spelled = value.startswith(("format:", "tformat:")) or "%" in value
    return spelled and _SIGNATURE.search(value) is None


def _all_exact(words: Sequence[str | None], name: str, options: Options) -> bool:
    return all(word is not None and _exact(word, name, options.words) for word in words)


def _exact(word: str, name: str, known: frozenset[str]) -> bool:
    if (
        word.startswith("@")
        or (word.startswith("+") and name == "cargo")
        or (word.startswith("/") and name == "dotnet")
    ):
        return False  # a file of options, another toolchain, an option in its other spelling
    return not word.startswith("-") or word.partition("=")[0] in known or word in known
