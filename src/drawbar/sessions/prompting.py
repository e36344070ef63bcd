"""The facts of a run for the prompt compiler: the stable ones, and those that changed meanwhile (PRM-1)."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from drawbar.contracts.engine import Redactor
from drawbar.contracts.tool import ToolSpec
from drawbar.prompt.compiler import CompiledPrompt, PromptFacts, compile_prompt, write_context
from drawbar.prompt.updates import carried_by
from drawbar.stores.history import read_history

if TYPE_CHECKING:
    from drawbar.sessions.service import Pins

__all__ = ["branch_name", "conversation_prompt"]

_HEAD_LIMIT = 4096


def conversation_prompt(
    pins: Pins, specs: Sequence[ToolSpec], *, attended: bool, now_ms: int, run_folder: Path, redactor: Redactor
) -> CompiledPrompt:
    """Compile the prompt of a run and keep it as ``context.json`` (PRM-5).

    Args:
        pins: what the run fixed.
        specs: the tools that it offers.
        attended: whether a person can be asked.
        now_ms: the time, for the date that travels as an update.
        run_folder: where the record of the prompt goes.
        redactor: sections pass it once (CON-38).
    """
    facts = PromptFacts(
        root=str(pins.root.path),
        working_directory=str(pins.root.working_directory),
        platform=f"{platform.system()} ({platform.machine()})",
        tools=tuple(specs),
        scopes=pins.capabilities.scopes,
        approval=pins.approval,
        sandbox=pins.sandbox,
        network=pins.capabilities.network,
        attended=attended,
        date=f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y-%m-%d}",
        git=branch_name(pins.root.path),
        carried=_carried(pins.history_file),
    )
    compiled = compile_prompt(facts, redactor=redactor)
    write_context(run_folder, compiled)
    return compiled


def _carried(history: Path | None) -> dict[str, str]:
    if history is None:
        return {}
    view = read_history(history)
    on_branch = set(view.branch)
    return carried_by(entry for entry in view.entries if entry.get("id") in on_branch)


def branch_name(root: Path) -> str | None:
    """What is checked out, read from the files: no program of the repository's can run for it (QLT-3)."""
    try:
        pointer = root / ".git"
        if pointer.is_file():
            named = pointer.read_text(errors="replace")[:_HEAD_LIMIT].removeprefix("gitdir:").strip()
            pointer = (root / named).resolve()
        head = (pointer / "HEAD").read_text(errors="replace")[:_HEAD_LIMIT].strip()
    except OSError:
        return None
    if head.startswith("ref: refs/heads/"):
        return f"branch {head.removeprefix('ref: refs/heads/')}"
    return f"detached at {head[:12]}" if head else None
