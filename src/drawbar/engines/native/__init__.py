"""The native engine: a loop in the harness's own process (ENG-5)."""

from __future__ import annotations

from drawbar.engines.native.engine import NativeEngine

__all__ = ["NativeEngine"]
