"""Imports go down only, and nothing else happens at import (ARC-4, ARC-7)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent.parent
PROBE = Path(__file__).with_name("probe.py")
HEAVY = {"httpx2", "rich", "tree_sitter", "sqlite3", "asyncio", "click", "msgspec", "ahocorasick_rs", "pathspec"}


def probe(*modules: str) -> dict[str, Any]:
    """What importing ``modules`` did, besides giving them."""
    done = subprocess.run(
        [sys.executable, "-B", PROBE, *modules], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "", "an import wrote to standard output"
    *noise, report = done.stderr.splitlines()
    assert not noise, "an import wrote to standard error"
    return json.loads(report)


def loaded_by(*argv: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    code = (
        "import atexit, sys; atexit.register(lambda: print('\\n', *sys.modules, file=sys.stderr));"
        "from drawbar.surfaces.cli.main import main; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.clause("ARC-4")
def test_importing_any_module_does_nothing_else() -> None:
    report = probe("--all")
    assert report["modules"] > 40
    assert report["did"] == []
    assert report["threads"] == 1


@pytest.mark.clause("ARC-4")
@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("import os\nX = os.environ.get('HOME')\n", "read $HOME"),
        ("import os\nX = os.getenv('DRAWBAR_HOME')\n", "read $DRAWBAR_HOME"),
        ("open(__file__).read()\n", "opened"),
        ("import socket\nsocket.socket().close()\n", "socket."),
        ("import subprocess\nsubprocess.run(['true'])\n", "subprocess."),
        ("import tempfile\ntempfile.mkdtemp()\n", "tempfile."),
    ],
)
def test_the_probe_sees_what_an_import_does(
    body: str, seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "drawbar" / "bad"
    package.mkdir(parents=True)
    (package / "guilty.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(package))
    assert any(line.startswith(seen) for line in probe("guilty")["did"])


@pytest.mark.clause("ARC-4", "PRF-6")
def test_import_drawbar_loads_nothing_heavy() -> None:
    assert HEAVY & set(probe("drawbar")["loaded"]) == set()


@pytest.mark.clause("ARC-4", "PRF-6")
def test_the_version_loads_nothing_heavy() -> None:
    assert HEAVY & loaded_by("--version") == set()


@pytest.mark.clause("ARC-4")
@pytest.mark.parametrize("argv", [["--help"], ["run", "--help"], ["runs", "--help"], ["schema", "started"]])
def test_a_command_loads_only_what_it_needs(argv: list[str]) -> None:
    needless = HEAVY - {"click", "msgspec"}
    assert needless & loaded_by(*argv) == set()


@pytest.mark.clause("PRF-6")
def test_starting_is_not_slow() -> None:
    """A generous guard for busy machines; benchmarks/startup.py measures."""

    def best(*argv: str) -> float:
        took: list[float] = []
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run([sys.executable, *argv], check=True, stdout=subprocess.DEVNULL)
            took.append(time.perf_counter() - began)
        return min(took)

    nothing = best("-c", "pass")
    assert best("-c", "import drawbar") - nothing < 0.15
    assert best("-c", "from drawbar.surfaces.cli.main import main; main(['--version'])") - nothing < 0.2


@pytest.mark.clause("ARC-7")
def test_imports_go_down_only() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.clause("ARC-7")
def test_an_import_upwards_would_be_refused(tmp_path: Path) -> None:
    settings = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    package = tmp_path / "drawbar"
    for name in set(re.findall(r"\bdrawbar\.([a-z]+)\b", settings.partition("[tool.importlinter]")[2])):
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "contracts" / "__init__.py").write_text("import drawbar.stores\n")
    (tmp_path / "pyproject.toml").write_bytes((CHECKOUT / "pyproject.toml").read_bytes())
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "drawbar.contracts is not allowed to import drawbar.stores" in done.stdout


@pytest.mark.clause("ARC-1")
def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(CHECKOUT))
        for path in sorted((CHECKOUT / "src").rglob("*.py"))
        if not re.match(r'r?"""\S', path.read_text(encoding="utf-8"))
    ]
    assert silent == []


@pytest.mark.clause("API-1")
def test_the_package_is_typed() -> None:
    assert (CHECKOUT / "src" / "drawbar" / "py.typed").is_file()
