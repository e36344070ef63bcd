"""Shell commands as the gate sees them: tree-sitter's parse, and whether a rule may cover it (BND-6, QLT-4)."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from drawbar.boundary.plain_shell import NotPlain, PlainCommand, read_plain

if TYPE_CHECKING:
    from tree_sitter import Language, Node

__all__ = ["MAX_COMMAND_BYTES", "ParsedCommand", "SimpleCommand", "parse_command"]

MAX_COMMAND_BYTES: Final = 4 * 1024
"""A longer command isn't parsed, and so is always asked about: parsing must stay short of a hang."""
MAX_PARSE_S: Final = 0.1
"""Nor is one whose errors take longer than this to recover from."""

_SUBSTITUTIONS: Final = frozenset(
    {"command_substitution", "process_substitution", "simple_expansion", "expansion", "arithmetic_expansion"}
)
_HEREDOCS: Final = frozenset({"heredoc_redirect", "herestring_redirect"})
_CONTROL: Final = frozenset(
    {
        "if_statement",
        "while_statement",
        "for_statement",
        "c_style_for_statement",
        "case_statement",
        "function_definition",
        "compound_statement",
        "subshell",
        "test_command",
        "negated_command",
        "declaration_command",
        "unset_command",
    }
)
_OPERATORS: Final = frozenset({"&&", "||", "|", "|&"})
_SEPARATORS: Final = _OPERATORS | {";", "&", ";;"}
_LISTS: Final = frozenset({"program", "list", "pipeline"})

_LETTERS_ABOVE_ASCII: Final = bytes(range(128)) + b"x" * 128

_Token = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One simple command as written; ``nested`` when it stands inside a substitution or a control structure."""

    words: tuple[str, ...]
    assignments: tuple[str, ...]
    redirects: tuple[str, ...]
    nested: bool


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """A command line, whole.

    ``commands`` holds every simple command in it, nested ones too; ``separators`` the operators between commands,
    ``substitutions``, ``heredocs`` and ``control`` what else it is made of, each as written or by name. ``error``
    says why it couldn't be parsed. ``plain`` is the exact reading that a rule may cover, None (with ``reason``)
    where no rule ever may.
    """

    text: str
    commands: tuple[SimpleCommand, ...] = ()
    separators: tuple[str, ...] = ()
    substitutions: tuple[str, ...] = ()
    heredocs: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    error: str | None = None
    plain: tuple[PlainCommand, ...] | None = None
    reason: str | None = None


def parse_command(text: str) -> ParsedCommand:
    """Parse a command line; never raises, what can't be parsed says so in ``error`` and ``reason``."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return _unparsed(text, "it isn't valid Unicode")
    if len(data) > MAX_COMMAND_BYTES:
        return _unparsed(text, f"it is longer than {MAX_COMMAND_BYTES} bytes")
    if b"\0" in data:
        return _unparsed(text, "it holds a NUL character")
    root = _parse(data)
    if root is None:
        return _unparsed(text, "it takes too long to parse")
    if root.has_error:
        return _unparsed(text, "its syntax isn't understood")
    survey = _Survey(data)
    try:
        survey.visit(root, nested=False)
    except RecursionError:
        return _unparsed(text, "it is nested too deeply")
    plain, reason = _agreed(text, survey.tokens)
    return ParsedCommand(
        text=text,
        commands=tuple(survey.commands),
        separators=tuple(survey.separators),
        substitutions=tuple(survey.substitutions),
        heredocs=tuple(survey.heredocs),
        control=tuple(survey.control),
        plain=plain,
        reason=reason,
    )


@functools.cache
def _language() -> Language:
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def _parse(data: bytes) -> Node | None:
    """The syntax tree; None when recovering from errors takes longer than a gate may wait."""
    from tree_sitter import Parser

    # The grammar's scanner looks every character up in a table of 256, and reads beyond it for a larger one. To the
    # shell such a character is a part of a word like any letter, so it gets to see letters, byte for byte.
    data = data.translate(_LETTERS_ABOVE_ASCII)
    until = time.monotonic() + MAX_PARSE_S
    try:
        # A parser of its own each time: it costs a microsecond, and one shared by threads isn't safe.
        tree = Parser(_language()).parse(
            lambda at, _point: data[at : at + MAX_COMMAND_BYTES],
            progress_callback=lambda _at, _error: time.monotonic() > until,
        )
    except ValueError:
        return None
    return tree.root_node


def _unparsed(text: str, reason: str) -> ParsedCommand:
    return ParsedCommand(text=text, error=reason, reason=reason)


