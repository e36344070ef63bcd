"""Drawbar: the harness that turns coding agents into accountable work."""

__version__ = "0.1.0"
