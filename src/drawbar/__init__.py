"""Drawbar: the harness that turns coding agents into accountable work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drawbar.app import Harness
    from drawbar.app import open_harness as open
    from drawbar.contracts.errors import DrawbarError
    from drawbar.contracts.run import RunInput

__all__ = ["DrawbarError", "Harness", "RunInput", "__version__", "open"]

__version__ = "0.1.0"

_LAZY = {
    "open": ("drawbar.app", "open_harness"),
    "Harness": ("drawbar.app", "Harness"),
    "RunInput": ("drawbar.contracts.run", "RunInput"),
    "DrawbarError": ("drawbar.contracts.errors", "DrawbarError"),
}


def __getattr__(name: str) -> Any:
    # Start-up time is a feature: `import drawbar` loads nothing until something is used (ARC-4, PRF-6).
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)
