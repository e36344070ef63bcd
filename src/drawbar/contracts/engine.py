"""The engine protocol: what talks to the model and has tool calls carried out (ENG-1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from drawbar.contracts.events.base import Payload

if TYPE_CHECKING:
    from drawbar.contracts.model import Account, RequestSettings
    from drawbar.contracts.tool import ToolCall, ToolExecutor

__all__ = ["Binding", "Engine", "EngineSession", "EngineSpec", "Redactor", "StreamRedactor", "TurnEnd"]


class StreamRedactor(Protocol):
    """Redacts one streamed text; what could still begin a secret is held back (CON-32)."""

    def feed(self, text: str) -> str: ...

    def end(self) -> str: ...


class Redactor(Protocol):
    """The one redactor of a process (QLT-20); lives in ``stores/`` and is shared."""

    def text(self, text: str) -> str: ...

    def value(self, value: Any) -> Any:
        """Every string inside a JSON value, keys included; the same object when nothing matched."""
        ...

    def clean(self, encoded: bytes) -> bool:
        """True when encoded JSON certainly holds nothing to redact: the cheap first look (CON-33)."""
        ...

    def stream(self) -> StreamRedactor: ...

    def add(self, value: str, kind: str) -> None:
        """Learn a live secret value; values too short to be one are ignored."""
        ...


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What an engine session is opened with; everything here is pinned by the run."""

    account: Account
    settings: RequestSettings
    history_dir: str
    history_file: str | None
    working_directory: str
    session_id: str


@dataclass(slots=True)
class Binding:
    """What a session reads from the run that drives it now; replaced as a whole by ``rebind`` (SES-11).

    ``emit`` writes an event and raises if the disk refuses. ``redactor`` admits content (CON-38). ``notes``
    are dynamic context updates to append before the prompt (PRM-1), each ``(custom type, text)``. ``on_request``
    is told as each model request goes out, so that work which the next calls need is done beside it. ``initial_call``
    is the command that the person's text begins with: carried out like the model's own calls, once, before the first
    request (RUN-7).
    """

    run_id: str
    emit: Callable[[Payload], Any]
    tools: ToolExecutor
    redactor: Redactor
    notes: tuple[tuple[str, str], ...] = ()
    on_request: Callable[[], None] = lambda: None
    initial_call: ToolCall | None = None


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a prompt ended: as the model ended it, or with the error that did."""

    stop_reason: Literal["stop", "length", "toolUse", "error", "aborted", "refusal", "other"]
    text: str
    steps: int


class EngineSession(Protocol):
    """One open conversation of an engine. A feature that it lacks raises ``UnsupportedFeature`` by name."""

    native_session_id: str
    native_history: str
    model: str
    effort: str | None

    async def prompt(self, text: str) -> TurnEnd:
        """Carry one request to its end.

        Cancelling the task is how a run is interrupted: the model's connection closes, running tools end with
        their trees, and every open call gets an aborted result in the history before the cancellation goes on
        (RUN-10).
        """
        ...

    async def steer(self, text: str) -> None: ...

    async def follow_up(self, text: str) -> None: ...

    async def abort(self) -> None: ...

    async def compact(self, instructions: str | None = None) -> None: ...

    async def navigate(self, entry_id: str) -> None: ...

    async def set_model(self, model: str, effort: str | None) -> None: ...

    def rebind(self, binding: Binding) -> None: ...

    async def close(self) -> None: ...


class Engine(Protocol):
    """A way to open conversations."""

    name: str

    async def open(self, spec: EngineSpec, binding: Binding) -> EngineSession: ...

    def version(self) -> str: ...

    def features(self) -> frozenset[str]: ...
