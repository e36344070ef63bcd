"""What the settings files say, as one value (CON-36)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from drawbar.contracts.run import ApprovalMode

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the files say. ``project_approval`` stands apart because the stricter of the two holds (BND-6)."""

    account: str | None = None
    model: str | None = None
    effort: str | None = None
    approval: ApprovalMode | None = None
    project_approval: ApprovalMode | None = None
    sandbox: Literal["on", "off"] | None = None
    deny_read: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    notices: tuple[str, ...] = field(default=())
