"""The one small error hierarchy; ``code`` is stable and the same on every surface (API-1)."""

from __future__ import annotations

from typing import Any, ClassVar


class DrawbarError(Exception):
    """Base of every error that a caller may see.

    Args:
        message: what is wrong and what to do next, in plain words.
        facts: machine-readable particulars (field, path, limit); shown by ``--json`` surfaces.
    """

    code: ClassVar[str] = "failed"

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts


class InvalidInput(DrawbarError):
    """The request itself is wrong; nothing was done and nothing is on disk (RUN-1)."""

    code = "invalid_request"


class NotFound(DrawbarError):
    """No run, session, approval or file of that name; or a prefix that fits several."""

    code = "not_found"


class SessionBusy(DrawbarError):
    """Another run or process is writing this session's history (SES-3)."""

    code = "session_busy"


class CapabilitiesFrozen(DrawbarError):
    """A second launch of one run id asked for another capability set (RUN-5)."""

    code = "capabilities_frozen"


class AccountUnavailable(DrawbarError):
    """No account, or its credential can't be resolved (RUN-4)."""

    code = "account_unavailable"


class WorkspaceRefused(DrawbarError):
    """The folder can't be a workspace root (BND-1)."""

    code = "workspace_refused"


class SandboxUnavailable(DrawbarError):
    """The sandbox can't work here; the message names cause and cure (QLT-1)."""

    code = "sandbox_unavailable"


class UnsupportedFeature(DrawbarError):
    """A feature that this build or engine doesn't have, refused by name (ENG-1, CLI-1)."""

    code = "unsupported_feature"


class StorageFailed(DrawbarError):
    """The disk refused a write (full, quota, read-only); nothing settles as saved (QLT-6)."""

    code = "storage_failed"


class IncompatibleRoot(DrawbarError):
    """The data root was made by a newer, incompatible release; nothing was changed (CON-30)."""

    code = "incompatible_root"


class NotPermitted(DrawbarError):
    """The peer may not do this, such as a model's child approving itself (BND-16)."""

    code = "not_permitted"


class RunNotActive(DrawbarError):
    """The run has settled, so it can't be interrupted, approved or steered."""

    code = "run_not_active"


class OwnerUnreachable(DrawbarError):
    """The run lives in another process whose control socket doesn't answer."""

    code = "owner_unreachable"


class ProviderError(DrawbarError):
    """A model request failed.

    Attributes:
        kind: ``auth``, ``rate_limit``, ``quota``, ``overloaded``, ``context_overflow``, ``refused``,
            ``bad_request`` or ``transport`` (MDL-5).
        status: the HTTP status, or None when there was no response.
        retry_after_s: the wait that the provider stated, in seconds.
        usage: what the provider said it billed before failing, or None when it said nothing.
    """

    code = "provider_error"

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        status: int | None = None,
        retry_after_s: float | None = None,
        usage: Any = None,
        **facts: Any,
    ) -> None:
        super().__init__(message, kind=kind, status=status, **facts)
        self.kind = kind
        self.status = status
        self.retry_after_s = retry_after_s
        self.usage = usage
