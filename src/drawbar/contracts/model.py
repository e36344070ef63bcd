"""What a provider client takes and gives: settings, encoded requests, stream events (chapter 09).

Messages are the native history's own objects (Pi's session format, SES-1): ``user``, ``assistant``,
``toolResult`` and the roles that become user text. A provider client turns them into its wire form and
back; nothing in between has a third form.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from drawbar.contracts.events.usage import RequestUsage

if TYPE_CHECKING:
    from drawbar.contracts.tool import ToolSpec

__all__ = [
    "Account",
    "Completed",
    "Delta",
    "EncodedRequest",
    "Message",
    "Provider",
    "ReplyStream",
    "RequestBuilder",
    "RequestSettings",
    "StreamEvent",
    "ToolCallBlock",
]

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Account:
    """A named credential for one provider, resolved (MDL-1): the secret is registered for redaction."""

    id: str
    protocol: str
    base_url: str
    secret: str = field(repr=False)
    model: str | None = None
    effort: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """What is fixed for a conversation: any change of these is allowed to break the prefix (PRM-3)."""

    model: str
    system: str
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    effort: str | None = None


@dataclass(frozen=True, slots=True)
class EncodedRequest:
    """A request ready to send, as pieces that were encoded once (MDL-13).

    ``digests`` carries the SHA-256 of system, tools, last message and whole body for ``context.snapshot``.
    ``repairs`` names what the builder had to mend so that the provider accepts the history (QLT-7). ``model`` is
    whom it is for, since some providers have it in the path.
    """

    body: tuple[bytes, ...]
    messages: int
    digests: dict[str, str]
    repairs: tuple[str, ...] = ()
    model: str = ""

    @property
    def size(self) -> int:
        return sum(map(len, self.body))


class RequestBuilder(Protocol):
    """Holds one conversation encoded; total over any history (QLT-7), growing only by what is new (MDL-13)."""

    def extend(self, messages: Sequence[Message]) -> None:
        """Add messages that were appended to the history, in order."""
        ...

    def reset(self, messages: Sequence[Message]) -> None:
        """Start over from a whole branch (after navigation or compaction)."""
        ...

    def build(self) -> EncodedRequest: ...

    def simplify(self) -> bool:
        """Leave out, for good, what a provider may refuse besides texts and tool calls; whether there was any."""
        ...


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a block as it streams; ``block`` counts content blocks from 0."""

    kind: Literal["text", "reasoning", "tool_input"]
    block: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallBlock:
    """A tool call whose arguments parsed strictly to an object, or ``error`` says why it may not run (QLT-14)."""

    id: str
    name: str
    arguments: Any
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """The provider's terminal event: only now does the reply count (QLT-14).

    ``message`` is the whole assistant message in history form, without the harness's own timestamps; its
    ``stopReason`` is Pi's word (``stop``, ``length``, ``toolUse``, ``error``, ``aborted``) and
    ``rawStopReason`` the provider's. ``calls`` are the tool calls in order. ``skipped`` counts stream events
    of unknown type (MDL-4).
    """

    message: dict[str, Any]
    calls: tuple[ToolCallBlock, ...]
    stop_reason: str
    raw_stop_reason: str | None
    usage: RequestUsage
    skipped: int = 0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


StreamEvent = Delta | Completed


class ReplyStream(Protocol):
    """One reply as it streams: an async iterator that also knows what was billed so far."""

    def __aiter__(self) -> AsyncIterator[StreamEvent]: ...

    async def __anext__(self) -> StreamEvent: ...

    @property
    def usage(self) -> RequestUsage | None:
        """What the provider has said it bills, for an attempt that is stopped (QLT-17); None: it said nothing."""
        ...


class Provider(Protocol):
    """A client of one account's provider; one HTTP client, retries nowhere (MDL-5)."""

    protocol: str

    def builder(self, settings: RequestSettings) -> RequestBuilder: ...

    def stream(self, request: EncodedRequest) -> AbstractAsyncContextManager[ReplyStream]:
        """Send ``request`` and read the reply.

        Leaving the context closes the connection at once (MDL-6: within 100 ms). The last event is
        :class:`Completed`; a stream that ends without one raises.

        Raises:
            ProviderError: on any failed attempt, with its kind.
        """
        ...

    async def close(self) -> None: ...
