"""Run statuses, their allowed edges, terminal codes, and the one table from failure to code (CON-3, CON-4, CON-39)."""

from __future__ import annotations

from typing import Final, Literal

__all__ = [
    "ACTIVE",
    "EDGES",
    "EXIT_CODES",
    "SETTLED",
    "TERMINAL_CODES",
    "Outcome",
    "Status",
    "TerminalCode",
    "edge_allowed",
    "terminal_code_of",
]

Status = Literal["queued", "running", "waiting_for_approval", "waiting_for_input", "interrupted", "completed", "failed"]
Outcome = Literal["done", "needs_person", "unfinished"]
TerminalCode = str
"""A code read from disk stays as it is, so this is a plain string; see :data:`TERMINAL_CODES` for those written."""

ACTIVE: Final[frozenset[str]] = frozenset({"queued", "running", "waiting_for_approval", "waiting_for_input"})
SETTLED: Final[frozenset[str]] = frozenset({"interrupted", "completed", "failed"})

_STARTED_ENDS = frozenset({"interrupted", "completed", "failed"})
EDGES: Final[dict[str, frozenset[str]]] = {
    "queued": frozenset({"running", "failed", "interrupted"}),
    "running": _STARTED_ENDS | {"waiting_for_approval", "waiting_for_input"},
    "waiting_for_approval": _STARTED_ENDS | {"running"},
    "waiting_for_input": _STARTED_ENDS | {"running"},
    "interrupted": frozenset(),
    "completed": frozenset(),
    "failed": frozenset(),
}

TERMINAL_CODES: Final[frozenset[str]] = frozenset(
    {
        "completed",
        "user_abort",
        "slice_budget",
        "compaction_thrash",
        "provider_error",
        "failed",
        "harness_restart",
        "stalled",
        "owner_gone",
        "terminal_attention",
        "terminal_closed",
        "parent_stopped",
    }
)

# CON-39: every failure code maps to one terminal code here and nowhere else; the default is ``failed``.
_FAILURES: Final[dict[str, str]] = {"provider_error": "provider_error"}

EXIT_CODES: Final[dict[str, int]] = {"completed": 0, "failed": 1, "interrupted": 130}
"""CLI-1; bad usage is 2, and a completed run in which an ask found nobody is 3."""


def edge_allowed(old: str, new: str) -> bool:
    """Whether a run may go from ``old`` to ``new`` (CON-3)."""
    return new in EDGES.get(old, frozenset())


def terminal_code_of(error_code: str) -> str:
    """The terminal code of a failure, from an error's stable ``code``."""
    return _FAILURES.get(error_code, "failed")
