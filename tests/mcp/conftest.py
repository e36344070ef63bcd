"""A command line with servers, and real servers from npm."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import place

__all__ = ["place"]

PACKAGES = ("@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-everything")


@pytest.fixture(scope="session")
def npm_servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the real servers' programs, installed once a session."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm here")
    folder = tmp_path_factory.mktemp("npm")
    argv = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), *PACKAGES]
    try:
        done = subprocess.run(argv, cwd=folder, capture_output=True, timeout=90, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("the npm registry doesn't answer")
    if done.returncode:
        pytest.skip(f"the npm registry can't be reached: {done.stderr.decode()[-200:]}")
    return folder / "node_modules" / ".bin"
