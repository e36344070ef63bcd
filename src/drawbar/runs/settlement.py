"""How a run ends: a pure table from what ended the reply to status, code, reason and outcome (RUN-25, CON-39)."""

from __future__ import annotations

from dataclasses import dataclass

from drawbar.contracts.errors import DrawbarError, ProviderError
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.lifecycle import Completed, Failed, StatusChanged
from drawbar.contracts.status import Outcome, Status, terminal_code_of

__all__ = ["Settlement", "completed", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class Settlement:
    """One end: what the terminal event and the record say."""

    status: Status
    code: str
    reason: str | None = None
    outcome: Outcome | None = None
    error: str = "failed"

    def event(self, from_status: str) -> Payload:
        """The line that seals the log (CON-13, CON-14)."""
        if self.status == "completed":
            return Completed(outcome=self.outcome, code=self.code)
        if self.status == "failed":
            return Failed(code=self.code, error=self.error, reason=self.reason or "")
        return StatusChanged(from_=from_status, to=self.status, code=self.code, reason=self.reason)


def completed() -> Settlement:
    """The model ended the reply; a completed run has outcome ``done`` (RUN-29)."""
    return Settlement(status="completed", code="completed", outcome="done")


def interrupted(code: str, reason: str) -> Settlement:
    """A person's stop (``user_abort``) or a loss of the owner."""
    return Settlement(status="interrupted", code=code, reason=reason)


_NEXT = {
    "auth": "Check the account's key.",
    "rate_limit": "Wait a little, then go on with the same session.",
    "quota": "The account has no credit or quota left; nothing but its owner can change that.",
    "overloaded": "The provider is busy; try again later, the session goes on where it was.",
    "context_overflow": "The conversation no longer fits into the model's context; start a new session.",
    "refused": "Ask differently, or take another model.",
    "transport": "Check the account's address and the network.",
}
"""What a person can do about each kind of provider error (MDL-5)."""


def failed(error: BaseException) -> Settlement:
    """An error ended the reply: its stable code maps to one terminal code; a provider's says of which kind it was."""
    if isinstance(error, ProviderError):
        told = error.message if error.message.endswith(".") else f"{error.message}."
        reason = " ".join(filter(None, (f"{error.kind}: {told}", _NEXT.get(error.kind))))
        return Settlement(status="failed", code=terminal_code_of(error.code), error=error.code, reason=reason)
    if isinstance(error, DrawbarError):
        return Settlement(status="failed", code=terminal_code_of(error.code), error=error.code, reason=error.message)
    return Settlement(
        status="failed",
        code="failed",
        error="internal_error",
        reason=f"{type(error).__name__}: {error}. This is a defect in the harness; the run's record is kept.",
    )
