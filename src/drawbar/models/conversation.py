"""One conversation kept encoded, and requests joined from its pieces, in any protocol's words (MDL-13, PRM-3, QLT-7).

What lies before the last two user turns never changes again: it is one growing buffer with a running digest,
so a further turn costs its own encoding and the copying of bytes. Only the last turns are kept apart, because
cache markers move over them. A protocol brings its :class:`Dialect`: how one message becomes pieces, and how
pieces become a turn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from drawbar.contracts.model import EncodedRequest, Message
from drawbar.models.plain_message import plain_message
from drawbar.models.wire_ids import WireIds

__all__ = ["ConversationBuilder", "Dialect", "Head", "Images", "Note", "Side"]

MAX_NEWS: Final = 20
ROOM: Final = 0.75
"""Share of a limit down to which old images are left out, so that it doesn't happen at every request."""

Note = Callable[[str], None]
Side = Literal["user", "assistant"]


class Images(Protocol):
    """Decides which images still fit into the request."""

    def admit(self, size: int) -> bool: ...


@dataclass(frozen=True, slots=True)
class Head:
    """The part of a request that is fixed for a conversation, encoded up to the opening of its messages.

    ``stand_in`` is the head for a conversation that holds tool calls though no tool is offered, for a provider
    that wants a definition even so; None where ``encoded`` serves. The digests are of the system text and of
    the tools, without cache markers.
    """

    encoded: bytes
    stand_in: bytes | None
    system_sha256: str
    tools_sha256: str


class Dialect(Protocol):
    """One protocol's words for a conversation.

    Attributes:
        head: of this conversation.
        end: what closes the messages and the request.
        max_request_bytes, max_images: the provider's own limits.
        model: whom the requests are for.
    """

    model: str
    head: Head
    end: bytes
    max_request_bytes: int
    max_images: int

    def ids(self) -> WireIds:
        """A new map of call ids, of the form that the provider takes."""
        ...

    def user(self, message: Message, images: Images, note: Note) -> list[bytes]:
        """The pieces of a user message."""
        ...

    def assistant(self, message: Message, ids: WireIds, note: Note) -> list[bytes]:
        """The pieces of a reply of any provider's making; empty when nothing in it can be sent back."""
        ...

    def result(self, message: Message, ids: WireIds, images: Images, note: Note) -> list[bytes]:
        """The pieces of one tool result."""
        ...

    def go_on(self) -> bytes:
        """The piece of user text that is sent when there is nothing to answer."""
        ...

    def turn(self, side: Side, pieces: Sequence[bytes], *, marked: bool) -> bytes:
        """Pieces of consecutive messages of one side as they stand in the list of messages.

        Args:
            marked: whether a cache breakpoint follows, where the provider has them (PRM-4).
        """
        ...


@dataclass(slots=True)
class _Turn:
    """Pieces of consecutive messages of one side."""

    side: Side
    pieces: list[bytes] = field(default_factory=list[bytes])


