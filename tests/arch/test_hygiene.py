"""The project stands alone: no machine, registry or secret of anybody's in its files, nothing left to do (ARC-8)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent.parent
SKIPPED = {".git", ".venv", "__pycache__", "results"}
"""Folders that aren't the project's text; other hidden folders but .ci are passed over as well."""
# Written apart, so that this file does not find itself.
FORBIDDEN = {
    "a machine's path": re.compile(r"(?<![\w.])/(?:work|builds|workspace)/(?:main|shared|repo)\b|/opt/" + "wheels"),
    "a package registry": re.compile(r"py" + r"pi\.org|files\.pythonhosted|registry\.npm" + r"js|deb\.debian\.org"),
    "a private key": re.compile("-----BEGIN " + r"[A-Z ]*PRIVATE KEY-----\n[A-Za-z0-9+/=]{60,}\n[A-Za-z0-9+/=]{60,}"),
}
LEFT = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


def files() -> Iterator[Path]:
    for folder, folders, names in os.walk(CHECKOUT):
        folders[:] = [n for n in folders if n not in SKIPPED and (n == ".ci" or not n.startswith("."))]
        yield from (Path(folder) / name for name in names)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size < 2**20 else ""


@pytest.mark.clause("ARC-8")
def test_no_file_names_a_machine_a_registry_or_a_secret() -> None:
    found = [
        f"{path.relative_to(CHECKOUT)}: {what}"
        for path in files()
        if "fixtures" not in path.parts
        for what, pattern in FORBIDDEN.items()
        if pattern.search(text_of(path))
    ]
    assert found == []


def test_nothing_is_left_to_do() -> None:
    found = [
        f"{path.relative_to(CHECKOUT)}:{number}: {line.strip()[:80]}"
        for path in files()
        if path.suffix == ".py" and "fixtures" not in path.parts
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if LEFT.search(line)
    ]
    assert found == []


def test_the_checkout_is_no_data_root() -> None:
    assert not (CHECKOUT / "format.json").exists()
    assert not (CHECKOUT / ".drawbar").exists()
