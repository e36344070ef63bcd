"""The documentation says what is true: links lead somewhere, commands exist, examples run (API-1, ARC-7)."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.conftest import MakeRepo

from drawbar.surfaces.cli.shell import root
from drawbar.testing.scenario import Scenario, say, use
from drawbar.testing.scripted_model import ScriptedModel

CHECKOUT = Path(__file__).resolve().parent.parent.parent
PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(drawbar [^`]+)`")


def blocks(page: Path, language: str) -> Iterator[str]:
    for match in FENCE.finditer(page.read_text(encoding="utf-8")):
        if match[1] == language:
            yield match[2]


def shown_commands() -> Iterator[tuple[str, str]]:
    """Page and command line of everything that a reader is told to type."""
    for page in PAGES:
        name = str(page.relative_to(CHECKOUT))
        for block in blocks(page, "console"):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("$ "):
                    yield name, line[2:]
        prose = FENCE.sub("", page.read_text(encoding="utf-8"))
        for match in INLINE.finditer(prose):
            yield name, match[1]


def fault_of(line: str) -> str | None:
    """What is wrong with a command line of ours; None when each of its words exists."""
    words = shlex.split(line.split(" | ")[0].split(" < ")[0].split(" > ")[0], comments=True)
    while words and "=" in words[0]:
        words.pop(0)
    if not words:
        return None
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        return next((f"no target {word}" for word in words[1:] if word not in targets), None)
    if words[0].rpartition("/")[2] != "drawbar":
        return None
    command: click.Command = root
    rest = words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        with click.Context(command) as ctx:
            found = command.get_command(ctx, rest[0])
        if found is None:
            return f"no command {rest[0]}"
        command, rest = found, rest[1:]
    with click.Context(command) as ctx:
        known = {option for parameter in command.get_params(ctx) for option in parameter.opts}
    for word in rest:
        if word == "--":
            break
        if word.startswith("--") and word.partition("=")[0] not in known:
            return f"no option {word}"
    return None


@pytest.mark.clause("ARC-7")
def test_links_anchors_and_fences() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/docs_check.py"], cwd=CHECKOUT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout


def test_every_command_that_a_page_shows_exists() -> None:
    shown = list(shown_commands())
    assert len(shown) > 10
    assert [f"{page}: {line}: {fault}" for page, line in shown if (fault := fault_of(line))] == []


@pytest.mark.parametrize(
    "line", ["drawbar fly", "drawbar runs fly r_1", "drawbar run x --goal", "make fly", "X=1 drawbar runs list --fly=1"]
)
def test_a_command_that_is_not_there_would_be_found(line: str) -> None:
    assert fault_of(line) is not None


@pytest.mark.clause("ARC-1")
def test_the_readme_leads_to_the_line_that_decides_a_call() -> None:
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    architecture = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert "docs/architecture.md" in readme
    assert "boundary/gate.py" in architecture
    gate = CHECKOUT / "src" / "drawbar" / "boundary" / "gate.py"
    assert "async def judge" in gate.read_text(encoding="utf-8")
    for package in re.findall(r"^\| L\d \| (.+?) \|", architecture, re.MULTILINE):
        for name in re.findall(r"`([a-z_/.]+)`", package):
            assert (CHECKOUT / "src" / "drawbar" / name).exists(), f"{name} is described and isn't there"


@pytest.mark.clause("ARC-1")
def test_every_package_has_its_place_on_the_map() -> None:
    architecture = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for path in sorted((CHECKOUT / "src" / "drawbar").iterdir()):
        if path.name not in ("__init__.py", "__pycache__", "py.typed"):
            assert f"`{path.name}{'/' if path.is_dir() else ''}`" in architecture, path.name


def programs() -> list[tuple[str, str]]:
    """Every Python example, with its page and place."""
    return [
        (f"{page.relative_to(CHECKOUT)}-{n}", block)
        for page in PAGES
        for n, block in enumerate(blocks(page, "python"), 1)
    ]


@pytest.mark.clause("API-1", "API-3")
@pytest.mark.parametrize("source", [pytest.param(code, id=name) for name, code in programs()])
def test_every_python_example_runs(source: str, git_repo: MakeRepo, data_root: Path, tmp_path: Path) -> None:
    """A whole program is run against the scripted model; a fragment must at least be Python whose imports exist."""
    if "asyncio.run(" not in source:
        compile(source, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        imports = [node for node in ast.parse(source).body if isinstance(node, (ast.Import, ast.ImportFrom))]
        exec(compile(ast.Module(imports, []), "example", "exec"), {})
        return
    turns = Scenario(turns=[use("bash", {"command": "true"}), say("Hello.")], at_end="repeat")
    with ScriptedModel(turns).in_thread() as model:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", source],
            cwd=git_repo(),
            env={
                **os.environ,
                "ANTHROPIC_API_KEY": "sk-x",
                "ANTHROPIC_BASE_URL": model.base_url,
                "HOME": str(tmp_path),
            },
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.strip()
    assert model.errors == []
    assert len(programs()) >= 3
