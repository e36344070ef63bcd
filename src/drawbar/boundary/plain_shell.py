"""A strict reader of the plain part of the shell language: what it accepts can mean one thing only.

It knows simple commands, quoting, lists, pipes and redirects to literal targets, and refuses everything else
by reason: expansions, control structures, here-documents, anything unusual. A rule may cover a command only
if this reader and tree-sitter's grammar saw the same words at the same places (QLT-4), so that a slip of
either one asks a person rather than running something.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Assignment", "NotPlain", "PlainCommand", "Redirect", "Word", "quoted", "read_plain"]

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_ODD_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\+=|\[)")
_ARITHMETIC: Final = re.compile(r"\$\(\(([0-9 +*/%()-]*)\)\)")
_NUMBER_BEFORE_REDIRECT: Final = re.compile(r"[0-9]+(?=[<>])")
_UNQUOTED: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,^-")
_GLOB: Final = frozenset("*?[]")
_OPERATOR: Final = frozenset(";&|<>()#")
_ENDS_WORD: Final = frozenset(" \t\n;&|<>")
_SAFE_WORD: Final = re.compile(r"[A-Za-z0-9_./:=@%+,^-]+")
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_RESERVED: Final = frozenset(
    ("if", "then", "elif", "else", "fi", "for", "in", "until", "while", "do", "done", "case", "esac", "select")
).union(("function", "time", "coproc", "{", "}", "[[", "]]", "!"))


class NotPlain(Exception):
    """Why a command is more than plain, in words for the person who is asked."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word.

    ``text`` is as written, from ``start`` to ``end`` (characters). ``value`` is what the program gets, None when
    that is only known when it runs; ``plain`` says that it can't become an option or a command nevertheless (a
    file pattern with a literal beginning, a sum of numbers).
    """

    text: str
    start: int
    end: int
    value: str | None
    plain: bool


@dataclass(frozen=True, slots=True)
class Assignment:
    """``name=value`` before the command word."""

    name: str
    value: Word
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Redirect:
    """``2>&1`` and its like; ``target`` is a literal name or the number of a descriptor."""

    fd: str
    operator: str
    target: Word
    start: int
    end: int

    @property
    def harmless(self) -> bool:
        """Joins standard output and error, or throws one away: nothing is written or read by it."""
        if self.operator == ">&":
            return self.fd in ("", "1", "2") and self.target.value in ("1", "2")
        return self.target.value == "/dev/null" and self.operator in (">", ">>", "&>", "&>>", "<")


@dataclass(slots=True)
class PlainCommand:
    """One simple command, and the operator that joins it to the one before (empty for the first)."""

    joined_by: str
    start: int
    words: list[Word] = field(default_factory=list[Word])
    assignments: list[Assignment] = field(default_factory=list[Assignment])
    redirects: list[Redirect] = field(default_factory=list[Redirect])


def read_plain(text: str) -> list[PlainCommand]:
    """The simple commands of ``text``, in order.

    Raises:
        NotPlain: for whatever is not in the plain part of the language.
    """
    if _CONTROL.search(text):
        raise NotPlain("it holds control characters")
    return _Reader(text).commands()


def quoted(value: str) -> str:
    """``value`` written so that the shell, tree-sitter and :func:`read_plain` all read it back as one word."""
    if _SAFE_WORD.fullmatch(value):
        return value
    if "'" not in value:
        return f"'{value}'"
    if not set(value) & set('"$`\\!'):
        return f'"{value}"'
    return "'" + value.replace("'", "'\\''") + "'"


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def commands(self) -> list[PlainCommand]:
        found: list[PlainCommand] = []
        joined_by = ""
        while True:
            self._skip(newlines=True)
            if self._at == len(self._text):
                break
            found.append(self._simple(joined_by))
            joined_by = self._separator()
        if joined_by in ("&&", "||", "|", "|&"):
            raise NotPlain("it ends in the middle")
        if not found:
            raise NotPlain("it is empty")
        return found

    def _peek(self, length: int = 1) -> str:
        return self._text[self._at : self._at + length]

    def _skip(self, *, newlines: bool) -> None:
        blanks = " \t\n" if newlines else " \t"
        while self._at < len(self._text):
            char = self._peek()
            if char in blanks:
                self._at += 1
            elif self._peek(2) == "\\\n":
                self._join_lines()
            elif char == "#" and (self._at == 0 or self._text[self._at - 1] in " \t\n;&|"):
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            else:
                return

    def _join_lines(self) -> None:
        # The shell takes a continued line away before it looks for operators: `&\\⏎>` is `&>` to it.
        apart = self._at == 0 or self._text[self._at - 1] in " \t\n"
        while self._peek(2) == "\\\n":
            self._at += 2
        if not apart and self._peek() in _OPERATOR:
            raise NotPlain("an operator is split over two lines")

    def _separator(self) -> str:
        self._skip(newlines=False)
        for operator in ("&&", "||", "|&", "|", ";;", ";&", ";", "&", "\n"):
            if self._text.startswith(operator, self._at):
                if operator in (";;", ";&"):
                    raise NotPlain(f"it holds `{operator}`")
                self._at += len(operator)
                return ";" if operator == "\n" else operator
        if self._at == len(self._text):
            return ""
        raise NotPlain(f"it holds `{self._peek()}`")

    def _simple(self, joined_by: str) -> PlainCommand:
        command = PlainCommand(joined_by, self._at)
        while True:
            self._skip(newlines=False)
            if self._at == len(self._text) or self._peek() in "\n;|":
                break
            if self._peek() == "&" and self._peek(2) != "&>":
                break
            if self._redirect(command):
                continue
            if not command.words and _ODD_ASSIGNMENT.match(self._text, self._at):
                raise NotPlain("it assigns to an element or adds to a variable")
            if not command.words and (match := _ASSIGNMENT.match(self._text, self._at)):
                self._assignment(command, match.group()[:-1])
                continue
            word = self._word()
            if not command.words and word.text in _RESERVED:
                raise NotPlain("it holds a control structure")
            command.words.append(word)
        if not command.words:
            raise NotPlain("a part of it names no command")
        return command

    def _assignment(self, command: PlainCommand, name: str) -> None:
        start = self._at
        self._at += len(name) + 1
        if self._at == len(self._text) or self._peek() in _ENDS_WORD:
            value = Word("", self._at, self._at, "", plain=True)
        else:
            value = self._word()
        command.assignments.append(Assignment(name, value, start, self._at))

    def _redirect(self, command: PlainCommand) -> bool:
        start = self._at
        number = _NUMBER_BEFORE_REDIRECT.match(self._text, self._at)
        fd = number.group() if number else ""
        at = self._at + len(fd)
        for operator in ("<<<", "<<", "<>", "<&", "<(", ">(", "&>>", "&>", ">>", ">&", ">|", ">", "<"):
            if self._text.startswith(operator, at):
                break
        else:
            return False
        if operator in ("<<<", "<<", "<>", "<&", "<(", ">(") or (fd and operator.startswith("&")):
            raise NotPlain("it holds a here-document, a process substitution or an unusual redirect")
        self._at = at + len(operator)
        if operator != ">&":
            self._skip(newlines=False)
        if self._at == len(self._text) or self._peek() in _ENDS_WORD:
            raise NotPlain("a redirect has no target")
        if _NUMBER_BEFORE_REDIRECT.match(self._text, self._at):
            raise NotPlain("a redirect has no target")
        target = self._word()
        if target.value is None:
            raise NotPlain("a redirect's target is only known when it runs")
        if operator == ">&" and not target.value.isdigit():
            raise NotPlain("it holds an unusual redirect")
        command.redirects.append(Redirect(fd, operator, target, start, self._at))
        return True

    def _word(self) -> Word:
        start = self._at
        known: list[str] = []
        prefix: str | None = None  # the literal beginning before the first part that isn't known yet
        while self._at < len(self._text) and (char := self._peek()) not in _ENDS_WORD:
            if char == "'":
                known.append(self._single())
            elif char == '"':
                known.append(self._double())
            elif char == "\\":
                known.append(self._escaped())
            elif char in _GLOB:
                prefix = "".join(known) if prefix is None else prefix
                self._at += 1
            elif char == "$":
                known.append(self._sum())
                prefix = "".join(known) if prefix is None else prefix
            elif self._stands_for_itself(char, start):
                known.append(char)
                self._at += 1
            else:
                raise NotPlain(_reason(char))
        text = self._text[start : self._at]
        if prefix is None:
            return Word(text, start, self._at, "".join(known), plain=True)
        return Word(text, start, self._at, None, plain=prefix[:1] not in ("", "-"))

    def _stands_for_itself(self, char: str, start: int) -> bool:
        if char in _UNQUOTED or (not char.isascii() and char.isalnum()):
            return True
        if self._at == start:
            return False
        # A tilde is replaced at the start of a word and after = or : alone; # begins a comment at the start.
        return char == "#" or (char == "~" and self._text[self._at - 1] not in "=:")

    def _single(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise NotPlain("a quote isn't closed")
        value = self._text[self._at + 1 : end]
        self._at = end + 1
        return value

    def _double(self) -> str:
        self._at += 1
        value: list[str] = []
        while self._at < len(self._text):
            char = self._peek()
            if char == '"':
                self._at += 1
                return "".join(value)
            if char in "$`":
                raise NotPlain(_reason(char))
            if char == "\\" and (after := self._peek(2)[1:]) and after in '\\"$`\n':
                value.append("" if after == "\n" else after)
                self._at += 2
            else:
                value.append(char)
                self._at += 1
        raise NotPlain("a quote isn't closed")

    def _escaped(self) -> str:
        after = self._peek(2)[1:]
        if not after or not (" " <= after <= "~"):
            raise NotPlain("it holds an unusual escape")
        self._at += 2
        return after

    def _sum(self) -> str:
        match = _ARITHMETIC.match(self._text, self._at)
        if match is None:
            raise NotPlain(_reason("$"))
        self._at = match.end()
        return "0"


def _reason(char: str) -> str:
    if char in "$`":
        return "it holds a substitution or a variable, known only when it runs"
    if char in "{}":
        return "it holds braces"
    if char in "()":
        return "it holds a subshell, a function or a list in parentheses"
    if char == "~":
        return "it holds a home folder's short form"
    return f"it holds `{char}` outside quotes"
