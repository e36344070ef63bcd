"""One call on its way through the gate, and the refusal that may end it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drawbar.contracts.boundary import Target
from drawbar.contracts.capability import Scope
from drawbar.contracts.tool import ToolCall, ToolSpec

__all__ = ["Case", "Refusal"]


class Refusal(Exception):
    """A call that doesn't run: ``code`` of the gate's table, the rule that said so, and the message to the model."""

    def __init__(self, code: str, rule: str | None, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.rule = rule
        self.message = message


@dataclass(slots=True)
class Case:
    """What the gate knows of a call so far; it owns the descriptors that were opened for it.

    ``command`` is set for tools that run one. ``digest`` is over the final arguments. ``outside`` are the targets
    that lie outside the root and aren't pinned as readable; ``resolved`` outlives the descriptors. ``hosts`` are the
    network hosts that the call names and the policy doesn't list, in their one spelling.
    """

    call: ToolCall
    spec: ToolSpec | None = None
    input: Any = None
    scope: Scope = "read-only"
    command: str | None = None
    digest: str = ""
    targets: list[Target] = field(default_factory=list[Target])
    outside: list[Target] = field(default_factory=list[Target])
    resolved: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()

    @property
    def unconfined(self) -> bool:
        """Whether it is a command for the scope ``outside``."""
        return self.command is not None and self.scope == "outside"

    @property
    def asked_about(self) -> list[Target]:
        """The files that a person or a rule has to allow: those written, and those outside."""
        return [target for target in self.targets if target.use.access == "write" or target in self.outside]

    def close(self) -> None:
        """Give the descriptors back."""
        for target in self.targets:
            target.close()
        self.targets = []
        self.outside = []