def _agreed(text: str, seen: list[_Token] | None) -> tuple[tuple[PlainCommand, ...] | None, str | None]:
    """The strict reading, if the grammar saw the same parts at the same places."""
    try:
        plain = read_plain(text)
    except NotPlain as error:
        return None, str(error)
    if seen is None or _tokens(text, plain) != sorted(seen, key=lambda token: token[1:]):
        return None, "it can be read in more than one way"
    return tuple(plain), None


def _tokens(text: str, commands: list[PlainCommand]) -> list[_Token]:
    at = _byte_offsets(text)
    found: list[_Token] = []
    for command in commands:
        parts: list[_Token] = [("word", at(word.start), at(word.end)) for word in command.words]
        parts += [("assignment", at(part.start), at(part.end)) for part in command.assignments]
        parts += [("redirect", at(part.start), at(part.end)) for part in command.redirects]
        parts.sort(key=lambda token: token[1:])
        found += [("command", parts[0][1], parts[0][1]), *parts]
    return found


def _byte_offsets(text: str) -> Callable[[int], int]:
    if text.isascii():
        return lambda index: index
    offsets = [0]
    for char in text:
        offsets.append(offsets[-1] + len(char.encode()))
    return offsets.__getitem__


class _Survey:
    """One walk over the tree: what the command is made of, and the tokens that a plain reading must agree with."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.commands: list[SimpleCommand] = []
        self.separators: list[str] = []
        self.substitutions: list[str] = []
        self.heredocs: list[str] = []
        self.control: list[str] = []
        self.tokens: list[_Token] | None = []

    def visit(self, node: Node, *, nested: bool) -> None:
        kind = node.type
        if kind == "command":
            self._command(node, nested=nested)
        elif kind == "file_redirect":
            self._redirect(node)
        elif kind in _LISTS or kind == "redirected_statement":
            for child in node.children:
                self.visit(child, nested=nested)
        elif kind in _SEPARATORS:
            self.separators.append(kind)
        elif kind != "comment":
            self._beyond(node)

    def _command(self, node: Node, *, nested: bool) -> None:
        words: list[str] = []
        assignments: list[str] = []
        redirects: list[str] = []
        self._token("command", node.start_byte, node.start_byte)
        for child in node.children:
            kind = child.type
            if kind == "variable_assignment":
                assignments.append(self._text(child))
                self._token("assignment", child.start_byte, child.end_byte)
                self._inside(child)
            elif kind == "file_redirect":
                redirects.append(self._text(child))
                self._redirect(child)
            elif kind in _HEREDOCS:
                self._beyond(child)
            else:
                words.append(self._text(child))
                self._token("word", child.start_byte, child.end_byte)
                self._inside(child)
        self.commands.append(SimpleCommand(tuple(words), tuple(assignments), tuple(redirects), nested))

    def _redirect(self, node: Node) -> None:
        # The grammar takes the words after a redirect's target as further targets; the shell takes them as words.
        targets = [child for child in node.children if child.is_named and child.type != "file_descriptor"]
        end = targets[0].end_byte if targets else node.end_byte
        self._token("redirect", node.start_byte, end)
        for extra in targets[1:]:
            self._token("word", extra.start_byte, extra.end_byte)
        for target in targets:
            self._inside(target)

    def _inside(self, node: Node) -> None:
        """Note the substitutions in a word or a target, and the commands in them."""
        if node.type in _SUBSTITUTIONS:
            self.substitutions.append(self._text(node))
        for child in node.children:
            if child.type == "command":
                self._nested(child)
            else:
                self._inside(child)

    def _beyond(self, node: Node) -> None:
        """Note a part that no rule covers; the commands in it are still listed."""
        if node.type in _CONTROL:
            self.control.append(node.type)
        elif node.type in _HEREDOCS:
            self.heredocs.append(self._text(node))
        elif node.type in _SUBSTITUTIONS:
            self.substitutions.append(self._text(node))
        for child in node.children:
            if child.type == "command":
                self._nested(child)
            else:
                self._beyond(child)
        self.tokens = None

    def _nested(self, node: Node) -> None:
        tokens, self.tokens = self.tokens, None
        self._command(node, nested=True)
        self.tokens = tokens

    def _token(self, kind: str, start: int, end: int) -> None:
        if self.tokens is not None:
            self.tokens.append((kind, start, end))

    def _text(self, node: Node) -> str:
        return self._data[node.start_byte : node.end_byte].decode()
