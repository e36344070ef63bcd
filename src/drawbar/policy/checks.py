"""Which commands are checks: a test, build, lint or type check, recognised by a data list (chapter 01's words).

A check has passed when its exit code is 0, so the second question is whether the command's exit code is the
check's at all: in ``pytest | tail`` or ``pytest || true`` it belongs to something else, and nothing is known.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

__all__ = ["Check", "checks_of"]

LONGEST: Final = 20_000
"""Characters; reading a command takes time that grows with its square, and nobody types a check this long."""

Kind = Literal["test", "build", "lint", "types"]
Tells = Literal["all", "success", "nothing"]

# The program alone, or with one of these first arguments. None: whatever the arguments are.
_PROGRAMS: Final[dict[str, tuple[Kind, frozenset[str] | None]]] = {
    **dict.fromkeys(
        ("pytest", "py.test", "tox", "nox", "jest", "vitest", "mocha", "ava", "phpunit", "rspec", "ctest", "bats",
         "prove", "busted", "gotestsum", "minitest", "pest", "unittest", "doctest"),
        ("test", None),
    ),
    **dict.fromkeys(
        ("flake8", "pylint", "eslint", "golangci-lint", "staticcheck", "shellcheck", "rubocop", "stylelint",
         "hadolint", "yamllint", "markdownlint", "clang-tidy", "lint-imports", "pre-commit", "ktlint", "phpcs"),
        ("lint", None),
    ),
    **dict.fromkeys(
        ("mypy", "pyright", "basedpyright", "pyre", "pytype", "tsc", "vue-tsc", "flow", "phpstan", "psalm", "sorbet"),
        ("types", None),
    ),
    **dict.fromkeys(("cmake", "ninja", "bazel", "msbuild", "webpack", "rollup", "meson"), ("build", None)),
    "ruff": ("lint", frozenset({"check", "format"})),
    "black": ("lint", frozenset({"--check"})),
    "biome": ("lint", frozenset({"check", "lint", "ci"})),
    "ty": ("types", frozenset({"check"})),
}  # fmt: skip

# Programs whose first argument says what is done.
_VERBS: Final[dict[str, dict[str, Kind]]] = {
    "cargo": {"test": "test", "nextest": "test", "build": "build", "check": "types", "clippy": "lint"},
    "go": {"test": "test", "build": "build", "vet": "lint"},
    "dotnet": {"test": "test", "build": "build"},
    "swift": {"test": "test", "build": "build"},
    "mix": {"test": "test", "compile": "build"},
    "deno": {"test": "test", "lint": "lint", "check": "types"},
    "bun": {"test": "test", "build": "build"},
    "zig": {"test": "test", "build": "build"},
    "stack": {"test": "test", "build": "build"},
    "cabal": {"test": "test", "build": "build"},
    "dune": {"test": "test", "runtest": "test", "build": "build"},
    "rake": {"test": "test", "spec": "test"},
    "vite": {"build": "build"},
    "next": {"build": "build", "lint": "lint"},
    "ng": {"test": "test", "build": "build", "lint": "lint"},
}
# Runners of a project's own scripts, whose names say what they do: `make lint`, `npm run test:unit`.
_RUNNERS: Final = frozenset(
    {"make", "gmake", "just", "task", "npm", "pnpm", "yarn", "mvn", "mvnw", "gradle", "gradlew", "composer", "invoke"}
)
_SCRIPT: Final = re.compile(
    r"(?:^|[:._-])(?:(tests?|check|verify|spec)|(build|compile|package)|(lint\w*)|(typecheck|types?))\b"
)
# What only starts another program; its own options are passed over.
_WRAPPERS: Final = frozenset(
    {"uv", "uvx", "poetry", "pdm", "hatch", "pipenv", "rye", "npx", "pnpx", "bunx", "bundle", "time", "env", "nice",
     "timeout", "xvfb-run", "command", "sudo", "python", "python3", "coverage"}
)  # fmt: skip
_WRAPPED: Final = frozenset({"run", "exec", "-m", "--", "x", "tool"})
_OPERATORS: Final = frozenset({"&&", "||", ";", "|", "|&", "&", ";;"})
_HERE_DOCUMENT: Final = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1(?=[^\n]*\n).*?\n[ \t]*\2(?:\n|$)", re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_PLAIN_NUMBER: Final = re.compile(r"[\d.]+[smhd]?")


@dataclass(frozen=True, slots=True)
class Check:
    """One recognised check.

    Args:
        kind: what it checks.
        command: its own words.
        tells: what the whole command's exit code says of it: ``all``, or only ``success`` (one of several in
            an ``&&`` chain), or ``nothing``.
    """

    kind: Kind
    command: str
    tells: Tells

    def passed(self, exit_code: int | None) -> bool | None:
        """Whether it passed; None where the exit code doesn't say."""
        if exit_code is None or self.tells == "nothing" or (self.tells == "success" and exit_code != 0):
            return None
        return exit_code == 0


