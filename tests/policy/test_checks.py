"""Which commands are checks, and what their exit code tells (chapter 01's words)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbar.policy.checks import checks_of


def kinds(command: str) -> list[str]:
    return [check.kind for check in checks_of(command)]


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("pytest -q", "test"),
        ("cd sub && uv run pytest -x tests/", "test"),
        ("python3 -B -m unittest -q", "test"),
        ("python -m pytest tests 2>&1", "test"),
        ("FOO=1 timeout 60 go test ./...", "test"),
        ("npm test", "test"),
        ("npm run test:unit", "test"),
        ("make -j4 check", "test"),
        ("./scripts/run-tests.sh", "test"),
        ("(cd a; ctest)", "test"),
        ("npx tsc --noEmit", "types"),
        ("mypy src", "types"),
        ("cargo check", "types"),
        ("ruff check .", "lint"),
        ("black --check .", "lint"),
        ("yarn lint", "lint"),
        ("make", "build"),
        ("npm run build", "build"),
        ("cargo build --release", "build"),
    ],
)
def test_checks_are_recognised(command: str, kind: str) -> None:
    assert kinds(command) == [kind]


@pytest.mark.parametrize(
    "command",
    [
        "ls -la", "cat test.py", "echo pytest", "grep -r pytest .", "git commit -m 'run pytest'", "python foo.py",
        "black .", "make clean", "npm install", "cargo add serde", "go mod tidy", "cat > x <<'EOF'\npytest\nEOF",
        "echo 'unterminated", "", "&& || ;;", "pip install pytest", "which mypy",
    ],
)  # fmt: skip
def test_other_commands_are_not(command: str) -> None:
    assert kinds(command) == []


@pytest.mark.parametrize(
    ("command", "exit_code", "passed"),
    [
        ("pytest", 0, True),
        ("pytest", 1, False),
        ("cd x && pytest", 1, False),
        ("pytest > out.txt 2>&1", 1, False),
        ("pytest && ls", 0, True),
        ("pytest && ls", 1, None),
        ("pytest | tail -5", 0, None),
        ("pytest || true", 0, None),
        ("pytest; echo done", 0, None),
        ("pytest\necho done", 0, None),
        ("pytest &", 0, None),
        ("! pytest", 0, None),
        ("pytest", None, None),
    ],
)
def test_an_exit_code_is_the_checks_own_or_tells_nothing(command: str, exit_code: int | None, passed: bool) -> None:
    assert [check.passed(exit_code) for check in checks_of(command)] == [passed]


def test_a_chain_of_checks_passes_together() -> None:
    chain = checks_of("ruff check . && mypy src && pytest")
    assert [c.command for c in chain] == ["ruff check .", "mypy src", "pytest"]
    assert [c.passed(0) for c in chain] == [True] * 3
    assert [c.passed(1) for c in chain] == [None] * 3


WORDS = ["pytest", "ruff", "check", *";|>'\"()#$\\\n", "&&", "||", "2>&1", "<<EOF", "EOF"]


@given(st.lists(st.sampled_from(WORDS), max_size=30))
def test_any_command_can_be_asked_about(words: list[str]) -> None:
    for check in checks_of(" ".join(words)):
        assert check.passed(0) in (True, None)


@pytest.mark.clause("RUN-10", "CLI-1")
def test_a_very_long_command_costs_no_time() -> None:
    import time

    began = time.monotonic()
    assert checks_of("pytest " + "'a b' " * 400_000) == []
    assert time.monotonic() - began < 0.5
