"""Options that a rule ending in ``*`` may take in for programs that run a project's code (QLT-4).

Such programs have options that choose another program, another configuration or a file to write, and more with
every release. So the list says what is known to be harmless, and every other option is asked about.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["options_known"]


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PYTEST: Final = _options(
    "-q -qq -x -v -vv -vvv -s -l -k -m -n -ra -rA -rf -rs --lf --ff --nf --sw --tb --maxfail --durations --co "
    "--collect-only --exitfirst --quiet --verbose --no-header --showlocals --last-failed --failed-first"
)
_TYPES: Final = _options("--strict --verbose --pretty --no-error-summary --show-error-codes --stats --noEmit")
_RUFF: Final = _options("--no-fix --diff --check --select --ignore -q --quiet --statistics --preview")
_JAVASCRIPT: Final = _options(
    "-s --silent -t --testNamePattern --verbose --run --bail -i --runInBand --watch=false --fix --max-warnings --quiet"
)
_CARGO: Final = _options(
    "--release -r --all --workspace --all-features --no-default-features --features -F --lib --bins --bin --tests "
    "--test --examples --benches --all-targets -p --package -q --quiet -v --verbose --locked --offline --frozen -- "
    "--nocapture --check --no-run --no-deps --exact --ignored"
)
_GO: Final = _options("-v -race -run -count -short -timeout -cover -bench -failfast -parallel -json -m -u")
_DOTNET: Final = _options("--no-restore --no-build -c --configuration -v --verbosity --filter --nologo")

_KNOWN: Final[dict[str, frozenset[str]]] = {
    "pytest": _PYTEST,
    **dict.fromkeys(("mypy", "pyright", "basedpyright", "tsc"), _TYPES),
    "ruff": _RUFF,
    **dict.fromkeys(("eslint", "jest", "vitest", "npm", "pnpm", "yarn", "bun"), _JAVASCRIPT),
    "cargo": _CARGO,
    "go": _GO,
    "dotnet": _DOTNET,
}


def options_known(words: Iterable[str | None]) -> bool:
    """Whether every option of a command is known to be harmless; true for programs that this list isn't about.

    Args:
        words: the command's words as the program gets them; None for one that isn't known.
    """
    program, *rest = words
    if program is None:
        return False
    name = program.rpartition("/")[2]
    if name.startswith("python") and rest[:1] == ["-m"] and len(rest) > 1:
        name, rest = rest[1] or "", rest[2:]
    known = _KNOWN.get(name)
    if known is None:
        return True
    return all(word is not None and _harmless(word, name, known) for word in rest)


def _harmless(word: str, name: str, known: frozenset[str]) -> bool:
    if (
        word.startswith("@")
        or (word.startswith("+") and name == "cargo")
        or (word.startswith("/") and name == "dotnet")
    ):
        return False  # a file of options, another toolchain, an option in its other spelling
    return not word.startswith("-") or word.partition("=")[0] in known or word in known
