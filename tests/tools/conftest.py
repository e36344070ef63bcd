"""The bench on which the tools are tried."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.tools.kit import Workshop


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    """Makes benches and closes them."""
    made = Workshop(tmp_path)
    yield made
    await made.close()
