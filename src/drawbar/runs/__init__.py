"""Runs: pinned, frozen, recorded, driven to an outcome, settled, recovered, followed (chapter 02)."""
