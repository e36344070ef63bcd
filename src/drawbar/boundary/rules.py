"""Standing rules: what one covers, and the rule that *always* would save (BND-6, SES-18, QLT-4).

A rule for Bash is a command line. One simple command ending in a bare ``*`` covers that beginning with any
further plain words; anything else covers exactly itself. Whatever runs a string or another command is covered
by no rule at all. A rule for a file tool is a path relative to the root, a folder ending in ``/``, or the
absolute path of one file outside the root.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Final

from drawbar.boundary import command_facts as facts
from drawbar.boundary.known_options import options_known
from drawbar.boundary.never_covered import never_covered, writes_by_option
from drawbar.boundary.plain_shell import PlainCommand, Redirect, Word, quoted
from drawbar.boundary.shell import ParsedCommand, parse_command
from drawbar.contracts.boundary import StandingRule, Target
from drawbar.contracts.capability import Scope
from drawbar.contracts.ids import new_id

__all__ = [
    "covering",
    "covers",
    "covers_target",
    "propose_rule",
    "propose_target_rule",
    "why_uncoverable",
]

_MAX_PATTERN: Final = 2_000
_STAR: Final = "*"


def covers(rule: StandingRule, parsed: ParsedCommand) -> bool:
    """Whether one rule covers every simple command of a command line (QLT-4).

    Tool and scope are the caller's to compare. A rule that can't be read covers nothing.
    """
    return covering((rule,), parsed) is not None


def covering(rules: Iterable[StandingRule], parsed: ParsedCommand) -> StandingRule | None:
    """The first of ``rules`` that by itself covers the whole command line; rules are never added up."""
    commands = parsed.plain
    if commands is None or any(never_covered(command) for command in commands):
        return None
    return next((rule for rule in rules if _covers(rule.pattern, commands)), None)


def _covers(text: str, commands: Sequence[PlainCommand]) -> bool:
    pattern = _pattern(text).plain
    if not pattern:
        return False
    only = pattern[0]
    if len(pattern) > 1:
        shape = _shape(pattern)
        return shape is not None and shape == _shape(commands)
    one = _covers_beginning if only.words[-1].text == _STAR and len(only.words) > 1 else _covers_exactly
    return all(one(only, command) for command in commands)


def why_uncoverable(parsed: ParsedCommand) -> str | None:
    """Why no rule may ever cover a command, in words for the person who is asked; None if one may."""
    if parsed.plain is None:
        return parsed.reason
    return next((reason for command in parsed.plain if (reason := never_covered(command))), None)


@functools.lru_cache(maxsize=512)
def _pattern(text: str) -> ParsedCommand:
    return parse_command(text)


def _covers_exactly(pattern: PlainCommand, command: PlainCommand) -> bool:
    shape = _command_shape(pattern)
    return shape is not None and shape == _command_shape(command)


def _covers_beginning(pattern: PlainCommand, command: PlainCommand) -> bool:
    fixed = _values(pattern.words[:-1])
    if fixed is None or _values(command.words[: len(fixed)]) != fixed:
        return False
    if pattern.redirects or _lasting(command.redirects):
        return False
    assigned = _assigned(pattern)
    if assigned is None or assigned != _assigned(command):
        return False
    further = command.words[len(fixed) :]
    if not all(word.plain for word in further) or writes_by_option(command):
        return False
    return options_known(word.value for word in command.words)


# What a command is, without where it stands: words, assignments and redirects that reach a file.
_Shape = tuple[tuple[str, ...], tuple[tuple[str, str], ...], tuple[tuple[str, str, str], ...]]


def _command_shape(command: PlainCommand) -> _Shape | None:
    words = _values(command.words)
    assigned = _assigned(command)
    if words is None or assigned is None:
        return None
    redirects = tuple((part.fd, part.operator, part.target.value or "") for part in _lasting(command.redirects))
    return words, assigned, redirects


def _shape(commands: Sequence[PlainCommand]) -> list[tuple[str, _Shape]] | None:
    found: list[tuple[str, _Shape]] = []
    for command in commands:
        shape = _command_shape(command)
        if shape is None:
            return None
        found.append((command.joined_by, shape))
    return found


def _values(words: Sequence[Word]) -> tuple[str, ...] | None:
    values = [word.value for word in words]
    return None if None in values else tuple(value for value in values if value is not None)


def _assigned(command: PlainCommand) -> tuple[tuple[str, str], ...] | None:
    values = _values([part.value for part in command.assignments])
    return None if values is None else tuple(zip((part.name for part in command.assignments), values, strict=True))


def _lasting(redirects: Sequence[Redirect]) -> list[Redirect]:
    return [redirect for redirect in redirects if not redirect.harmless]


def propose_rule(tool: str, scope: Scope, parsed: ParsedCommand, *, root: str = "") -> StandingRule | None:
    """The rule that *always* would save for a command, shown to the person as it is (APR-06, APR-14).

    For a known beginning (``git log``, ``pytest``) it ends in ``*``; else it is the command itself, a compound one
    as a whole. None where no rule may be offered.
    """
    commands = parsed.plain
    if commands is None or any(never_covered(command) for command in commands):
        return None
    for pattern in (_beginning(commands), _whole(commands)):
        if pattern is None or len(pattern) > _MAX_PATTERN:
            continue
        rule = StandingRule(id=new_id("approval"), tool=tool, scope=scope, pattern=pattern, root=root)
        if covers(rule, parsed):
            return rule
    return None


def _beginning(commands: Sequence[PlainCommand]) -> str | None:
    if len(commands) != 1 or commands[0].assignments:
        return None
    values = [word.value for word in commands[0].words]
    for beginning in facts.OFFERED:
        head = values[: len(beginning)]
        if len(head) == len(beginning) and all(
            value is not None and (want == value or (want == _STAR and not value.startswith("-")))
            for want, value in zip(beginning, head, strict=True)
        ):
            return " ".join([*(quoted(value) for value in head if value is not None), _STAR])
    return None


def _whole(commands: Sequence[PlainCommand]) -> str | None:
    parts: list[str] = []
    for command in commands:
        shape = _command_shape(command)
        if shape is None:
            return None
        words, assigned, redirects = shape
        if command.joined_by:
            parts.append(command.joined_by)
        parts += [f"{name}={quoted(value)}" for name, value in assigned]
        parts += [quoted(word) for word in words]
        parts += [f"{fd}{operator}{quoted(target)}" for fd, operator, target in redirects]
    return " ".join(parts)


def covers_target(rule: StandingRule, target: Target) -> bool:
    """Whether a path rule covers the file that a call resolved to; tool and scope are the caller's to compare."""
    pattern = rule.pattern.removeprefix("./")
    if target.relative is None:
        path = str(target.path)
        absolute = pattern.startswith("/")
        return absolute and (path == pattern or (pattern.endswith("/") and path.startswith(pattern)))
    if pattern.startswith("/") or ".." in pattern.split("/"):
        return False
    if pattern.endswith("/") or not pattern:
        return target.relative.startswith(pattern)
    return target.relative == pattern


def propose_target_rule(tool: str, scope: Scope, target: Target, *, root: str = "") -> StandingRule | None:
    """The rule that *always* would save for a file call: exactly this file, as it was resolved."""
    pattern = str(target.path) if target.relative is None else target.relative
    if len(pattern) > _MAX_PATTERN or any("\ud800" <= char <= "\udfff" for char in pattern):
        return None
    return StandingRule(id=new_id("approval"), tool=tool, scope=scope, pattern=pattern, root=root)
