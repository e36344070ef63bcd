"""The codes with which a call is refused, one table: what each means, and whether policy or a fault said it."""

from __future__ import annotations

from typing import Final, Literal

__all__ = ["CODES", "cause_of"]

CODES: Final[dict[str, tuple[Literal["policy", "fault"], str]]] = {
    "invalid_arguments": ("policy", "the arguments don't fit the tool's schema"),
    "unknown_tool": ("policy", "no tool has that name"),
    "not_capable": ("policy", "the run's capability set lacks the tool or the scope (BND-2)"),
    "plan_mode": ("policy", "plan mode allows no such call (PLAN-2)"),
    "scope_unavailable": ("policy", "only a person who is asked can allow the scope `outside` (BND-9)"),
    "already_ran": ("policy", "this very call was approved and ran outside the sandbox before (BND-9)"),
    "no_network": ("policy", "the call names network hosts where there is no network (BND-9)"),
    "host_not_listed": ("policy", "a network host isn't listed, and the mode doesn't allow another (BND-6, BND-13)"),
    "invalid_path": ("policy", "the argument is no usable path"),
    "outside_workspace": ("policy", "the path leads outside the root, and the mode doesn't allow that (BND-6)"),
    "unreachable_path": ("policy", "hidden, closed, a credential store, or git's or the harness's own (BND-7, 16, 17)"),
    "dangling_link": ("policy", "a write through a symlink that leads nowhere"),
    "link_loop": ("policy", "a loop of symlinks"),
    "special_file": ("policy", "a pipe, socket or device"),
    "not_a_file": ("policy", "a write to a folder"),
    "not_a_folder": ("policy", "a file used as a folder"),
    "no_permission": ("policy", "the operating system doesn't let the harness open it"),
    "path_failed": ("policy", "the operating system couldn't open it for another reason"),
    "hook_refused": ("policy", "a `before_tool` hook refused (BND-3)"),
    "needs_approval": ("policy", "a person would have to allow it, and none is asked (CON-6, RUN-35)"),
    "read_only": ("policy", "the approval mode allows no changes (BND-6)"),
    "sandbox_off": ("policy", "the sandbox is off, and the mode runs no command without it (BND-6)"),
    "connector": ("policy", "a server's tool acts outside the workspace, and the mode doesn't allow that (BND-6)"),
    "last_word": ("policy", "the foundation's last word was no (BND-3)"),
    "root_gone": ("fault", "the pinned root is gone or another folder (QLT-11)"),
    "gate_timeout": ("fault", "the gate or a hook did not answer in time (QLT-2)"),
    "gate_fault": ("fault", "the gate or a hook failed or gave an unreadable answer (QLT-2)"),
}
"""``denied``, with cause ``person``, isn't here: it is what the executor records for a person's no."""


def cause_of(code: str) -> Literal["policy", "fault"]:
    """The cause that goes with a code; a code that isn't in the table is itself a fault."""
    return CODES[code][0] if code in CODES else "fault"