def checks_of(command: str) -> list[Check]:
    """The checks in a shell command, in order; none when it can't be read, or is too long to be one."""
    if len(command) > LONGEST:
        return []
    parts = _split(command)
    found: list[tuple[int, Kind]] = [(place, kind) for place, part in enumerate(parts) if (kind := _kind(part.words))]
    checks: list[Check] = []
    for place, kind in found:
        part = parts[place]
        piped = part.before in ("|", "|&", "||") or part.after in ("|", "|&", "||", "&")
        chained = all(later.before == "&&" for later in parts[place + 1 :]) and parts[-1].after != "&"
        tells: Tells = "nothing" if piped or part.negated or not chained else "all" if len(found) == 1 else "success"
        if tells == "all" and part is not parts[-1]:
            tells = "success"  # `check && other`: a failure may be the other's
        checks.append(Check(kind=kind, command=shlex.join(part.words), tells=tells))
    return checks


@dataclass(slots=True)
class _Part:
    """One simple command between two operators."""

    before: str = ""
    after: str = ""
    words: list[str] = field(default_factory=list[str])

    @property
    def negated(self) -> bool:
        return self.words[:1] == ["!"]


def _split(command: str) -> list[_Part]:
    """The simple commands with the operators around them; none for what a word splitter can't read."""
    plain = _HERE_DOCUMENT.sub("\n", command.replace("\\\n", " "))
    lexer = shlex.shlex(plain.replace("\n", " ; "), posix=True, punctuation_chars="();<>|&")
    lexer.commenters = ""
    lexer.whitespace_split = True
    parts = [_Part()]
    target_follows = False
    try:
        for token in lexer:
            if target_follows:
                target_follows = False
            elif token in _OPERATORS:
                parts[-1].after = token
                parts.append(_Part(before=token))
            elif set(token) <= set("<>&"):
                target_follows = True
                if parts[-1].words[-1:] in (["0"], ["1"], ["2"]):
                    parts[-1].words.pop()  # the descriptor that is redirected
            elif not set(token) <= set("()"):
                parts[-1].words.append(token)
    except ValueError:
        return []
    return [part for part in parts if part.words]


def _kind(words: Sequence[str]) -> Kind | None:
    rest = list(words)
    while rest and (_ASSIGNMENT.match(rest[0]) or rest[0] in ("!", "{")):
        rest.pop(0)
    while rest and _name(rest[0]) in _WRAPPERS:
        rest.pop(0)
        while rest and (rest[0] in _WRAPPED or rest[0].startswith("-") or _PLAIN_NUMBER.fullmatch(rest[0])
                        or _ASSIGNMENT.match(rest[0])):  # fmt: skip
            rest.pop(0)
    if not rest:
        return None
    name = _name(rest[0])
    arguments = [word for word in rest[1:] if not word.startswith("-") or word == "--check"]
    if name in _PROGRAMS:
        kind, wanted = _PROGRAMS[name]
        return kind if wanted is None or (arguments and arguments[0] in wanted) else None
    if name in _VERBS:
        return _VERBS[name].get(arguments[0]) if arguments else None
    if name in _RUNNERS:
        scripts = [word for word in arguments if word not in ("run", "run-script")]
        return _script_kind(scripts, bare=name in ("make", "gmake"))
    return _script_kind([name.rsplit(".", 1)[0]], bare=False) if "/" in rest[0] else None


def _script_kind(names: Sequence[str], *, bare: bool) -> Kind | None:
    if not names:
        return "build" if bare else None
    for name in names:
        if match := _SCRIPT.search(name):
            kinds: tuple[Kind, ...] = ("test", "build", "lint", "types")
            return next(kind for kind, group in zip(kinds, match.groups(), strict=True) if group)
    return None


def _name(word: str) -> str:
    return word.rsplit("/", 1)[-1]