class _ImageBudget:
    """Leaves out the oldest images once a request would hold too many or too much of them."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.skipped = 0

    def admit(self, size: int) -> bool:
        self.sizes.append(size)
        return len(self.sizes) > self.skipped

    def restart(self, skipped: int) -> None:
        self.sizes = []
        self.skipped = skipped

    def copy(self) -> _ImageBudget:
        """One to ask without counting here."""
        other = _ImageBudget()
        other.sizes, other.skipped = list(self.sizes), self.skipped
        return other


class ConversationBuilder:
    """A :class:`~drawbar.contracts.model.RequestBuilder` for any protocol.

    Args:
        dialect: the protocol's words, bound to the conversation's settings.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._head = dialect.head
        self._images = _ImageBudget()
        self._notes: list[str] = []
        self._source: list[Message] = []
        self._plain = False
        self._start()

    def _start(self) -> None:
        from drawbar.stores.history import MessageRepairer

        self._repairer = MessageRepairer()
        self._told = 0
        self._ids = self._dialect.ids()
        self._settled = bytearray()
        self._settled_turns = 0
        self._turns: list[_Turn] = []
        self._calls_tools = False
        self._holds_extras = False
        self._begin_digest()

    def extend(self, messages: Sequence[Message]) -> None:
        """Add messages that were appended to the history, in order; only these are encoded."""
        for message in messages:
            self._source.append(message)
            self._add(message)
        self._settle()

    def reset(self, messages: Sequence[Message]) -> None:
        """Start over from a whole branch."""
        self._source = []
        self._images.restart(0)
        self._start()
        self.extend(messages)

    def simplify(self) -> bool:
        """From now on send texts and tool calls alone: the provider refused the conversation as it was (QLT-7).

        Returns:
            Whether there was anything to leave out; False also when it was left out before.
        """
        if self._plain or not self._holds_extras:
            return False
        self._plain = True
        self._encode_again(self._images.skipped)
        self._note("left out images, reasoning and the provider's own blocks, because the provider refused them")
        return True

    def build(self) -> EncodedRequest:
        """The request for the conversation as it stands; cheap enough to call for every attempt."""
        request = self._assemble()
        skipped = self._images_to_skip(request.size)
        if skipped <= self._images.skipped:
            return request
        self._encode_again(skipped)
        # The same content was mended again; what was told of it at first holds.
        self._notes = [*request.repairs, f"left out the {skipped} oldest images, which no longer fit"]
        return self._assemble()

    # -- encoding ---------------------------------------------------------------------------------

    def _add(self, message: Message) -> None:
        for repaired in self._repairer.feed(message):
            self._encode_into(self._turns, repaired, self._images, self._ids)

    def _encode_into(self, turns: list[_Turn], message: Message, images: Images, ids: WireIds) -> None:
        plain = plain_message(message)
        self._holds_extras = self._holds_extras or plain is not message
        if self._plain:
            message = plain
        role = message["role"]
        if role == "user":
            self._append(turns, "user", self._dialect.user(message, images, self._note))
        elif role == "assistant":
            self._append(turns, "assistant", self._dialect.assistant(message, ids, self._note))
        else:
            if not self._calls_tools:
                self._need_tools()
            self._append(turns, "user", self._dialect.result(message, ids, images, self._note))

    @staticmethod
    def _append(turns: list[_Turn], side: Side, pieces: list[bytes]) -> None:
        if not pieces:
            return
        if turns and turns[-1].side == side:
            turns[-1].pieces.extend(pieces)
        else:
            turns.append(_Turn(side, pieces))

    def _need_tools(self) -> None:
        """A request that speaks of tool calls must define tools; one without gets a stand-in nobody can call."""
        self._calls_tools = True
        if self._head.stand_in is not None:
            self._begin_digest()
            self._digest.update(self._settled)

    def _encode_again(self, skip_images: int) -> None:
        source, self._source = self._source, []
        self._images.restart(skip_images)
        self._start()
        self.extend(source)

    def _note(self, what: str) -> None:
        self._notes.append(what)

    # -- joining ----------------------------------------------------------------------------------

    @property
    def _opening_bytes(self) -> bytes:
        stand_in = self._head.stand_in if self._calls_tools else None
        return self._head.encoded if stand_in is None else stand_in

    def _begin_digest(self) -> None:
        self._digest = hashlib.sha256(self._opening_bytes)

    def _settle(self) -> None:
        """Move the turns before the last two user turns into the buffer that never changes."""
        keep_from = _marked(self._turns)[0] if self._turns else 0
        for turn in self._turns[:keep_from]:
            piece = self._encoded(turn) + b","
            self._settled += piece
            self._digest.update(piece)
            self._settled_turns += 1
        del self._turns[:keep_from]

    def _assemble(self) -> EncodedRequest:
        turns = self._with_closing()
        marked = _marked(turns)
        tail = b",".join(self._encoded(turn, marked=at in marked) for at, turn in enumerate(turns)) + self._dialect.end
        digest = self._digest.copy()
        digest.update(tail)
        return EncodedRequest(
            body=(self._opening_bytes, bytes(self._settled), tail),
            messages=self._settled_turns + len(turns),
            digests={
                "system": self._head.system_sha256,
                "tools": self._head.tools_sha256,
                "last_message": hashlib.sha256(self._encoded(turns[-1])).hexdigest(),
                "body": digest.hexdigest(),
            },
            repairs=self._news(),
            model=self._dialect.model,
        )

    def _with_closing(self) -> list[_Turn]:
        """The open turns with what this one request needs besides: answers to open calls, something to answer.

        None of it enters the conversation: once the history goes on, the real continuation takes its place.
        """
        turns = self._turns
        pending = self._repairer.pending()
        if not pending and turns and turns[-1].side == "user":
            return turns
        turns = [*turns[:-1], _Turn(turns[-1].side, list(turns[-1].pieces))] if turns else []
        images, ids = self._images.copy(), self._ids.copy()
        for message in pending:
            self._encode_into(turns, message, images, ids)
        if not turns or turns[-1].side != "user":
            self._note("asked to continue, because there was no user message to answer")
            turns.append(_Turn("user", [self._dialect.go_on()]))
        return turns

    def _encoded(self, turn: _Turn, *, marked: bool = False) -> bytes:
        return self._dialect.turn(turn.side, turn.pieces, marked=marked)

    def _news(self) -> tuple[str, ...]:
        """What was mended since the last request, each once; what waits for results is told while it waits."""
        reports = self._repairer.reports()
        news = list(dict.fromkeys([*reports[self._told :], *self._notes]))
        self._notes = []
        if not self._repairer.pending():
            self._told = len(reports)
        if len(news) > MAX_NEWS:
            news[MAX_NEWS - 1 :] = [f"and {len(news) - MAX_NEWS + 1} more repairs"]
        return tuple(news)

    def _images_to_skip(self, size: int) -> int:
        """How many of the oldest images must go so that the request stays within the provider's limits."""
        sizes, skipped = self._images.sizes, self._images.skipped
        limit, most = self._dialect.max_request_bytes, self._dialect.max_images
        over = size - limit
        too_many = len(sizes) - skipped - most
        if over <= 0 and too_many <= 0:
            return skipped
        excess = size - limit * ROOM if over > 0 else 0
        surplus = len(sizes) - skipped - most * ROOM if too_many > 0 else 0
        while skipped < len(sizes) and (excess > 0 or surplus > 0):
            excess -= sizes[skipped]
            surplus -= 1
            skipped += 1
        return skipped


def _marked(turns: Sequence[_Turn]) -> tuple[int, ...]:
    """Where the cache markers go: the ends of the last two user turns (PRM-4).

    Those are where the last request ended and where this one does: the first is found whatever number of
    blocks the reply between them has, the second is written for the next request.
    """
    users = [at for at, turn in enumerate(turns) if turn.side == "user"]
    return tuple(users[-2:])
