"""Tests name the clauses they show; the names are checked against a copy that the project keeps (ARC-8)."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
COPY = TESTS / "clauses.json"
BESIDE = TESTS.parent.parent / "shared"
CLAUSE = re.compile(r"^- ([A-Z]{3,4}-\d+)\b(.*)", re.MULTILINE)
SHOWN = 110


def markers(source: str, name: str) -> Iterator[tuple[int, list[str | None]]]:
    """Line and arguments of each ``mark.<name>(…)``; an argument that is no plain text is None."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name:
            yield (
                node.lineno,
                [a.value if isinstance(a, ast.Constant) and isinstance(a.value, str) else None for a in node.args],
            )


def clauses_of(folder: Path) -> dict[str, str]:
    """Id and beginning of every clause in the pages of a specification."""
    return {
        match[1]: match[2].strip()[:SHOWN]
        for page in sorted(folder.glob("*.md"))
        for match in CLAUSE.finditer(page.read_text(encoding="utf-8"))
    }


@pytest.mark.clause("ARC-8")
def test_every_clause_that_a_test_names_exists() -> None:
    known = json.loads(COPY.read_text(encoding="utf-8"))
    wrong: list[str] = []
    for path in sorted(TESTS.rglob("*.py")):
        for line, named in markers(path.read_text(encoding="utf-8"), "clause"):
            where = f"{path.relative_to(TESTS)}:{line}"
            wrong += [f"{where}: {id!r} is no clause" for id in named if id not in known]
            wrong += [f"{where}: names no clause"] * (not named)
    assert not wrong, "\n".join(wrong)


@pytest.mark.clause("ARC-8")
def test_the_copy_of_the_clauses_is_true() -> None:
    originals = BESIDE / "spec"
    if not originals.is_dir():
        pytest.skip("the specification does not lie beside this checkout: nothing to compare with")
    assert json.loads(COPY.read_text(encoding="utf-8")) == clauses_of(originals)


@pytest.mark.clause("ARC-8")
def test_copied_fixtures_are_true() -> None:
    originals = BESIDE / "bugs" / "fixtures"
    copies = TESTS / "fixtures" / "bugs"
    if not originals.is_dir():
        pytest.skip("the reported failures do not lie beside this checkout: nothing to compare with")
    differing = [
        str(copy.relative_to(copies))
        for copy in sorted(copies.rglob("*"))
        if copy.is_file() and (original := originals / copy.relative_to(copies)).is_file()
        if original.read_bytes() != copy.read_bytes()
    ]
    assert not differing


def test_a_misspelt_clause_would_be_found() -> None:
    source = 'import pytest\n@pytest.mark.clause("CON-11", WHICH)\ndef test_it(): ...\n'
    assert list(markers(source, "clause")) == [(2, ["CON-11", None])]
