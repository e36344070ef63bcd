"""The hard logic is pure: deciders know values, not files, clocks, loops or processes; the base install is light."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "drawbar"

IMPURE = {
    "asyncio",
    "os",
    "socket",
    "subprocess",
    "threading",
    "time",
    "shutil",
    "tempfile",
    "sqlite3",
    "httpx2",
    "random",
}
DECIDERS = [
    *sorted((SOURCE / "policy").glob("*.py")),
    SOURCE / "runs" / "settlement.py",
    SOURCE / "runs" / "freeze.py",
    SOURCE / "boundary" / "modes.py",
    SOURCE / "boundary" / "rules.py",
    SOURCE / "stores" / "log_state.py",
    SOURCE / "stores" / "history" / "repair.py",
    SOURCE / "prompt" / "updates.py",
    SOURCE / "prompt" / "sections.py",
    SOURCE / "contracts" / "status.py",
    SOURCE / "contracts" / "capability.py",
]


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.clause("ARC-2")
@pytest.mark.parametrize("path", DECIDERS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_decider_touches_nothing(path: Path) -> None:
    assert not imported(path) & IMPURE
    calls = {node.func.id for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}  # fmt: skip
    assert not calls & {"open", "print", "input", "exec", "eval"}


@pytest.mark.clause("ARC-6")
def test_the_base_install_is_light_and_has_no_vendors_client() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    required = [line.split(">")[0].strip().lower() for line in project["project"]["dependencies"]]
    light = "msgspec httpx2 h11 idna click rich ahocorasick_rs tree-sitter tree-sitter-bash pathspec platformdirs"
    assert set(required) <= set(light.split())
    used = {name for path in SOURCE.rglob("*.py") for name in imported(path)}
    assert {name.replace("-", "_") for name in required} <= used, "asked for and not used"
    vendors = {"anthropic", "openai", "google", "pydantic", "litellm", "requests", "httpx", "aiohttp"}
    for path in SOURCE.rglob("*.py"):
        assert not imported(path) & vendors, path


@pytest.mark.clause("ARC-6")
def test_serialisation_and_transport_each_have_one_door() -> None:
    for path in SOURCE.rglob("*.py"):
        names = imported(path)
        relative = path.relative_to(SOURCE).as_posix()
        if "msgspec" in names:
            assert relative == "contracts/codec.py", f"{relative}: go through contracts/codec.py"
        if "httpx2" in names:
            assert relative.startswith("models/"), relative
